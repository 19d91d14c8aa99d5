"""These cases run on clusters that work: a twin with its workloads, and the real controllers and scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.clusters import Cluster, RealCluster, TwinCluster
from tests.support.jobset_gates import Gates, install

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster of each kind for the whole run."""
    folder = tmp_path_factory.mktemp(f"{request.param}-workloads")
    running: Cluster
    running = RealCluster(folder, workloads=True) if request.param == "real" else TwinCluster(folder, workloads=True)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session")
def jobset(cluster: Cluster) -> Gates:
    """JobSet, installed in the cluster."""
    return install(cluster)
