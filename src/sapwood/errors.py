"""Every exception this package raises on purpose, as one tree.

SapwoodError
├─ InvalidInput                what was given is wrong; nothing was changed                           exit code 2
│   ├─ InvalidKey              not an artifact key
│   │   └─ KeyTooDeep          an artifact key of more than 64 segments
│   ├─ WrongArgument           An argument of the wrong type, or a wrong value where no other error fits
│   ├─ InvalidTemplateId       not a template id
│   ├─ InvalidGuard            the `when` of an edge that does not parse
│   ├─ InvalidWorkflow         a workflow file with mistakes; carries all of them
│   ├─ InvalidInputs           values for a workflow's inputs that do not fit them
│   ├─ InvalidScript           a file of scripted answers that cannot be used
│   ├─ InvalidText             text that cannot be UTF-8 (a lone surrogate)
│   ├─ NotCanonical            a value that has no canonical JSON form
│   ├─ InvalidHandoff          a field of an upstream artifact, a policy or a handoff that no envelope may carry
│   ├─ InvalidEnvelope         text that is not exactly one context entry
│   ├─ InvalidPhase            a field of a phase manifest or a phase handoff
│   ├─ InvalidArtifact         an artifact or event with a wrong field, or bytes that do not fit its kind
│   ├─ UnknownTokenizer        a token counter that is not installed or does not exist
│   ├─ InvalidSettings         a flag, variable or file of the configuration
│   ├─ TemplateError           a template that cannot be registered or rendered; has template_id, line and cause
│   │   ├─ TemplateNotStatic   its text cannot be kept as it is (a carriage return, a lone surrogate)
│   │   ├─ TemplateSyntax      it does not parse, or uses a tag, filter or test that is not there
│   │   ├─ UndeclaredVariable  it uses names that it does not declare: unresolved placeholders
│   │   ├─ InvalidArguments    arguments that are not declared, or that are no JSON
│   │   ├─ UndefinedValue      it uses a value that was not given
│   │   ├─ TemplateForbidden   it asks for something that the sandbox does not give
│   │   ├─ TemplateLimit       it goes over a limit of size, time or memory
│   │   ├─ TemplateFailed      its rendering failed in another way (a wrong type, a division by zero)
│   │   │   └─ TemplateNotRun  the process that renders untrusted templates cannot be started here
│   │   ├─ TemplateConflict    two files define one id differently
│   │   └─ TemplateCollision   another text with the same hash is stored                              exit code 4
│   ├─ PathRefused             a path that is not written to
│   └─ InvalidAnswer           an answer that the gate does not offer
├─ NotFound                    what was asked for is not there                                        exit code 3
├─ DocumentNotWritten          a node's document could not be brought to the disk
├─ IngestFailed                a document's files did not all land, and the settings say to fail
├─ ProviderError               a provider did not do its job
│   ├─ ProviderFailed          it says that it failed, or it could not be started
│   └─ ProviderBrokeProtocol   no result, two results, or an event after the result
├─ ClockOutOfRange             the clock shows a time that no key can carry
├─ EngineBroken                its database cannot be used
├─ EngineBusy                  this process already has an engine
├─ EngineFailed                the engine gave a run up; what was recorded stays
├─ EngineStuck                 a run asks for a visit that has ended
├─ NotEnriched                 a request without its context id or its previous context
├─ LimitReached                a node or a run used more than it may
├─ WorktreeFailed              a git worktree that could not be made or merged
├─ SpawnRefused                a spawn node whose items are no list, or too many
├─ RunBusy                     another live process is at this run
├─ RecordingRefused            the record would no longer be true; what is stored is unchanged
│   ├─ DuplicateKey            a key that is already stored; the first artifact stays
│   ├─ DuplicateClaim          somebody else already did this (run, node, attempt, delivery, role)
│   ├─ RunSealed               nothing is added to a run that has its Seal
│   ├─ RunChanged              the run grew while it was being sealed
│   ├─ DanglingReference       a reference to an artifact that is not stored
│   ├─ IncompleteRun           the completion gate said no
│   └─ ScopeEnded              a scope or run that has already been left
└─ StoreError                  the store could not do it
    ├─ StoreClosed             the store was closed, or belongs to the process before a fork
    ├─ StoreBusy               another process kept the write lock too long
    ├─ StoreUnwritable         disk full, read-only or failing; earlier data is intact, try again when it is fixed
    │   └─ SyncFailed          the disk did not confirm a sync; the store reopened itself and checked what it has
    ├─ StoreDamaged            the file is not what was written
    └─ WrongStore              not a Sapwood store, or one of a newer version

Each message is one line: what happened, where, and what was expected or what to do. The facts are attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

_MESSAGE_CHARS: Final = 1000


class SapwoodError(Exception):
    """Anything this package raises on purpose."""

    exit_code = 4

    def __init__(self, message: str) -> None:
        super().__init__(_one_line(message))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), str(self), vars(self))  # the arguments of a subclass are no longer there


class InvalidInput(SapwoodError):
    """What was given is wrong; nothing was changed."""

    exit_code = 2


class InvalidKey(InvalidInput):
    def __init__(self, text: object) -> None:
        super().__init__(f"not an artifact key: {shown(text)}; expected ak:<ULID>[/<ULID>...] in upper case")
        self.text = text


class KeyTooDeep(InvalidKey):
    def __init__(self, depth: int, limit: int) -> None:
        InvalidInput.__init__(self, f"artifact key with {depth} segments; the limit is {limit}")
        self.depth = depth
        self.limit = limit


class WrongArgument(InvalidInput):
    """An argument of the wrong type, or a wrong value where no other error fits."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        super().__init__(f"argument {name} is {shown(value)}; expected {expected}")
        self.name = name
        self.value = value
        self.expected = expected


