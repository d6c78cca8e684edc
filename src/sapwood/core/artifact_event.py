"""ArtifactEvent: what producers publish on the bus."""

from __future__ import annotations

from typing import NamedTuple

from sapwood.core.kind import Artifact
from sapwood.core.record import Record


class ArtifactEvent(NamedTuple):
    """An artifact was made, by somebody who also made its key."""

    artifact: Artifact | Record
