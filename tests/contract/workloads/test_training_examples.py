"""The examples of training jobs on nodes of every type: accepted by the webhooks, admitted, scheduled and completed.

Only their duration differs: a second instead of hours of training.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.contract.conftest import fresh_namespace
from tests.support.kueue_namespaces import until_known
from tests.support.polling import eventually
from tests.support.simulated_nodes import simulate_nodes

from sliceworks.base import clock
from sliceworks.kube.https import open_client
from sliceworks.platform import loader
from sliceworks.rehearsal.forecast import snapshot
from sliceworks.rehearsal.forecast.forecaster import Forecaster
from sliceworks.training import submission as submissions
from sliceworks.training.status import job_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster
    from tests.support.http import Api
    from tests.support.kueue_install import Settings

    from sliceworks.rehearsal.forecast.snapshot import Snapshot

CLUSTER = "training"
EXAMPLES = Path(__file__).parents[3] / "examples" / "training-jobs"
NAMES = sorted(file.stem for file in EXAMPLES.glob("*.yaml"))
TEAM = "tpu-training"
_JOBSETS = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{TEAM}/jobsets"
_KUEUE, _RUN = "/apis/kueue.x-k8s.io/v1beta2", "sliceworks.dev/run-seconds"
Object = dict[str, Any]


@pytest.fixture(scope="module")
def platform(cluster: Cluster, kueue: Settings) -> Iterator[Api]:
    """Queues and nodes of the example's Environment."""
    with simulate_nodes(cluster):
        for document in loader.load(EXAMPLES / "platform"):
            cluster.api.post(_collection(document.data), document.data).ok(201)
        queue = f"{_KUEUE}/namespaces/{TEAM}/localqueues/tpu-job-queue"
        eventually(lambda: _true(cluster.api.get(queue).ok().json, "Active"), what="the queue")
        until_known(cluster.api, fresh_namespace(cluster.api))
        yield cluster.api


def _collection(obj: Object) -> str:
    group, _, version = obj["apiVersion"].rpartition("/")
    plural = obj["kind"].lower() + ("es" if obj["kind"].endswith("s") else "s")
    place = f"/namespaces/{obj['metadata']['namespace']}" if "namespace" in obj["metadata"] else ""
    return f"/apis/{group}/{version}{place}/{plural}" if group else f"/api/{version}{place}/{plural}"


def _true(obj: Object, kind: str) -> bool:
    return any(
        condition["type"] == kind and condition["status"] == "True"
        for condition in (obj.get("status") or {}).get("conditions") or ()
    )


def _shortened(jobset: Object, seconds: str) -> Object:
    """The same JobSet with this duration; helper Jobs have no end of their own."""
    for job in jobset["spec"]["replicatedJobs"]:
        template = job["template"]["spec"]["template"]
        if _RUN in (template.get("metadata") or {}).get("annotations", {}):
            template["metadata"]["annotations"][_RUN] = seconds
    return jobset


def _finish(platform: Api, jobset: str) -> None:
    """Finish the running pods of a JobSet as if they had run long enough."""
    pods = f"/api/v1/namespaces/{TEAM}/pods"
    for pod in platform.get(pods, {"labelSelector": f"jobset.sigs.k8s.io/jobset-name={jobset}"}).ok().json["items"]:
        if pod["status"].get("phase") == "Running":
            path = f"{pods}/{pod['metadata']['name']}"
            assert platform.patch(path, {"metadata": {"annotations": {_RUN: "0"}}}).status in (200, 404)


def test_example_completes_on_requested_hosts(platform: Api) -> None:
    jobs = {name: submissions.load(EXAMPLES / f"{name}.yaml") for name in NAMES}
    for job in jobs.values():
        platform.post(_JOBSETS, _shortened(job.jobset(), "1")).ok(201)
    hosts: dict[str, set[str]] = {name: set() for name in NAMES}

    def ended() -> bool:
        for pod in platform.get(f"/api/v1/namespaces/{TEAM}/pods").ok().json["items"]:
            labels = pod["metadata"]["labels"]
            if labels["jobset.sigs.k8s.io/replicatedjob-name"] == "slice" and pod["spec"].get("nodeName"):
                hosts[labels["jobset.sigs.k8s.io/jobset-name"]].add(pod["metadata"]["name"].rpartition("-")[0])
        states = {item["metadata"]["name"]: job_state(item) for item in platform.get(_JOBSETS).ok().json["items"]}
        assert "failed" not in states.values(), states
        return states == dict.fromkeys(NAMES, "completed")

    eventually(ended, what="the end of all jobs")
    assert {name: len(result) for name, result in hosts.items()} == {name: item.request.hosts for name, item in jobs.items()}


