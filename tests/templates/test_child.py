"""The child process: reused, replaced when it ends, one at a time for many threads, its own after a fork."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

import sapwood
from sapwood.templates import process as process_module
from sapwood.templates.frames import DeadlinePassed, PipeClosed, receive_frame, send_frame
from sapwood.templates.limits import RenderLimits
from sapwood.templates.process import ChildRenderer
from sapwood.templates.render import Renderer

BUSY = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"


@pytest.fixture
def renderer() -> Iterator[ChildRenderer]:
    renderer = ChildRenderer(RenderLimits(cpu_s=0.3))
    yield renderer
    renderer.close()


def pid(renderer: ChildRenderer) -> int:
    assert renderer._child is not None
    return renderer._child.process.pid


def test_one_child_serves_many_renders(renderer: ChildRenderer) -> None:
    assert renderer.render("{{ a }}", b'{"a":1}', ("a",)) == "1"
    first = pid(renderer)
    for number in range(50):
        assert renderer.render("{{ a }}", b'{"a":%d}' % number, ("a",)) == str(number)
        with pytest.raises(sapwood.UndefinedValue):
            renderer.render("{{ a }}", b"{}", ("a",))
    assert pid(renderer) == first


def test_a_busy_template_is_stopped_and_the_next_gets_a_fresh_child(renderer: ChildRenderer) -> None:
    renderer.render("", b"{}", ())
    first = pid(renderer)
    with pytest.raises(sapwood.TemplateLimit, match=r"0\.3 s of processor time"):
        renderer.render(BUSY, b"{}", (), "tpl.a.b")
    assert renderer.render("fine", b"{}", ()) == "fine"
    assert pid(renderer) != first


@pytest.mark.parametrize(
    "words",
    [
        "signal.signal(signal.SIGPROF, signal.SIG_IGN); signal.signal(signal.SIGXCPU, signal.SIG_IGN)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())",
    ],
)
def test_what_the_parent_ignores_or_blocks_still_stops_a_busy_template(words: str) -> None:
    script = f"""
import resource, signal
from sapwood.errors import TemplateLimit
from sapwood.templates.limits import RenderLimits
from sapwood.templates.process import ChildRenderer
{words}
renderer = ChildRenderer(RenderLimits(cpu_s=0.3, wall_s=60))
try: renderer.render({BUSY!r}, b"{{}}", ())
except TemplateLimit as error: print(error.cause)
renderer.close()
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime < 1)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "more than 0.3 s of processor time\nTrue\n"


def test_memory_is_limited_without_the_parent_noticing(renderer: ChildRenderer) -> None:
    for text in ("{{ 'a' * 10 ** 9 }}", "{{ [0] * 10 ** 9 }}", "{{ 'a'.ljust(10 ** 10) }}"):
        with pytest.raises(sapwood.TemplateLimit):
            renderer.render(text, b"{}", ())


def test_a_child_that_was_killed_is_replaced(renderer: ChildRenderer) -> None:
    renderer.render("", b"{}", ())
    os.kill(pid(renderer), signal.SIGKILL)
    assert renderer.render("fine", b"{}", ()) == "fine"


