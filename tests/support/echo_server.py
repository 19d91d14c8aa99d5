"""Runs the echo model server as a process: it repeats the prompt, one token per word."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def run_echo_server(*flags: str) -> Iterator[str]:
    """Run it on a free port, for any model name; yields its address."""
    command = (sys.executable, "-m", "sliceworks", "gateway", "echo", "--port", "0", "--model", "*", *flags)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        try:
            result = re.search(r"http://\S+", server.stdout.readline())
            assert result is not None
            yield result[0]
        finally:
            server.terminate()
