"""Hypothesis strategies: any JSON value, any key, and any instance of a Typed class, made from its annotations."""

from __future__ import annotations

from collections.abc import Callable
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

from sapwood.core.config import CONFIG_FIELDS, ExecutionConfig
from sapwood.core.events import GraphEvent
from sapwood.core.keys import ArtifactKey, ulid_text
from sapwood.core.kind import Artifact
from sapwood.core.typed import Typed

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
doubles = st.floats(allow_nan=False, allow_infinity=False)
# Those between print as integers, of their shortest digits: what is read back may be another number.
kept_doubles = doubles.filter(lambda value: not 2**53 <= abs(value) < 1e21)
scalars = st.none() | st.booleans() | st.integers() | st.integers(-(2**80), 2**80) | kept_doubles | texts
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=5
)
objects = st.dictionaries(texts, json_values, max_size=3)
segments = st.integers(0, 2**128 - 1).map(ulid_text)
keys = st.lists(segments, min_size=1, max_size=5).map(lambda parts: ArtifactKey("ak:" + "/".join(parts)))
timestamps = st.datetimes().map(lambda moment: f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}.123Z")


def many(dose_count: int, seed: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a law on that many examples, from that seed."""
    from hypothesis import seed as seeded

    return lambda law: settings(max_examples=dose_count, database=None)(seeded(seed)(law))


def instances(cls: type[Typed]) -> st.SearchStrategy[Any]:
    """Return any instance of `cls`, with fields that were not given, null fields and undeclared ones."""
    fields = {field.name: field for field in msgspec.structs.fields(cls)}
    declared = {field.encode_name for field in fields.values()} | {"media", "type", "kind"}
    nothing: st.SearchStrategy[dict[str, Any]] = st.just({})
    free = nothing | objects.map(lambda given: {name: given[name] for name in given.keys() - declared})
    parts: dict[str, st.SearchStrategy[Any]] = {
        name: values_of(field.type) for name, field in fields.items() if name not in ("unknown", "metadata")
    }
    if issubclass(cls, Artifact):
        parts["metadata"] = free
    if not (issubclass(cls, Artifact) and cls.content_field is not None):
        parts["unknown"] = free
    if issubclass(cls, GraphEvent):
        parts["timestamp"] = timestamps
    if cls is ExecutionConfig:
        parts["why_absent"] = st.just(dict.fromkeys(CONFIG_FIELDS, "not given"))
    return st.fixed_dictionaries(parts).map(lambda given: cls(**given))


def values_of(annotation: Any) -> st.SearchStrategy[Any]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return st.one_of(*map(values_of, arguments))
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=2).map(tuple)
    if origin is dict:
        return objects
    if isinstance(annotation, type) and issubclass(annotation, Typed):
        return instances(annotation)
    known: dict[Any, st.SearchStrategy[Any]] = {
        Any: json_values,
        str: texts,
        int: st.integers(-(2**70), 2**70),
        bool: st.booleans(),
        bytes: st.binary(max_size=20),
        None: st.none(),
        type(None): st.none(),
        UnsetType: st.just(UNSET),
        ArtifactKey: keys,
    }
    return known[annotation]
