"""The graphs controller as a process, on a cluster of the contract suite."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.real.processes import Process, free_port
from tests.support.clusters import responds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.clusters import Cluster


@contextmanager
def running(cluster: Cluster, logs: Path, *flags: str) -> Iterator[Process]:
    """Run `sliceworks controller run graphs` on this cluster."""
    probes = free_port()
    command = (
        sys.executable,
        "-m",
        "sliceworks",
        "controller",
        "run",
        "graphs",
        f"--kubeconfig={cluster.kubeconfig}",
        "--metrics-bind-address=0",
        f"--health-probe-bind-address=127.0.0.1:{probes}",
        "--resource-graph-definition-concurrent-reconciles=8",
        *flags,
    )
    process = Process("graphs", command, logs / f"graphs-{cluster.name}.log")
    try:
        process.wait_until(lambda: responds(f"http://127.0.0.1:{probes}", "/readyz"))
        yield process
    finally:
        process.kill()
