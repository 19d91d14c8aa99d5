"""The cause of an object that is not ready reaches the conditions of the instance."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.graph_controller import GraphHarness, run_with_controller

from sliceworks.controllers.graphs.readiness_causes import condition_cause

CORE, BATCH = "/api/v1/namespaces/default", "/apis/batch/v1/namespaces/default"
LOADERS = "/apis/kro.run/v1alpha1/namespaces/default/loaders"
GRAPH = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: loader}
spec:
  schema: {apiVersion: v1alpha1, kind: Loader, spec: {cpu: string | default="1"}}
  resources:
  - id: download
    readyWhen: ["${download.status.?completionTime.hasValue()}"]
    template:
      apiVersion: batch/v1
      kind: Job
      metadata: {name: "${schema.metadata.name}"}
      spec:
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            containers: [{name: main, image: example.com/a, resources: {requests: {cpu: "${schema.spec.cpu}"}}}]
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: host, labels: {sliceworks.dev/node: simulated}}
status: {capacity: {cpu: "8", memory: 8Gi, pods: "10"}}
"""
SECRET = 'MountVolume.SetUp failed for volume "credentials" : secret "kaggle" not found'


def loader(**spec: Any) -> str:
    return f"{{apiVersion: kro.run/v1alpha1, kind: Loader, metadata: {{name: a}}, spec: {spec}}}"


async def message(harness: GraphHarness) -> str:
    return str((await harness.condition(f"{LOADERS}/a", "Ready"))["message"])


async def pod_of(harness: GraphHarness) -> str:
    [name] = await harness.names(f"{CORE}/pods")
    return name


def test_pending_pod() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply(NODE)
        await harness.apply(GRAPH)
        await harness.apply(loader(cpu="100"))
        await harness.settle(20)
        pod = await pod_of(harness)
        assert f"pod/{pod}: unschedulable: 0/1 nodes are available: 1 Insufficient cpu." in await message(harness)

    run_with_controller(main, workloads=True)


def test_failing_pod_then_failed_job() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply(GRAPH)
        await harness.apply(loader())
        pod = await pod_of(harness)
        status = {"name": "main", "image": "a", "imageID": "", "ready": False, "restartCount": 0}
        waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
        await _set_status(harness, pod, {**status, "state": waiting})
        await harness.settle(20)
        assert f"pod/{pod}: cannot pull image a: not found" in await message(harness)
        exited = {"terminated": {"exitCode": 3, "reason": "Error", "message": "no such model"}}
        await _set_status(harness, pod, {**status, "state": exited}, phase="Failed")
        await harness.settle(20)
        assert "Job has reached the specified backoff limit" in await message(harness)

    run_with_controller(main, workloads=True)


def test_missing_secret() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply(GRAPH)
        await harness.apply(loader())
        pod = await pod_of(harness)
        status = {"name": "main", "image": "a", "imageID": "", "ready": False, "restartCount": 0}
        await _set_status(harness, pod, {**status, "state": {"waiting": {"reason": "ContainerCreating"}}})
        await harness.settle(20)
        assert f"pod/{pod}: starting (ContainerCreating)" in await message(harness)
        uid = (await harness.get(f"{CORE}/pods/{pod}"))["metadata"]["uid"]
        involved = {"kind": "Pod", "name": pod, "namespace": "default", "uid": uid}
        event = {
            "metadata": {"name": "e"},
            "involvedObject": involved,
            "reason": "FailedMount",
            "message": SECRET,
            "type": "Warning",
        }
        await harness.twin.do("POST", f"{CORE}/events", event)
        await harness.settle(20)
        assert f"pod/{pod}: {SECRET}" in await message(harness)

    run_with_controller(main, workloads=True)


async def _set_status(harness: GraphHarness, pod: str, container: dict[str, Any], phase: str = "Pending") -> None:
    conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}]
    status = {"phase": phase, "conditions": conditions, "containerStatuses": [container]}
    await harness.twin.do("PATCH", f"{CORE}/pods/{pod}/status", {"status": status})


@pytest.mark.parametrize(
    ("conditions", "cause"),
    [
        (
            [{"type": "Ready", "status": "False", "reason": "UpdateFailed", "message": "Update call failed: Error 403: no"}],
            "Thing a: UpdateFailed: Update call failed: Error 403: no",
        ),
        ([{"type": "Ready", "status": "True", "reason": "UpToDate"}], ""),
        ([{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}], "Thing a: DeadlineExceeded"),
        ([{"type": "Available", "status": "False"}], "Thing a: Available is False"),
        ([], ""),
    ],
)
def test_cause_from_conditions(conditions: list[dict[str, str]], cause: str) -> None:
    assert condition_cause({"kind": "Thing", "metadata": {"name": "a"}, "status": {"conditions": conditions}}) == cause
