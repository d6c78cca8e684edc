"""One contestant, one workload, one process: prints what it measured as one line of JSON.

    python -m benchmarks.record_contestants NAME WORKLOAD FOLDER

Opening the store and making the data come before the clock. A contestant stops the clock when all is durable.
"""

from __future__ import annotations

import gc
import json
import sqlite3
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.record_workload import (
    ARTIFACTS_A_STEP,
    PACE_S,
    STEPS,
    TEMPLATE,
    TEMPLATE_ID,
    VARIABLES,
    Step,
    make_steps,
    payloads,
)

now = time.perf_counter


class Contestant:
    """Records steps. `scope_end_s` is the time of its synced ends, where it can tell them apart."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "record.db"
        self.scope_end_s = 0.0

    def open(self) -> None:
        """Make everything ready; before the clock starts."""

    def begin(self) -> None:
        """Start the run."""

    def step(self, step: Step) -> None:
        """Record one step, durable when this returns."""
        raise NotImplementedError

    def end(self) -> None:
        """End the run; everything is durable and readable by others."""

    def load(self) -> int:
        """Read the whole run back, payloads decoded; return how many units came."""
        raise NotImplementedError

    def close(self) -> None:
        """Give everything back, so that the size of the file can be taken."""


class RawStep(Contestant):
    """Keys, canonical JSON, SHA-256 and one synced transaction a step, without any API: the reference."""

    schema = """create table artifact (id integer primary key, key text not null, parent text, kind text not null,
                hash blob not null, payload blob not null);
                create unique index artifact_key on artifact (key);"""
    insert = "insert into artifact (key, parent, kind, hash, payload) values (?, ?, ?, ?, ?)"

    def open(self) -> None:
        from sapwood import KeyFactory, canonical_json

        self.segment = KeyFactory().segment
        self.encode: Callable[[Any], bytes] = canonical_json
        self.db: Any = sqlite3.connect(self.path, isolation_level=None)
        for pragma in ("journal_mode=wal", "synchronous=full"):
            self.db.execute(f"pragma {pragma}")
        self.db.executescript(self.schema)

    def begin(self) -> None:
        self.root = "ak:" + self.segment()

    def rows(self, step: Step) -> list[tuple[Any, ...]]:
        keys: list[str] = []
        rows: list[tuple[Any, ...]] = []
        for kind, above, value in payloads(step):
            parent = self.root if above is None else keys[above]
            key = f"{parent}/{self.segment()}"
            payload = value.encode() if isinstance(value, str) else self.encode(value)
            keys.append(key)
            rows.append((key, parent, kind, sha256(payload).digest(), payload))
        return rows

    def step(self, step: Step) -> None:
        rows = self.rows(step)
        self.db.execute("begin immediate")
        self.db.executemany(self.insert, rows)
        self.db.execute("commit")

    def load(self) -> int:
        import msgspec

        texts = ("RenderedPrompt", "PromptContribution", "Report")
        decode = msgspec.json.Decoder().decode
        found = [
            (key, parent, kind, digest, payload.decode() if kind in texts else decode(payload))
            for key, parent, kind, digest, payload in self.db.execute(
                "select key, parent, kind, hash, payload from artifact order by key"
            )
        ]
        return len(found)

    def close(self) -> None:
        self.db.execute("pragma wal_checkpoint(truncate)")
        self.db.close()


class RawStepTuned(RawStep):
    """The same with what our store chose: current SQLite, 8 KB pages, packed keys, no checkpoint while recording."""

    schema = """create table artifact (id integer primary key, key blob not null, kind text not null,
                hash blob not null, payload blob not null);
                create unique index artifact_key on artifact (key);"""
    insert = "insert into artifact (key, kind, hash, payload) values (?, ?, ?, ?)"

    def open(self) -> None:
        import apsw

        from sapwood import KeyFactory, canonical_json

        self.number = KeyFactory().number
        self.encode = canonical_json
        self.db = apsw.Connection(str(self.path))
        for pragma in ("page_size=8192", "journal_mode=wal", "synchronous=full", "wal_autocheckpoint=0"):
            self.db.execute(f"pragma {pragma}")
        self.db.execute(self.schema)

    def begin(self) -> None:
        self.packed_root = self.number().to_bytes(16, "big")

    def rows(self, step: Step) -> list[tuple[Any, ...]]:
        keys: list[bytes] = []
        rows: list[tuple[Any, ...]] = []
        for kind, above, value in payloads(step):
            key = (self.packed_root if above is None else keys[above]) + self.number().to_bytes(16, "big")
            payload = value.encode() if isinstance(value, str) else self.encode(value)
            keys.append(key)
            rows.append((key, kind, sha256(payload).digest(), payload))
        return rows

    def load(self) -> int:
        import msgspec

        texts = ("RenderedPrompt", "PromptContribution", "Report")
        decode = msgspec.json.Decoder().decode
        found = [
            (key, kind, digest, payload.decode() if kind in texts else decode(payload))
            for key, kind, digest, payload in self.db.execute(
                "select key, kind, hash, payload from artifact order by key"
            )
        ]
        return len(found)


class LangGraphSaver(Contestant):
    """LangGraph's SqliteSaver called directly: put_writes for the tool calls, one checkpoint a step."""

    def open(self) -> None:
        from langgraph.checkpoint.base import empty_checkpoint  # type: ignore[import-not-found]
        from langgraph.checkpoint.base.id import uuid6  # type: ignore[import-not-found]
        from langgraph.checkpoint.sqlite import SqliteSaver  # type: ignore[import-not-found]

        self.empty, self.uuid6 = empty_checkpoint, uuid6
        self.db = sqlite3.connect(self.path, check_same_thread=False)
        self.saver = SqliteSaver(self.db)
        self.saver.setup()

    def begin(self) -> None:
        thread = {"configurable": {"thread_id": "run", "checkpoint_ns": ""}}
        self.number = 0
        self.config = self.saver.put(thread, self.empty(), {"source": "input", "step": -1}, {})

    def step(self, step: Step) -> None:
        self.number += 1
        checkpoint = self.empty()
        checkpoint["id"] = str(self.uuid6(clock_seq=self.number))
        names = ("request", "args", "prompt", "contributions", "events", "report", "result")
        checkpoint["channel_values"] = {name: getattr(step, name) for name in names}
        checkpoint["channel_versions"] = dict.fromkeys(names, self.number)
        self.saver.put_writes(self.config, [("tools", tool) for tool in step.tools], task_id=str(self.number))
        metadata = {"source": "loop", "step": self.number}
        self.config = self.saver.put(self.config, checkpoint, metadata, checkpoint["channel_versions"])

    def load(self) -> int:
        return len(list(self.saver.list({"configurable": {"thread_id": "run"}}))) - 1

    def close(self) -> None:
        self.db.execute("pragma wal_checkpoint(truncate)")
        self.db.close()


