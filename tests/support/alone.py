"""Tests that cannot run side by side on one machine wait for each other, whichever process they are in."""

from __future__ import annotations

import fcntl
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def alone(what: str) -> Iterator[None]:
    """Hold a machine-wide lock; real processes of two twins would use the same loopback addresses."""
    with Path(tempfile.gettempdir(), f"sliceworks-test-{what}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
