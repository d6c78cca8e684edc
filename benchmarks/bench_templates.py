"""What templates cost: a start with 1,000 unchanged files, and a recorded render beside the cached render alone."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import sapwood
from sapwood.runtime.scope import Agent
from sapwood.runtime.session import Store
from sapwood.storage.sqlite import SqliteStore
from sapwood.templates.files import load_files, standard_roots
from sapwood.templates.registry import TemplateRegistry
from sapwood.templates.render import Renderer

FILES = 1000
ROUNDS = 15
CALLS = 400
BODY = (
    "{# variables: task, steps, notes -#}\n"
    + "You work on {{ task }}. Follow the rules below, one after the other.\n" * 20
)
BODY += "{% for step in steps %}{{ loop.index }}. {{ step }}\n{% endfor %}{% for note in notes %}- {{ note|upper }}\n{% endfor %}"
ARGS = {
    "task": "the feature",
    "steps": ["look at what is there and write it down"] * 30,
    "notes": ["keep it small"] * 20,
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print_start(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        print_render(Path(folder))


def print_start(folder: Path) -> None:
    for number in range(FILES):
        path = folder / f"templates/family{number % 20}/t{number}.jinja"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{BODY}{number}\n")

    def start() -> float:
        store = SqliteStore(folder / "store.db")
        started = time.perf_counter()
        load_files(TemplateRegistry(store), store, standard_roots(folder))
        took = time.perf_counter() - started
        store.close()
        return took

    first = start()
    again = [start() for _ in range(ROUNDS)]
    print(
        f"start with {FILES} files: first {first * 1000:.0f} ms, unchanged {statistics.median(again) * 1000:.0f} ms "
        f"({min(again) * 1000:.0f}-{max(again) * 1000:.0f}; bar 300 ms)"
    )


def print_render(folder: Path) -> None:
    with sapwood.open(folder / "store.db") as store, store.record() as run, run.agent("bench") as agent:
        print_prompt(store, agent)


def print_prompt(store: Store, agent: Agent) -> None:
    version = store.templates.register("tpl.agent.bench.prompt", BODY)
    renderer = Renderer()
    args_json = store.templates.render("tpl.agent.bench.prompt", ARGS).args_json
    part = sapwood.Contribution("repo_map", "src/a.py\nsrc/b.py", 10)

    def alone() -> None:
        renderer.render(version.text, args_json, version.variables)

    def recorded() -> None:
        agent.prompt("tpl.agent.bench.prompt", ARGS, [part])

    recorded()
    size = len(store.templates.render("tpl.agent.bench.prompt", ARGS).text)
    costs: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        agent.flush()
        costs.append((per_call(alone), per_call(recorded)))
    agent.flush()
    alone_us, recorded_us = (statistics.median(cost) for cost in zip(*costs, strict=True))
    added = [after - before for before, after in costs]
    print(
        f"trusted render of {size} characters: alone {alone_us:.1f} us, recorded {recorded_us:.1f} us, "
        f"added {statistics.median(added):.1f} us ({min(added):.1f}-{max(added):.1f}; bar 60 us)"
    )


def per_call(function: Callable[[], None]) -> float:
    """Return the median microseconds of one call: a commit that falls due on the way is not part of it."""
    times = []
    for _ in range(CALLS):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e6


if __name__ == "__main__":
    main()
