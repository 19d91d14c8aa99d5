"""Jobs from their first pod to their last condition; expectations are recorded from the real controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.jobs import done, job
from tests.support.polling import eventually, pass_time
from tests.support.workloads import WorkloadHarness, summary, template

if TYPE_CHECKING:
    from tests.support.clusters import Cluster

pytestmark = pytest.mark.controllers
CLUSTER = "controllers"


@pytest.fixture
def workloads(cluster: Cluster, ns: str) -> WorkloadHarness:
    return WorkloadHarness(cluster, ns)


def test_job_with_one_pod(workloads: WorkloadHarness) -> None:
    job(workloads)
    (pod,) = workloads.pods(1)
    workloads.phase(pod, "Running", ready=True)
    workloads.until("Job", "work", lambda obj: obj["status"].get("ready") == 1)
    workloads.phase(pod, "Succeeded", 0)
    done(workloads, "one pod")


def test_running_job(workloads: WorkloadHarness) -> None:
    job(workloads, completions=5, parallelism=3)
    pods = workloads.pods(3)
    workloads.phase(pods[0], "Running", ready=True)
    workloads.phase(pods[1], "Running")
    actual = workloads.until("Job", "work", lambda result: result["status"].get("ready") == 1)
    workloads.check("jobs", "running", {"status": actual["status"], "pods": [summary(pod) for pod in pods], "spec": actual["spec"]})


def test_more_completions_than_parallelism(workloads: WorkloadHarness) -> None:
    job(workloads, completions=3, parallelism=2)
    first, second = workloads.pods(2)
    workloads.phase(first, "Succeeded", 0)
    workloads.phase(second, "Succeeded", 0)
    (third,) = workloads.pods(1)
    workloads.phase(third, "Succeeded", 0)
    done(workloads, "three in two")


def test_work_queue_job(workloads: WorkloadHarness) -> None:
    """Without completions, one success is enough; then no new pod is created."""
    job(workloads, parallelism=3, completions=None)
    first, second, third = workloads.pods(3)
    workloads.phase(first, "Succeeded", 0)
    actual = workloads.until("Job", "work", lambda result: result["status"].get("succeeded") == 1)
    assert actual["status"]["active"] == 2
    workloads.phase(second, "Succeeded", 0)
    workloads.phase(third, "Failed", 1)
    done(workloads, "work queue")


def test_indexed_job(workloads: WorkloadHarness) -> None:
    job(workloads, completions=4, parallelism=4, completionMode="Indexed")
    pods = workloads.pods(4)
    by_index = {pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]: pod for pod in pods}
    for index in ("0", "2", "3"):
        workloads.phase(by_index[index], "Succeeded", 0)
    actual = workloads.until("Job", "work", lambda result: result["status"].get("succeeded") == 3)
    assert actual["status"]["completedIndexes"] == "0,2,3"
    workloads.phase(by_index["1"], "Succeeded", 0)
    done(workloads, "indexed")


def test_completed_indexes_format(workloads: WorkloadHarness) -> None:
    job(workloads, completions=7, parallelism=7, completionMode="Indexed")
    for pod in workloads.pods(7):
        if pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] in "12456":
            workloads.phase(pod, "Succeeded", 0)
    actual = workloads.until("Job", "work", lambda result: result["status"].get("succeeded") == 5)
    assert actual["status"]["completedIndexes"] == "1,2,4-6"


def test_long_job_name(workloads: WorkloadHarness) -> None:
    name = "a" * 60
    job(workloads, name, completions=1, completionMode="Indexed")
    (pod,) = workloads.pods(1)
    assert pod["metadata"]["generateName"] == "a" * 55 + "-0-"
    assert pod["spec"]["hostname"] == "a" * 60 + "-0"


def test_user_variables_and_finalizers_are_kept(workloads: WorkloadHarness) -> None:
    env = [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]
    containers = [
        {"name": "main", "image": "example.com/app:1", "env": env},
        {"name": "second", "image": "example.com/app:1", "env": [{"name": "X", "value": "y"}]},
    ]
    job(workloads, completions=1, completionMode="Indexed", pod={"containers": containers})
    (pod,) = workloads.pods(1)
    assert pod["spec"]["containers"][0]["env"] == env
    index = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}
    assert pod["spec"]["containers"][1]["env"] == [
        {"name": "X", "value": "y"},
        {"name": "JOB_COMPLETION_INDEX", "valueFrom": index},
    ]


def test_job_is_created_suspended(workloads: WorkloadHarness) -> None:
    job(workloads, suspend=True)
    result = workloads.until_condition("Job", "work", "Suspended")
    workloads.check("jobs", "born suspended", {"status": result["status"], "events": workloads.events("Job", "work", "Suspended")})
    assert workloads.items("Pod") == []
    workloads.patch("Job", "work", {"spec": {"suspend": False}})
    (pod,) = workloads.pods(1)
    workloads.phase(pod, "Succeeded", 0)
    done(workloads, "born suspended, resumed")


def test_job_is_suspended_and_resumed(workloads: WorkloadHarness) -> None:
    job(workloads, parallelism=2, completions=2)
    first, _ = workloads.pods(2)
    workloads.phase(first, "Succeeded", 0)
    workloads.until("Job", "work", lambda obj: obj["status"].get("succeeded") == 1)
    workloads.patch("Job", "work", {"spec": {"suspend": True}})
    workloads.until_condition("Job", "work", "Suspended")
    workloads.settles(
        "jobs",
        "suspended",
        lambda: {"status": workloads.get("Job", "work")["status"], "events": workloads.events("Job", "work", "Suspended")},
    )
    workloads.patch("Job", "work", {"spec": {"suspend": False}})
    workloads.until_condition("Job", "work", "Suspended", "False")
    (pod,) = workloads.pods(1)
    workloads.phase(pod, "Succeeded", 0)
    done(workloads, "suspended and resumed")


def test_changed_parallelism(workloads: WorkloadHarness) -> None:
    job(workloads, parallelism=3, completions=6)
    pods = workloads.pods(3)
    workloads.phase(pods[1], "Running", ready=True)
    workloads.until("Job", "work", lambda actual: actual["status"].get("ready") == 1)
    workloads.patch("Job", "work", {"spec": {"parallelism": 1}})
    (left,) = workloads.pods(1)
    assert left["metadata"]["name"] == pods[1]["metadata"]["name"]
    actual = workloads.until("Job", "work", lambda result: result["status"].get("active") == 1)
    assert actual["status"].get("failed") is None
    workloads.patch("Job", "work", {"spec": {"parallelism": 4}})
    workloads.pods(4)


def test_elastic_indexed_job(workloads: WorkloadHarness) -> None:
    job(workloads, parallelism=3, completions=3, completionMode="Indexed")
    workloads.pods(3)
    workloads.patch("Job", "work", {"spec": {"parallelism": 1, "completions": 1}})
    (pod,) = workloads.pods(1)
    assert pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == "0"
    workloads.phase(pod, "Succeeded", 0)
    done(workloads, "elastic")


def test_success_policy(workloads: WorkloadHarness) -> None:
    spec: dict[str, Any] = {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}
    job(workloads, **spec, successPolicy={"rules": [{"succeededIndexes": "1-2", "succeededCount": 1}]})
    by_index = {pod["spec"]["hostname"]: pod for pod in workloads.pods(3)}
    workloads.phase(by_index["work-2"], "Succeeded", 0)
    done(workloads, "success policy")


def test_deleted_pod_is_replaced(workloads: WorkloadHarness) -> None:
    job(workloads, backoffLimit=2, pod={"nodeName": workloads.nowhere})
    (pod,) = workloads.pods(1)
    workloads.delete("Pod", pod["metadata"]["name"])
    workloads.until("Job", "work", lambda obj: (obj["status"].get("failed"), obj["status"].get("terminating")) == (1, 1))
    workloads.remove(pod)


def test_pod_is_replaced_only_after_failure(workloads: WorkloadHarness) -> None:
    job(workloads, backoffLimit=2, podReplacementPolicy="Failed", pod={"nodeName": workloads.nowhere})
    (pod,) = workloads.pods(1)
    workloads.delete("Pod", pod["metadata"]["name"])
    actual = workloads.until("Job", "work", lambda result: result["status"].get("terminating") == 1)
    assert actual["status"].get("active") is None
    assert actual["status"].get("failed") is None
    workloads.settles("jobs", "waiting for a pod to end", lambda: {"status": workloads.get("Job", "work")["status"]})
    workloads.phase(pod, "Failed", 137)
    actual = workloads.until("Job", "work", lambda actual: actual["status"].get("failed") == 1)
    assert len(workloads.pods(1)) == 1


def test_ttl_deletes_finished_job(workloads: WorkloadHarness) -> None:
    job(workloads, ttlSecondsAfterFinished=1)
    (pod,) = workloads.pods(1)
    workloads.phase(pod, "Succeeded", 0)
    eventually(lambda: workloads.gone("Job", "work"), what="the Job is deleted")
    eventually(lambda: not workloads.items("Pod"), what="its pods are deleted")


def test_deletion_deletes_pods(workloads: WorkloadHarness) -> None:
    job(workloads, parallelism=2)
    workloads.pods(2)
    workloads.delete("Job", "work", propagationPolicy="Background")
    eventually(lambda: not workloads.items("Pod"), what="its pods are deleted")


def test_orphaned_pods_lose_their_finalizer(workloads: WorkloadHarness) -> None:
    job(workloads)
    workloads.pods(1)
    workloads.wait_synced()
    workloads.delete("Job", "work", propagationPolicy="Orphan")

    def is_released() -> bool:
        (pod,) = workloads.items("Pod")
        return "finalizers" not in pod["metadata"] and "ownerReferences" not in pod["metadata"]

    eventually(is_released, what="the pod is free")


def test_deletion_without_a_policy_orphans_pods(workloads: WorkloadHarness) -> None:
    job(workloads)
    workloads.pods(1)
    workloads.wait_synced()
    answer = workloads.api.delete(workloads.path("Job", "work")).ok()
    (warning,) = answer.warnings
    assert warning == (
        '299 - "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set '
        'propagationPolicy=Orphan to suppress this warning"'
    )
    eventually(lambda: workloads.gone("Job", "work"), what="the Job is deleted")
    eventually(lambda: all("ownerReferences" not in pod["metadata"] for pod in workloads.items("Pod")), what="the pod is free")
    assert len(workloads.items("Pod")) == 1


def test_managed_by_another_controller(workloads: WorkloadHarness) -> None:
    job(workloads, managedBy="example.com/other")
    pass_time(1.5)
    assert workloads.items("Pod") == []
    assert workloads.get("Job", "work")["status"] == {}


def test_rejected_pods_are_reported(workloads: WorkloadHarness) -> None:
    workloads.allow_pods(1)
    job(workloads, parallelism=3, completions=3)
    workloads.pods(1)
    reported = workloads.events("Job", "work", "FailedCreate")
    failed = next(event for event in reported if event["reason"] == "FailedCreate")
    name = failed["message"].split('"')[1]
    assert failed["message"] == (
        f'Error creating: pods "{name}" is forbidden: exceeded quota: none, requested: pods=1, used: pods=1, limited: pods=1'
    )
    assert failed["type"] == "Warning"


def test_failed_pod_beside_ready_pod(workloads: WorkloadHarness) -> None:
    job(workloads, parallelism=2, completions=2)
    first, second = workloads.pods(2)
    workloads.phase(first, "Running", ready=True)
    workloads.until("Job", "work", lambda obj: obj["status"].get("ready") == 1)
    workloads.phase(second, "Failed", 1)
    workloads.settles("jobs", "one fails beside a ready one", lambda: {"status": workloads.get("Job", "work")["status"]})


def test_pods_are_adopted_and_released(workloads: WorkloadHarness) -> None:
    """A Job adopts pods with its labels, and releases pods that lose them."""
    selector = {"matchLabels": {"own": "yes"}}
    body = {"selector": selector, "manualSelector": True, "template": template(labels={"own": "yes"}, restartPolicy="Never")}
    pod = {"metadata": {"name": "stray", "labels": {"own": "yes"}}, "spec": template(restartPolicy="Never")["spec"]}
    workloads.api.post(workloads.path("Pod"), pod).ok(201)
    workloads.wait_synced()
    workloads.create("Job", "work", body)

    def adopted() -> bool:
        metadata = workloads.get("Pod", "stray")["metadata"]
        return metadata.get("finalizers") == ["batch.kubernetes.io/job-tracking"] and "ownerReferences" in metadata

    eventually(adopted, what="the stray pod is adopted")
    assert workloads.get("Job", "work")["spec"]["parallelism"] == 1
    workloads.phase("stray", "Succeeded", 0)
    result = workloads.until_condition("Job", "work", "Complete")
    pods = [summary(pod) for pod in workloads.items("Pod")]
    workloads.check(
        "jobs", "adoption", {"status": result["status"], "pods": pods, "events": workloads.events("Job", "work", "Completed")}
    )
