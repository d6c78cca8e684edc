"""Every exception this package raises on purpose, as one tree.

SapwoodError
├─ InvalidInput                what was given is wrong; nothing was changed           exit code 2
│   ├─ InvalidKey              not an artifact key
│   │   └─ KeyTooDeep          an artifact key of more than 64 segments
│   ├─ InvalidTemplateId       not a template id
│   ├─ InvalidText             text that cannot be UTF-8 (a lone surrogate)
│   ├─ NotCanonical            a value that has no canonical JSON form
│   └─ InvalidSettings         a flag, variable or file of the configuration
├─ NotFound                    what was asked for is not there                        exit code 3
├─ ClockOutOfRange             the clock shows a time that no key can carry           exit code 4
├─ EngineBusy                  this process already has an engine                     exit code 4
├─ EngineStuck                 a run asks for a visit that has ended                  exit code 4
└─ RunBusy                     another live process is at this run                    exit code 4

Each message is one line: what happened, where, and what was expected or what to do. The facts are attributes.
"""

from __future__ import annotations


class SapwoodError(Exception):
    """Anything this package raises on purpose."""

    exit_code = 4


class InvalidInput(SapwoodError):
    """What was given is wrong; nothing was changed."""

    exit_code = 2


class InvalidKey(InvalidInput):
    def __init__(self, text: object) -> None:
        super().__init__(f"not an artifact key: {_shown(text)}; expected ak:<ULID>[/<ULID>...] in upper case")
        self.text = text


class KeyTooDeep(InvalidKey):
    def __init__(self, depth: int, limit: int) -> None:
        InvalidInput.__init__(self, f"artifact key with {depth} segments; the limit is {limit}")
        self.depth = depth
        self.limit = limit


class InvalidTemplateId(InvalidInput):
    def __init__(self, text: object, why: str) -> None:
        super().__init__(f"not a template id: {_shown(text)}: {why}; expected a form like tpl.agent.discovery.prompt")
        self.text = text
        self.why = why


class InvalidText(InvalidInput):
    def __init__(self, field: str, position: int) -> None:
        super().__init__(f"{field} holds a lone surrogate at character {position}; stored text must be valid Unicode")
        self.field = field
        self.position = position


class NotCanonical(InvalidInput):
    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"no canonical JSON for the value at {path}: {why}")
        self.path = path
        self.why = why


class InvalidSettings(InvalidInput):
    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"setting {where}: {why}")
        self.where = where
        self.why = why


class NotFound(SapwoodError):
    """What was asked for is not there."""

    exit_code = 3

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(f"{what} not found" + (f"; {hint}" if hint else ""))
        self.what = what


class ClockOutOfRange(SapwoodError):
    def __init__(self, now_ms: int) -> None:
        super().__init__(f"the clock shows {now_ms} ms, outside what a key can carry; set the machine's clock")
        self.now_ms = now_ms


class EngineBusy(SapwoodError):
    def __init__(self) -> None:
        super().__init__("this process already has an engine running; close it first, or give it this run too")


class EngineStuck(SapwoodError):
    def __init__(self, run: str, visit: str) -> None:
        super().__init__(f"run {run} asks again for {visit}, which has ended; resume the run, and report this")
        self.run = run
        self.visit = visit


class RunBusy(SapwoodError):
    def __init__(self, run: str, owner: str) -> None:
        super().__init__(f"run {run} is being executed by a live process ({owner}); wait for it, or cancel it there")
        self.run = run
        self.owner = owner


def _shown(value: object) -> str:
    """Return `value` for a message: quoted, on one line, and short."""
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:100]}… ({len(text)} characters)"
