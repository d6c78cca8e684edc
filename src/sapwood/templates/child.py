"""The process in which untrusted templates render: limits first, then request after request until the pipe closes."""

from __future__ import annotations

import resource
import signal
import sys
from math import ceil

import msgspec

from sapwood.core.canonical import canonical_json
from sapwood.errors import TemplateError
from sapwood.templates.frames import PipeClosed, receive_frame, send_frame
from sapwood.templates.limits import OUT_OF_MEMORY, RenderLimits
from sapwood.templates.render import Renderer


class Request(msgspec.Struct):
    """What to render; the arguments follow in a message of their own."""

    text: str
    variables: list[str]
    template_id: str | None


def main(limits_json: str) -> None:
    for ending in (signal.SIGPROF, signal.SIGXCPU):  # the parent may ignore or block what the kernel ends this with
        signal.signal(ending, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    limits = msgspec.json.decode(limits_json, type=RenderLimits)
    renderer = Renderer(limits, cache_size=32)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
    send_frame(1, b"ready")
    while True:
        try:
            request = msgspec.json.decode(receive_frame(0), type=Request)
            args_json = receive_frame(0)
        except PipeClosed:
            return
        _allow_cpu(limits.cpu_s)
        reply = _reply(renderer, request, args_json)
        signal.setitimer(signal.ITIMER_PROF, 0)
        send_frame(1, reply)


def _allow_cpu(seconds: float) -> None:
    """Have the kernel end this process when it has used that much processor time from now on, whatever it is doing."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = ceil(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    signal.setitimer(signal.ITIMER_PROF, seconds)


def _reply(renderer: Renderer, request: Request, args_json: bytes) -> bytes:
    try:
        text = renderer.render(request.text, args_json, tuple(request.variables), request.template_id)
        return canonical_json({"text": text})
    except TemplateError as error:
        failure = {"kind": type(error).__name__, "cause": error.cause, "line": error.line, "names": list(error.names)}
    except MemoryError:
        failure = {"kind": "TemplateLimit", "cause": OUT_OF_MEMORY, "line": None, "names": []}
    return canonical_json({"error": failure})


if __name__ == "__main__":
    main(sys.argv[1])
