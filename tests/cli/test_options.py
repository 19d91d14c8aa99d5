"""A question before something is done: yes, no, Ctrl-C, and nobody there."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import time

import pytest
from tests.support.interrupts import heeding

from sliceworks.base.errors import UsageError
from sliceworks.cli import options

ASKING = """
from sliceworks.base import clock
from sliceworks.cli import main, options

async def work():
    options.confirm("Go on?", False)
    print("gone on")

main.cli.invoke = lambda _context: clock.run(work())
raise SystemExit(main.run(["twin"]))
"""


def answered(keys: bytes) -> tuple[str, int]:
    """What is on the terminal at the end of a command that asks inside an event loop, and its exit code."""
    process, terminal = pty.fork()
    if not process:
        os.execv(sys.executable, heeding([sys.executable, "-c", ASKING]))
    seen, ends = b"", time.monotonic() + 20
    while time.monotonic() < ends:
        # A signal between the question and the reading of the answer is lost to it: who sees nothing happen presses again.
        if select.select([terminal], [], [], 0.5)[0]:
            try:
                seen += os.read(terminal, 1024)
            except OSError:  # the other side has closed it
                break
        elif b"[y/N]" in seen:
            os.write(terminal, keys)
    else:
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    os.close(terminal)
    return seen.decode(), os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize(
    ("keys", "told", "code"),
    [
        (b"y\n", "gone on", 0),
        (b"n\n", "error: nothing was done: the answer was no", 1),
        (b"\n", "error: nothing was done: the answer was no", 1),
        (b"\x03", "interrupted", 130),
    ],
)
def test_a_question_is_answered_on_a_terminal(keys: bytes, told: str, code: int) -> None:
    seen, ended = answered(keys)
    assert told in seen
    assert ("gone on" in seen, ended) == (code == 0, code)


def test_nobody_is_asked_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    options.confirm("Go on?", True)
    with pytest.raises(UsageError, match="there is nobody to ask"):
        options.confirm("Go on?", False)
