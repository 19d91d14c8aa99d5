"""Runs a script of bench/ as a person does. What it said is shown where it fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def run(name: str, *options: str, seconds: float = 280) -> subprocess.CompletedProcess[str]:
    """What it printed, once it has ended well."""
    command = [sys.executable, f"bench/{name}.py", *options]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False, timeout=seconds)
    assert done.returncode == 0, f"{' '.join(command[1:])} ended with {done.returncode}:\n{done.stderr[-4000:]}"
    return done
