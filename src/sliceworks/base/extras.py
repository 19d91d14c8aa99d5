"""Packages that not every installation has: which extra of ours brings them, and one clear line where they are missing."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sliceworks.base.errors import SliceworksError

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGES = {"console": ("nicegui",), "load": ("locust", "duckdb", "numpy"), "terraform": ("grpc", "msgspec")}
"""What is imported of each extra, of those that whole commands stand on."""


def check(wanted: Mapping[str, str]) -> None:
    """Extras by how to say what needs them (`load tests need`): all that is missing is told at once."""
    missing = {what: found for what, extra in wanted.items() if (found := _missing(extra))}
    if missing:
        said = "; ".join(f"{what} {', '.join(names)}" for what, names in missing.items())
        raise SliceworksError(said, hint=remedy(*(wanted[what] for what in missing)))


def remedy(*extras: str) -> str:
    """The command that adds them to this installation."""
    apart = "pipx runpip sliceworks" if "pipx" in Path(sys.prefix).parts else "pip"
    return f"{apart} install 'sliceworks[{','.join(extras)}]'"


def _missing(extra: str) -> list[str]:
    return [name for name in PACKAGES[extra] if importlib.util.find_spec(name) is None]
