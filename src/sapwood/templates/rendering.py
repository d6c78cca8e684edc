"""Rendering as the rest of the program asks for it: trusted texts here and fast, all others in the child process."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from sapwood.core.template import argument_bytes, declared_variables, static_bytes
from sapwood.templates.limits import MAX_DIGITS, RenderLimits

if TYPE_CHECKING:
    from sapwood.templates.process import ChildRenderer
    from sapwood.templates.render import Renderer


class Rendering:
    """Renders static texts with arguments that are already canonical JSON."""

    def __init__(self, limits: RenderLimits | None = None) -> None:
        self._limits = limits or RenderLimits()

    def check(self, text: str, variables: tuple[str, ...], template_id: str | None = None) -> None:
        """Raise the TemplateError for which this text cannot be registered; nothing of it is computed."""
        self._here.check(text, variables, template_id)

    def render(
        self,
        text: str,
        args_json: bytes,
        variables: tuple[str, ...],
        template_id: str | None = None,
        *,
        trusted: bool = False,
    ) -> str:
        """Return the rendered text."""
        is_usual = sys.get_int_max_str_digits() == MAX_DIGITS  # a process with another limit has other texts
        renderer = self._here if trusted and is_usual else self._child
        return renderer.render(text, args_json, variables, template_id)

    def rerender(self, text: str, args_json: bytes, variables: tuple[str, ...], template_id: str | None = None) -> str:
        """Return what was rendered before, in the child process; a TemplateLimit says that it takes more than that."""
        return self._patient_child.render(text, args_json, variables, template_id)

    @property
    def renderer(self) -> tuple[str, str]:
        """The name and version that a RenderedPrompt records."""
        from sapwood.templates.render import RENDERER, RENDERER_VERSION

        return RENDERER, RENDERER_VERSION

    def close(self) -> None:
        """End the child processes, if any were started."""
        for name in vars(self).keys() & {"_child", "_patient_child"}:
            getattr(self, name).close()

    @cached_property
    def _here(self) -> Renderer:
        from sapwood.templates.render import Renderer

        return Renderer(self._limits)

    @cached_property
    def _child(self) -> ChildRenderer:
        from sapwood.templates.process import ChildRenderer

        return ChildRenderer(self._limits)

    @cached_property
    def _patient_child(self) -> ChildRenderer:
        from sapwood.templates.process import ChildRenderer

        return ChildRenderer(self._limits.of_a_repetition())


@cache  # the child process and the compiled templates are worth keeping from call to call
def shared_rendering() -> Rendering:
    """Return the rendering that callers without an application of their own share."""
    return Rendering()


def render_template(
    text: str, args: Mapping[str, Any] | None = None, *, variables: Iterable[str] | None = None, trusted: bool = False
) -> str:
    """Return `text` rendered with `args`; raise a TemplateError with line and cause for whatever goes wrong.

    Every name that the text uses, and every argument, must be declared in `variables` or in a leading
    `{# variables: a, b #}`. A text that is not `trusted` renders in a child process with limits on time and memory.
    """
    static_bytes(text)
    declared = declared_variables(text, variables or ())
    args_json = argument_bytes({} if args is None else args, declared)
    return shared_rendering().render(text, args_json, declared, trusted=trusted)
