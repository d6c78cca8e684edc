"""Template ids and template versions: what kind of template, and which text of it.

An id names a family for ever; a version is one text of that family, identified by (id, content hash) and by the key it
got when it was first stored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sapwood.core.keys import ArtifactKey
from sapwood.errors import InvalidTemplateId

MAX_LEVELS: Final = 8
MAX_LENGTH: Final = 256
RESERVED_PREFIXES: Final = ("tpl.agent", "tpl.system", "tpl.workflow", "tpl.tool")

_SEGMENT = "[a-z][a-z0-9_]{0,63}"
_TEMPLATE_ID = re.compile(rf"tpl\.({_SEGMENT}\.){{1,7}}{_SEGMENT}")


@dataclass(frozen=True, slots=True, order=True)
class TemplateId:
    """A valid template id."""

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InvalidTemplateId(self.text, "not a string")
        if len(self.text) > MAX_LENGTH:
            raise InvalidTemplateId(self.text, f"{len(self.text)} characters, the limit is {MAX_LENGTH}")
        if not _TEMPLATE_ID.fullmatch(self.text):
            raise InvalidTemplateId(self.text, "wrong shape")
        if self.text.count(".") >= MAX_LEVELS:
            raise InvalidTemplateId(self.text, f"more than {MAX_LEVELS} levels")

    def is_in_family(self, prefix: str) -> bool:
        """Tell whether this id is `prefix` or stands below it; `tpl.agent.disc` does not hold `tpl.agent.discovery`."""
        return self.text == prefix or self.text.startswith(prefix.rstrip(".") + ".")

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class TemplateVersion:
    """One stored text of a template family."""

    key: ArtifactKey
    template_id: TemplateId
    text: str
    content_hash: str
    variables: tuple[str, ...]
    last_updated_ms: int
