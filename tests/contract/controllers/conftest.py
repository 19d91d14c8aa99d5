"""Users' controllers on a cluster of their own for each file: a twin in real time, a real control plane with simulated nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.clusters import RealCluster, TwinCluster
from tests.support.simulated_nodes import simulate_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with workloads and without other controllers."""
    folder = tmp_path_factory.mktemp(f"{request.param}-controllers")
    if request.param == "real":
        running: Cluster = RealCluster(folder, workloads=True)
    else:
        running = TwinCluster(folder, workloads=True, without=("jobset", "kueue"))
    try:
        with simulate_nodes(running):
            yield running
    finally:
        running.stop()
