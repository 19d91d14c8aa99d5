"""How long the gateway is soaked: a moment, or as long as SLICEWORKS_SOAK says, in seconds."""

from __future__ import annotations

import os

import pytest

_SECONDS = float(os.environ.get("SLICEWORKS_SOAK", "1.5"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that soaks has time for it. Its limit is read before any fixture is made."""
    for item in items:
        if "soak_seconds" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(60 + 2 * _SECONDS))


@pytest.fixture
def soak_seconds() -> float:
    return _SECONDS
