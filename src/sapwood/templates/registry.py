"""Texts become versions here: one for each (id, hash), whoever registers it, from whichever process, for ever."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any

from sapwood.clock import KeyFactory, now_ms
from sapwood.core.expect import expect
from sapwood.core.hashing import hash_text
from sapwood.core.template import (
    Templated,
    TemplateId,
    TemplateVersion,
    argument_bytes,
    declared_variables,
    static_bytes,
)
from sapwood.errors import InvalidInput, NotFound, TemplateCollision, TemplateError
from sapwood.ports import Clock, Rendered, TemplateStore
from sapwood.templates.rendering import Rendering, shared_rendering

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StaticText:
    """A text that is to be, or already is, a version of a family."""

    template_id: TemplateId
    text: str
    content_hash: str
    variables: tuple[str, ...]
    last_updated_ms: int


class TemplateRegistry:
    """Knows the current version of each family, and makes new versions for new texts only.

    Texts that come from code and from files are trusted and render here. A version that is only found in the store may
    have come with an imported run: it renders in the child process.
    """

    def __init__(
        self,
        store: TemplateStore,
        *,
        keys: KeyFactory | None = None,
        clock: Clock = now_ms,
        rendering: Rendering | None = None,
        content_hash: Callable[[str], str] = hash_text,
        packaged: Callable[[TemplateId], tuple[str, int] | None] = lambda _: None,
        on_refusal: Callable[[str, InvalidInput], None] = lambda _id, _error: None,
    ) -> None:
        self._store = store
        self._keys = keys or KeyFactory(clock)
        self._clock = clock
        self._rendering = rendering or shared_rendering()
        self._content_hash = content_hash
        self._packaged = packaged
        self._on_refusal = on_refusal
        self._waiting: dict[str, StaticText] = {}  # current, and known to be stored: its version is read when needed
        self._current: dict[str, TemplateVersion] = {}
        self._refused: dict[str, TemplateError] = {}
        self._versions: dict[tuple[str, str], TemplateVersion] = {}

    def register(
        self,
        template_id: str | TemplateId,
        text: str,
        variables: Iterable[str] = (),
        *,
        last_updated_ms: int | None = None,
    ) -> TemplateVersion:
        """Make this text the current version of its family; return the version it is, new or found.

        The time of a new version is `last_updated_ms`, or now: never later than now. A text that is refused leaves a
        ValidationError.
        """
        try:
            return self.keep(self.static_text(template_id, text, variables, last_updated_ms=last_updated_ms))
        except InvalidInput as error:
            self._on_refusal(str(template_id), error)
            raise

    def static_text(
        self,
        template_id: str | TemplateId,
        text: str,
        variables: Iterable[str] = (),
        *,
        last_updated_ms: int | None = None,
    ) -> StaticText:
        """Return the identity of a text that could be kept; whether it parses is asked when it is new."""
        family = template_id if isinstance(template_id, TemplateId) else TemplateId(template_id)
        static_bytes(text, family.text)
        expect(last_updated_ms, (int, NoneType), "last_updated_ms", "milliseconds as an integer, or None")
        declared = declared_variables(text, variables, family.text)
        now = self._clock()
        updated_ms = now if last_updated_ms is None else max(0, min(last_updated_ms, now))
        return StaticText(family, text, self._content_hash(text), declared, updated_ms)

    def keep(self, static: StaticText) -> TemplateVersion:
        """Make a text the current version of its family, and store it if it is new."""
        name = static.template_id.text
        version = self._versions.get((name, static.content_hash))
        if version is None or version.text != static.text or version.variables != static.variables:
            version = self._stored(static)
            self._versions[name, static.content_hash] = version
        self._waiting.pop(name, None)
        self._refused.pop(name, None)
        self._current[name] = version
        return version

    def adopt(self, static: StaticText) -> None:
        """Make a text current whose (id, hash) the store is known to have; nothing is read or parsed now."""
        self._current.pop(static.template_id.text, None)
        self._waiting[static.template_id.text] = static

    def refuse(self, errors: Iterable[TemplateError]) -> None:
        """Answer the ids of these errors with them, instead of with another text of the family."""
        self._refused = {error.template_id: error for error in errors if error.template_id}

    def check(self, static: StaticText) -> None:
        """Raise the TemplateError for which this text cannot become a version."""
        self._rendering.check(static.text, static.variables, static.template_id.text)

    def current(self, template_id: str) -> TemplateVersion | None:
        """Return the version that this process uses for the family; None when it has none of its own."""
        if waiting := self._waiting.get(template_id):
            return self.keep(waiting)
        return self._current.get(template_id)

    def render(self, template: str | Templated, args: Mapping[str, Any]) -> Rendered:
        """Render the family's current version; a template defined in code is registered by its first use."""
        version: TemplateVersion | None
        if isinstance(template, str):
            template_id = template
            version = self._current.get(template) or self.current(template) or self._packaged_version(template)
        else:
            expect(template.template_id, TemplateId, "template_id", "a TemplateId")
            template_id = template.template_id.text
            version = self.keep(self.static_text(template_id, template.text, template.variables))
        is_trusted = version is not None
        version = version or self._newest(TemplateId(template_id))
        if version is None:
            raise NotFound(f"template {template_id}", "register it, or put its file below templates/")
        args_json = argument_bytes(args, version.variables, template_id)
        text = self._rendering.render(version.text, args_json, version.variables, template_id, trusted=is_trusted)
        return Rendered(version, args_json, text, *self._rendering.renderer)

    def rerender(self, text: str, args_json: bytes, variables: tuple[str, ...], template_id: str | None, /) -> str:
        """Render a stored text with stored arguments, in a child process that gives more time than the first one."""
        return self._rendering.rerender(text, args_json, variables, template_id)

    @property
    def renderer(self) -> tuple[str, str]:
        """The name and version of what renders here."""
        return self._rendering.renderer

    def _stored(self, static: StaticText) -> TemplateVersion:
        """Find the version or make it; a declaration is the caller's own, it is no part of the text."""
        found = self._store.find_version(static.template_id, static.content_hash)
        if found is None or found.variables != static.variables:
            self.check(static)
        if found is None:
            key = self._keys.root_at(static.last_updated_ms)
            found = self._store.add_version(
                TemplateVersion(
                    key, static.template_id, static.text, static.content_hash, static.variables, static.last_updated_ms
                )
            )
        if found.text != static.text:
            logger.critical("hash collision: %s %s, stored as %s", static.template_id, static.content_hash, found.key)
            raise TemplateCollision(
                f"another text with the hash {static.content_hash} is stored as {found.key}; this one is refused",
                template_id=static.template_id.text,
            )
        return found if found.variables == static.variables else replace(found, variables=static.variables)

    def _packaged_version(self, template_id: str) -> TemplateVersion | None:
        """Return the packaged version, unless there is none or the newest stored text of its family is another one.

        Raise the error of the family's file when that was refused.
        """
        family = TemplateId(template_id)
        if refused := self._refused.get(template_id):
            names = refused.names
            raise type(refused)(refused.cause, template_id=template_id, line=refused.line, names=names)
        packaged = self._packaged(family)
        if packaged is None:
            return None
        text, last_updated_ms = packaged
        newest = self._newest(family)
        if newest is not None and newest.text != text:
            return None
        return self.keep(self.static_text(family, text, last_updated_ms=last_updated_ms))

    def _newest(self, family: TemplateId) -> TemplateVersion | None:
        """Return the newest stored version of a family."""
        versions = [version for version in self._store.list_versions(family.text) if version.template_id == family]
        return versions[-1] if versions else None
