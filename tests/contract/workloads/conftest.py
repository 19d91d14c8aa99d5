"""Runs these tests on clusters with workload controllers: a twin with workloads, and the real controllers and scheduler."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
from tests.contract.conftest import fresh_namespace
from tests.support.jobset_install import Gates, install
from tests.support.jobsets import JobSetDriver
from tests.support.kueue_install import Settings, installed
from tests.support.kueue_namespaces import NamespacePool
from tests.support.polling import on_clock
from tests.support.scheduling import SchedulerHarness
from tests.support.shared_clusters import SharedClusters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster
    from tests.support.http import Api
    from tests.support.kueue import KueueHarness

_known: dict[str, NamespacePool] = {}


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedClusters]:
    """The clusters that files share."""
    with SharedClusters(tmp_path_factory) as clusters:
        yield clusters


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, shared: SharedClusters) -> Iterator[Cluster]:
    """One cluster of each kind for each file, because nodes and queues are cluster-scoped.

    Files that do not affect each other share a cluster by the same `CLUSTER`. A file with `PODLESS = True` needs no pods: no
    controller creates them on the real control plane, which saves time. A file with `HURRIED = True` has autoscalers reconciled
    every second: by a flag of the real controller, and by a faster clock of the twin.
    """
    name = getattr(request.module, "CLUSTER", "")
    podless, hurried = (getattr(request.module, word, False) for word in ("PODLESS", "HURRIED"))
    yield shared.get(request.param, name, podless=podless, hurried=hurried)
    if not name:
        shared.stop(request.param, name)


@pytest.fixture(autouse=True)
def cluster_time(request: pytest.FixtureRequest) -> Iterator[None]:
    """Waits pass time of the cluster: seconds of a twin's clock take milliseconds."""
    cluster = request.getfixturevalue("cluster") if "cluster" in request.fixturenames else None
    with on_clock(cluster.pass_time) if cluster and cluster.name == "twin" else nullcontext():
        yield


@pytest.fixture
def ns(request: pytest.FixtureRequest, cluster: Cluster, api: Api) -> str:
    """A new namespace for each test; for tests of Kueue, one that Kueue knows."""
    if "kueue" not in request.fixturenames:
        return fresh_namespace(api)
    known = _known.setdefault(cluster.token, NamespacePool(api, lambda: fresh_namespace(api)))
    return known.take()


@pytest.fixture(scope="module")
def jobset(cluster: Cluster) -> Gates:
    """Install JobSet in the cluster."""
    return install(cluster)


@pytest.fixture
def js(api: Api, ns: str, jobset: Gates) -> JobSetDriver:
    """A JobSet to create, without feature gates."""
    jobset.set()
    return JobSetDriver(api, ns)


@pytest.fixture
def scheduler(api: Api, ns: str) -> Iterator[SchedulerHarness]:
    """A harness for the scheduler, without nodes before and after the test."""
    scheduler = SchedulerHarness(api, ns)
    scheduler.settle()
    yield scheduler
    scheduler.clear()


@pytest.fixture
def real(cluster: Cluster) -> bool:
    """Whether this is the real control plane, whose results are recorded."""
    return cluster.name == "real"


@pytest.fixture(scope="module")
def kueue(request: pytest.FixtureRequest, cluster: Cluster, jobset: Gates) -> Settings:
    """Install Kueue in the cluster; it also queues pods if the file sets `PODS = True`."""
    result = installed(cluster, pods=getattr(request.module, "PODS", False))
    result.configure()
    return result


@pytest.fixture
def harness(cluster: Cluster, kueue: Settings, ns: str) -> KueueHarness:
    """A namespace with methods for Kueue's objects."""
    from tests.support.kueue import KueueHarness

    return KueueHarness(cluster, ns)
