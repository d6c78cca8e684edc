"""What prompts leave in a run, and the command line over templates and their uses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import sapwood
from sapwood.cli.commands.templates import command
from sapwood.core.artifacts import PromptContribution, RefArtifact, RenderedPrompt, ValidationError
from sapwood.core.codec import from_record
from sapwood.core.keys import ArtifactKey
from sapwood.core.prompt import Contribution, PromptContext
from sapwood.core.template import TemplateVersion
from sapwood.runtime.session import Store
from sapwood.templates.refusals import list_refusals
from sapwood.templates.usage import References
from sapwood.templates.versions import family_versions, version_diff
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
    assert list_refusals(store.artifacts) == []  # which are those of no run


def test_an_id_that_is_no_text_leaves_its_validation_error_too(store: Store) -> None:
    with store.record() as run, run.agent("a") as agent, pytest.raises(sapwood.InvalidTemplateId):
        agent.prompt("tpl.\ud800")
    with store.artifacts.read() as reader:
        (error,) = [from_record(record) for record in reader.load_kinds(run.key, ["ValidationError"])]
    assert isinstance(error, ValidationError)
    assert error.where == "tpl.\\ud800"


def test_what_is_no_template_and_no_contributor_is_a_typed_error(store: Store) -> None:
    wrong: Any = 5
    store.templates.register("tpl.agent.x", "x")
    with store.record() as run, run.agent("a") as agent:
        with pytest.raises(sapwood.WrongArgument, match="argument template is 5"):
            agent.prompt(wrong)
        with pytest.raises(sapwood.WrongArgument, match="argument contributions is 5"):
            agent.prompt("tpl.agent.x", {}, wrong)
        with pytest.raises(sapwood.WrongArgument, match="name, order and contribute"):
            agent.prompt("tpl.agent.x", {}, [wrong])
    assert list(prompts(store)) == []


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
    plain = CliRunner(env={"NO_COLOR": "1"})
    uncoloured = plain.invoke(command, ["diff", "tpl.agent.single.prompt", "--project", str(tmp_path)], color=True)
    assert "\n+changed" in uncoloured.stdout
    assert "no templates" in run("list", "tpl.nothing")


def test_an_id_means_its_own_versions_and_not_those_below_it(store: Store) -> None:
    for name in ("tpl.agent.x", "tpl.agent.x.y"):
        store.templates.register(name, name)
    assert [version.text for version in family_versions(store.artifacts, "tpl.agent.x")] == ["tpl.agent.x"]


def test_a_run_that_mentions_another_says_nothing_about_its_outcome(store: Store) -> None:
    old, _, first, _ = two_versions(store)
    with store.record() as run, run.agent("one") as agent:
        agent.add(RefArtifact(agent.child_key(), target=first, role="see"))
        run.outcome("merge", passed=True)
    with store.artifacts.read() as reader:
        (use,) = References(reader).uses(old.key)
    assert [(one.name, one.passed) for one in use.outcomes] == [("tests", False)]


def test_a_mistake_is_kept_once_and_is_over_when_its_file_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, odd = tmp_path / "project/templates/agent/bad.jinja", tmp_path / "project/templates/tool/Odd.jinja"
    for path in (bad, odd):
        path.parent.mkdir(parents=True)
        path.write_text("{{ y }}")
    (tmp_path / "link").symlink_to(tmp_path / "project")
    for folder, name in [(tmp_path / "project", "."), (tmp_path, "project"), (tmp_path / "project", "../link")]:
        monkeypatch.chdir(folder)
        found = invoke(Path(name), "list", "--errors")["errors"]
        assert sorted((one["where"], one["code"], one["now"]) for one in found) == [
            ("templates/agent/bad.jinja:1", "UndeclaredVariable", True),
            ("templates/tool/Odd.jinja", "InvalidTemplateId", True),
        ]
    project = tmp_path / "project"
    assert [one["code"] for one in invoke(project, "list", "--errors", "tpl.agent")["errors"]] == ["UndeclaredVariable"]
    assert [one["code"] for one in invoke(project, "list", "--errors", "tpl.tool.")["errors"]] == ["InvalidTemplateId"]
    assert invoke(project, "list", "--errors", "tpl.age")["errors"] == []
    bad.write_text("mended")
    assert [one["now"] for one in invoke(project, "list", "--errors")["errors"]] == [True, False]
    shown = CliRunner().invoke(command, ["list", "--errors", "--project", str(project)]).stdout
    assert shown.startswith("now      templates/tool/Odd.jinja: ")
    assert "\nearlier  templates/agent/bad.jinja:1: " in shown


def test_looking_at_the_packaged_templates_makes_no_project(tmp_path: Path) -> None:
    for words in (["list"], ["show", "tpl.agent.single.prompt"], ["uses", "tpl.agent.single.prompt"]):
        result = CliRunner().invoke(command, [*words, "--project", str(tmp_path)])
        assert result.exit_code == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("texts", [{"templates": "a\n{% if %}"}, {"templates": "mine", "extra": "theirs"}])
def test_a_refused_override_is_shown_as_refused(tmp_path: Path, texts: dict[str, str]) -> None:
    (tmp_path / "sapwood.toml").write_text('template_roots = ["extra"]')
    (tmp_path / "extra").mkdir()
    for root, text in texts.items():
        (tmp_path / root / "agent/single").mkdir(parents=True)
        (tmp_path / root / "agent/single/prompt.jinja").write_text(text)
    done = CliRunner().invoke(command, ["list", "--project", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert f"refused files: {len(texts)}" in done.stderr
    (row,) = invoke(tmp_path, "list", "tpl.agent.single")["templates"]
    assert [Path(where.split(":")[0]) for where in row["refused"]] == [
        tmp_path / root / "agent/single/prompt.jinja" for root in texts
    ]
    assert "replaces" not in row
    assert f"prompt  refused: {row['refused'][0]}" in done.stdout
    assert "refused" not in CliRunner().invoke(command, ["list", "tpl.tool", "--project", str(tmp_path)]).stdout


@pytest.mark.parametrize("words", [["show"], ["diff"], ["uses"], ["outcomes"]], ids=" ".join)
def test_the_stored_text_of_a_refused_id_is_not_shown_as_its_current_one(tmp_path: Path, words: list[str]) -> None:
    path = tmp_path / "templates/agent/x.jinja"
    path.parent.mkdir(parents=True)

    def run(*names: str) -> str:
        done = CliRunner().invoke(command, [*words, *names, "--project", str(tmp_path)])
        assert done.exit_code == 0, done.output
        return done.stderr

    for text in ("one\n", "two\n"):
        path.write_text(text)
        invoke(tmp_path, "list")
    assert run("tpl.agent.x") == ""
    path.write_text("three\n{% if %}")
    assert run("tpl.agent.x") == (
        f"{path}:2 is refused, so no text of tpl.agent.x is in use; see sapwood templates list --errors\n"
    )
    newest = invoke(tmp_path, "list", "tpl.agent.x")["templates"][0]["versions"][1]["key"]
    if words != ["diff"]:
        assert run(newest) == ""


def test_what_is_only_refused_is_not_found_and_said_to_be_refused(tmp_path: Path) -> None:
    (tmp_path / "templates/agent").mkdir(parents=True)
    (tmp_path / "templates/agent/x.jinja").write_bytes(b"a\r\n")
    done = CliRunner().invoke(command, ["show", "tpl.agent.x", "--project", str(tmp_path)])
    assert isinstance(done.exception, sapwood.NotFound)
    assert "agent/x.jinja:1 is refused" in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("a\nb\n", "a\nc\n", ["@@ -1,2 +1,2 @@", " a", "-b", "+c"]),
        ("a\n", "a", ["@@ -1 +1 @@", "-a", "+a", "\\ No newline at end of file"]),
        (
            "a",
            "a\nb",
            ["@@ -1 +1,2 @@", "-a", "\\ No newline at end of file", "+a", "+b", "\\ No newline at end of file"],
        ),
        ("a\n", "a\n\n", ["@@ -1 +1,2 @@", " a", "+"]),
        ("", "a\n", ["@@ -0,0 +1 @@", "+a"]),
    ],
)
def test_a_diff_is_one_that_patch_reads(store: Store, old: str, new: str, lines: list[str]) -> None:
    versions = [store.templates.register("tpl.agent.x", text) for text in (old, new)]
    assert list(version_diff(*versions))[2:] == lines


@pytest.mark.parametrize(
    "words",
    [
        ("show", "tpl.no.pe"),
        ("diff", "tpl.agent.single.prompt"),
        ("uses", "ak:nope"),
        ("show", "tpl.agent.single.prompt@"),
    ],
)
def test_what_is_not_there_is_not_found(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(command, [*words, "--project", str(tmp_path)])
    assert isinstance(done.exception, sapwood.NotFound)


def test_the_first_look_at_a_project_keeps_its_store_out_of_version_control(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    invoke(tmp_path, "list")
    assert (tmp_path / ".sapwood/.gitignore").read_text() == "*\n"
    assert (tmp_path / ".sapwood").stat().st_mode & 0o777 == 0o700


def test_a_project_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["list", "--project", str(tmp_path / "typo")])
    assert isinstance(done.exception, sapwood.NotFound)
    assert not (tmp_path / "typo").exists()


def test_a_store_whose_folder_cannot_be_made_is_one_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    words = ["list", "--project", str(tmp_path), "--store", str(tmp_path / "file/s.db")]
    done = CliRunner().invoke(command, words)
    assert isinstance(done.exception, sapwood.StoreUnwritable)


def test_a_prefix_that_is_no_text_is_one_typed_error(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["list", "tpl.\udcff", "--project", str(tmp_path)])
    assert isinstance(done.exception, sapwood.InvalidInput)


def test_json_for_a_terminal_holds_nothing_that_could_move_its_cursor(tmp_path: Path) -> None:
    (tmp_path / "templates/agent").mkdir(parents=True)
    (tmp_path / "templates/agent/odd.jinja").write_text("a\x9b31m\u202eb")
    (tmp_path / "templates/agent/e\x9b.jinja").write_text("")
    shown = CliRunner().invoke(command, ["show", "tpl.agent.odd", "--project", str(tmp_path), "--json"])
    assert json.loads(shown.stdout)["text"] == "a\x9b31m\u202eb"
    errors = CliRunner().invoke(command, ["list", "--errors", "--project", str(tmp_path), "--json"])
    assert (shown.stdout + errors.stdout).replace("\n", "").isascii()