def test_a_used_child_that_is_out_of_memory_is_replaced_and_a_fresh_one_asked(
    renderer: ChildRenderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    renderer.render("", b"{}", ())
    first, ask, full = pid(renderer), process_module._Child.ask, {"kind": "TemplateLimit", "cause": "out of memory"}

    def ask_after_that(child: process_module._Child, request: bytes, args_json: bytes) -> bytes:
        monkeypatch.setattr(process_module._Child, "ask", ask)
        return sapwood.canonical_json({"error": {**full, "line": None, "names": []}})

    monkeypatch.setattr(process_module._Child, "ask", ask_after_that)
    assert renderer.render("fine", b"{}", ()) == "fine"
    assert pid(renderer) != first


def test_a_child_that_stands_still_meets_the_wall_clock() -> None:
    renderer = ChildRenderer(RenderLimits(wall_s=0.3))
    renderer.render("", b"{}", ())
    os.kill(pid(renderer), signal.SIGSTOP)
    with pytest.raises(sapwood.TemplateLimit, match=r"no answer after 0\.3 s"):
        renderer.render("x", b'"' + b"a" * 200_000 + b'"', ())
    assert renderer.render("fine", b"{}", ()) == "fine"
    renderer.close()


def test_a_child_that_cannot_be_started_is_a_typed_error(
    renderer: ChildRenderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(sapwood.TemplateNotRun, match="did not start: No such file") as caught:
        renderer.render("x", b"{}", (), "tpl.a.b")
    assert caught.value.template_id == "tpl.a.b"
    monkeypatch.undo()
    assert renderer.render("fine", b"{}", ()) == "fine"


def test_threads_take_turns(renderer: ChildRenderer) -> None:
    wrong: list[str] = []

    def work(number: int) -> None:
        for step in range(20):
            text = renderer.render("{{ a }}", b'{"a":"%d.%d"}' % (number, step), ("a",))
            if text != f"{number}.{step}":
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_starts_its_own_child_even_while_the_lock_is_held(renderer: ChildRenderer) -> None:
    assert renderer.render("x", b"{}", ()) == "x"
    with renderer._lock:
        forked = os.fork()
        if forked == 0:
            code = 1
            try:
                code = 0 if renderer.render("y", b"{}", ()) == "y" else 2
                renderer.close()
            finally:
                os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
    assert renderer.render("z", b"{}", ()) == "z"


def test_no_child_outlives_its_parent() -> None:
    script = """
import sapwood
from sapwood.templates.rendering import shared_rendering
sapwood.render_template("x")
print(shared_rendering()._child._child.process.pid, flush=True)
{end}
"""
    for end in ("", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"):
        done = subprocess.run(
            [sys.executable, "-c", script.format(end=end)], capture_output=True, text=True, check=False
        )
        child = int(done.stdout)
        for _ in range(100):
            if not alive(child):
                break
            time.sleep(0.05)
        assert not alive(child)


def alive(child: int) -> bool:
    try:
        with open(f"/proc/{child}/stat") as stat:  # noqa: PTH123
            return stat.read().split(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_child_sees_neither_environment_nor_working_directory(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "s")
    renderer = ChildRenderer()
    renderer.render("", b"{}", ())
    with open(f"/proc/{pid(renderer)}/environ", "rb") as environment:  # noqa: PTH123
        assert b"SECRET_TOKEN" not in environment.read()
    assert os.readlink(f"/proc/{pid(renderer)}/cwd") == "/"  # noqa: PTH115
    renderer.close()


def test_a_pipe_has_deadlines_and_ends() -> None:
    read_end, write_end = os.pipe()
    with pytest.raises(DeadlinePassed):
        receive_frame(read_end, time.monotonic() + 0.01)
    send_frame(write_end, b"abc")
    assert receive_frame(read_end) == b"abc"
    os.write(write_end, b"\xff\xff\xff\xff")
    with pytest.raises(PipeClosed):
        receive_frame(read_end)
    os.close(write_end)
    with pytest.raises(PipeClosed):
        receive_frame(read_end)
    os.close(read_end)


def test_an_answer_that_is_none_is_a_typed_error(renderer: ChildRenderer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module._Child, "ask", lambda *_: b"{]")
    with pytest.raises(sapwood.TemplateFailed):
        renderer.render("", b"{}", ())


@pytest.mark.mutant
def test_without_the_processor_limit_the_wall_clock_has_to_stop_it() -> None:
    renderer = ChildRenderer(RenderLimits(cpu_s=60, wall_s=0.5))
    with pytest.raises(sapwood.TemplateLimit, match="no answer"):
        renderer.render(BUSY, b"{}", ())
    renderer.close()


@pytest.mark.mutant
def test_without_the_memory_limit_a_big_list_is_made() -> None:
    text = "{{ ([0] * 10 ** 7)|length }}"  # 80 MB
    renderer = ChildRenderer(RenderLimits(cpu_s=10, wall_s=60))
    assert renderer.render(text, b"{}", ()) == str(10**7)
    renderer.close()
    renderer = ChildRenderer(RenderLimits(memory_bytes=100 * 2**20))
    with pytest.raises(sapwood.TemplateLimit, match="out of memory"):
        renderer.render(text, b"{}", ())
    renderer.close()


def test_the_renderer_is_the_same_in_both_processes(renderer: ChildRenderer) -> None:
    text = "{{ a|upper }}{% for x in b %}{{ loop.index }}{{ x }}{% endfor %}\n"
    args = '{"a":"straße","b":[1,2.5,null]}'.encode()
    assert renderer.render(text, args, ("a", "b")) == Renderer().render(text, args, ("a", "b"))
