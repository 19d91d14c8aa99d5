"""Progress messages on stderr: a spinner on a terminal, plain lines in a log, nothing with --quiet.

    with progress.task("Starting the twin") as step:
        step("waiting for the API server")

On a terminal this is a spinner that leaves one line behind. In a pipe or a log it is that line alone, or with `logged=True` also a
line for each long step. Data goes to stdout, never here.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LOG_INTERVAL = 1.0  # seconds
_quiet = False


def set_quiet(quiet: bool) -> None:
    """Suppress all messages but errors from now on."""
    global _quiet  # noqa: PLW0603 - a setting of the process, set by the command line
    _quiet = quiet


def is_quiet() -> bool:
    """Whether messages are suppressed, so that callers can skip work done only for messages."""
    return _quiet


def say(text: str) -> None:
    """Print one line on stderr unless --quiet is set."""
    if not _quiet:
        print(text, file=sys.stderr, flush=True)


@contextmanager
def task(title: str, *, logged: bool = False) -> Iterator[Callable[[str], None]]:
    """Show that a task is running. Yields a function that reports the current step; with `logged`, steps are logged as lines
    too."""
    start = time.monotonic()
    if _quiet:
        yield lambda _step: None
        return
    if not is_interactive():
        yield _step_logger(title) if logged else lambda _step: None
        say(f"{title}: done in {_elapsed(start)}")
        return
    with _spinner(title) as show:
        yield show
    say(f"{check_mark()} {title} {dim('(' + _elapsed(start) + ')')}")


def _step_logger(title: str) -> Callable[[str], None]:
    """Logs at most one step per interval: short steps are skipped."""
    last_step, last_time = "", time.monotonic()

    def log_step(step: str) -> None:
        nonlocal last_step, last_time
        if step != last_step and time.monotonic() - last_time >= _LOG_INTERVAL:
            say(f"{title}: {step}")
            last_step, last_time = step, time.monotonic()

    return log_step


@contextmanager
def on_interrupt(text: str) -> Iterator[None]:
    """Print a message if the user interrupts the block: what is left running or unchanged."""
    import asyncio

    try:
        yield
    except (asyncio.CancelledError, KeyboardInterrupt):
        say(text)
        raise


def is_interactive(stream: object = None) -> bool:
    """Whether a stream (default stderr) is a terminal that supports redrawing."""
    isatty = getattr(stream or sys.stderr, "isatty", None)
    return bool(isatty and isatty()) and os.environ.get("TERM") != "dumb"


def is_colored(stream: object = None) -> bool:
    """Whether to use colors: on a terminal, unless NO_COLOR is set."""
    return is_interactive(stream) and not os.environ.get("NO_COLOR")


def check_mark() -> str:
    return "\x1b[32m✓\x1b[0m" if is_colored() else "✓"


def dim(text: str) -> str:
    return f"\x1b[2m{text}\x1b[0m" if is_colored() else text


@contextmanager
def _spinner(title: str) -> Iterator[Callable[[str], None]]:
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True)
    with console.status(escape(title)) as status:
        yield lambda step: status.update(f"{escape(title)}: {escape(step)}")


def _elapsed(start: float) -> str:
    return f"{time.monotonic() - start:.1f} s"