class InvalidTemplateId(InvalidInput):
    def __init__(self, text: object, why: str) -> None:
        super().__init__(f"not a template id: {shown(text)}: {why}; expected a form like tpl.agent.discovery.prompt")
        self.text = text
        self.why = why


class InvalidGuard(InvalidInput):
    def __init__(self, text: str, position: int, why: str) -> None:
        super().__init__(f"guard {shown(text)}: at character {position}: {why}")
        self.text = text
        self.position = position
        self.why = why


class InvalidWorkflow(InvalidInput):
    """`findings` holds every mistake with its file, line, column, what is wrong and what is allowed."""

    def __init__(self, source: str, findings: Sequence[object]) -> None:
        many = f"{len(findings)} mistakes, the first: " if len(findings) > 1 else ""
        super().__init__(f"{many}{findings[0]}" if findings else f"{source} is no workflow")
        self.source = source
        self.findings = tuple(findings)


class InvalidInputs(InvalidInput):
    """`problems` holds one sentence for each input that does not fit."""

    def __init__(self, workflow: str, problems: Sequence[str]) -> None:
        super().__init__(f"inputs of workflow {workflow}: {'; '.join(problems)}")
        self.workflow = workflow
        self.problems = tuple(problems)


class InvalidScript(InvalidInput):
    def __init__(self, source: str, where: str, why: str) -> None:
        super().__init__(f"scripted answers {source}: {where}: {why}")
        self.source = source
        self.where = where
        self.why = why


class InvalidText(InvalidInput):
    def __init__(self, field: str, position: int) -> None:
        super().__init__(f"{field} holds a lone surrogate at character {position}; stored text must be valid Unicode")
        self.field = field
        self.position = position


class NotCanonical(InvalidInput):
    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"no canonical JSON for the value at {_middle_cut(path)}: {why}")
        self.path = path
        self.why = why


class InvalidHandoff(InvalidInput):
    def __init__(self, field: str, value: object, expected: str) -> None:
        super().__init__(f"handoff field {field} is {shown(value)}; expected {expected}")
        self.field = field
        self.value = value
        self.expected = expected


class InvalidEnvelope(InvalidInput):
    def __init__(self, why: str) -> None:
        super().__init__(f"not a context entry: {why}; expected exactly one entry, as assemble_handoff gives it")
        self.why = why


class InvalidPhase(InvalidInput):
    def __init__(self, field: str, value: object, expected: str) -> None:
        super().__init__(f"phase field {field} is {shown(value)}; expected {expected}")
        self.field = field
        self.value = value
        self.expected = expected


class InvalidArtifact(InvalidInput):
    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}")
        self.where = where
        self.why = why


class UnknownTokenizer(InvalidInput):
    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"tokenizer {shown(name)}: {why}; chars/4 is always there")
        self.name = name
        self.why = why


class InvalidSettings(InvalidInput):
    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"setting {where}: {why}")
        self.where = where
        self.why = why


class TemplateError(InvalidInput):
    """A template that cannot be registered or rendered: which one, in which line, and why."""

    def __init__(
        self, cause: str, *, template_id: str | None = None, line: int | None = None, names: tuple[str, ...] = ()
    ) -> None:
        where = f"template {template_id}" if template_id else "template"
        super().__init__(f"{where}{f', line {line}' if line else ''}: {cause}")
        self.cause = _one_line(cause)
        self.template_id = template_id
        self.line = line
        self.names = names