class Sapwood(Contestant):
    """The recording API, as an application calls it: validation, rendering, spool and synced scope ends included."""

    def open(self) -> None:
        import sapwood

        self.contribution = sapwood.Contribution
        self.store = sapwood.open(self.path)
        self.store.templates.register(TEMPLATE_ID, TEMPLATE, variables=VARIABLES)

    def begin(self) -> None:
        self.run = self.store.record(config={"models": ["m-1"]}, inputs={"topic": "trees"}).__enter__()

    def step(self, step: Step) -> None:
        agent = self.run.agent("worker", request=step.request)
        parts = [self.contribution(name, text, order) for order, (name, text) in enumerate(step.contributions)]
        prompt = agent.prompt(TEMPLATE_ID, args=step.args, contributions=parts)
        assert len(prompt) == len(step.prompt)
        for name, given, got in step.tools:
            agent.tool_call(name, input=given, output=got)
        for event in step.events:
            agent.emit(event)
        agent.report(step.report)
        agent.result(step.result)
        ended = now()
        agent.__exit__(None, None, None)
        self.scope_end_s += now() - ended

    def end(self) -> None:
        self.run.__exit__(None, None, None)

    def load(self) -> int:
        return len(self.store.contents(self.run.key))

    def close(self) -> None:
        self.store.close()


CONTESTANTS: dict[str, type[Contestant]] = {
    "sapwood": Sapwood,
    "raw_step": RawStep,
    "raw_step_tuned": RawStepTuned,
    "langgraph_saver": LangGraphSaver,
}


def memory_mb(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return 0.0


def measure(name: str, workload: str, folder: Path) -> dict[str, Any]:
    """Run one contestant on one workload."""
    steps = make_steps(STEPS[workload])
    contestant = CONTESTANTS[name](folder)
    contestant.open()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak of memory counts from here
    before_mb = memory_mb("VmRSS")
    laps, started = [], now()
    contestant.begin()
    for step in steps:
        lap = now()
        contestant.step(step)
        laps.append(now() - lap)
        if workload == "W1p":
            time.sleep(PACE_S)
    contestant.end()
    wall_s = now() - started
    peak_mb = memory_mb("VmHWM")
    lap = now()
    units = contestant.load()
    load_s = now() - lap
    contestant.close()
    artifacts = ARTIFACTS_A_STEP * len(steps)
    return {
        "name": name,
        "workload": workload,
        "wall_s": wall_s,
        "caller_us": sum(laps) / artifacts * 1e6,
        "between_us": (sum(laps) - contestant.scope_end_s) / artifacts * 1e6,
        "step_p99_ms": sorted(laps)[int(len(laps) * 0.99)] * 1e3,
        "load_s": load_s,
        "units": units,
        "added_mb": peak_mb - before_mb,
        "file_bytes": sum(path.stat().st_size for path in folder.iterdir() if path.is_file()),
    }


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
