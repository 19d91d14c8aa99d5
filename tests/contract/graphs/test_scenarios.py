"""kro's end-to-end scenarios, read from its Go module, with our controller instead of kro."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support import graph_process, kro
from tests.support.clusters import real_enabled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.real.processes import Process
    from tests.support.clusters import Cluster
    from tests.support.http import Api

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not real_enabled(), reason="the scenarios are part of kro's Go module: SLICEWORKS_REAL=1"),
]


@pytest.fixture(scope="module")
def controller(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """The graphs controller, for all tests of this file."""
    with graph_process.running(cluster, tmp_path_factory.mktemp("graphs")) as process:
        yield process


@pytest.mark.usefixtures("controller")
@pytest.mark.parametrize("name", kro.SCENARIOS)
def test_kro_scenario(api: Api, ns: str, name: str) -> None:
    kro.play(name, api, ns)
