"""Confirmation prompts: yes, no, Ctrl-C, and no terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import time

import pytest
from tests.support.sigint import with_sigint

from sliceworks.base.errors import UsageError
from sliceworks.cli import options

ASKING = """
from sliceworks.base import clock
from sliceworks.cli import main, options

async def work():
    options.confirm("Go on?", False)
    print("continued")

main.cli.invoke = lambda _context: clock.run(work())
raise SystemExit(main.run(["twin"]))
"""


def answered(keys: bytes) -> tuple[str, int]:
    """The terminal output and exit code of a command that prompts inside an event loop."""
    process, terminal = pty.fork()
    if not process:
        os.execv(sys.executable, with_sigint([sys.executable, "-c", ASKING]))
    seen, ends = b"", time.monotonic() + 120
    while time.monotonic() < ends:
        # A signal between the prompt and the read is lost: send it again.
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
    ("keys", "expected", "code"),
    [
        (b"y\n", "continued", 0),
        (b"n\n", "error: not confirmed; nothing was changed", 1),
        (b"\n", "error: not confirmed; nothing was changed", 1),
        (b"\x03", "interrupted", 130),
    ],
)
def test_prompt_is_answered_on_a_terminal(keys: bytes, expected: str, code: int) -> None:
    seen, ended = answered(keys)
    assert expected in seen
    assert ("continued" in seen, ended) == (code == 0, code)


def test_prompt_without_terminal_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    options.confirm("Go on?", True)
    with pytest.raises(UsageError, match="stdin is not a terminal"):
        options.confirm("Go on?", False)
