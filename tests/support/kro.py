"""The real kro controller on a cluster, and its own scenarios, read from its Go module at test time."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import yaml
from tests.real.build import build, module_folder
from tests.real.processes import Process, free_port
from tests.real.programs import PROGRAMS
from tests.support.chainsaw import Scenario
from tests.support.clusters import responds
from tests.support.custom_resources import CRDS
from tests.support.polling import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.clusters import Cluster
    from tests.support.http import Api

MODULE = "github.com/kubernetes-sigs/kro"
GRAPHS = "/apis/kro.run/v1alpha1/resourcegraphdefinitions"
SCENARIOS = (
    "cel-random-namespaced-function",
    "check-arbitary-objects",
    "check-external-references",
    "check-instance-creation",
    "check-instance-update",
    "check-multi-resource-rgd",
    "check-required-default-interactions",
    "check-rgd-creation",
    "check-rgd-deletion",
    "check-unknown-fields",
    "check-validation-markers",
)
"""The folders of its end-to-end scenarios."""


def folder() -> Path:
    """The folder of kro's files."""
    return module_folder(PROGRAMS["kro"], MODULE)


@contextmanager
def running(cluster: Cluster, logs: Path, *flags: str) -> Iterator[Process]:
    """Run kro with its CRDs on this cluster, with short resync periods and high concurrency to keep tests fast."""
    for path in sorted((folder() / "helm" / "crds").glob("*.yaml")):
        body = load(path)
        response = cluster.api.post(CRDS, body)
        assert response.status in (201, 409), response.body
    eventually(lambda: cluster.api.get(GRAPHS).status == 200, what="kro's definitions are served")
    probes = free_port()
    command = (
        str(build(PROGRAMS["kro"])),
        f"--kubeconfig={cluster.kubeconfig}",
        "--metrics-bind-address=0",
        f"--health-probe-bind-address=127.0.0.1:{probes}",
        "--instance-requeue-interval=1s",
        "--rgd-progress-requeue-delay=200ms",
        "--resource-graph-definition-concurrent-reconciles=8",
        "--client-qps=0",
        "--dynamic-controller-rate-limiter-rate-limit=1000",
        *flags,
    )
    process = Process("kro", command, logs / f"kro-{cluster.name}.log")
    try:
        process.wait_until(lambda: responds(f"http://127.0.0.1:{probes}", "/readyz"))
        yield process
    finally:
        process.kill()


def load(path: Path) -> dict[str, Any]:
    """Load a YAML file with one document."""
    result: dict[str, Any] = yaml.load(path.read_text(), yaml.CSafeLoader)
    return result


def play(name: str, api: Api, ns: str) -> None:
    """Run one of kro's end-to-end scenarios, with any controller that serves graphs."""

    def scale_up() -> None:
        """Scale the deployment as the scenario's autoscaler would; no such controller runs here."""
        deployment = f"/apis/apps/v1/namespaces/{ns}/deployments/test-app-deployment"
        eventually(lambda: api.get(deployment).json["metadata"]["generation"] == 2, what="the deployment has the change")
        api.patch(f"{deployment}/scale", {"spec": {"replicas": 2}}).ok(200)

    before = {"deployment-update-assert.yaml": scale_up} if name == "check-multi-resource-rgd" else {}
    Scenario(folder() / "test" / "e2e" / "chainsaw" / name, api, ns, before).play()
