"""These cases run on clusters that work: a twin with its workloads, and the real controllers and scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.contract.conftest import fresh_namespace
from tests.support.jobset_gates import Gates, install
from tests.support.jobsets import Played
from tests.support.known_namespaces import Known
from tests.support.kueue_settings import Settings, installed
from tests.support.scheduling import Stage
from tests.support.shared import Shared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster
    from tests.support.http import Api
    from tests.support.kueue import Desk

_known: dict[str, Known] = {}


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """The clusters that files share."""
    with Shared(tmp_path_factory) as clusters:
        yield clusters


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, shared: Shared) -> Iterator[Cluster]:
    """One cluster of each kind for each file: nodes and queues belong to the whole cluster, and one file must not see another's.

    Files that do not mind each other say so by naming the same `CLUSTER`. One that says `PODLESS = True` needs no pods: on the real
    control plane nobody makes them, which saves much time. One that says `HURRIED = True` has autoscalers looked at every second:
    the real controller is told so, and the twin's time runs as much faster.
    """
    name = getattr(request.module, "CLUSTER", "")
    podless, hurried = (getattr(request.module, word, False) for word in ("PODLESS", "HURRIED"))
    yield shared.get(request.param, name, podless=podless, hurried=hurried)
    if not name:
        shared.stop(request.param, name)


@pytest.fixture
def ns(request: pytest.FixtureRequest, cluster: Cluster, api: Api) -> str:
    """A fresh namespace of its own for each case, which Kueue knows where a case has to do with it."""
    if "kueue" not in request.fixturenames:
        return fresh_namespace(api)
    known = _known.setdefault(cluster.token, Known(api, lambda: fresh_namespace(api)))
    return known.take()


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
def stage(api: Api, ns: str) -> Iterator[Stage]:
    """A stage for scheduling, empty before and after."""
    stage = Stage(api, ns)
    stage.settle()
    yield stage
    stage.clear()


@pytest.fixture
def real(cluster: Cluster) -> bool:
    """Whether this is the real thing, which is what gets recorded."""
    return cluster.name == "real"


@pytest.fixture(scope="module")
def kueue(request: pytest.FixtureRequest, cluster: Cluster, jobset: Gates) -> Settings:
    """Kueue, installed in the cluster; it queues pods too where a file says `PODS = True`."""
    found = installed(cluster, pods=getattr(request.module, "PODS", False))
    found.configure()
    return found


@pytest.fixture
def desk(cluster: Cluster, kueue: Settings, ns: str) -> Desk:
    """A namespace with hands for Kueue's objects."""
    from tests.support.kueue import Desk

    return Desk(cluster, ns)
