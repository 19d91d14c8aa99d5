"""How long the gateway is soaked: a moment, or as long as SLICEWORKS_SOAK says, in seconds."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def soak_seconds(request: pytest.FixtureRequest) -> float:
    seconds = float(os.environ.get("SLICEWORKS_SOAK", "1.5"))
    request.node.add_marker(pytest.mark.timeout(60 + 2 * seconds))
    return seconds
