"""User story 2: every prompt knows which version of which template made it, and what came of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import sapwood
from sapwood.app import load_templates
from sapwood.core.artifacts import PromptTemplate, RefArtifact, ValidationError
from sapwood.core.codec import from_record
from sapwood.core.template import TemplateVersion
from sapwood.runtime.session import Store
from sapwood.templates.usage import References
from tests.templates.recorded import record_run

pytestmark = pytest.mark.artifacts_templates

FAMILY = "tpl.agent.discovery.prompt"


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with sapwood.open(tmp_path / "s.db" if request.param == "file" else "memory:") as store:
        yield store


def stored(store: Store, run: sapwood.ArtifactKey | None = None) -> list[PromptTemplate]:
    """Return the template artifacts of the store, or those inside one run."""
    with store.artifacts.read() as reader:
        found = [from_record(record) for record in reader.load_kinds(run, ["PromptTemplate"])]
    return [one for one in found if isinstance(one, PromptTemplate)]


def targets(store: Store, run: sapwood.ArtifactKey) -> list[sapwood.ArtifactKey]:
    """Return what the prompts of a run refer to, in order."""
    artifacts = map(from_record, store.load(run).walk())
    return [one.target for one in artifacts if isinstance(one, RefArtifact)]


def use(store: Store, text: str, *, family: str = FAMILY, passed: bool = True) -> sapwood.ArtifactKey:
    """Record an execution with one prompt from this text."""
    template = sapwood.Template(family, text, ["topic"])
    return record_run(store, [(template, {"topic": "x"}, ())], {"tests": passed})


def test_us2_1_a_prompt_refers_to_a_template_with_its_id_and_the_hash_of_its_static_text(store: Store) -> None:
    run = use(store, "Look at {{ topic }}.")
    (target,) = targets(store, run)
    (template,) = stored(store)
    assert template.key == target
    assert template.template_id == FAMILY
    with store.artifacts.read() as reader:
        record = reader.find(target)
    assert record is not None
    assert record.content == b"Look at {{ topic }}."
    assert record.content_hash == sapwood.hash_text("Look at {{ topic }}.")


def test_us2_2_two_executions_with_two_versions_lead_each_to_its_own_evidence(store: Store) -> None:
    first, second = use(store, "old", passed=False), use(store, "new", passed=True)
    (old,), (new,) = targets(store, first), targets(store, second)
    assert old != new
    with store.artifacts.read() as reader:
        references = References(reader)
        for version, run, passed in ((old, first, False), (new, second, True)):
            (found,) = references.uses(version)
            assert (found.run, [(one.name, one.passed) for one in found.outcomes]) == (run, [("tests", passed)])


def test_us2_3_a_prefix_lists_its_family_and_no_neighbour(store: Store) -> None:
    for family in (FAMILY, "tpl.agent.discovery.system", "tpl.agent.disc.prompt", "tpl.tool.grep.usage"):
        use(store, "text", family=family)
    families = {one.template_id.text for one in store.artifacts.list_versions("tpl.agent.discovery")}
    assert families == {FAMILY, "tpl.agent.discovery.system"}
    assert [one.template_id.text for one in store.artifacts.list_versions("tpl.agent.disc")] == [
        "tpl.agent.disc.prompt"
    ]


def test_us2_4_a_version_that_is_stored_is_found_by_a_later_execution(tmp_path: Path) -> None:
    seen = set()
    for _ in range(3):
        with sapwood.open(tmp_path / "s.db") as store:
            (target,) = targets(store, use(store, "Look at {{ topic }}."))
            seen.add(target)
            assert len(stored(store)) == 1
    assert len(seen) == 1


def test_us2_5_a_changed_text_is_a_new_version_of_the_same_family(store: Store) -> None:
    (old,) = targets(store, use(store, "Look at {{ topic }}."))
    (new,) = targets(store, use(store, "Look closely at {{ topic }}."))
    versions = {one.key: one for one in store.artifacts.list_versions(FAMILY)}
    assert set(versions) == {old, new}
    assert versions[old].content_hash != versions[new].content_hash
    assert versions[old].template_id == versions[new].template_id


def test_us2_6_the_key_of_a_version_has_the_time_of_its_last_change_and_not_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "templates/agent/discovery/prompt.jinja"
    path.parent.mkdir(parents=True)
    keys = []
    for text, changed_s in (("old", 1_700_000_000), ("new", 1_750_000_000)):
        path.write_text(text)
        os.utime(path, (changed_s, changed_s))
        with sapwood.open(tmp_path / "s.db") as store:
            load_templates(store, tmp_path)
            run = record_run(store, [(FAMILY, {}, ())], {})
            (key,) = targets(store, run)
        assert key.time_ms == changed_s * 1000
        assert run.time_ms > key.time_ms
        keys.append(key)
    assert keys[0] < keys[1]


def sample(store: Store) -> dict[sapwood.ArtifactKey, list[sapwood.ArtifactKey]]:
    """Record 24 executions over three families and four texts; return the executions of each version."""
    used: dict[sapwood.ArtifactKey, list[sapwood.ArtifactKey]] = {}
    for number in range(24):
        run = use(store, f"text {number % 4} {{{{ topic }}}}", family=f"tpl.agent.x{number % 3}.prompt")
        (target,) = targets(store, run)
        used.setdefault(target, []).append(run)
    return used


def test_sc_003_every_template_artifact_is_grouped_by_id_and_told_apart_by_hash(store: Store) -> None:
    used = sample(store)
    listed = {one.key: one for one in store.artifacts.list_versions("tpl.agent")}
    assert {one.key for one in stored(store)} == set(listed) == set(used)
    assert len({(one.template_id, one.content_hash) for one in listed.values()}) == len(listed) == 12


def test_sc_005_each_version_leads_to_its_executions_and_their_evidence(store: Store) -> None:
    used = sample(store)
    late = next(iter(used))
    store.evidence(used[late][0], "merge", passed=True)  # after the Seal
    with store.artifacts.read() as reader:
        references = References(reader)
        found = {version: references.uses(version) for version in used}
    assert {version: [one.run for one in uses] for version, uses in found.items()} == used
    assert all({"tests"} <= {fact.name for fact in one.outcomes} for uses in found.values() for one in uses)
    assert {fact.name for fact in found[late][0].outcomes} == {"tests", "merge"}


def test_sc_006_same_text_same_hash_and_version_changed_text_new_ones(store: Store) -> None:
    used = sample(store)
    versions = store.artifacts.list_versions()
    assert len(versions) == len(used) == 12
    assert len({one.content_hash for one in versions}) == len({one.text for one in versions}) == 4
    assert all(one.content_hash == sapwood.hash_text(one.text) for one in versions)


def test_sc_007_prompts_are_rebuilt_from_version_arguments_and_contributions(store: Store) -> None:
    template = sapwood.Template(FAMILY, "{{ topic }} of {{ n }}\n", ["topic", "n"])
    parts = [
        sapwood.Contribution(name="map", text="the map", order=5),
        sapwood.Contribution(name="note", text="a note {{ topic }}", order=-1),
        sapwood.Contribution(name="entry", text="handed over", order=1, slot="context"),
    ]
    for number in range(8):
        call = (template, {"n": number * 0.5, "topic": {"z": 1, "é": None}}, parts[: number % 4])
        told = store.reconstruct(record_run(store, [call], {}))
        (prompt,) = told.prompts
        assert (prompt.rebuilt, told.findings) == (prompt.text, [])


def test_sc_008_one_key_for_each_id_and_hash_and_going_back_finds_the_old_one(store: Store) -> None:
    keys = [targets(store, use(store, text))[0] for text in ("old", "new", "old", "newer", "new")]
    assert keys[0] == keys[2]
    assert keys[1] == keys[4]
    assert len(set(keys)) == len(stored(store)) == 3


def test_edge_a_template_with_an_unresolved_placeholder_leaves_a_validation_error_and_no_version(store: Store) -> None:
    with pytest.raises(sapwood.UndeclaredVariable):
        store.templates.register(FAMILY, "Look at {{ it }}.")
    with store.artifacts.read() as reader:
        (error,) = [from_record(record) for record in reader.load_kinds(None, ["ValidationError"])]
    assert isinstance(error, ValidationError)
    assert (error.key.depth, error.code, error.where) == (1, "UndeclaredVariable", FAMILY)
    assert "it" in error.message
    assert stored(store) == []


def test_a_shared_version_is_no_part_of_any_execution(store: Store) -> None:
    run = use(store, "Look at {{ topic }}.")
    assert stored(store, run) == []
    version: TemplateVersion = store.artifacts.list_versions()[0]
    assert version.key.depth == 1
