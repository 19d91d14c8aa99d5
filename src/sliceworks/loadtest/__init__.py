"""Arrivals turned into requests, raw rows, statistics and a report."""

from __future__ import annotations

from sliceworks.base import extras


def check_installed() -> None:
    """Load tests need packages that not every installation has."""
    extras.check({"load tests need": "load"})
