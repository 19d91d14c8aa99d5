"""How many modules the main flows cross: docs/explanation/architecture.md walks through them.

Libraries (`base`, `kube`, `schemas`) and the API server of the twin do not count: test_request_flow.py counts one write.
"""

from __future__ import annotations

import gc
import importlib
import sys
from typing import TYPE_CHECKING, Any

from tests.support import fake_terraform
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin
from tests.support.flow import traced_modules
from tests.support.gateways import Client as HttpClient
from tests.support.gateways import chat, document, gateway, upstream
from tests.support.graph_controller import A_BOX, BOX, BOXES, GraphHarness, run_with_controller

import sliceworks
from sliceworks.base import clock
from sliceworks.cli import main as cli
from sliceworks.cli.env_site import EnvironmentCluster
from sliceworks.infra.target import Target
from sliceworks.kube.client import Client
from sliceworks.twin.nodes.node_shape import NodeShape, create_nodes

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from sliceworks.specs.gateway import GatewaySpec

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"


EXAMPLE = """NUMBERS = [number for number in range(3)]
def steps(kept):
    try:
        yield kept
    finally:
        kept.clear()
"""


def test_imports_and_generators_of_earlier_tests_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "example.py").write_text(EXAMPLE)
    monkeypatch.setattr(sliceworks, "__path__", [*sliceworks.__path__, str(tmp_path)])
    with traced_modules() as modules:
        example = importlib.import_module("sliceworks.example")
    assert not modules
    kept: list[object] = []
    kept.append(example.steps(kept))
    assert next(kept[0]) is kept  # type: ignore[call-overload]
    del kept  # only the garbage collector closes the generator: it refers to itself
    with traced_modules() as modules:
        gc.collect()
    assert not modules
    with traced_modules() as modules:
        next(example.steps([]))
    assert modules == {"example"}
    del sys.modules["sliceworks.example"]


def unhurried(url: str) -> GatewaySpec:
    """A gateway configuration whose time limits do not end while a trace slows everything down."""
    times = dict.fromkeys(("connect", "firstToken", "idle", "total"), "5m")
    return document(url, timeouts=times, health_check={"interval": "1h", "timeout": "5m"})


def test_chat_request_crosses_ten_modules_of_the_gateway() -> None:
    async def main() -> None:
        async with upstream() as echo, gateway(unhurried(echo.url)) as gate, await HttpClient.open(gate.port) as client:
            with traced_modules() as modules:
                client.send("POST", "/v1/chat/completions", chat("hello there", stream=True))
                assert (await client.get()).status == 200
        flow = {name for name in modules if name.startswith("serving.gateway.") and not name.startswith("serving.gateway.echo.")}
        flow.discard("serving.gateway.health_check")  # periodic probes run beside the request
        assert {"serving.gateway.app", "serving.gateway.router", "serving.gateway.http_client"} <= flow
        assert len(flow) <= 10, sorted(flow)

    clock.run(main())


def test_graph_instance_crosses_eighteen_modules() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply(BOX)
        await harness.apply(A_BOX)
        with traced_modules() as modules:
            await harness.apply(A_BOX.replace("name: a", "name: b"))
        assert (await harness.get(f"{BOXES}/b"))["status"]["state"] == "ACTIVE"
        flow = {name for name in modules if name.startswith(("controllers.graphs.", "graph.", "cel."))} - {"cel.references"}
        assert {"controllers.graphs.instance_controller", "graph.evaluation", "controllers.graphs.applier"} <= flow
        assert len(flow) <= 18, sorted(flow)

    run_with_controller(main)


def _jobset(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": 1}}}
    metadata = {"annotations": {"sliceworks.dev/run-seconds": "60"}}
    pods = {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"spec": {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": pods}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "q"}},
        "spec": {"replicatedJobs": [{"name": "w", "replicas": 1, "template": job}]},
    }


async def _create_queue(twin: EmbeddedTwin) -> None:
    async def create(path: str, kind: str, name: str, spec: dict[str, Any]) -> None:
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}
        await twin.do("POST", f"{KUEUE}/{path}", body)

    quota = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": 8}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
    await create("resourceflavors", "ResourceFlavor", "f", {})
    await create("clusterqueues", "ClusterQueue", "q", {"namespaceSelector": {}, "resourceGroups": groups})
    await create("namespaces/default/localqueues", "LocalQueue", "q", {"clusterQueue": "q"})


def test_jobset_through_kueue_crosses_few_steps_to_completion() -> None:
    """Only modules that await count, and so no pure functions: the cores of Kueue and the scheduler, the stages of nodes."""

    async def main(twin: EmbeddedTwin) -> None:
        await _create_queue(twin)
        async with Client(twin.cluster.transport()) as client:
            await create_nodes(client, NodeShape(pool="cpu", machine="n1-standard-4"), 3)
        await clock.sleep(60)
        with traced_modules(awaiting=True) as modules:
            await twin.do("POST", JOBSETS, _jobset("a"))
            await clock.sleep(900)
        assert (await twin.do("GET", f"{JOBSETS}/a"))["status"]["terminalState"] == "Completed"
        flow = {name for name in modules if name.startswith(("twin.controllers.", "twin.scheduler.", "twin.nodes."))}
        assert {"twin.controllers.kueue.kueue_scheduler", "twin.scheduler.binder", "twin.nodes.simulator"} <= flow
        assert len(flow) <= 20, sorted(flow)

    run_on_twin(main, workloads=True)


ENVIRONMENT = """apiVersion: sliceworks.dev/v1alpha1
kind: Environment
metadata: {name: small}
spec: {project: my-project, region: us-central2, zones: [us-central2-b], automation: {bucket: small-automation}}
"""
# The parser of the command line, and pure functions that a step calls: node pools, protections, types of objects, schemas.
NOT_STEPS = {"cli.main", "cli.groups", "cli.options", "cli.output"}
NOT_STEPS |= {"infra.pools", "infra.protection", "infra.cluster.inventory", "infra.provider.schema"}


def test_env_apply_crosses_sixteen_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLICEWORKS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SLICEWORKS_TERRAFORM", str(fake_terraform.install(tmp_path / "bin")))
    # The fake Terraform creates no cluster that could be changed.
    monkeypatch.setattr(Target, "missing_grant", lambda *_, creates: "")
    monkeypatch.setattr(Target, "read_json", lambda *_: {})
    monkeypatch.setattr(Target, "ensure_impersonation", lambda *_: None)
    monkeypatch.setattr(EnvironmentCluster, "apply", lambda *_: [])
    monkeypatch.setattr(EnvironmentCluster, "requeue", lambda *_: None)
    file = tmp_path / "environment.yaml"
    file.write_text(ENVIRONMENT)
    with traced_modules() as modules:
        assert cli.run(["env", "apply", "-y", "-q", "-f", str(file)]) == 0
    flow = {name for name in modules if name.startswith(("cli.", "platform.", "infra."))} - NOT_STEPS | {"infra.cluster.applier"}
    assert {"cli.env_apply", "infra.stack", "infra.terraform", "infra.cluster.composition"} <= flow
    assert len(flow) <= 16, sorted(flow)
