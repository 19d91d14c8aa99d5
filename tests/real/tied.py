"""Runs a command that ends with its starter: `python tied.py COMMAND…`.

When this program gets SIGTERM, or the process that started it ends, even by SIGKILL (Linux), the command gets SIGTERM; what is left
of its process group half a minute later, or after its own end, gets SIGKILL.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys

_PATIENCE = 30.0
_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Run the command; returns its exit status."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    child = subprocess.Popen(sys.argv[1:], process_group=0)
    try:
        return child.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_PATIENCE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
