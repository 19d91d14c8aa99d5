"""Arrivals turned into requests, raw rows, statistics and a report."""

from __future__ import annotations

from importlib.util import find_spec

from sliceworks.base.errors import SliceworksError


def check_installed() -> None:
    """Load tests need packages that not every installation has."""
    missing = [name for name in ("locust", "duckdb", "numpy") if find_spec(name) is None]
    if missing:
        raise SliceworksError(f"load tests need {', '.join(missing)}", hint="pip install 'sliceworks[load]'")
