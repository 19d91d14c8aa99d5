"""Programs that hear of Ctrl-C however the tests were started: in the background, a shell has its children ignore it."""

from __future__ import annotations

import sys

_HEED = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"


def heeding(command: list[str]) -> list[str]:
    """The command line of a program that takes SIGINT as those of a terminal do."""
    return [sys.executable, "-c", _HEED, *command]