class TemplateNotStatic(TemplateError):
    """The text cannot be kept as it is."""


class TemplateSyntax(TemplateError):
    """The text does not parse, or uses a tag, filter or test that is not there."""


class UndeclaredVariable(TemplateError):
    """The text uses `names` that it does not declare."""


class InvalidArguments(TemplateError):
    """Arguments that are not declared (`names`), or that are no JSON."""


class UndefinedValue(TemplateError):
    """The template uses a value that was not given."""


class TemplateForbidden(TemplateError):
    """The template asks for something that the sandbox does not give."""


class TemplateLimit(TemplateError):
    """The template goes over a limit of size, time or memory."""


class TemplateFailed(TemplateError):
    """The rendering failed in another way."""


class TemplateNotRun(TemplateFailed):
    """The process that renders untrusted templates cannot be started here."""


class TemplateConflict(TemplateError):
    """Two files define one id differently; `names` are the files."""


class TemplateCollision(TemplateError):
    """Another text with the same id and hash is stored."""

    exit_code = 4


class NotFound(SapwoodError):
    """What was asked for is not there."""

    exit_code = 3

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(f"{what} not found" + (f"; {hint}" if hint else ""))
        self.what = what


class PathRefused(InvalidInput):
    def __init__(self, path: str, reason: str, allowed: str) -> None:
        super().__init__(f"cannot write {shown(path)}: {reason}; {allowed}")
        self.path = path
        self.reason = reason


class DocumentNotWritten(SapwoodError):
    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"cannot write {shown(path)}: {reason}")
        self.path = path
        self.reason = reason


class IngestFailed(SapwoodError):
    def __init__(self, manifest: dict[str, Any], problems: Sequence[str]) -> None:
        summary = manifest["summary"]
        why = f"; {problems[0]}" if problems else ""
        super().__init__(
            f"ingest: {summary['rejected']} of {summary['total_blocks']} blocks rejected{why}; the manifest says why"
        )
        self.manifest = manifest
        self.problems = tuple(problems)


class ProviderError(SapwoodError):
    """A provider did not do its job."""

    def __init__(self, provider: str, why: str) -> None:
        super().__init__(f"provider {provider}: {why}")
        self.provider = provider
        self.why = why


class ProviderFailed(ProviderError):
    """`retryable` is False where another try would end the same way."""

    def __init__(self, provider: str, why: str, *, retryable: bool = True) -> None:
        super().__init__(provider, why)
        self.retryable = retryable


class ProviderBrokeProtocol(ProviderError):
    """The stream of events had no result, more than one, or went on after it."""


class ClockOutOfRange(SapwoodError):
    def __init__(self, now_ms: object) -> None:
        super().__init__(
            f"the clock shows {shown(now_ms)} ms; a key carries whole milliseconds from 0 to 2**48 - 1, set the clock"
        )
        self.now_ms = now_ms


class EngineBroken(SapwoodError):
    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} cannot be used: {why}; remove it, nothing is lost: runs go on from what is recorded")
        self.path = path
        self.why = why


class EngineBusy(SapwoodError):
    def __init__(self) -> None:
        super().__init__("this process already has an engine running; close it first, or give it this run too")


class EngineFailed(SapwoodError):
    def __init__(self, run: str, why: str) -> None:
        super().__init__(f"run {run} stopped: {why}; `sapwood resume {run}` goes on with it")
        self.run = run
        self.why = why


class EngineStuck(SapwoodError):
    def __init__(self, run: str, visit: str) -> None:
        super().__init__(f"run {run} asks again for {visit}, which has ended; resume the run, and report this")
        self.run = run
        self.visit = visit


class InvalidAnswer(InvalidInput):
    def __init__(self, node: str, answer: str, allowed: tuple[str, ...]) -> None:
        super().__init__(f"gate {node} does not take {shown(answer)}; it takes {', '.join(allowed)}")
        self.node = node
        self.answer = answer
        self.allowed = allowed


class NotEnriched(SapwoodError):
    def __init__(self, node: str, attempt: int, what: str) -> None:
        super().__init__(
            f"attempt {attempt} of node {node} cannot be executed: {what}; requests come from enrich() alone"
        )
        self.node = node
        self.attempt = attempt
        self.what = what


class LimitReached(SapwoodError):
    """Another try would not help: `retryable` is False."""

    retryable = False

    def __init__(self, scope: str, name: str, used: float, limit: float) -> None:
        super().__init__(f"{scope} is over its limit: {name} {used:g} of {limit:g}; raise limits.{name} to allow more")
        self.scope = scope
        self.name = name
        self.used = used
        self.limit = limit


