"""kro's own end-to-end scenarios, read from its Go module and played with our controller in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support import kro, our_graphs
from tests.support.clusters import real_wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.real.processes import Process
    from tests.support.clusters import Cluster
    from tests.support.http import Api

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not real_wanted(), reason="the scenarios come with kro's Go module: SLICEWORKS_REAL=1"),
]


@pytest.fixture(scope="module")
def controller(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """Our controller, for the cases of this file."""
    with our_graphs.running(cluster, tmp_path_factory.mktemp("graphs")) as process:
        yield process


@pytest.mark.usefixtures("controller")
@pytest.mark.parametrize("name", kro.SCENARIOS)
def test_own_scenario_of_kro(api: Api, ns: str, name: str) -> None:
    kro.play(name, api, ns)
