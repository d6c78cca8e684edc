"""Scopes of a run: what an agent, and the agents below it, record. Every key derives from the scope's own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from msgspec import UNSET

from sapwood.core.artifacts import ValidationError
from sapwood.core.codec import to_record
from sapwood.core.envelope import CONTENT_TYPES
from sapwood.core.events import GraphEvent
from sapwood.core.expect import expect
from sapwood.core.instants import instant_of_ms
from sapwood.core.keys import ArtifactKey
from sapwood.core.kind import Artifact
from sapwood.core.prompt import Contribution, Contributor
from sapwood.core.record import Record
from sapwood.core.template import Templated, TemplateId
from sapwood.errors import InvalidArtifact, SapwoodError, ScopeEnded, WrongArgument, shown
from sapwood.runtime.prompts import compose
from sapwood.runtime.records import (
    checked_text,
    event_record,
    json_record,
    offered_record,
    result_record,
    text_record,
)
from sapwood.runtime.shielded import shielded

if TYPE_CHECKING:
    from sapwood.runtime.run import Run

FILLED_IN: Final = frozenset({"artifact_id", "attempt", "created_at", "media", "node_key", "run_node_id"})
FILLED_IN_PROMPT: Final = frozenset({"media", "part", "renderer", "renderer_version", "template_id"})


class Prompt(str):
    """The exact text that was recorded for a provider; `key` is its artifact."""

    __slots__ = ("key",)
    key: ArtifactKey

    @property
    def text(self) -> str:
        return str(self)


class Scope:
    """Something that records below its own key until it ends. Usable with `with` and with `async with`."""

    def __init__(self, run: Run, key: ArtifactKey) -> None:
        self.key = key
        self._run = run
        self._ended = False

    def add(self, artifact: Artifact) -> None:
        """Record an artifact of any kind whose key was made by `child_key`; one whose key is taken is refused."""
        if self._ended:
            raise ScopeEnded(self.key.text)
        record = offered_record(artifact)
        if not self._run.key.is_ancestor_of(record.key):
            raise InvalidArtifact(f"{record.kind} {record.key}", f"not below run {self._run.key}; ask child_key()")
        self._run.recorder.publish([record])

    def child_key(self) -> ArtifactKey:
        """Return a new key directly below this scope."""
        return self._run.keys.child(self.key)

    def flush(self) -> None:
        """Return when everything recorded so far is committed and synced."""
        self._run.recorder.flush()

    def _record(self, records: Sequence[Record]) -> None:
        if self._ended:
            raise ScopeEnded(self.key.text)
        self._run.recorder.record(records)

    def _end(self, error: BaseException | None) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end(error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await shielded(self._end, error)


class Agent(Scope):
    """One attempt of one node, and all that it did."""

    def __init__(self, run: Run, key: ArtifactKey, name: str, attempt: int, run_node_id: int) -> None:
        super().__init__(run, key)
        self.name = name
        self.attempt = attempt
        self.run_node_id = run_node_id
        self._lock = threading.Lock()  # for the one key of the result, below which every thread reports
        self._result_key: ArtifactKey | None = None
        self._result: dict[str, Any] = {}

    def agent(self, name: str, request: Any = UNSET, **fields: Any) -> Agent:
        """Start a sub-agent: a scope of its own below this one."""
        if self._ended:
            raise ScopeEnded(self.key.text)
        return self._run.start_agent(self.child_key(), name, request, fields)

    def prompt(
        self,
        template: str | Templated,
        args: Mapping[str, Any] | None = None,
        contributions: Sequence[Contribution | Contributor] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> Prompt:
        """Render a template, add the contributions, and record the text with all that it is made of.

        A template defined in code is registered by its first use. A contributor is asked for its text. `metadata` is
        kept with the text.
        """
        free = _free("RenderedPrompt", metadata or {}, FILLED_IN_PROMPT)
        if not isinstance(template, str) and not isinstance(getattr(template, "template_id", None), TemplateId):
            raise WrongArgument("template", template, "a template id, or a template defined in code")
        try:
            composed = compose(self._run.templates, template, {} if args is None else args, contributions, self.name)
            text = Prompt(composed.text)
            text.key = self.child_key()
            records = composed.records(text.key, self._run.keys.child, metadata=free)
        except SapwoodError as error:
            self._refuse(error, str.__str__(template) if isinstance(template, str) else template.template_id.text)
            raise
        self._run.recorder.know(composed.rendered.version.key)
        self._record(records)
        return text

    def tool_call(
        self,
        tool: str,
        input: Any = UNSET,  # noqa: A002  # the public name
        output: Any = UNSET,
        *,
        call_id: str | None = None,
        status: str | None = None,
        error: str | None = None,
    ) -> ArtifactKey:
        """Record one use of a tool with what went in and what came out; return its key."""
        child = self._run.keys.child
        key = child(self.key)
        about: dict[str, Any] = {"tool": checked_text("ToolCallArtifact.tool", tool)}
        for name, value in (("call_id", call_id), ("status", status), ("error", error)):
            if value is not None:
                about[name] = checked_text(f"ToolCallArtifact.{name}", value)
        records = [json_record(key, "ToolCallArtifact", about)]
        if input is not UNSET:
            records.append(json_record(child(key), "ToolInput", input))
        if output is not UNSET:
            records.append(json_record(child(key), "ToolOutput", output))
        self._record(records)
        return key

    def emit(self, event: GraphEvent | Mapping[str, Any]) -> ArtifactKey:
        """Record a graph event, of any of the 37 types, below this agent; return its key."""
        key = self.child_key()
        self._record([event_record(key, event)])
        return key

    def report(self, text: str, content_type: str = "markdown", **metadata: Any) -> ArtifactKey:
        """Record what this node hands on; return its key."""
        return self._say("Report", text, content_type, metadata)

    def note(self, text: str, content_type: str = "text", **metadata: Any) -> ArtifactKey:
        """Record what this node noted on the side; return its key."""
        return self._say("Note", text, content_type, metadata)

    def log(self, text: str, content_type: str = "text", **metadata: Any) -> ArtifactKey:
        """Record what a failed node left; return its key."""
        return self._say("Log", text, content_type, metadata)

    def result(self, result: Any = UNSET, **fields: Any) -> None:
        """Say what this agent gives; recorded with its status when its scope ends."""
        said = self._result | (fields if result is UNSET else {"result": result, **fields})
        result_record(self.key, "completed", said)  # refuses here what could not be recorded at the end
        self._result = said

    def flush(self) -> None:
        """Return when everything recorded so far is committed and synced."""
        if self._ended:
            raise ScopeEnded(self.key.text)
        super().flush()

    def _say(self, kind: str, text: str, content_type: str, metadata: dict[str, Any]) -> ArtifactKey:
        if content_type not in CONTENT_TYPES:
            raise InvalidArtifact(
                f"{kind}.content_type", f"{shown(content_type)}; expected one of {', '.join(CONTENT_TYPES)}"
            )
        self._run.recorder.check_open()  # in a forked child, before the locks that some thread of the parent held
        child = self._run.keys.child
        with self._lock:
            if self._result_key is None:
                self._result_key = child(self.key)
        key = child(self._result_key)
        about = {
            **_free(kind, metadata, FILLED_IN),
            "artifact_id": self._run.ids.next_artifact_id(),
            "attempt": self.attempt,
            "content_type": content_type,
            "created_at": instant_of_ms(key.time_ms),
            "node_key": self.name,
            "run_node_id": self.run_node_id,
        }
        self._record([text_record(key, kind, text, about)])
        return key

    def _refuse(self, error: SapwoodError, where: str) -> None:
        place = where.encode("utf-8", "backslashreplace").decode()  # what is refused need not be valid Unicode
        refusal = ValidationError(self.child_key(), code=type(error).__name__, message=str(error), where=place)
        self._record([to_record(refusal)])

    def _end(self, error: BaseException | None) -> None:
        """Write the result and sync; what interrupts (no `Exception`) leaves the scope without a result."""
        if self._ended:
            return
        if error is None or isinstance(error, Exception):
            fields = dict(self._result)
            if error is not None:
                fields["error"] = f"{type(error).__name__}: {error}"
            key = self._result_key or self.child_key()
            self._record([result_record(key, "failed" if error else "completed", fields)])
        self._run.recorder.flush()
        self._ended = True


def _free(kind: str, metadata: Mapping[str, Any], filled_in: frozenset[str]) -> Mapping[str, Any]:
    """Return what a caller says of a text; refuse names that are filled in here, and a manifest that is none."""
    expect(metadata, Mapping, "metadata", "a table of free names")
    for name in filled_in & metadata.keys():
        raise InvalidArtifact(f"{kind}.{name}", "filled in by the recording call; expected another name")
    manifest = metadata.get("context_manifest")
    if manifest is not None and type(manifest) is not dict:
        raise InvalidArtifact(f"{kind}.context_manifest", f"{type(manifest).__name__}; expected None or dict")
    return metadata


def is_interruption(error: BaseException | None) -> bool:
    """Tell whether a run that is left this way stays open: Ctrl-C, exit, cancellation."""
    return error is not None and (not isinstance(error, Exception) or isinstance(error, asyncio.CancelledError))
