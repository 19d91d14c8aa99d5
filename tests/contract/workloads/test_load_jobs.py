"""The Job of a load test: pods resolve each other by name, a failed pod does not end others, and all objects are deleted with
it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.polling import eventually

from sliceworks.kube import open_client
from sliceworks.loadtest.cluster import cluster_runner, worker_job
from sliceworks.specs.load_test import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.clusters import Cluster
    from tests.support.http import Api

Object = dict[str, Any]
CLUSTER = "controllers"
NAME = "load-chat-0a1b2c"


def on(cluster: Cluster, work: Callable[[Any], Any]) -> None:
    async def act() -> None:
        async with open_client(str(cluster.kubeconfig)) as client:
            await work(client)

    asyncio.run(act())


@pytest.fixture
def launch(cluster: Cluster, ns: str) -> Iterator[worker_job.WorkerJob]:
    """A master and two senders; they request more memory than any node has, so none is scheduled."""
    workers = Workers.model_validate({"where": "cluster", "image": "i:1", "count": 2, "memory": "900Ti"})
    created = worker_job.WorkerJob(NAME, ns, workers, 60.0, {"test.json": b"{}"}, {"SLICEWORKS_LOAD_TOKEN": "word"})
    on(cluster, lambda client: worker_job.create(client, created))
    yield created
    on(cluster, lambda client: worker_job.delete(client, created))


def of(api: Api, ns: str, kind: str) -> list[Object]:
    group = {"networkpolicies": "/apis/networking.k8s.io/v1", "jobs": "/apis/batch/v1"}.get(kind, "/api/v1")
    query = {"labelSelector": f"{worker_job.LABEL}={NAME}"}
    result: list[Object] = api.get(f"{group}/namespaces/{ns}/{kind}", query=query).ok().json["items"]
    return result


def senders(api: Api, ns: str) -> list[Object]:
    return sorted(of(api, ns, "pods"), key=cluster_runner.pod_index)


def test_pods_resolve_each_other_by_name(api: Api, ns: str, launch: worker_job.WorkerJob) -> None:
    eventually(lambda: len(senders(api, ns)) == 3)
    for index, pod in enumerate(senders(api, ns)):
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (f"{NAME}-{index}", NAME)
        variables = {variable["name"] for variable in pod["spec"]["containers"][0]["env"]}
        assert "JOB_COMPLETION_INDEX" in variables
        assert f"{NAME}-0.{NAME}" in pod["spec"]["containers"][0]["args"]
    [service] = of(api, ns, "services")
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == ("None", True)


def test_failed_pod_is_not_retried_and_others_continue(api: Api, ns: str, launch: worker_job.WorkerJob) -> None:
    eventually(lambda: len(senders(api, ns)) == 3)
    failing = senders(api, ns)[2]["metadata"]
    path = f"/api/v1/namespaces/{ns}/pods/{failing['name']}/status"
    api.patch(path, {"status": {"phase": "Failed"}}).ok()
    job = f"/apis/batch/v1/namespaces/{ns}/jobs/{NAME}"
    eventually(lambda: api.get(job).ok().json["status"].get("failedIndexes") == "2")
    status = api.get(job).ok().json["status"]
    assert (
        status["active"],
        [condition["type"] for condition in status.get("conditions", ()) if condition["status"] == "True"],
    ) == (2, [])
    left = [cluster_runner.pod_index(item) for item in senders(api, ns) if item["status"]["phase"] == "Pending"]
    assert left == [0, 1]


def test_all_objects_are_deleted_with_the_job(cluster: Cluster, api: Api, ns: str, launch: worker_job.WorkerJob) -> None:
    kinds = ("jobs", "pods", "configmaps", "secrets", "services", "networkpolicies")
    eventually(lambda: all(of(api, ns, kind) for kind in kinds))
    on(cluster, lambda client: worker_job.delete(client, launch))
    # The Job is deleted last, unless the garbage collector does not know all its children yet.
    eventually(lambda: {kind: of(api, ns, kind) for kind in kinds} == {kind: [] for kind in kinds}, what="everything is deleted")
