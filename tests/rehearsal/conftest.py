"""A home of its own for tests that start twins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sliceworks.cli import main
from sliceworks.rehearsal import homes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Twins live below the test's own folder, and are stopped after it."""
    monkeypatch.setenv("SLICEWORKS_HOME", str(tmp_path / "home"))
    yield
    for home in homes.all_homes():
        main.run(["twin", "stop", "--name", home.name, "--quiet"])
