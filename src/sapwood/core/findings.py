"""Finding: something that is not as it should be, as a value: a list of them says all that is wrong at once."""

from __future__ import annotations

from typing import NamedTuple

from sapwood.core.keys import ArtifactKey


class Finding(NamedTuple):
    """A stable code, where, and in words; `is_failure` is false for what is odd but allowed."""

    code: str
    key: ArtifactKey | None  # None: the store as a whole
    message: str
    is_failure: bool = True

    def to_dict(self) -> dict[str, str | bool | None]:
        """Return the finding as JSON has it."""
        return {**self._asdict(), "key": self.key and self.key.text}
