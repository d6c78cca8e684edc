"""Directories of `.jinja` files -> texts of template families, with everything that is wrong named by file and line.

`<root>/agent/discovery/prompt.jinja` is `tpl.agent.discovery.prompt`. A project's file may replace a packaged one; any
other pair of files that defines one id differently is refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from errno import ELOOP
from pathlib import Path
from typing import Final

from sapwood.core.template import MAX_TEMPLATE_BYTES, TemplateId
from sapwood.errors import InvalidInput, TemplateConflict, TemplateError, TemplateLimit, TemplateNotStatic
from sapwood.ports import TemplateStore
from sapwood.templates.registry import StaticText, TemplateRegistry

SUFFIX: Final = ".jinja"
BUILTIN: Final = Path(__file__).parent / "builtin"


class Origin(Enum):
    """Whose a root is; a project may replace what is packaged."""

    PACKAGED = "packaged"
    PROJECT = "project"
    CONFIGURED = "configured"


@dataclass(frozen=True, slots=True)
class Root:
    """A directory of templates."""

    path: Path
    origin: Origin


@dataclass(frozen=True, slots=True)
class TemplateFile:
    """A file that holds a static text."""

    path: Path
    origin: Origin
    static: StaticText


@dataclass(frozen=True, slots=True)
class RefusedFile:
    """A file that could not be loaded, and why."""

    path: Path
    error: InvalidInput

    @property
    def line(self) -> int | None:
        return self.error.line if isinstance(self.error, TemplateError) else None

    @property
    def template_id(self) -> str | None:
        """The id that the file would define; None when its name is none."""
        return self.error.template_id if isinstance(self.error, TemplateError) else None


@dataclass(slots=True)
class Loaded:
    """What a start found: the files in use, those a project's file replaced, and those that were refused."""

    files: list[TemplateFile] = field(default_factory=list)
    replaced: list[TemplateFile] = field(default_factory=list)
    refused: list[RefusedFile] = field(default_factory=list)
    created: int = 0


def standard_roots(project: Path | None, configured: Iterable[str] = ()) -> list[Root]:
    """Return the packaged templates, the project's own, and those of the configured roots."""
    roots = [Root(BUILTIN, Origin.PACKAGED)]
    if project is not None:
        roots.append(Root(project / "templates", Origin.PROJECT))
    base = project or Path()
    return roots + [Root(base / folder, Origin.CONFIGURED) for folder in configured]


def packaged_text(template_id: TemplateId) -> tuple[str, int] | None:
    """Return the text of a packaged template and when it was last changed; None when there is none."""
    path = BUILTIN.joinpath(*template_id.text.split(".")[1:]).with_suffix(SUFFIX)
    return _read(path, template_id.text) if path.is_file() else None


def load_files(registry: TemplateRegistry, store: TemplateStore, roots: Sequence[Root]) -> Loaded:
    """Make every good file the current version of its family; only texts that the store does not have are parsed."""
    loaded = Loaded()
    found = list(_without_conflicts(_read_all(registry, roots, loaded), loaded))
    known = store.known_hashes(file.static.template_id for file in found)
    for file in found:
        try:
            if (file.static.template_id.text, file.static.content_hash) in known:
                registry.adopt(file.static)
            else:
                registry.keep(file.static)
                loaded.created += 1
            loaded.files.append(file)
        except TemplateError as error:
            loaded.refused.append(RefusedFile(file.path, error))
    used = {file.static.template_id for file in loaded.files}
    loaded.replaced = [file for file in loaded.replaced if file.static.template_id in used]
    registry.refuse(_naming_their_file(loaded.refused))
    return loaded


def _naming_their_file(refused: Iterable[RefusedFile]) -> Iterator[TemplateError]:
    for file in refused:
        error = file.error
        if not isinstance(error, TemplateError) or error.template_id is None:
            continue
        cause = error.cause
        if not isinstance(error, TemplateConflict):  # which names its files
            cause = f"its file {file.path} is refused: {cause}; mend it, or take it away"
        yield type(error)(cause, template_id=error.template_id, line=error.line, names=error.names)


def _read_all(registry: TemplateRegistry, roots: Sequence[Root], loaded: Loaded) -> Iterator[TemplateFile]:
    for root in roots:
        if root.origin is Origin.CONFIGURED and not root.path.is_dir():
            loaded.refused.append(RefusedFile(root.path, TemplateNotStatic("the configured root is no directory")))
            continue
        for path in _jinja_files(root.path, loaded):
            try:
                name = "tpl." + path.relative_to(root.path).as_posix().removesuffix(SUFFIX).replace("/", ".")
                template_id = TemplateId(name)
                text, mtime_ms = _read(path, name)
                static = registry.static_text(template_id, text, last_updated_ms=mtime_ms)
            except InvalidInput as error:
                loaded.refused.append(RefusedFile(path, error))
            else:
                yield TemplateFile(path, root.origin, static)


def _jinja_files(folder: Path, loaded: Loaded) -> Iterator[Path]:
    """Give the files below `folder` in a fixed order; a folder that is a link, or cannot be read, is refused."""

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # a project need not have templates
            cause = TemplateNotStatic(f"cannot be read: {error.strerror}")
            loaded.refused.append(RefusedFile(Path(error.filename), cause))

    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders.sort()
        for path in (Path(parent, name) for name in folders):
            if path.is_symlink():
                loaded.refused.append(RefusedFile(path, TemplateNotStatic("a link to a folder is not followed")))
        for name in sorted(names):
            if name.endswith(SUFFIX):
                yield Path(parent, name)


def _read(path: Path, template_id: str) -> tuple[str, int]:
    """Return the text of a file and when it was last changed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise TemplateNotStatic("not a regular file", template_id=template_id)
            data = file.read(MAX_TEMPLATE_BYTES + 1)
    except OSError as error:
        cause = "a link is not followed" if error.errno == ELOOP else f"cannot be read: {error.strerror}"
        raise TemplateNotStatic(cause, template_id=template_id) from None
    if len(data) > MAX_TEMPLATE_BYTES:
        cause = f"{facts.st_size} bytes; the limit is {MAX_TEMPLATE_BYTES}"
        raise TemplateLimit(cause, template_id=template_id)
    try:
        return data.decode(), facts.st_mtime_ns // 1_000_000
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TemplateNotStatic("the file is not UTF-8", template_id=template_id, line=line) from None


def _without_conflicts(files: Iterable[TemplateFile], loaded: Loaded) -> Iterator[TemplateFile]:
    families: dict[TemplateId, list[TemplateFile]] = {}
    for file in files:
        families.setdefault(file.static.template_id, []).append(file)
    refused = {file.template_id for file in loaded.refused}
    for template_id, rivals in families.items():
        if template_id.text in refused:  # whoever wrote that file did not mean the others
            continue
        if any(file.origin is Origin.PROJECT for file in rivals):
            loaded.replaced += [file for file in rivals if file.origin is Origin.PACKAGED]
            rivals = [file for file in rivals if file.origin is not Origin.PACKAGED]
        if len({file.static.text for file in rivals}) == 1:
            yield rivals[0]
            continue
        names = tuple(str(file.path) for file in rivals)
        error = TemplateConflict(
            f"defined differently by {' and '.join(names)}; keep one", template_id=template_id.text, names=names
        )
        loaded.refused += [RefusedFile(file.path, error) for file in rivals]
