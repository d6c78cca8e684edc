"""The parent's side of the child process that renders untrusted templates: started when needed, reused, replaced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from importlib.util import find_spec
from pathlib import Path

import msgspec

from sapwood import errors
from sapwood.core.canonical import canonical_json
from sapwood.errors import TemplateError, TemplateFailed, TemplateLimit, TemplateNotRun
from sapwood.templates.frames import DeadlinePassed, PipeClosed, receive_frame, send_frame
from sapwood.templates.limits import OUT_OF_MEMORY, RenderLimits

START_S = 30.0
CPU_SIGNALS = (-signal.SIGPROF, -signal.SIGXCPU)

# -I and -S shut out the environment, the working directory and every installed package; what is needed is then named by
# its path, so that the child has the very same sapwood as its parent.
_BOOT = "import sys; sys.path += sys.argv[2:]; from sapwood.templates.child import main; main(sys.argv[1])"
_KINDS = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, TemplateError) and kind is not TemplateError
}


class Failure(msgspec.Struct):
    """An error of the child as it travels."""

    kind: str
    cause: str
    line: int | None
    names: list[str]


class Reply(msgspec.Struct):
    """The child's answer: a text or an error."""

    text: str | None = None
    error: Failure | None = None


class ChildDied(Exception):
    """The child ended without an answer."""

    def __init__(self, returncode: int) -> None:
        super().__init__(returncode)
        self.returncode = returncode


class _Child:
    """One running child process."""

    def __init__(self, limits: RenderLimits) -> None:
        self._limits = limits
        self.is_fresh = True
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _BOOT, msgspec.json.encode(limits).decode(), *_package_folders()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._to, self._from = self.process.stdin.fileno(), self.process.stdout.fileno()
        os.set_blocking(self._to, False)
        os.set_blocking(self._from, False)
        try:
            receive_frame(self._from, time.monotonic() + START_S)
        except (PipeClosed, DeadlinePassed) as error:
            raise ChildDied(self.stop()) from error

    def ask(self, request: bytes, args_json: bytes) -> bytes:
        deadline = time.monotonic() + self._limits.wall_s
        try:
            send_frame(self._to, request, deadline)
            send_frame(self._to, args_json, deadline)
            return receive_frame(self._from, deadline)
        except PipeClosed:
            raise ChildDied(self.stop()) from None

    def stop(self) -> int:
        """End the process and return how it ended."""
        try:
            returncode = self.process.wait(0.05)  # it may be ending by itself: then its own reason is the true one
        except subprocess.TimeoutExpired:
            self.process.kill()
            returncode = self.process.wait()
        _close_pipes(self.process)
        return returncode


class ChildRenderer:
    """Renders untrusted templates: whatever they do, this process lives on, and each failure is a TemplateError.

    Threads take turns. A forked process leaves the child to its parent and starts its own.
    """

    def __init__(self, limits: RenderLimits | None = None) -> None:
        self._limits = limits or RenderLimits()
        self._lock = threading.Lock()
        self._child: _Child | None = None
        me = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _start_over(me()))

    def render(self, text: str, args_json: bytes, variables: tuple[str, ...], template_id: str | None = None) -> str:
        """Return the rendered text."""
        request = canonical_json({"text": str(text), "variables": list(variables), "template_id": template_id})
        with self._lock:
            reply = self._ask(request, args_json, template_id)
        if reply.error is not None:
            kind = _KINDS.get(reply.error.kind, TemplateFailed)
            names = tuple(reply.error.names)
            raise kind(reply.error.cause, template_id=template_id, line=reply.error.line, names=names)
        if reply.text is None:
            raise TemplateFailed("the rendering process gave no answer", template_id=template_id)
        return reply.text

    def close(self) -> None:
        """End the child process; the next render starts another."""
        with self._lock:
            self._drop()

    def _ask(self, request: bytes, args_json: bytes, template_id: str | None) -> Reply:
        """Ask the child, and once more a fresh one when a used one was out of memory or had been killed."""
        while True:
            child = self._child = self._child or _started(self._limits, template_id)
            was_fresh, child.is_fresh = child.is_fresh, False
            try:
                reply = msgspec.json.decode(child.ask(request, args_json), type=Reply)
            except ChildDied as death:
                self._child = None
                if was_fresh or death.returncode in CPU_SIGNALS:
                    raise TemplateLimit(_how_it_died(death, self._limits), template_id=template_id) from None
                continue
            except DeadlinePassed:
                self._drop()
                cause = f"no answer after {self._limits.wall_s} s"
                raise TemplateLimit(cause, template_id=template_id) from None
            except msgspec.MsgspecError:
                self._drop()
                raise TemplateFailed("the rendering process gave no answer", template_id=template_id) from None
            except BaseException:  # an interrupt between question and answer
                self._drop()
                raise
            if reply.error is None or reply.error.kind != "TemplateLimit":
                return reply
            self._drop()  # what was too much may still be there
            if was_fresh or reply.error.cause != OUT_OF_MEMORY:
                return reply

    def _drop(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.process.kill()
            child.stop()


def _started(limits: RenderLimits, template_id: str | None) -> _Child:
    try:
        child = _Child(limits)
    except (OSError, ChildDied) as error:
        why = error.strerror if isinstance(error, OSError) else f"it ended with code {error.returncode}"
        cause = f"the process that renders untrusted templates did not start: {why}"
        raise TemplateNotRun(cause, template_id=template_id) from None
    weakref.finalize(child, _reap, child.process, os.getpid())  # also when the interpreter ends
    return child


def _reap(process: subprocess.Popen[bytes], owner_pid: int) -> None:
    if os.getpid() == owner_pid and process.poll() is None:
        process.kill()
        process.wait()
    _close_pipes(process)


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _start_over(renderer: ChildRenderer | None) -> None:
    """In a forked process: leave the child to the parent, and the lock, which another thread may have held."""
    if renderer is None:
        return
    renderer._lock = threading.Lock()
    child, renderer._child = renderer._child, None
    if child is not None:
        child.process.returncode = 0  # not ours to wait for
        _close_pipes(child.process)


def _package_folders() -> list[str]:
    """Return the folders in which the child finds this package and what it imports."""
    specs = (find_spec(name) for name in ("sapwood", "jinja2", "markupsafe", "msgspec"))
    return list(dict.fromkeys(str(Path(spec.origin).parent.parent) for spec in specs if spec and spec.origin))


def _how_it_died(death: ChildDied, limits: RenderLimits) -> str:
    if death.returncode in CPU_SIGNALS:
        return f"more than {limits.cpu_s} s of processor time"
    return f"the rendering process ended with code {death.returncode}"
