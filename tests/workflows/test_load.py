"""Workflow files: what a good one becomes, and every mistake with its line, column, reason and what is allowed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sapwood.core.canonical import canonical_json
from sapwood.core.mistakes import Mistake
from sapwood.core.workflow import (
    AgentNode,
    CommandNode,
    JoinNode,
    SpawnNode,
    WorkflowNode,
    workflow_from_dict,
    workflow_to_dict,
)
from sapwood.errors import InvalidWorkflow, NotFound
from sapwood.workflows import source
from sapwood.workflows.load import builtin_names, load_workflow, parse_workflow
from tests.conftest import Dose

FEATURE = Path(__file__).parent / "feature.yaml"
START = "name: w\nnodes:\n  a: {kind: agent, template: tpl.agent.a.prompt}\n"


def mistakes_of(text: str) -> list[Mistake]:
    with pytest.raises(InvalidWorkflow) as caught:
        parse_workflow(text, "f.yaml")
    findings = [finding for finding in caught.value.findings if isinstance(finding, Mistake)]
    assert all("\n" not in str(finding) for finding in findings)
    return findings


def test_a_good_file_becomes_a_workflow_with_its_defaults_applied() -> None:
    workflow = load_workflow(FEATURE)
    brainstorm, pick, tests, fan, gather = workflow.nodes[:5]
    assert isinstance(brainstorm, AgentNode)
    assert (brainstorm.provider, brainstorm.attempts, brainstorm.ingest) == ("scripted", 2, True)
    assert brainstorm.args["note"] == "depth ${inputs.depth}, literal $${x}"
    assert isinstance(pick, AgentNode)
    assert not pick.ingest, "a default applies to nodes with an output"
    assert pick.context.policy == {"max_upstream_artifacts": 2}
    assert isinstance(tests, CommandNode)
    assert (tests.limits.time_s, tests.limits.tokens) == (30, 100_000), "a node's limit replaces that limit only"
    assert isinstance(fan, SpawnNode)
    assert fan.each.output == "docs/parts/<name>.md"
    assert isinstance(gather, JoinNode)
    assert workflow.edges[7].max_loops == 3
    assert workflow.edges[4].when is None
    assert workflow.phase_override(2)["narrative_cap"] == 800


def test_the_other_workflow_is_frozen_inside() -> None:
    workflow = load_workflow(FEATURE)
    inner = workflow.node("inner")
    assert isinstance(inner, WorkflowNode)
    assert inner.definition == load_workflow("single")
    assert workflow_from_dict(workflow_to_dict(workflow)) == workflow
    assert canonical_json(workflow_to_dict(workflow))


def test_the_built_in_workflows_are_good_files_with_the_promised_documents() -> None:
    assert builtin_names() == ["phased", "self_critique", "single", "team"]
    documents = {name: {node.output for node in load_workflow(name).nodes} - {None} for name in builtin_names()}
    assert documents["single"] == {"docs/single_<run>.md"}
    assert documents["self_critique"] == {"docs/draft.md", "docs/reviews/review_<n>.md", "docs/final.md"}
    assert documents["team"] == {
        "docs/TODO.md",
        "docs/ProjectManager.md",
        "docs/team_plan_<n>.md",
        "docs/audits/audit_<n>.md",
        "docs/final.md",
    }
    tasks = load_workflow("team").node("tasks")
    assert isinstance(tasks, SpawnNode)
    assert tasks.each.output == "docs/tasks/<name>.md"
    for name in builtin_names():
        assert not any(node.ingest for node in load_workflow(name).nodes), "ingest is off as shipped"
    phases = [node.phase for node in load_workflow("phased").nodes if isinstance(node, AgentNode)]
    assert phases == [1, 1, 2, 3]


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("", 1, 1, "the file is empty"),
        ("name: [\n", 2, 1, "not YAML"),
        ("name: x\nnodes:\n\tdraft: {}\n", 3, 1, "not YAML: a tab; indent with spaces"),
        ("- a", 1, 1, "a list where a workflow belongs"),
        ("name: w\nnodes: {}\n", 2, 1, "at least 1 is needed"),
        ("name: w\n", 1, 1, "has no 'nodes'"),
        ("name: w\nname: v\n" + START[8:], 2, 1, "given twice; the first is in line 1"),
        (START + "colour: red\n", 4, 1, "unknown key in a workflow: 'colour'"),
        (START + "edgse: []\n", 4, 1, "did you mean 'edges'?"),
        (START + "  yes: {kind: join}\n", 4, 3, "the name 'yes' is not read as text"),
        (START + "  1: {kind: join}\n", 4, 3, "the name '1' is not read as text"),
        (START + "  a b: {kind: join}\n", 4, 3, "not a name: 'a b'"),
        (START + "  " + "k" * 129 + ": {kind: join}\n", 4, 3, "not a name"),
        (START + "  b: {kind: agnet}\n", 4, 13, "did you mean 'agent'?"),
        (START + "  b: {}\n", 4, 3, "this node has no 'kind'"),
        (START + "  b: {kind: agent}\n", 4, 3, "this agent node has no 'template'"),
        (START + "  b: {kind: agent, template: agent.x}\n", 4, 30, "not a template id"),
        (START + "  b: {kind: join, ingest: true}\n", 4, 27, "ingest: true on a node without an output"),
        (START + "  b: {kind: join, output: src/x.md}\n", 4, 27, "outside docs/ and audits/"),
        (START + "  b: {kind: join, output: docs/../x.md}\n", 4, 27, "traversal"),
        (START + "  b: {kind: join, output: /docs/x.md}\n", 4, 27, "absolute"),
        (START + "  b: {kind: join, output: docs/<date>.md}\n", 4, 27, "unknown placeholder <date>"),
        (START + "  b: {kind: join, attempts: 3}\n", 4, 19, "unknown key in a join node"),
        (START + "edges: [{from: a, to: a, wen: x}]\n", 4, 26, "unknown key in an edge: 'wen'"),
        (START + "defaults: {attempt: 3}\n", 4, 12, "unknown key in defaults: 'attempt'"),
        (START + "  b: {kind: command, run: make test}\n", 4, 27, "where a list belongs"),
        (START + "  b: {kind: gate, ask: '${inputs.x}'}\n", 4, 24, "unknown input 'x'"),
        (START + "  b: {kind: gate, ask: '${now}'}\n", 4, 24, "a malformed ${…}"),
        (START + "  b: {kind: gate, ask: '${item}'}\n", 4, 24, "only inside each of a spawn node"),
        (START + "  b: {kind: gate, ask: x, answers: [maybe]}\n", 4, 37, "unknown word 'maybe'"),
        (START + "  b: {kind: gate, ask: x, limits: {time_s: -1}}\n", 4, 44, "-1 is out of range"),
        (START + "  b: {kind: write_file, output: docs/a.md}\n", 4, 3, "exactly one of content and source"),
        (START + "  b: {kind: workflow, workflow: nowhere.yaml}\n", 4, 33, "cannot be used"),
        (START + "  b: {kind: workflow, workflow: single}\n", 4, 3, "needs the input 'task'"),
        (START + "  b: {kind: join}\n", 3, 3, "'a' is not connected"),
        (START + "edges: [{from: a, to: b}]\n", 4, 23, "unknown node 'b'"),
        (START + "edges: [{from: a, to: a}]\n", 4, 9, "a loop without a bound: a -> a"),
        (START + "edges: [{from: a, to: a, max_loops: 2, when: 'decision == '}]\n", 4, 59, "a value is missing"),
        (START + "edges: [{from: a, to: a, max_loops: 2, when: 'inputs.x'}]\n", 4, 46, "unknown input 'x'"),
        (START + "edges: [{from: a, to: a, max_loops: 1.5}]\n", 4, 37, "where a whole number"),
        (START + "edges: [{from: a, to: a, max_loops: 2, on: yes}]\n", 4, 44, "unknown word 'yes'"),
        (START + "  b: {kind: join}\nedges: [{from: a, to: b, max_loops: 2}]\n", 5, 37, "does not lead back"),
        (START + "  b: {kind: join}\nedges: [{from: a, to: b}, {from: a, to: b}]\n", 5, 27, "the same edge"),
        (
            START + "  b: {kind: join}\nedges: [{from: a, to: b}, {from: a, to: b, when: attempt > 1}]\n",
            5,
            27,
            "can never be selected",
        ),
        (START + "inputs: {x: {type: strng}}\n", 4, 20, "did you mean 'string'?"),
        (START + "inputs: {x: {type: integer, default: hi}}\n", 4, 38, "is str, expected integer"),
        (START + "phases: {2: {handoff_fields: [gaol]}}\n", 4, 13, "gaol"),
        (START + "phases: {two: {max_tokens: 1}}\n", 4, 10, "'two'"),
        (START + "defaults: {context: {policy: {max_things: 1}}}\n", 4, 31, "unknown number 'max_things'"),
        (START + "description: !!python/object:os.system x\n", 4, 14, "tags are not used here"),
        (START + "description: *nothing\n", 4, 14, "anchor"),
        (START + "<<: {}\n", 4, 1, "merge keys are not used here"),
        (START + "? [a]\n: b\n", 4, 3, "a key must be a single word"),
        (START + "description: 1_000\n", 4, 14, "not read as text by every YAML program"),
        (START + "---\nname: x\n", 4, 1, "more than one document"),
        (START + "description: \x00\n", 4, 14, "not YAML"),
        ("[" * 60, 1, 42, "nested more than 40 levels"),
    ],
)
def test_a_mistake_is_refused_with_its_place_and_reason(text: str, line: int, column: int, words: str) -> None:
    found = mistakes_of(text)
    assert any(words in str(mistake) for mistake in found), [str(mistake) for mistake in found]
    first = next(mistake for mistake in found if words in str(mistake))
    assert (first.line, first.column) == (line, column)


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file() -> None:
    text = FEATURE.read_text().replace("attempts: 2", "attemps: 2").replace("to: fan", "to: fam").replace("gate", "gat")
    found = mistakes_of(text)
    assert [mistake.line for mistake in found] == sorted(mistake.line for mistake in found)
    assert len(found) == 3
    assert all("did you mean" in mistake.allowed for mistake in found)


def test_a_workflow_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="did you mean 'single'"):
        load_workflow("singel")
    with pytest.raises(NotFound):
        load_workflow(tmp_path)


def test_a_workflow_cannot_run_itself(tmp_path: Path) -> None:
    for name, other in [("a", "b"), ("b", "a")]:
        (tmp_path / f"{name}.yaml").write_text(
            f"name: {name}\nnodes:\n  n: {{kind: workflow, workflow: {other}.yaml}}\n"
        )
    with pytest.raises(InvalidWorkflow, match="runs itself"):
        load_workflow(tmp_path / "a.yaml")


def test_an_alias_bomb_stops_early() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert "unfolds into more than" in mistakes_of("\n".join(lines))[0].what


@pytest.mark.mutant
def test_without_the_bound_the_bomb_goes_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_VALUES", 10**30)
    with pytest.raises(AssertionError):
        test_an_alias_bomb_stops_early()


def mutations(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    words = re.findall(r"[A-Za-z_]+", text)

    def swap_word(line: str) -> str:
        return re.sub(r"[A-Za-z_]+", lambda found: rng.choice(words) if rng.random() < 0.3 else found[0], line)

    def garble(line: str) -> str:
        place = rng.randrange(len(line))
        return (
            line[:place] + rng.choice("{}[]:,'\"&*!|>%@`#-?\t\x00é\u2028\ud800 0") + line[place + rng.randint(0, 1) :]
        )

    line_changes: list[Callable[[str], str]] = [
        swap_word,
        garble,
        lambda line: "",
        lambda line: line + line,
        lambda line: "  " + line,
        lambda line: line.lstrip(),
        lambda line: line.replace(": ", ": [") if rng.random() < 0.5 else line.replace(":", ""),
        lambda line: re.sub(r"[0-9.]+", rng.choice(["-1", "0", "1e999", "yes", "99999999999999999999", "1_0"]), line),
        lambda line: line.replace("tpl.", rng.choice(["", "Tpl.", "tpl..", "tpl.a" * 80])),
        lambda line: line.replace("when:", rng.choice(["when: (", "when: import", "wen:", "max_loops: 1, when:"])),
        lambda line: line.replace("docs/", rng.choice(["../", "/etc/", "docs/../", "workspace/", "docs\\"])),
    ]
    lines[at] = rng.choice(line_changes)(lines[at])
    if rng.random() < 0.3:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    return "".join(lines)


@pytest.mark.torture(short=200, full=20_000)
def test_every_mutation_of_a_good_file_is_refused_with_a_place_or_is_good(dose: Dose) -> None:
    text = FEATURE.read_text()
    for number in range(dose.count):
        mutated = text
        for _ in range(dose.rng.randint(1, 3)):
            mutated = mutations(dose.rng, mutated)
        try:
            workflow = parse_workflow(mutated, "f.yaml")
            if workflow_from_dict(workflow_to_dict(workflow)) != workflow:
                dose.failures.append(f"mutation {number} does not come back equal")
        except InvalidWorkflow as error:
            last = mutated.count("\n") + 2
            for found in error.findings:
                if not isinstance(found, Mistake) or not found.what or not 1 <= found.line <= last or found.column < 1:
                    dose.failures.append(f"mutation {number}: {error}")
            if not error.findings:
                dose.failures.append(f"mutation {number}: refused without a reason")
        except Exception as error:
            dose.failures.append(f"mutation {number}: {type(error).__name__}: {error}")
