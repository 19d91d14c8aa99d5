"""These cases run on clusters that work: a twin with its workloads, and the real controllers and scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.clusters import Cluster, RealCluster, TwinCluster
from tests.support.jobset_gates import Gates, install
from tests.support.jobsets import Played
from tests.support.kueue_settings import Settings, installed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.http import Api
    from tests.support.kueue import Desk


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster of each kind for each file: nodes and queues belong to the whole cluster, and one file must not see another's.

    A file that says `PODLESS = True` needs no pods: on the real control plane nobody makes them, which saves much time.
    """
    folder = tmp_path_factory.mktemp(f"{request.param}-workloads")
    podless = getattr(request.module, "PODLESS", False)
    running: Cluster
    running = RealCluster(folder, workloads=not podless) if request.param == "real" else TwinCluster(folder, workloads=True)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def jobset(cluster: Cluster) -> Gates:
    """JobSet, installed in the cluster."""
    return install(cluster)


@pytest.fixture
def js(api: Api, ns: str, jobset: Gates) -> Played:
    """A JobSet to be made, where no feature gate is set."""
    jobset.set()
    return Played(api, ns)


@pytest.fixture
def real(cluster: Cluster) -> bool:
    """Whether this is the real thing, which is what gets recorded."""
    return cluster.name == "real"


@pytest.fixture(scope="module")
def kueue(request: pytest.FixtureRequest, cluster: Cluster, jobset: Gates) -> Settings:
    """Kueue, installed in the cluster; it queues pods too where a file says `PODS = True`."""
    return installed(cluster, pods=getattr(request.module, "PODS", False))


@pytest.fixture
def desk(cluster: Cluster, kueue: Settings, ns: str) -> Desk:
    """A namespace with hands for Kueue's objects."""
    from tests.support.kueue import Desk

    return Desk(cluster, ns)