class WorktreeFailed(SapwoodError):
    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"worktree of {where}: {why}")
        self.where = where
        self.why = why


class SpawnRefused(SapwoodError):
    def __init__(self, node: str, why: str) -> None:
        super().__init__(f"node {node} cannot spawn: {why}")
        self.node = node
        self.why = why


class RunBusy(SapwoodError):
    def __init__(self, run: str, owner: str) -> None:
        super().__init__(f"run {run} is being executed by a live process ({owner}); wait for it, or cancel it there")
        self.run = run
        self.owner = owner


class RecordingRefused(SapwoodError):
    """The record would no longer be true; what is stored is unchanged."""


class DuplicateKey(RecordingRefused):
    def __init__(self, keys: Sequence[str]) -> None:
        more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
        super().__init__(f"already stored: {keys[0]}{more}; the first artifact stays, this one was refused")
        self.keys = tuple(keys)


class DuplicateClaim(RecordingRefused):
    def __init__(self, claim: str) -> None:
        super().__init__(f"already claimed: {claim}; read what is recorded there instead")
        self.claim = claim


class RunSealed(RecordingRefused):
    def __init__(self, run: str, status: str) -> None:
        super().__init__(f"run {run} is sealed ({status}); nothing is added to it, use evidence() or a new run")
        self.run = run
        self.status = status


class RunChanged(RecordingRefused):
    def __init__(self, run: str, expected: int, found: int) -> None:
        super().__init__(f"run {run} has {found} artifacts, {expected} were judged; judge it again")
        self.run = run


class DanglingReference(RecordingRefused):
    def __init__(self, source: str, target: str) -> None:
        super().__init__(f"{source} refers to {target}, which is not stored; store the target first")
        self.source = source
        self.target = target


class IncompleteRun(RecordingRefused):
    def __init__(self, run: str, problems: Sequence[str]) -> None:
        super().__init__(f"run {run} cannot complete: {'; '.join(problems)}")
        self.run = run
        self.problems = tuple(problems)


class ScopeEnded(RecordingRefused):
    def __init__(self, key: str) -> None:
        super().__init__(
            f"scope {key} has ended; agent() begins another attempt, evidence() adds to a run that is sealed"
        )
        self.key = key


class StoreError(SapwoodError):
    """The store could not do it."""


class StoreClosed(StoreError):
    def __init__(self, where: str, why: str = "it was closed") -> None:
        super().__init__(f"store {where} cannot be used: {why}; open it again")
        self.where = where


class StoreBusy(StoreError):
    def __init__(self, where: str, waited_s: float) -> None:
        super().__init__(f"store {where} was locked by another process for {waited_s:g} s; try again")
        self.where = where


class StoreUnwritable(StoreError):
    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"store {where} cannot be written: {why}; what was recorded before is intact")
        self.where = where
        self.why = why


class SyncFailed(StoreUnwritable):
    """The disk did not confirm a sync; what it covered is not known to survive a power cut."""


class StoreDamaged(StoreError):
    def __init__(self, where: str, why: str) -> None:
        what_to_do = "keep a copy; what sapwood verify cannot read is only in a backup"
        super().__init__(f"store {where} is damaged: {why}; {what_to_do}")
        self.where = where
        self.why = why


class WrongStore(StoreError):
    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"cannot open {where}: {why}")
        self.where = where
        self.why = why


def _rebuilt(cls: type[SapwoodError], message: str, facts: dict[str, Any]) -> SapwoodError:
    error = cls.__new__(cls, message)
    vars(error).update(facts)
    return error


def _middle_cut(path: str) -> str:
    """Return a path of which beginning and end can be read, and so what follows it too."""
    return path if len(path) <= 300 else f"{path[:150]}…{path[-150:]}"


def _one_line(text: str) -> str:
    """Return `text` without line breaks and other control characters, and not longer than a message should be."""
    clean = text[:_MESSAGE_CHARS]
    if not clean.isprintable():
        clean = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in clean)
    return clean if len(text) <= _MESSAGE_CHARS else f"{clean}…"


def shown(value: object) -> str:
    """Return `value` for a message: quoted, on one line, and short."""
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__} that cannot be shown"  # an integer of 5,000 digits, or a broken __repr__
    return text if len(text) <= 120 else f"{text[:100]}… ({len(text)} characters)"


def plain_words(error: Exception) -> str:
    """Return an error's own words on one line; of the system's errors what happened, for its place has been named."""
    return (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())
