"""Jobs whose pods fail: retries, deadlines and pod failure policies."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.jobs import done, job
from tests.support.workloads import WorkloadHarness, summary

if TYPE_CHECKING:
    from tests.support.clusters import Cluster

CLUSTER = "controllers"


@pytest.fixture
def workloads(cluster: Cluster, ns: str) -> WorkloadHarness:
    return WorkloadHarness(cluster, ns)


def test_backoff_limit_fails_job(workloads: WorkloadHarness) -> None:
    job(workloads, backoffLimit=0, parallelism=2, completions=2)
    first, _ = workloads.pods(2)
    workloads.phase(first, "Failed", 1)
    done(workloads, "backoff limit", condition="Failed", last="BackoffLimitExceeded")


def test_failed_pod_is_replaced_after_backoff(workloads: WorkloadHarness) -> None:
    job(workloads, backoffLimit=1)
    (first,) = workloads.pods(1)
    workloads.phase(first, "Failed", 1)
    workloads.until("Job", "work", lambda obj: obj["status"].get("failed") == 1)
    (second,) = workloads.pods(1)
    # The kubelet reports that it finished in the second in which it was created.
    ended, created = (datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) for pod in (first, second))
    assert (created - ended).total_seconds() >= 9
    workloads.phase(second, "Succeeded", 0)
    done(workloads, "one failure")


def test_container_restarts_count_as_failures(workloads: WorkloadHarness) -> None:
    job(workloads, restart="OnFailure", backoffLimit=2)
    (pod,) = workloads.pods(1)
    container = {"name": "main", "image": "x", "imageID": "", "restartCount": 2, "ready": False, "state": {"waiting": {}}}
    workloads.patch("Pod", pod["metadata"]["name"], {"status": {"phase": "Running", "containerStatuses": [container]}}, "/status")
    done(workloads, "restarts", condition="Failed", last="BackoffLimitExceeded")


def test_failed_job_deletes_active_pods(workloads: WorkloadHarness) -> None:
    job(workloads, backoffLimit=0, parallelism=2, completions=2, pod={"nodeName": workloads.nowhere})
    first, second = workloads.pods(2)
    workloads.phase(first, "Failed", 1)
    result = workloads.until_condition("Job", "work", "FailureTarget")
    assert [condition["type"] for condition in result["status"]["conditions"]] == ["FailureTarget"]
    workloads.settles("jobs", "failing", lambda: {"status": workloads.get("Job", "work")["status"]})
    workloads.remove(second)
    done(workloads, "failed after others ended", condition="Failed", last="BackoffLimitExceeded")


def test_active_deadline_fails_job(workloads: WorkloadHarness) -> None:
    job(workloads, activeDeadlineSeconds=2)
    done(workloads, "deadline", condition="Failed", last="DeadlineExceeded")


POLICY = {
    "rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}},
        {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [7]}},
    ]
}


def test_failure_policy_fails_the_job(workloads: WorkloadHarness) -> None:
    job(workloads, podFailurePolicy=POLICY, parallelism=2, completions=2)
    first, _ = workloads.pods(2)
    workloads.words[first["metadata"]["name"]] = "FIRST"
    workloads.phase(first, "Failed", 42)
    done(workloads, "policy FailJob", condition="Failed", last="PodFailurePolicy")


@pytest.mark.long(130)
def test_failure_policy_ignores_failure(workloads: WorkloadHarness) -> None:
    job(workloads, podFailurePolicy=POLICY, backoffLimit=0)
    (pod,) = workloads.pods(1)
    evicted = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
    workloads.phase(pod, "Failed", 1, conditions=evicted)
    (pod,) = workloads.pods(1)
    workloads.phase(pod, "Succeeded", 0)
    done(workloads, "policy Ignore")


def test_failure_policy_counts_failure(workloads: WorkloadHarness) -> None:
    job(workloads, podFailurePolicy=POLICY, backoffLimit=0)
    (pod,) = workloads.pods(1)
    workloads.phase(pod, "Failed", 3)
    done(workloads, "policy Count", condition="Failed", last="BackoffLimitExceeded")


def test_failed_indexes_are_reported(workloads: WorkloadHarness) -> None:
    job(workloads, completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=0)
    first, second = workloads.pods(2)
    workloads.phase(first, "Failed", 1)
    actual = workloads.until("Job", "work", lambda result: result["status"].get("failed") == 1)
    assert actual["status"]["failedIndexes"] in ("0", "1")
    workloads.phase(second, "Succeeded", 0)
    workloads.words[actual["status"]["failedIndexes"]] = actual["status"]["failedIndexes"]
    actual = workloads.until_condition("Job", "work", "Failed")
    conditions = [
        {key: condition[key] for key in ("type", "status", "reason", "message")} for condition in actual["status"]["conditions"]
    ]
    workloads.check(
        "jobs", "failed indexes", {"conditions": conditions, "events": workloads.events("Job", "work", "FailedIndexes")}
    )


def test_failed_index_is_retried(workloads: WorkloadHarness) -> None:
    job(workloads, completions=1, completionMode="Indexed", backoffLimitPerIndex=1)
    (pod,) = workloads.pods(1)
    workloads.phase(pod, "Failed", 1)
    (second,) = workloads.pods(1)
    workloads.check("jobs", "second pod of an index", summary(second))
    workloads.phase(second, "Failed", 1)
    done(workloads, "index failed twice", condition="Failed", last="FailedIndexes")


def test_max_failed_indexes_fails_job(workloads: WorkloadHarness) -> None:
    spec: dict[str, Any] = {
        "completions": 3,
        "parallelism": 3,
        "completionMode": "Indexed",
        "backoffLimitPerIndex": 0,
        "maxFailedIndexes": 1,
    }
    job(workloads, **spec)
    by_index = {pod["spec"]["hostname"]: pod for pod in workloads.pods(3)}
    workloads.phase(by_index["work-0"], "Failed", 1)
    workloads.phase(by_index["work-2"], "Failed", 1)
    done(workloads, "too many failed indexes", condition="Failed", last="MaxFailedIndexesExceeded")


def test_failure_policy_fails_index(workloads: WorkloadHarness) -> None:
    rules = [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [9]}}]
    spec: dict[str, Any] = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 3}
    job(workloads, **spec, podFailurePolicy={"rules": rules})
    by_index = {pod["spec"]["hostname"]: pod for pod in workloads.pods(2)}
    workloads.phase(by_index["work-0"], "Failed", 9)
    actual = workloads.until("Job", "work", lambda result: result["status"].get("failed") == 1)
    assert actual["status"]["failedIndexes"] == "0"
    workloads.phase(by_index["work-1"], "Succeeded", 0)
    done(workloads, "policy FailIndex", condition="Failed", last="FailedIndexes")
