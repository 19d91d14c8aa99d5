"""Runs every contract case on the twin, and on the real control plane too when SLICEWORKS_REAL=1."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import goldens
from tests.support.clusters import Cluster, RealCluster, TwinCluster, real_wanted, twin_exists
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.http import Api

_serial = itertools.count(1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every case that asks for a cluster runs once on each."""
    if "cluster" in metafunc.fixturenames:
        names = (["twin"] if twin_exists() else []) + (["real"] if real_wanted() else [])
        metafunc.parametrize(
            "cluster", [pytest.param(n, marks=pytest.mark.real if n == "real" else ()) for n in names], indirect=True
        )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line what did not run."""
    if not real_wanted():
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
    """A case that wrote an expectation fails once."""
    yield
    cases = [goldens.RECORDED.pop() for _ in range(len(goldens.RECORDED))]
    assert not cases, f"recorded {', '.join(cases)}: read the difference, then run again"


@pytest.fixture
def api(cluster: Cluster) -> Api:
    """A client with the administrator's token."""
    return cluster.api


@pytest.fixture
def ns(api: Api) -> str:
    """A fresh namespace of its own for each case."""
    return fresh_namespace(api)


@pytest.fixture
def core(ns: str) -> str:
    """The path of the case's namespace in the core API."""
    return f"/api/v1/namespaces/{ns}"


@pytest.fixture
def published(api: Api, core: str) -> None:
    """The cluster's authority is in the case's namespace, a moment after that is made: for those who count ConfigMaps."""
    eventually(lambda: api.get(f"{core}/configmaps/kube-root-ca.crt").status == 200, what="the authority is published")


@pytest.fixture
def unique_name() -> str:
    """A name that no other case uses, for objects outside namespaces."""
    return unique("thing")


def fresh_namespace(api: Api) -> str:
    """A namespace that no other case uses, with the service account that pods need."""
    name = unique("case")
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok(201)
    account = api.post(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})
    assert account.status in (201, 409)
    return name


def unique(prefix: str) -> str:
    """A name that no other case of this run uses."""
    return f"{prefix}-{os.getpid()}-{next(_serial)}"


@pytest.fixture
def official(cluster: Cluster) -> Iterator[Any]:
    """The official client on this cluster."""
    import kubernetes

    config: Any = kubernetes.config
    with config.new_client_from_config(str(cluster.kubeconfig)) as made:
        yield made
