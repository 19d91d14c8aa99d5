"""Runs every contract case on the twin, and on the real control plane too when SLICEWORKS_REAL=1."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import goldens
from tests.support.clusters import Cluster, RealCluster, TwinCluster, mixed_enabled, real_enabled, twin_available
from tests.support.polling import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.http import Api

_serial = itertools.count(1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that uses a cluster once on each kind of cluster."""
    if "cluster" in metafunc.fixturenames:
        names = (["twin"] if twin_available() else []) + (["real"] if real_enabled() else [])
        if real_enabled() and _runs_mixed(metafunc.definition):
            names.append("mixed")
        metafunc.parametrize(
            "cluster", [pytest.param(n, marks=pytest.mark.real if n != "twin" else ()) for n in names], indirect=True
        )


def _runs_mixed(item: pytest.Item) -> bool:
    """Whether a test also runs with the real controllers on the twin's API: those marked `controllers`, or all of workloads."""
    return bool(item.get_closest_marker("controllers")) or (mixed_enabled() and "workloads" in item.path.parts)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line about what did not run."""
    if not real_enabled():
        terminalreporter.write_line(
            "the real control plane was skipped: SLICEWORKS_REAL=1 (make test-real) runs the contract on it too"
        )


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One server of each kind for the whole run."""
    folder = tmp_path_factory.mktemp(request.param)
    running: Cluster = RealCluster(folder) if request.param == "real" else TwinCluster(folder)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(autouse=True)
def recorded() -> Iterator[None]:
    """Fail a test that recorded an expectation."""
    yield
    cases = [goldens.RECORDED.pop() for _ in range(len(goldens.RECORDED))]
    assert not cases, f"recorded {', '.join(cases)}: read the difference, then run again"


@pytest.fixture
def api(cluster: Cluster) -> Api:
    """A client with the administrator's token."""
    return cluster.api


@pytest.fixture
def ns(api: Api) -> str:
    """A new namespace for each test."""
    return fresh_namespace(api)


@pytest.fixture
def core(ns: str) -> str:
    """The path of the test's namespace in the core API."""
    return f"/api/v1/namespaces/{ns}"


@pytest.fixture
def published(api: Api, core: str) -> None:
    """Wait until kube-root-ca.crt is in the test's namespace, for tests that count ConfigMaps."""
    eventually(lambda: api.get(f"{core}/configmaps/kube-root-ca.crt").status == 200, what="the authority is published")


@pytest.fixture
def unique_name() -> str:
    """A unique name for cluster-scoped objects."""
    return unique("thing")


def fresh_namespace(api: Api) -> str:
    """Create a namespace and wait for its default service account, which pods need."""
    name = unique("case")
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok(201)
    account = api.post(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})
    assert account.status in (201, 409)
    return name


def unique(prefix: str) -> str:
    """A name that no other test of this run uses."""
    return f"{prefix}-{os.getpid()}-{next(_serial)}"


@pytest.fixture
def official(cluster: Cluster) -> Iterator[Any]:
    """The official Python client on this cluster."""
    import kubernetes

    config: Any = kubernetes.config
    with config.new_client_from_config(str(cluster.kubeconfig)) as created:
        yield created
