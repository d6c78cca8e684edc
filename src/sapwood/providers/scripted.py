"""A provider that answers from a file: per node, per attempt. Offline, exact, and as slow or as faulty as it is told.

    answers:
      draft:                        # the node; `tasks.*` stands for every child of tasks
        - {fail: out of memory}     # attempt 1
        - report: "# Draft"         # attempt 2 and every later one
          decision: approved
          data: {quality: {score: 0.9}}
          events: [{type: thought, text: hm}, {type: delta, text: "# Dr"}]
          delay_s: 0.1
          repeat: 3                 # the report that many times
    default: {report: nothing scripted}

A node's `options` may hold `answers` (its own list) or `script` (another file). Without any, it says who was asked; the
nodes of built-in workflows whose results are checked get answers that pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from sapwood.core.events import GraphEvent
from sapwood.core.mistakes import Problem, unknown_name
from sapwood.core.prompt import ProviderRunOptions
from sapwood.core.provider import ProviderResult
from sapwood.core.provider_lines import LineError, Stamp, read_line, read_result
from sapwood.errors import InvalidScript, ProviderFailed, plain_words
from sapwood.providers.stamps import Stamps, real_stamps

UNASKED: Final = Path(__file__).with_name("answers.yaml")
MAX_SCRIPT_BYTES: Final = 16 * 1024 * 1024
MAX_REPORT_CHARS: Final = 64 * 1024 * 1024
_RESULT = ("report", "content_type", "decision", "data", "tokens", "input_tokens")
_KNOWN = (*_RESULT, "fail", "retryable", "events", "delay_s", "repeat")
OPTIONS: Final = ("answers", "script")
_NOBODY = Stamp("0", "check", "2026-01-01T00:00:00.000Z")


@dataclass(frozen=True, slots=True)
class Script:
    """Answers by node pattern, and the answer of every other node."""

    answers: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    default: Mapping[str, Any] | None = None
    source: str = "<script>"

    def __post_init__(self) -> None:
        for node, answers in self.answers.items():
            if isinstance(answers, str) or not isinstance(answers, Sequence) or not answers:
                raise InvalidScript(self.source, node, "expected a list with an answer for each attempt")
            for number, answer in enumerate(answers, 1):
                _check(answer, self.source, f"{node} attempt {number}")
        if self.default is not None:
            _check(self.default, self.source, "default")

    def answer(self, node: str, attempt: int) -> Mapping[str, Any]:
        """Return what is said on this attempt of this node; the last answer stands for all later attempts."""
        for pattern, answers in self.answers.items():
            if pattern == node or fnmatchcase(node, pattern):
                return answers[min(attempt, len(answers)) - 1]
        return self.default or {"report": f"Scripted answer of {node or 'nobody'}, attempt {attempt}."}


def option_problems(settings: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the options that are ours but for their spelling; others may be for the provider this one stands in for."""
    for name in settings:
        if name not in OPTIONS and get_close_matches(name.lower(), OPTIONS, n=1, cutoff=0.75):
            yield Problem((name,), *unknown_name("option", name, OPTIONS), at_key=True)


def load_script(path: str | Path) -> Script:
    """Read a script from a YAML or JSON file."""
    import yaml  # heavy, and used only here

    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_SCRIPT_BYTES + 1)
        if len(content) > MAX_SCRIPT_BYTES:
            raise InvalidScript(str(path), "file", f"larger than {MAX_SCRIPT_BYTES} bytes")
        data = yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 (both are safe)
    except (OSError, yaml.YAMLError, ValueError) as error:
        raise InvalidScript(str(path), "file", plain_words(error)) from None
    if not isinstance(data, Mapping) or not isinstance(data.get("answers", {}), Mapping):
        raise InvalidScript(str(path), "file", "expected a mapping with answers")
    answers = {str(node): given for node, given in data.get("answers", {}).items()}
    return Script(answers, data.get("default"), str(path))


class ScriptedProvider:
    """Answers from a script."""

    def __init__(self, script: Script | None = None, stamps: Stamps | None = None) -> None:
        self._script = script
        self._stamps = stamps or real_stamps()
        self._kept: dict[Path, tuple[tuple[int, int], Script]] = {}

    async def run(self, prompt: str, options: ProviderRunOptions) -> AsyncIterator[GraphEvent | ProviderResult]:
        answer = self._script_for(options).answer(options.node, options.attempt)
        await asyncio.sleep(answer.get("delay_s", 0))
        for line in answer.get("events", ()):
            item = read_line(line, self._stamps(options.node))
            if isinstance(item, LineError):
                raise ProviderFailed("scripted", item.message, retryable=item.retryable)
            yield item
        if "fail" in answer:
            raise ProviderFailed("scripted", str(answer["fail"]), retryable=answer.get("retryable", True))
        result = {name: answer[name] for name in _RESULT if name in answer}
        result["report"] = answer.get("report", _streamed(answer)) * answer.get("repeat", 1)
        yield read_result(result)

    def _script_for(self, options: ProviderRunOptions) -> Script:
        settings = options.settings
        for problem in option_problems(settings):
            raise ProviderFailed("scripted", f"{problem.what}; {problem.allowed}", retryable=False)
        if "answers" in settings:
            return Script({options.node or "*": settings["answers"]}, source=f"options of {options.node}")
        if "script" in settings:
            return self._loaded(Path(options.folder) / str(settings["script"]))
        return self._script or self._loaded(UNASKED)

    def _loaded(self, path: Path) -> Script:
        """Return the script as the file holds it now; one that did not change is read once."""
        try:
            stamp = (path.stat().st_mtime_ns, path.stat().st_size)
        except OSError:
            stamp = (0, 0)
        kept = self._kept.get(path)
        if kept is None or kept[0] != stamp:
            kept = self._kept[path] = stamp, load_script(path)
        return kept[1]


def _streamed(answer: Mapping[str, Any]) -> str:
    return "".join(line["text"] for line in answer.get("events", ()) if line["type"] == "delta")


def _check(answer: Any, source: str, where: str) -> None:
    if not isinstance(answer, Mapping):
        raise InvalidScript(source, where, "an answer is a mapping")
    unknown = [name for name in answer if name not in _KNOWN]
    if unknown:
        raise InvalidScript(source, where, f"unknown {unknown[0]!r}; allowed: {', '.join(_KNOWN)}")
    delay_s, repeat = answer.get("delay_s", 0), answer.get("repeat", 1)
    if isinstance(delay_s, bool) or not isinstance(delay_s, int | float) or not 0 <= delay_s <= 3600:
        raise InvalidScript(source, where, "delay_s is a number of seconds up to 3600")
    if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
        raise InvalidScript(source, where, "repeat is a whole number from 1")
    if not isinstance(answer.get("events", []), Sequence) or isinstance(answer.get("events", []), str):
        raise InvalidScript(source, where, "events is a list")
    try:
        read_result({name: answer[name] for name in _RESULT if name in answer})
        for line in answer.get("events", ()):
            read_line(line, _NOBODY)
    except ValueError as error:
        raise InvalidScript(source, where, str(error)) from None
    if len(answer.get("report", "")) * repeat > MAX_REPORT_CHARS:
        raise InvalidScript(source, where, f"the report is longer than {MAX_REPORT_CHARS} characters")
