"""A separate SLICEWORKS_HOME for tests that start twins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sliceworks.cli import main
from sliceworks.platform import twin_home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep twins below the test's folder, and stop them after the test."""
    monkeypatch.setenv("SLICEWORKS_HOME", str(tmp_path / "home"))
    yield
    for home in twin_home.list_homes():
        main.run(["twin", "stop", "--name", home.name, "--quiet"])
