"""Every field a workflow file may have: its shape, whether it must be there, and one sentence for readers and editors.

The reader of files and the JSON Schema are both made from this table, so neither can know what the other does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sapwood.core.nodekey import NODE_KEY
from sapwood.core.workflow import DECISIONS, INPUT_TYPES


@dataclass(frozen=True, slots=True)
class Text:
    max_chars: int = 20_000
    may_be_empty: bool = True


@dataclass(frozen=True, slots=True)
class Whole:
    low: int = 0
    high: int = 10**12


@dataclass(frozen=True, slots=True)
class Decimal:
    low: float = 0.0
    high: float = 1e12


@dataclass(frozen=True, slots=True)
class Truth:
    pass


@dataclass(frozen=True, slots=True)
class Choice:
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Json:
    pass


@dataclass(frozen=True, slots=True)
class ListOf:
    shape: Shape
    at_least: int = 0
    at_most: int = 10_000


@dataclass(frozen=True, slots=True)
class TableOf:
    """A mapping with free names; `pattern` is what a name must match, `is_numbered` that the names are numbers."""

    shape: Shape
    pattern: str = ".{1,128}"
    at_least: int = 0
    is_numbered: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """A mapping with fixed names."""

    what: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class ByKind:
    """A mapping whose `kind` decides which names it has."""

    what: str
    kinds: tuple[tuple[str, Group], ...]


@dataclass(frozen=True, slots=True)
class TextOrList:
    pass


Shape = Text | Whole | Decimal | Truth | Choice | Json | ListOf | TableOf | Group | ByKind | TextOrList


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    shape: Shape
    about: str
    required: bool = False


_NAME = "[A-Za-z_][A-Za-z0-9_]{0,63}"

LIMITS: Final = Group(
    "limits",
    (
        Field("time_s", Decimal(0.001), "Seconds of work, all attempts together."),
        Field("tokens", Whole(1), "Tokens read and written."),
        Field("steps", Whole(1), "Answers of the provider and tool calls."),
        Field("cost", Decimal(0.0), "Cost, where prices are configured."),
    ),
)
BACKOFF: Final = Group(
    "backoff",
    (
        Field("first_s", Decimal(0, 86_400), "Seconds before the first retry."),
        Field("factor", Decimal(1, 100), "How many times longer each further wait is."),
        Field("max_s", Decimal(0, 86_400), "The longest wait in seconds."),
    ),
)
CONTEXT: Final = Group(
    "context",
    (
        Field("retry", Truth(), "Hand what the failed try before it left to a retry."),
        Field("failure_route", Truth(), "Hand on what a failed node left, where its failure led here."),
        Field("join", Truth(), "Hand on a table of a spawn's children, one line each, the failed ones first."),
        Field("policy", TableOf(Whole(0), _NAME), "Numbers of the handoff policy that differ from v1."),
    ),
)
PHASE: Final = Group(
    "phase",
    (
        Field("handoff_fields", ListOf(Text()), "Which fields of earlier phases are handed on."),
        Field("narrative_cap", Whole(0), "Characters of the narrative; 0: none where fields are named, else 1000."),
        Field("max_tokens", Whole(0), "Tokens of the whole phase context; 0 is no limit."),
    ),
)
PRICE: Final = Group(
    "price",
    (
        Field("input_per_million", Decimal(), "Price of a million tokens read."),
        Field("output_per_million", Decimal(), "Price of a million tokens written."),
    ),
)
INPUT: Final = Group(
    "input",
    (
        Field("type", Choice(INPUT_TYPES), "What kind of value it is; string unless given."),
        Field("required", Truth(), "The run does not start without it."),
        Field("default", Json(), "The value when it is not given."),
        Field("description", Text(), "What it is for."),
    ),
)

_ATTEMPTS = Field("attempts", Whole(1, 100), "Tries of one visit, the first included.")
_BACKOFF = Field("backoff", BACKOFF, "How long a retry waits.")
_LIMITS = Field("limits", LIMITS, "What all attempts of a visit may use together.")
_CONTEXT = Field("context", CONTEXT, "Extensions of the handoff, all off unless asked for.")
_INGEST = Field("ingest", Truth(), "Write the files that the document declares into workspace/.")
_INGEST_ERRORS = Field("ingest_errors", Choice(("continue", "fail")), "What a file that cannot be written does.")
_WORKTREE = Field("worktree", Truth(), "Work in a git worktree of its own.")
_PROVIDER = Field("provider", Text(128, may_be_empty=False), "Who answers the prompt.")
_OPTIONS = Field("options", TableOf(Json()), "What the provider is told besides: model, temperature, command …")
_SYSTEM = Field("system", Text(256), "Template of the system prompt.")
_TOOLS = Field("tools", ListOf(Text(128)), "Tools that the agent may use.")
_OUTPUT = Field("output", Text(1024), "Document below docs/ or audits/; <run> and <n> (the visit) are filled in.")
_REQUIRED_OUTPUT = Field("output", Text(1024), _OUTPUT.about, required=True)
_SOURCE = Field("source", Text(128), "Node whose latest report is used.")

_COMMON = (
    Field("kind", Text(32), "What the node does.", required=True),
    Field("description", Text(), "For readers."),
    Field("select", Choice(("first", "all")), "Take the first edge that matches, or all of them (a branch)."),
    _LIMITS,
)
_RETRIES = (_ATTEMPTS, _BACKOFF)
_DOCUMENT = (_OUTPUT, _INGEST, _INGEST_ERRORS)

_AGENT = Group(
    "agent node",
    (
        *_COMMON,
        Field("template", Text(256), "Template of the prompt.", required=True),
        Field("args", TableOf(Json(), _NAME), "Arguments of the template; ${inputs.x} is filled in."),
        *(_SYSTEM, _PROVIDER, _OPTIONS, _TOOLS, *_RETRIES, *_DOCUMENT, _CONTEXT, _WORKTREE),
        Field("phase", Whole(1, 1000), "The phase this node ends with a handoff."),
        Field("produces", Choice(("discovery_report", "planning_tickets")), "Checked documents its result must hold."),
    ),
)
_COMMAND = Group(
    "command node",
    (
        *_COMMON,
        Field("run", ListOf(Text(), at_least=1), "The program and its words; no shell.", required=True),
        Field("cwd", Text(1024), "Directory below the project."),
        Field("env", TableOf(Text(), "[A-Za-z_][A-Za-z0-9_]{0,127}"), "Variables added to its environment."),
        Field("success_codes", ListOf(Whole(0, 255), at_least=1), "Exit codes that count as success."),
        Field("evidence", Choice(("tests", "build", "merge")), "Record the outcome as evidence of this kind."),
        *(*_RETRIES, *_DOCUMENT, _WORKTREE),
    ),
)
_WORKFLOW = Group(
    "workflow node",
    (
        *_COMMON,
        Field(
            "workflow", Text(1024, may_be_empty=False), "A built-in workflow or a file beside this one.", required=True
        ),
        Field("inputs", TableOf(Json(), _NAME), "Values for its inputs; ${inputs.x} is filled in."),
    ),
)
NODE_KINDS: Final[dict[str, Group]] = {
    "agent": _AGENT,
    "command": _COMMAND,
    "write_file": Group(
        "write_file node",
        (
            *_COMMON,
            *(_REQUIRED_OUTPUT, _INGEST, _INGEST_ERRORS, _SOURCE),
            Field("content", Text(), "What to write; ${inputs.x} is filled in."),
        ),
    ),
    "gate": Group(
        "gate node",
        (
            *_COMMON,
            Field("ask", Text(may_be_empty=False), "The question to a person.", required=True),
            Field("answers", ListOf(Choice(DECISIONS), at_least=1), "Decisions the person may choose from."),
        ),
    ),
    "spawn": Group(
        "spawn node",
        (
            *_COMMON,
            Field(
                "each",
                ByKind("child", (("agent", _AGENT), ("command", _COMMAND), ("workflow", _WORKFLOW))),
                "The node that is run for each item; ${item}, ${item.x}, ${index}, ${name} are filled in.",
                required=True,
            ),
            Field("items", TextOrList(), "A list, or where one is: report.… or inputs.…"),
            _SOURCE,
            Field("max_items", Whole(1, 10_000), "More items than this fail the node."),
            Field("parallel", Whole(1, 1000), "Children at work at one time."),
            Field("child_errors", Choice(("fail", "continue")), "What a child that failed does to the node."),
        ),
    ),
    "join": Group("join node", (*_COMMON, *_DOCUMENT)),
    "workflow": _WORKFLOW,
}
EDGE: Final = Group(
    "edge",
    (
        Field("from", Text(128), "Where it starts.", required=True),
        Field("to", Text(128), "Where it leads.", required=True),
        Field("on", Choice(("success", "failure", "terminal")), "The outcome it is for; terminal is both."),
        Field("priority", Whole(-(10**6), 10**6), "Lower ones are asked first."),
        Field("when", Text(1000), "A guard over decision, report, inputs and attempt, or auto."),
        Field("max_loops", Whole(1, 1000), "For an edge that leads back: how often it may be selected in a run."),
    ),
)
DEFAULTS: Final = Group(
    "defaults",
    (
        *(_PROVIDER, _OPTIONS, _SYSTEM, _TOOLS, _ATTEMPTS, _BACKOFF, _LIMITS, _CONTEXT),
        *(_INGEST, _INGEST_ERRORS, _WORKTREE),
    ),
)
NODE: Final = ByKind("node", tuple(NODE_KINDS.items()))
WORKFLOW: Final = Group(
    "workflow",
    (
        Field("name", Text(64, may_be_empty=False), "The workflow's name.", required=True),
        Field("description", Text(), "What it is for."),
        Field("inputs", TableOf(INPUT, _NAME), "What a run is given."),
        Field("defaults", DEFAULTS, "Values for nodes that do not say otherwise."),
        Field("limits", LIMITS, "What the whole run may use."),
        Field(
            "phases",
            TableOf(PHASE, "[1-9][0-9]{0,2}", is_numbered=True),
            "Phase manifests that differ from the defaults.",
        ),
        Field("prices", TableOf(PRICE), "Prices by model."),
        Field("nodes", TableOf(NODE, NODE_KEY.pattern, at_least=1), "The steps, by key.", required=True),
        Field("edges", ListOf(EDGE), "The ways between them."),
    ),
)
