"""Tables and progress: plain in a pipe, silent when asked."""

from __future__ import annotations

import asyncio
import io
import sys

import pytest

from sliceworks.base import progress, tables


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_columns_are_aligned_and_nothing_trails() -> None:
    text = tables.render(["name", "ready", "labels"], [["a", True, ["x", "y"]], ["日本", None, []], ["bell\a\n", 1.5, ""]])
    assert text.splitlines() == [
        "NAME         READY    LABELS",
        "a            true     x,y",
        "日本         <none>   <none>",
        "bell\\x07\\n   1.5      <none>",
    ]


def test_a_table_without_a_header_or_rows() -> None:
    assert tables.render(["name"], [], header=False) == ""
    assert tables.render(["name"], []) == "NAME\n"
    assert tables.render(["name"], [["x"]], header=False) == "x\n"


def test_in_a_pipe_progress_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.working("Starting") as step:
        step("half way")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Starting: done in ")
    assert "\x1b" not in err


def test_in_a_log_long_work_has_a_line_for_each_new_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with progress.working("Deploying", logged=True) as step:
        for now[0], each in ((0.1, "at once"), (2.0, "one"), (2.1, "at once"), (4.0, "two"), (6.0, "two"), (8.0, "three")):
            step(each)
    told = ["Deploying: one", "Deploying: two", "Deploying: three", "Deploying: done in 8.0 s"]
    assert capsys.readouterr().err.splitlines() == told


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, asyncio.CancelledError])
def test_whoever_interrupts_is_told_what_stays(interruption: type[BaseException], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(interruption), progress.leaving("It stays."):
        raise interruption
    with pytest.raises(ValueError, match="else"), progress.leaving("It stays."):
        raise ValueError("something else")
    assert capsys.readouterr().err == "It stays.\n"


def test_on_a_terminal_progress_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    with progress.working("Starting [now]") as step:
        step("half way")
    assert "✓ Starting [now] (" in terminal.getvalue()
    assert "\x1b[32m" not in terminal.getvalue()
    monkeypatch.delenv("NO_COLOR")
    assert progress.mark() == "\x1b[32m✓\x1b[0m"


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    progress.set_quiet(True)
    try:
        progress.say("hello")
        with progress.working("Starting") as step:
            step("half way")
    finally:
        progress.set_quiet(False)
    assert capsys.readouterr() == ("", "")
