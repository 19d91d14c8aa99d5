"""Starts programs that receive SIGINT even if the tests run in the background, where a shell makes its children ignore it."""

from __future__ import annotations

import sys

_HEED = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"


def with_sigint(command: list[str]) -> list[str]:
    """The command line of a program with the default SIGINT handler."""
    return [sys.executable, "-c", _HEED, *command]
