"""What people see of a run: in terminals of any width, and where there is none."""

from __future__ import annotations

import io
import time
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from sapwood.cli.live import SIGNS, Lines, fitting, lines_of, summary_of
from sapwood.runtime.overview import NodeView, RunView

NOW = int(time.time() * 1000)
NODES = (
    NodeView("brainstorm", "agent", "completed", 0, 2, 0, 1500, 1200, 0, 32000),
    NodeView("tasks", "spawn", "running", 0, 1, NOW),
    NodeView("tasks.one", "agent", "failed", 1, 1, 1500, 2500, 10, error="no \x1b[31mmoney\x07 left\nat all"),
    NodeView("research", "agent", "completed", 0, 1, 0, 9000, 5, 31000, 32000, context_is_cut=True),
    NodeView("review", "gate", "waiting", 0, 1, NOW, question="Ship it?", answers=("approved", "blocked")),
    NodeView("never", "agent", "skipped"),
    NodeView("later", "agent", "pending"),
)
VIEW = RunView("ak:01HQXK5V8RPZM4J3NHWGC7SDFG", "feature", "running", 0, 10000, NODES)


def drawn(width: int, rows: int | None = None, nodes: tuple[NodeView, ...] = NODES) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=40, color_system=None)
    view = RunView(VIEW.run, "feature", "running", 0, 10000, nodes)
    return [line.plain for line in lines_of(view, console, rows) if "sapwood answer" not in line.plain]


@pytest.mark.parametrize("width", [24, 40, 56, 80, 90, 120, 200])
def test_every_node_is_shown_in_every_width_and_no_line_is_too_long(width: int) -> None:
    lines = drawn(width, 40)
    assert all(len(line) <= width for line in lines[:-1])  # the last one may be wrapped
    for node in NODES:
        start = f"{'  ' * node.depth}{SIGNS[node.status][0]} {node.key[:5]}"
        assert sum(line.startswith(start) for line in lines) == 1, node.key
    assert width < 30 or "1.5 s" in lines[0]
    assert width < 56 or "1,200 tokens" in lines[0]


def test_a_wide_terminal_shows_time_tokens_and_context() -> None:
    text = "\n".join(drawn(120))
    assert "attempt 2" in text
    assert "1.5 s" in text
    assert "1,200 tokens" in text
    assert "97%, cut" in text
    assert "asks Ship it? (approved | blocked)" in text
    assert "feature running, 10.0 s, 1,215 tokens" in text


def test_what_agents_say_cannot_move_the_cursor() -> None:
    text = "\n".join(drawn(120))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "no \\u{1b}[31mmoney\\u{7} left at all" in text


def test_what_a_node_says_is_cut_while_it_moves_and_whole_in_the_end() -> None:
    node = NodeView("tests", "command", "failed", 0, 1, 0, 5, error="the reason " * 20 + "stands here")
    assert not any("stands here" in line for line in drawn(80, 40, (node,)))
    assert any("stands here" in line for line in drawn(80, None, (node,)))


def test_a_question_goes_on_in_lines_of_its_own_and_its_answers_can_always_be_read() -> None:
    long = "Is this what you want? " * 4
    node = NodeView("review", "gate", "waiting", 0, 1, 0, question=long + "Ship it?", answers=("approved", "blocked"))
    lines = drawn(50, 40, (node,))
    assert all(len(line) <= 50 for line in lines)
    assert "Ship it?" in lines[-3]
    assert lines[-2] == "  (approved | blocked)"
    endless = drawn(50, 40, (replace(node, question=long * 50),))
    assert (len(endless), endless[-3].endswith(" …"), endless[-2]) == (9, True, "  (approved | blocked)")


def test_a_node_that_is_tried_again_says_why_the_try_before_failed(capsys: pytest.CaptureFixture[str]) -> None:
    node = NodeView("draft", "agent", "running", 0, 2, 0, error_before="overloaded\x1b[2J")
    assert "  the try before failed: overloaded\\u{1b}[2J" in drawn(80, 40, (node,))
    Lines().show(replace(VIEW, nodes=(node,)))
    assert capsys.readouterr().out.rstrip().endswith("running, attempt 2: the try before failed: overloaded\\u{1b}[2J")


@pytest.mark.parametrize("width", [24, 40, 60])
def test_wide_characters_count_as_the_cells_they_take(width: int) -> None:
    asks = NodeView("ask", "gate", "waiting", 0, 1, 0, question="木を育てる? " * 5, answers=("approved",))
    failed = NodeView("tests", "command", "failed", 0, 1, 0, 5, error="樹液" * 40)
    lines = drawn(width, 40, (asks, failed))
    assert all(cell_len(line) <= width for line in lines[:-1])
    assert "".join(lines).count("木") == 5


def test_the_name_of_a_workflow_cannot_move_the_cursor() -> None:
    assert summary_of(replace(VIEW, workflow="a\x1b[2J\nb")).startswith("a\\u{1b}[2J b running, ")


def test_when_there_is_no_room_what_is_quiet_is_counted() -> None:
    children = tuple(NodeView(f"tasks.{n}", "agent", "completed", 1) for n in range(100))
    moving = (NodeView("tasks.x", "agent", "running", 1, 1, 0), NodeView("tasks.y", "agent", "failed", 1, 1, 0, 5))
    nodes = (NodeView("tasks", "spawn", "running"), *children, *moving)
    shown, left_out = fitting(nodes, 10, [1] * len(nodes))
    assert len(shown) == 9
    assert {"tasks", "tasks.x", "tasks.y"} <= {node.key for node in shown}
    assert len(left_out) == 94
    assert any("and 94 completed" in line for line in drawn(80, 10, nodes))


def test_what_went_wrong_leaves_room_for_what_asks_and_moves() -> None:
    failed = [NodeView(f"parts.{n}", "agent", "failed", 1, 1, 0, 5, error="the reason") for n in range(40)]
    asks = NodeView("ask", "gate", "waiting", 0, 1, 0, question="Ship it?", answers=("approved",))
    moves = NodeView("last", "agent", "running", 0, 1, 0)
    text = drawn(80, 12, (NODES[0], *failed, asks, moves))
    assert len(text) <= 13  # and one for the summary
    assert any("asks Ship it?" in line for line in text)
    assert any(line.startswith("● last") for line in text)
    assert any(line.startswith("  and ") and line.endswith("36 failed") for line in text)


def test_without_a_terminal_each_change_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    lines.show(VIEW)
    lines.show(VIEW)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 7
    assert "brainstorm  completed, attempt 2, 1.5 s, 1,200 tokens" in printed[0]
    assert "tasks.one  failed, 1.0 s, 10 tokens: no \\u{1b}[31mmoney" in printed[2]
