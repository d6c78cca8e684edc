"""Which executions used a version and what came of them: the scenarios and criteria that need recorded executions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import sapwood
from sapwood.cli.commands.templates import command
from sapwood.core.artifacts import PromptArgs, PromptContribution, RefArtifact, RenderedPrompt, ValidationError
from sapwood.core.codec import from_record, to_record
from sapwood.core.keys import ArtifactKey
from sapwood.core.prompt import Contribution, PromptContext, assemble_prompt, render_provider_text
from sapwood.core.template import TemplateVersion
from sapwood.runtime.session import Store
from sapwood.templates.usage import References
from tests.templates.recorded import record_run

pytestmark = pytest.mark.artifacts_templates


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with sapwood.open("memory:" if request.param == "memory" else tmp_path / "s.db") as store:
        yield store


def two_versions(store: Store) -> tuple[TemplateVersion, TemplateVersion, ArtifactKey, ArtifactKey]:
    """Run an old version, which fails its tests, and a new one, which passes them."""
    old = store.templates.register("tpl.agent.x", "old {{ a }}", ["a"])
    first = record_run(store, [("tpl.agent.x", {"a": 1}, ()), ("tpl.agent.x", {"a": 2}, ())], {"tests": False})
    new = store.templates.register("tpl.agent.x", "new {{ a }}", ["a"])
    second = record_run(store, [("tpl.agent.x", {"a": 1}, ())], {"tests": True, "build": True})
    return old, new, first, second


def prompts(store: Store) -> Iterator[tuple[RenderedPrompt, list[Any]]]:
    with store.artifacts.read() as reader:
        for record in list(reader.load_kinds(None, ["RenderedPrompt"])):
            below = [from_record(child) for child in reader.load(record.key) if child.key != record.key]
            prompt = from_record(record)
            assert isinstance(prompt, RenderedPrompt)
            yield prompt, below


def test_us2_1_the_template_child_has_an_id_and_the_hash_of_its_static_text(store: Store) -> None:
    two_versions(store)
    versions = {version.key: version for version in store.artifacts.list_versions()}
    for prompt, below in prompts(store):
        (reference,) = [child for child in below if isinstance(child, RefArtifact)]
        version = versions[reference.target]
        assert version.template_id.text == prompt.template_id == "tpl.agent.x"
        assert version.content_hash == sapwood.hash_text(version.text)


def test_us2_2_two_versions_are_told_apart_with_their_outcomes(store: Store) -> None:
    old, new, first, second = two_versions(store)
    with store.artifacts.read() as reader:
        references = References(reader)
        (old_use,), (new_use,) = references.uses(old.key), references.uses(new.key)
    assert (old_use.run, old_use.prompts, old_use.status) == (first, 2, "completed")
    assert [(one.name, one.passed) for one in old_use.outcomes] == [("tests", False)]
    assert new_use.run == second
    assert {(one.name, one.passed) for one in new_use.outcomes} == {("tests", True), ("build", True)}


def test_sc_003_every_template_artifact_is_grouped_by_id_and_told_apart_by_hash(store: Store) -> None:
    two_versions(store)
    store.templates.register("tpl.agent.y", "y")
    with store.artifacts.read() as reader:
        stored = [record.key for record in reader.load_kinds(None, ["PromptTemplate"])]
    listed = store.artifacts.list_versions("tpl.agent")
    assert sorted(stored) == sorted(version.key for version in listed)
    assert len({(version.template_id, version.content_hash) for version in listed}) == len(listed) == 3


def test_sc_005_each_version_leads_to_its_executions_and_their_evidence(store: Store) -> None:
    expected: dict[ArtifactKey, set[ArtifactKey]] = {}
    for number in range(6):
        version = store.templates.register(f"tpl.agent.x{number % 2}", f"text {number % 3}")
        run = record_run(store, [(version.template_id.text, {}, ())], {f"check{number}": number % 2 == 0})
        expected.setdefault(version.key, set()).add(run)
    with store.artifacts.read() as reader:
        references = References(reader)
        for key, runs in expected.items():
            uses = references.uses(key)
            assert {use.run for use in uses} == runs
            assert all(len(use.outcomes) == 1 for use in uses)
        times = references.use_times(expected)
    assert {key: executions for key, (_, _, executions) in times.items()} == {k: len(v) for k, v in expected.items()}


def test_sc_005_evidence_that_came_after_the_seal_counts(store: Store) -> None:
    _, new, _, second = two_versions(store)
    store.evidence(second, "merge", passed=True)
    with store.artifacts.read() as reader:
        (use,) = References(reader).uses(new.key)
    assert {one.name for one in use.outcomes} == {"tests", "build", "merge"}


def test_sc_007_prompts_are_rebuilt_from_version_arguments_and_contributions(store: Store) -> None:
    store.templates.register("tpl.agent.x", "{{ a }} of {{ b }}\n", ["a", "b"])
    parts = [
        Contribution("map", "the map", 5),
        Contribution("note", "a note", -1),
        Contribution("e", "entry", 1, "context"),
    ]
    for number in range(5):
        record_run(store, [("tpl.agent.x", {"b": number * 0.5, "a": {"z": 1, "y": "é"}}, parts[: number + 1])], {})
    versions = {version.key: version for version in store.artifacts.list_versions()}
    rebuilt = 0
    for prompt, below in prompts(store):
        (reference,) = [child for child in below if isinstance(child, RefArtifact)]
        (args,) = [child for child in below if isinstance(child, PromptArgs)]
        output = store.templates.rerender(versions[reference.target], to_record(args).content)
        contributions = [
            Contribution(child.contributor, child.text, child.order, child.slot)
            for child in below
            if isinstance(child, PromptContribution)
        ]
        entries = [part.text for part in contributions if part.slot == "context"]
        assert render_provider_text(assemble_prompt(output, contributions), entries) == prompt.text
        rebuilt += 1
    assert rebuilt == 5


class Map:
    """A contributor that says what it was told."""

    name = "map"
    order = 5

    def contribute(self, context: PromptContext) -> str:
        return f"{context.node} {context.template_id} {context.args['a']}"


def test_fr_024_every_contributor_leaves_its_contribution(store: Store) -> None:
    template = sapwood.Template("tpl.agent.code", "Do {{ a }}.", ["a"])
    record_run(store, [(template, {"a": "it"}, [Map(), Contribution("note", "first", -1)])], {})
    ((prompt, below),) = prompts(store)
    assert prompt.text == "Do it.\n\nfirst\n\none tpl.agent.code it"
    left = [(one.contributor, one.order, one.slot) for one in below if isinstance(one, PromptContribution)]
    assert left == [("note", -1, "prompt"), ("map", 5, "prompt")]
    assert (prompt.renderer, prompt.renderer_version) == store.templates.renderer


def test_fr_023_a_shared_version_is_referred_to_and_never_copied(store: Store) -> None:
    run = record_run(store, [("tpl.agent.single.prompt", {"task": "x"}, ()) for _ in range(3)], {})
    with store.artifacts.read() as reader:
        targets = [from_record(record) for record in reader.load_kinds(run, ["RefArtifact"])]
        assert list(reader.load_kinds(run, ["PromptTemplate"])) == []
    (version,) = store.artifacts.list_versions()
    assert [one.target for one in targets if isinstance(one, RefArtifact)] == [version.key] * 3


@pytest.mark.parametrize(
    ("template", "args", "code"),
    [
        (sapwood.Template("tpl.agent.open", "x {{ y }}"), {}, "UndeclaredVariable"),
        (sapwood.Template("tpl.agent.open", "{{ y }}", ["y"]), {}, "UndefinedValue"),
        (sapwood.Template("tpl.agent.open", "x"), {"z": 1}, "InvalidArguments"),
        (sapwood.Template("tpl.agent.open", "{{ 1 / 0 }}"), {}, "TemplateFailed"),
        ("tpl.agent.nobody", {}, "NotFound"),
    ],
)
def test_a_template_refused_in_a_run_leaves_its_validation_error_under_the_request(
    store: Store, template: Any, args: dict[str, Any], code: str
) -> None:
    with store.record() as run, run.agent("one") as agent:
        with pytest.raises(sapwood.SapwoodError):
            agent.prompt(template, args)
        agent.report("went on without it")
    with store.artifacts.read() as reader:
        (error,) = [from_record(record) for record in reader.load_kinds(run.key, ["ValidationError"])]
        assert list(reader.load_kinds(run.key, ["RenderedPrompt"])) == []
    assert isinstance(error, ValidationError)
    assert (error.key.parent, error.code) == (agent.key, code)
    assert error.where == ("tpl.agent.nobody" if code == "NotFound" else "tpl.agent.open")


def invoke(project: Path, *words: str) -> Any:
    done = CliRunner().invoke(command, [*words, "--project", str(project), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_command_line_shows_versions_uses_and_outcomes(tmp_path: Path) -> None:
    (tmp_path / ".sapwood").mkdir()
    with sapwood.open(tmp_path / ".sapwood/sapwood.db") as store:
        old, new, first, second = two_versions(store)
    (family,) = invoke(tmp_path, "list", "tpl.agent.x")["templates"]
    assert [version["key"] for version in family["versions"]] == [old.key.text, new.key.text]
    assert [version["executions"] for version in family["versions"]] == [1, 1]
    assert family["versions"][0]["first_use"] <= family["versions"][0]["last_use"]
    assert invoke(tmp_path, "show", "tpl.agent.x")["text"] == "new {{ a }}"
    assert invoke(tmp_path, "show", old.key.text)["text"] == "old {{ a }}"
    assert invoke(tmp_path, "show", f"tpl.agent.x@{old.content_hash[:10]}")["text"] == "old {{ a }}"
    assert "-old {{ a }}" in invoke(tmp_path, "diff", "tpl.agent.x")["diff"]
    assert "+old {{ a }}" in invoke(tmp_path, "diff", new.key.text, old.key.text)["diff"]
    assert [use["run"] for use in invoke(tmp_path, "uses", old.key.text)["uses"]] == [first.text]
    (outcome,) = invoke(tmp_path, "outcomes", "tpl.agent.x")["executions"]
    assert outcome["run"] == second.text
    assert {one["name"] for one in outcome["outcomes"]} == {"tests", "build"}


def test_the_command_line_for_people(tmp_path: Path) -> None:
    (tmp_path / "templates/agent/single").mkdir(parents=True)
    (tmp_path / "templates/agent/single/prompt.jinja").write_text("a\x1b[31m\u202eb\n")
    (tmp_path / "templates/agent/bad.jinja").write_text("{{ y }}")

    def run(*words: str) -> str:
        done = CliRunner().invoke(command, [*words, "--project", str(tmp_path)])
        assert done.exit_code == 0, done.output
        return done.stdout

    tree = run("list")
    assert "project, replaces the packaged one" in tree
    assert all(f"── {name}" in tree for name in ("agent", "system", "tool", "workflow"))
    assert "agent/bad.jinja:1" in run("list", "--errors")
    assert run("show", "tpl.agent.single.prompt") == "a\\u{1b}[31m\\u{202e}b\n"
    assert run("uses", "tpl.agent.single.prompt") == run("outcomes", "tpl.agent.single.prompt") == "not used yet\n"
    (tmp_path / "templates/agent/single/prompt.jinja").write_text("changed\n")
    assert "+changed" in run("diff", "tpl.agent.single.prompt")
    coloured = CliRunner().invoke(command, ["diff", "tpl.agent.single.prompt", "--project", str(tmp_path)], color=True)
    assert "\x1b[32m+changed" in coloured.stdout
    assert "no templates" in run("list", "tpl.nothing")


@pytest.mark.parametrize("words", [("show", "tpl.no.pe"), ("diff", "tpl.agent.single.prompt"), ("uses", "ak:nope")])
def test_what_is_not_there_is_not_found(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(command, [*words, "--project", str(tmp_path)])
    assert isinstance(done.exception, sapwood.NotFound)
