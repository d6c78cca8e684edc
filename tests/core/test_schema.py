"""The JSON Schemas and the codec say the same: what one takes, the other takes, whatever is changed in a wire form."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, get_args

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.artifacts import AnyArtifact
from sapwood.core.canonical import canonical_json
from sapwood.core.codec import from_dict, to_dict
from sapwood.core.event_artifacts import EVENT_TYPES, event_from_dict, event_to_dict
from sapwood.core.hashing import hash_json, hash_text
from sapwood.core.kind import UnknownArtifact
from sapwood.core.schema import artifact_schema, event_schema
from sapwood.errors import SapwoodError
from tests.conftest import Dose
from tests.core import values

KINDS = {entry["title"]: jsonschema.Draft202012Validator(entry) for entry in artifact_schema()["oneOf"]}
EVENTS = {entry["title"]: jsonschema.Draft202012Validator(entry) for entry in event_schema()["oneOf"]}
KEY = "ak:01HQXK5V8RPZM4J3NHWGC7SDFG"
OTHERS: list[Any] = [
    *(None, True, 0, -1, 1.5, 2**70, "", "x", " ", [], [1], ["x"], [None], [[]], {}, {"id": "x"}, [{}], [{"id": "x"}]),
    *(KEY, f"{KEY}\n", f"{KEY}/", "ak:", "text", "user", "completed", "main"),
    *("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z\n", "2026-13-01T00:00:00Z", "2026-01-01", "yesterday"),
]
NAMES = ["tomorrow", "media", "key", "kind", "type", "id", "unknown", "metadata", "why_absent"]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every object or list inside `value` with each name or index in it."""
    for step in value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0):
        yield value, step
        yield from places(value[step])


def changed(wire: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return a copy of `wire` in which something is left out, added or another thing."""
    copy = deepcopy(wire)
    inside, step = rng.choice(list(places(copy)))
    match rng.randrange(4):
        case 0:
            del inside[step]
        case 1 if isinstance(inside, dict):
            inside[rng.choice(NAMES)] = deepcopy(rng.choice(OTHERS))
        case _:
            inside[step] = deepcopy(rng.choice(OTHERS))
    return copy


def rehashed(wire: dict[str, Any]) -> dict[str, Any]:
    """Return `wire` with the hash of its content, which no schema can ask for."""
    content, metadata = wire.get("content"), wire.get("metadata")
    is_text = isinstance(content, str) and isinstance(metadata, dict) and metadata.get("media") == "text"
    return {**wire, "content_hash": hash_text(content) if is_text else hash_json(content)}  # type: ignore[arg-type]


def is_artifact(wire: dict[str, Any]) -> bool:
    try:
        return not isinstance(from_dict(wire), UnknownArtifact)
    except SapwoodError:
        return False


def is_event(wire: dict[str, Any]) -> bool:
    try:
        event_from_dict(wire)
    except SapwoodError:
        return False
    return True


@pytest.mark.torture(short=10, full=10_000)
@pytest.mark.parametrize("kind", get_args(AnyArtifact), ids=lambda kind: kind.__name__)
def test_an_artifact_fits_its_schema_exactly_when_the_codec_takes_it(kind: type[Any], dose: Dose) -> None:
    schema = KINDS[kind.__name__]

    @values.many(dose.count, dose.seed)
    @given(values.instances(kind), st.randoms(use_true_random=False))
    def law(artifact: Any, rng: random.Random) -> None:
        wire = json.loads(canonical_json(to_dict(artifact)))
        assert schema.is_valid(wire)
        for _ in range(4):
            other = changed(wire, rng)
            if kind.media != "bytes":  # that a text is base64 is an annotation in a schema, no condition
                other = rehashed(other)
                assert schema.is_valid(other) == is_artifact(other), other

    law()


@pytest.mark.torture(short=10, full=10_000)
@pytest.mark.parametrize("name", EVENT_TYPES)
def test_an_event_fits_its_schema_exactly_when_the_codec_takes_it(name: str, dose: Dose) -> None:
    @values.many(dose.count, dose.seed)
    @given(values.instances(EVENT_TYPES[name]), st.randoms(use_true_random=False))
    def law(event: Any, rng: random.Random) -> None:
        wire = event_to_dict(event)
        assert EVENTS[name].is_valid(wire)
        for _ in range(4):
            other = {**changed(wire, rng), "type": name}
            assert EVENTS[name].is_valid(other) == is_event(other), other

    law()
