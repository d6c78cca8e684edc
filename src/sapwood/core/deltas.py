"""Stream deltas, merged: many small pieces become one per 250 ms or 4 KB, in order, with nothing lost."""

from __future__ import annotations

from typing import Final, NamedTuple

MERGE_MS: Final = 250
MERGE_BYTES: Final = 4096


class Delta(NamedTuple):
    """A piece of a stream; pieces of different `kind` (answer, thought) are never merged."""

    kind: str
    text: str


class DeltaMerger:
    """Holds back pieces until they are due. It is told the time; `due_ms` says when to ask for what is held."""

    def __init__(self, merge_ms: int = MERGE_MS, merge_bytes: int = MERGE_BYTES) -> None:
        self._merge_ms = merge_ms
        self._merge_bytes = merge_bytes
        self._kind = ""
        self._texts: list[str] = []
        self._bytes = 0
        self.due_ms: int | None = None

    def add(self, delta: Delta, now_ms: int) -> list[Delta]:
        """Take a piece; return what must go out now."""
        out = self.flush() if self._texts and delta.kind != self._kind else []
        if not delta.text:
            return out
        self._kind = delta.kind
        self._texts.append(delta.text)
        self._bytes += len(delta.text.encode(errors="surrogatepass"))
        if self.due_ms is None:
            self.due_ms = now_ms + self._merge_ms
        if self._bytes >= self._merge_bytes or now_ms >= self.due_ms:
            out += self.flush()
        return out

    def flush(self) -> list[Delta]:
        """Return what is held, as one piece."""
        held = [Delta(self._kind, "".join(self._texts))] if self._texts else []
        self._texts = []
        self._bytes = 0
        self.due_ms = None
        return held
