"""Runs the slices controller, with the twin's cloud behind it, beside a twin and beside the real control plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.clusters import Cluster, RealCluster, TwinCluster
from tests.support.jobset_install import install
from tests.support.slice_thread import SliceThread, slice_thread

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster of each kind, with JobSet and a scheduler."""
    folder = tmp_path_factory.mktemp(f"{request.param}-slices")
    running: Cluster
    running = RealCluster(folder, workloads=True) if request.param == "real" else TwinCluster(folder, workloads=True)
    try:
        install(running).set()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def slices(cluster: Cluster) -> Iterator[SliceThread]:
    """The running controller."""
    with slice_thread(cluster, zones=("us-central2-b", "us-central2-a")) as running:
        yield running
