"""The real kro controller on a cluster: its definitions come from its own Go module, read when the test runs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import yaml
from tests.real.build import build, module_folder
from tests.real.processes import Process, free_port
from tests.real.programs import PROGRAMS
from tests.support.clusters import answers
from tests.support.custom import CRDS
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.clusters import Cluster

MODULE = "github.com/kubernetes-sigs/kro"
GRAPHS = "/apis/kro.run/v1alpha1/resourcegraphdefinitions"


def folder() -> Path:
    """The folder of kro's own files."""
    return module_folder(PROGRAMS["kro"], MODULE)


@contextmanager
def running(cluster: Cluster, logs: Path, *flags: str) -> Iterator[Process]:
    """kro with its definitions on this cluster. It looks again soon, so that tests are short."""
    for path in sorted((folder() / "helm" / "crds").glob("*.yaml")):
        body = load(path)
        answer = cluster.api.post(CRDS, body)
        assert answer.status in (201, 409), answer.body
    eventually(lambda: cluster.api.get(GRAPHS).status == 200, what="kro's definitions are served")
    probes = free_port()
    command = (
        str(build(PROGRAMS["kro"])),
        f"--kubeconfig={cluster.kubeconfig}",
        "--metrics-bind-address=0",
        f"--health-probe-bind-address=127.0.0.1:{probes}",
        "--instance-requeue-interval=200ms",
        "--rgd-progress-requeue-delay=200ms",
        "--client-qps=0",
        "--dynamic-controller-rate-limiter-rate-limit=1000",
        *flags,
    )
    process = Process("kro", command, logs / f"kro-{cluster.name}.log")
    try:
        process.wait_until(lambda: answers(f"http://127.0.0.1:{probes}", "/readyz"))
        yield process
    finally:
        process.kill()


def load(path: Path) -> dict[str, Any]:
    """The one document in a YAML file."""
    found: dict[str, Any] = yaml.load(path.read_text(), yaml.CSafeLoader)
    return found