def test_spot_preemption_restarts_job_without_counting(platform: Api) -> None:
    submission = submissions.load(EXAMPLES / "spot" / "20-job.yaml")
    platform.post(_JOBSETS, _shortened(submission.jobset(), "600")).ok(201)
    spot = f"{_JOBSETS}/spot"
    eventually(lambda: job_state(platform.get(spot).ok().json) == "running", what="it runs")
    node = platform.get("/api/v1/nodes/gke-v5e-spot-0-2").ok().json
    taken = {"sliceworks.dev/state": "preempted", "sliceworks.dev/shutdown-seconds": "2"}
    platform.patch("/api/v1/nodes/gke-v5e-spot-0-2", {"metadata": {"annotations": taken}}).ok()
    eventually(lambda: platform.get(spot).ok().json["status"].get("restarts"), what="it begins again")
    eventually(lambda: platform.get("/api/v1/nodes/gke-v5e-spot-0-2").status == 404, what="the machine is deleted")
    fresh = {"name": node["metadata"]["name"], "labels": node["metadata"]["labels"]}
    spec = {"podCIDR": node["spec"]["podCIDR"], "podCIDRs": node["spec"]["podCIDRs"], "taints": _own(node["spec"]["taints"])}
    status = {"capacity": node["status"]["capacity"], "allocatable": node["status"]["allocatable"]}
    platform.post("/api/v1/nodes", {"metadata": fresh, "spec": spec, "status": status}).ok(201)

    def ended() -> bool:
        _finish(platform, "spot")
        return job_state(platform.get(spot).ok().json) == "completed"

    eventually(ended, what="its end")
    result = platform.get(spot).ok().json["status"]
    assert result["restarts"] >= 1
    assert result.get("restartsCountTowardsMax", 0) == 0


def test_forecast_reads_queues(platform: Api, cluster: Cluster) -> None:
    sent = {"ahead": "hello-multi-slice", "behind": "hello-one-slice"}
    for name, seconds in (("ahead", "600"), ("behind", "120")):
        created = _shortened(submissions.load(EXAMPLES / f"{sent[name]}.yaml").jobset(), seconds)
        created["metadata"]["name"] = name
        platform.post(_JOBSETS, created).ok(201)
        eventually(lambda: name in _waiting_or_running(platform), what=f"{name} has a Workload")  # noqa: B023
    eventually(lambda: _true(_waiting_or_running(platform)["ahead"], "Admitted"), what="the first runs")

    async def main() -> Snapshot:
        client = open_client(cluster.kubeconfig)
        try:
            return await snapshot.take(client)
        finally:
            await client.transport.close()
            await clock.sleep(0.3)  # TLS connections take a while to close

    outlook = Forecaster(clock.run(main()))
    jobs = {job.name: job for job in outlook.jobs.values()}
    assert {name: (job.state, job.estimate, job.resumes) for name, job in jobs.items()} == {
        "ahead": ("running", 600, True),
        "behind": ("queued", 120, False),
    }
    [result] = outlook.forecast([jobs["behind"]]).expectations
    assert result.starts is not None
    assert result.starts.median == pytest.approx(600, rel=0.25)


def _waiting_or_running(platform: Api) -> dict[str, Object]:
    items = platform.get(f"{_KUEUE}/namespaces/{TEAM}/workloads").ok().json["items"]
    return {item["metadata"]["ownerReferences"][0]["name"]: item for item in items if not _true(item, "Finished")}


def _own(taints: list[Object]) -> list[Object]:
    return [taint for taint in taints if not taint["key"].startswith("node.kubernetes.io/")]
