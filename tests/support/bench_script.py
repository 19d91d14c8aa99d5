"""Runs a script of bench/ from the command line and shows its output if it fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def run(name: str, *options: str, seconds: float = 280) -> subprocess.CompletedProcess[str]:
    """Run the script; returns its output after it exits with status 0."""
    command = [sys.executable, f"bench/{name}.py", *options]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False, timeout=seconds)
    assert done.returncode == 0, f"{' '.join(command[1:])} ended with {done.returncode}:\n{done.stderr[-4000:]}"
    return done
