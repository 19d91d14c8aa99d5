"""The walk of each environment with Terraform and the twin's provider."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.support.environment_walk import EXAMPLES, walk_every_field, walk_example
from tests.support.terraform_twin import running

from sliceworks.infra.target import PROVIDER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.terraform_twin import Commands

pytestmark = [
    pytest.mark.real,
    pytest.mark.long(150),
    pytest.mark.skipif(os.environ.get("SLICEWORKS_REAL") != "1", reason="takes minutes: make test-real runs it"),
    pytest.mark.timeout(900),
]
APART = True  # each has its own twin


@pytest.fixture
def sliceworks(tmp_path: Path) -> Iterator[Commands]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(PROVIDER, raising=False)
        yield from running(tmp_path / "home")


@pytest.mark.parametrize("name", EXAMPLES)
def test_walk(sliceworks: Commands, tmp_path: Path, name: str) -> None:
    walk_example(sliceworks, tmp_path, name)


def test_walk_with_every_optional_field_in_a_fleet_that_has_a_mesh(sliceworks: Commands, tmp_path: Path) -> None:
    """F5, F20."""
    walk_every_field(sliceworks, tmp_path)
