"""Finding: something that is not as it should be, as a value: a list of them says all that is wrong at once."""

from __future__ import annotations

from typing import NamedTuple

from sapwood.core.keys import ArtifactKey


class Finding(NamedTuple):
    """A stable code, where, and in words; `is_failure` is false for what is odd but allowed."""

    code: str
    key: ArtifactKey
    message: str
    is_failure: bool = True
