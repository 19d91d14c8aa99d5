"""Terraform itself makes the examples in a twin's cloud: planned as was read over, found unchanged, and removed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.sites import changes, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.sites import Commands

pytestmark = [
    pytest.mark.real,
    pytest.mark.long(80),
    pytest.mark.skipif(os.environ.get("SLICEWORKS_REAL") != "1", reason="takes minutes: make test-real does it"),
    pytest.mark.timeout(600),
]
APART = True  # each makes and removes an environment of its own
GOLDENS = Path(__file__).parent / "goldens"
EXAMPLES = Path(__file__).parents[2] / "examples" / "environments"


@pytest.fixture(scope="module")
def sliceworks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    yield from running(tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize("name", ["saxml", "self-service", "training", "triton"])
def test_the_examples_are_made_found_unchanged_and_removed(sliceworks: Commands, name: str) -> None:
    file = str(EXAMPLES / name / "environment.yaml")
    planned = "".join(f"{each['stage']} {each['action']} {each['address']}\n" for each in changes(sliceworks, file))
    golden = GOLDENS / f"{name}.plan.txt"
    if os.environ.get("SLICEWORKS_RECORD") == "1":
        golden.write_text(planned)
        pytest.fail(f"{golden.name} was written: read it")
    assert planned == golden.read_text()
    applied = sliceworks("env", "apply", "--twin", "-f", file, "-q")
    assert applied.returncode == 0, applied.stderr
    assert changes(sliceworks, file) == []
    removed = sliceworks("env", "destroy", "--twin", "-y", "-f", file, "-q")
    assert removed.returncode == 0, removed.stderr
