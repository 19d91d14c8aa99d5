"""The duration of the gateway's soak tests: short, or SLICEWORKS_SOAK seconds."""

from __future__ import annotations

import os

import pytest

_SECONDS = float(os.environ.get("SLICEWORKS_SOAK", "1.5"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Raise the time limit of soak tests; it is read before any fixture is created."""
    for item in items:
        if "soak_seconds" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(300 + 2 * _SECONDS))


@pytest.fixture
def soak_seconds() -> float:
    return _SECONDS
