"""Tables, and progress messages on a terminal, in a pipe and with --quiet."""

from __future__ import annotations

import asyncio
import io
import sys

import pytest

from sliceworks.base import progress, tables


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_table_aligns_columns_without_trailing_spaces() -> None:
    text = tables.render(["name", "ready", "labels"], [["a", True, ["x", "y"]], ["日本", None, []], ["bell\a\n", 1.5, ""]])
    assert text.splitlines() == [
        "NAME         READY    LABELS",
        "a            true     x,y",
        "日本         <none>   <none>",
        "bell\\x07\\n   1.5      <none>",
    ]


def test_table_without_header_or_rows() -> None:
    assert tables.render(["name"], [], header=False) == ""
    assert tables.render(["name"], []) == "NAME\n"
    assert tables.render(["name"], [["x"]], header=False) == "x\n"


def test_progress_in_a_pipe_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.task("Starting") as step:
        step("half way")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Starting: done in ")
    assert "\x1b" not in err


def test_progress_in_a_log_has_a_line_for_each_long_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with progress.task("Deploying", logged=True) as step:
        for now[0], name in ((0.1, "at once"), (2.0, "one"), (2.1, "at once"), (4.0, "two"), (6.0, "two"), (8.0, "three")):
            step(name)
    lines = ["Deploying: one", "Deploying: two", "Deploying: three", "Deploying: done in 8.0 s"]
    assert capsys.readouterr().err.splitlines() == lines


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, asyncio.CancelledError])
def test_on_interrupt_prints_its_message(interruption: type[BaseException], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(interruption), progress.on_interrupt("It stays."):
        raise interruption
    with pytest.raises(ValueError, match="else"), progress.on_interrupt("It stays."):
        raise ValueError("something else")
    assert capsys.readouterr().err == "It stays.\n"


def test_progress_on_a_terminal_is_a_spinner(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    with progress.task("Starting [now]") as step:
        step("half way")
    assert "✓ Starting [now] (" in terminal.getvalue()
    assert "\x1b[32m" not in terminal.getvalue()
    monkeypatch.delenv("NO_COLOR")
    assert progress.check_mark() == "\x1b[32m✓\x1b[0m"


def test_quiet_suppresses_progress(capsys: pytest.CaptureFixture[str]) -> None:
    progress.set_quiet(True)
    try:
        progress.say("hello")
        with progress.task("Starting") as step:
            step("half way")
    finally:
        progress.set_quiet(False)
    assert capsys.readouterr() == ("", "")
