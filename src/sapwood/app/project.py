"""The project's folder, which is never made by accident, and the store in it, which is made when it is needed."""

from __future__ import annotations

from pathlib import Path

from sapwood.app import MEMORY, open_store
from sapwood.errors import NotFound, StoreUnwritable
from sapwood.runtime.session import Store
from sapwood.settings import Settings


def existing_project(settings: Settings) -> Path:
    """Return the project's folder; raise NotFound when there is none. It is never made by accident."""
    if not settings.project.is_dir():
        raise NotFound(f"project {settings.project}", "a folder is expected")
    return settings.project.resolve()


def open_project_store(path: str) -> Store:
    """Open the store at `path`; a folder that it needs is made, and kept out of the project's version control."""
    folder = Path(path).parent
    try:
        if path != MEMORY and "://" not in path and not folder.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if folder.name == ".sapwood":
                (folder / ".gitignore").write_text("*\n")
    except OSError as error:
        raise StoreUnwritable(path, f"{folder} cannot be made ({error.strerror})") from None
    return open_store(path)
