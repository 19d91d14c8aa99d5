"""Jobs whose pods fail: retries, deadlines, and policies that say what a failure means."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.jobs import done, job
from tests.support.workloads import Lab, summary

if TYPE_CHECKING:
    from tests.support.clusters import Cluster

CLUSTER = "hands"


@pytest.fixture
def lab(cluster: Cluster, ns: str) -> Lab:
    return Lab(cluster, ns)


def test_backoff_limit(lab: Lab) -> None:
    job(lab, backoffLimit=0, parallelism=2, completions=2)
    first, _ = lab.pods(2)
    lab.phase(first, "Failed", 1)
    done(lab, "backoff limit", condition="Failed", last="BackoffLimitExceeded")


def test_failed_pod_is_replaced_after_a_while(lab: Lab) -> None:
    job(lab, backoffLimit=1)
    (first,) = lab.pods(1)
    lab.phase(first, "Failed", 1)
    lab.until("Job", "work", lambda found: found["status"].get("failed") == 1)
    (second,) = lab.pods(1)
    # It ended in the second in which it was made, as this kubelet says.
    ended, made = (datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) for pod in (first, second))
    assert (made - ended).total_seconds() >= 9
    lab.phase(second, "Succeeded", 0)
    done(lab, "one failure")


def test_restarts_count(lab: Lab) -> None:
    job(lab, restart="OnFailure", backoffLimit=2)
    (pod,) = lab.pods(1)
    container = {"name": "main", "image": "x", "imageID": "", "restartCount": 2, "ready": False, "state": {"waiting": {}}}
    lab.patch("Pod", pod["metadata"]["name"], {"status": {"phase": "Running", "containerStatuses": [container]}}, "/status")
    done(lab, "restarts", condition="Failed", last="BackoffLimitExceeded")


def test_failing_ends_other_pods(lab: Lab) -> None:
    job(lab, backoffLimit=0, parallelism=2, completions=2, pod={"nodeName": lab.nowhere})
    first, second = lab.pods(2)
    lab.phase(first, "Failed", 1)
    found = lab.until_condition("Job", "work", "FailureTarget")
    assert [each["type"] for each in found["status"]["conditions"]] == ["FailureTarget"]
    lab.settles("jobs", "failing", lambda: {"status": lab.get("Job", "work")["status"]})
    lab.remove(second)
    done(lab, "failed after others ended", condition="Failed", last="BackoffLimitExceeded")


def test_deadline(lab: Lab) -> None:
    job(lab, activeDeadlineSeconds=2)
    done(lab, "deadline", condition="Failed", last="DeadlineExceeded")


POLICY = {
    "rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}},
        {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [7]}},
    ]
}


def test_failure_policy_fails_the_job(lab: Lab) -> None:
    job(lab, podFailurePolicy=POLICY, parallelism=2, completions=2)
    first, _ = lab.pods(2)
    lab.words[first["metadata"]["name"]] = "FIRST"
    lab.phase(first, "Failed", 42)
    done(lab, "policy FailJob", condition="Failed", last="PodFailurePolicy")


@pytest.mark.long(130)
def test_failure_policy_ignores(lab: Lab) -> None:
    job(lab, podFailurePolicy=POLICY, backoffLimit=0)
    (pod,) = lab.pods(1)
    evicted = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
    lab.phase(pod, "Failed", 1, conditions=evicted)
    (pod,) = lab.pods(1)
    lab.phase(pod, "Succeeded", 0)
    done(lab, "policy Ignore")


def test_failure_policy_counts(lab: Lab) -> None:
    job(lab, podFailurePolicy=POLICY, backoffLimit=0)
    (pod,) = lab.pods(1)
    lab.phase(pod, "Failed", 3)
    done(lab, "policy Count", condition="Failed", last="BackoffLimitExceeded")


def test_failed_indexes(lab: Lab) -> None:
    job(lab, completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=0)
    first, second = lab.pods(2)
    lab.phase(first, "Failed", 1)
    found = lab.until("Job", "work", lambda found: found["status"].get("failed") == 1)
    assert found["status"]["failedIndexes"] in ("0", "1")
    lab.phase(second, "Succeeded", 0)
    lab.words[found["status"]["failedIndexes"]] = found["status"]["failedIndexes"]
    found = lab.until_condition("Job", "work", "Failed")
    conditions = [{key: each[key] for key in ("type", "status", "reason", "message")} for each in found["status"]["conditions"]]
    lab.check("jobs", "failed indexes", {"conditions": conditions, "events": lab.events("Job", "work", "FailedIndexes")})


def test_index_is_tried_again(lab: Lab) -> None:
    job(lab, completions=1, completionMode="Indexed", backoffLimitPerIndex=1)
    (pod,) = lab.pods(1)
    lab.phase(pod, "Failed", 1)
    (second,) = lab.pods(1)
    lab.check("jobs", "second pod of an index", summary(second))
    lab.phase(second, "Failed", 1)
    done(lab, "index failed twice", condition="Failed", last="FailedIndexes")


def test_too_many_failed_indexes(lab: Lab) -> None:
    spec: dict[str, Any] = {
        "completions": 3,
        "parallelism": 3,
        "completionMode": "Indexed",
        "backoffLimitPerIndex": 0,
        "maxFailedIndexes": 1,
    }
    job(lab, **spec)
    by_index = {pod["spec"]["hostname"]: pod for pod in lab.pods(3)}
    lab.phase(by_index["work-0"], "Failed", 1)
    lab.phase(by_index["work-2"], "Failed", 1)
    done(lab, "too many failed indexes", condition="Failed", last="MaxFailedIndexesExceeded")


def test_policy_fails_an_index(lab: Lab) -> None:
    rules = [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [9]}}]
    spec: dict[str, Any] = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 3}
    job(lab, **spec, podFailurePolicy={"rules": rules})
    by_index = {pod["spec"]["hostname"]: pod for pod in lab.pods(2)}
    lab.phase(by_index["work-0"], "Failed", 9)
    found = lab.until("Job", "work", lambda found: found["status"].get("failed") == 1)
    assert found["status"]["failedIndexes"] == "0"
    lab.phase(by_index["work-1"], "Succeeded", 0)
    done(lab, "policy FailIndex", condition="Failed", last="FailedIndexes")
