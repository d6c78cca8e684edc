"""A disk that forgets one bit: `verify` says so whenever anything that could be read has changed."""

from __future__ import annotations

import random
from pathlib import Path

import apsw
import pytest

from sapwood.app import open_store
from sapwood.errors import SapwoodError
from sapwood.storage.sqlite_reader import SqliteReader
from tests.conftest import Dose
from tests.crash.full_store import Built, build_store, copy_store, read_everything, read_view


def read(path: Path, built: Built) -> object:
    """Return what is read, or the refusal that a reader gets instead."""
    try:
        view = read_view(path)
    except (apsw.Error, UnicodeDecodeError) as error:
        view = [(type(error).__name__,)]
    try:
        return read_everything(path, built), view
    except SapwoodError as error:
        return type(error).__name__, view


def is_reported(path: Path) -> bool:
    """Tell whether `verify`, or already the opening of the store, says that something is wrong."""
    try:
        with open_store(path, create=False) as store:
            return not store.verify().is_ok
    except SapwoodError:
        return True


def flip_often(folder: Path, rng: random.Random, count: int) -> tuple[int, list[str]]:
    """Flip one bit at a time; return how many changed what is read, and which of these nobody reported."""
    original, built = folder / "original.db", build_store(folder / "original.db")
    before = read(copy_store(original, folder / "copy.db"), built)
    assert not is_reported(folder / "copy.db")
    size, changed, silent = original.stat().st_size, 0, []
    for _ in range(count):
        at, bit = rng.randrange(size), rng.randrange(8)
        path = folder / "flipped.db"
        try:
            if read(copy_with_flip(original, path, at, bit), built) == before:
                continue
            changed += 1
            if not is_reported(copy_with_flip(original, path, at, bit)):
                silent.append(f"byte {at} bit {bit}: read differently, not reported")
        except Exception as error:
            silent.append(f"byte {at} bit {bit}: not a typed error: {error!r}")
    return changed, silent


def copy_with_flip(original: Path, path: Path, at: int, bit: int) -> Path:
    """Make the damaged file anew: a reader may have written to it."""
    copy_store(original, path)
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit]))
    return path


@pytest.mark.torture(short=100, full=10_000)
def test_verify_reports_every_flipped_bit_that_changes_what_is_read(tmp_path: Path, dose: Dose) -> None:
    changed, silent = flip_often(tmp_path, dose.rng, dose.count)
    dose.failures += silent
    assert changed > dose.count // 10, "too few flips met anything that is read"


@pytest.mark.mutant
def test_without_a_look_at_the_rows_flipped_bits_stay_unseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqliteReader, "damaged", lambda _self, _key=None: iter(()))
    assert flip_often(tmp_path, random.Random(3), 500)[1]
