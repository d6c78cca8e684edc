"""A template that is defined in code: give it to `agent.prompt`, which registers it with its first use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from sapwood.core.hashing import hash_text
from sapwood.core.template import TemplateId, argument_bytes, declared_variables, static_bytes
from sapwood.templates.rendering import shared_rendering


class Template:
    """A static text with its id and its declared variables."""

    def __init__(self, template_id: str, text: str, variables: Iterable[str] = ()) -> None:
        self.template_id = TemplateId(template_id)
        static_bytes(text, template_id)
        self.text = text
        self.variables = declared_variables(text, variables, template_id)

    @cached_property
    def content_hash(self) -> str:
        """The hash of the static text."""
        return hash_text(self.text)

    def render(self, args: Mapping[str, Any]) -> str:
        """Return the text with its variables bound to `args`."""
        template_id = self.template_id.text
        args_json = argument_bytes(args, self.variables, template_id)
        return shared_rendering().render(self.text, args_json, self.variables, template_id, trusted=True)
