"""What is going on, told to a person: on stderr, moving only on a terminal, silent when asked.

    with progress.working("Starting the twin") as step:
        step("waiting for its first answer")

On a terminal this is a spinner that leaves one line behind; in a pipe or a log it is that one line alone, or a line for each
long step where the work is long. Data never goes this way.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PACE = 1.0  # seconds between two lines of a log
_quiet = False


def set_quiet(quiet: bool) -> None:
    """Say nothing from now on, but for errors."""
    global _quiet  # noqa: PLW0603 - one switch for one process, set by the command line
    _quiet = quiet


def is_quiet() -> bool:
    """Whether nothing is to be said: what is only told need not be found out."""
    return _quiet


def say(text: str) -> None:
    """One line for a person."""
    if not _quiet:
        print(text, file=sys.stderr, flush=True)


@contextmanager
def working(title: str, *, logged: bool = False) -> Iterator[Callable[[str], None]]:
    """Show that something goes on; call what it yields with the step it has come to. If `logged`, a log has lines for them."""
    began = time.monotonic()
    if _quiet:
        yield lambda _step: None
        return
    if not lively():
        yield _logging(title) if logged else lambda _step: None
        say(f"{title}: done in {_seconds(began)}")
        return
    with _spinner(title) as show:
        yield show
    say(f"{mark()} {title} {dim('(' + _seconds(began) + ')')}")


def _logging(title: str) -> Callable[[str], None]:
    """Steps that follow each other at once are passed over: a log is for those that somebody waits for."""
    last, since = "", time.monotonic()

    def tell(step: str) -> None:
        nonlocal last, since
        if step != last and time.monotonic() - since >= _PACE:
            say(f"{title}: {step}")
            last, since = step, time.monotonic()

    return tell


@contextmanager
def leaving(text: str) -> Iterator[None]:
    """Say what stays as it is when somebody interrupts what goes on."""
    import asyncio

    try:
        yield
    except (asyncio.CancelledError, KeyboardInterrupt):
        say(text)
        raise


def lively(stream: object = None) -> bool:
    """Whether a stream (stderr) is a terminal that may be drawn on."""
    isatty = getattr(stream or sys.stderr, "isatty", None)
    return bool(isatty and isatty()) and os.environ.get("TERM") != "dumb"


def coloured(stream: object = None) -> bool:
    """Whether colours are wanted there: a terminal, and no NO_COLOR."""
    return lively(stream) and not os.environ.get("NO_COLOR")


def mark() -> str:
    return "\x1b[32m✓\x1b[0m" if coloured() else "✓"


def dim(text: str) -> str:
    return f"\x1b[2m{text}\x1b[0m" if coloured() else text


@contextmanager
def _spinner(title: str) -> Iterator[Callable[[str], None]]:
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True)
    with console.status(escape(title)) as status:
        yield lambda step: status.update(f"{escape(title)}: {escape(step)}")


def _seconds(began: float) -> str:
    return f"{time.monotonic() - began:.1f} s"
