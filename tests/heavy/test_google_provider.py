"""The walk of each environment with Terraform and the real google provider, against the twin's cloud.

The provider is not part of this repository: build it in a checkout of terraform-provider-google (`go build`), and name its
folder in SLICEWORKS_GOOGLE_PROVIDER. Without the variable this file is not collected.

    SLICEWORKS_GOOGLE_PROVIDER=DIR make test-heavy PYTEST_ARGS="-k google_provider"
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.environment_walk import EXAMPLES, walk_every_field, walk_example
from tests.support.terraform_twin import running

from sliceworks.infra.target import PROVIDER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.terraform_twin import Commands

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture
def sliceworks(tmp_path: Path) -> Iterator[Commands]:
    program = Path(os.environ[PROVIDER]).expanduser() / "terraform-provider-google"
    assert os.access(program, os.X_OK), f"{PROVIDER}: {program} is not a program"
    yield from running(tmp_path / "home")


@pytest.mark.parametrize("name", EXAMPLES)
def test_walk(sliceworks: Commands, tmp_path: Path, name: str) -> None:
    walk_example(sliceworks, tmp_path, name)


def test_change_of_every_mutable_field(sliceworks: Commands, tmp_path: Path) -> None:
    walk_every_field(sliceworks, tmp_path)
