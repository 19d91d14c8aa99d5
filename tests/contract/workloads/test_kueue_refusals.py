"""Rejections of Kueue's webhooks, and objects of its older API version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.kueue import GROUP, QUEUE

if TYPE_CHECKING:
    from tests.support.kueue import KueueHarness

CLUSTER = "kueue"


def test_queue_defaults(harness: KueueHarness) -> None:
    homes = {"ClusterQueue": f"{GROUP}/clusterqueues", "LocalQueue": f"{GROUP}/namespaces/{harness.ns}/localqueues"}
    name, seen = harness.own("q"), dict[str, Any]()
    for kind, home in homes.items():
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}}
        harness.api.post(home, body).ok(201)
        path = f"{home}/{name}"
        harness.until(lambda: harness.api.get(path).json.get("status"), f"the status of {kind}")  # noqa: B023
        result = harness.api.get(path).ok().json
        [active] = result["status"]["conditions"]
        seen[kind] = [result.get("spec"), active["status"], active["reason"], active["message"]]
    harness.job("waits", name).ok(201)
    harness.wait_pending("waits", "exist")
    seen["Workload"] = harness.condition("waits", "QuotaReserved")["message"]
    harness.compare("without_spec", seen)
    harness.queue("after", {"name": "f", "cpu": 1})
    harness.job("a", "after").ok(201)
    harness.wait_admitted("a")


def test_older_api_version(harness: KueueHarness) -> None:
    harness.flavor("f")
    spec = {
        "cohort": harness.own("all"),
        "namespaceSelector": {},
        "resourceGroups": harness.groups({"name": "f", "cpu": 4}),
        "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"},
    }
    old = GROUP.replace("v1beta2", "v1beta1")
    body = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": harness.own("q")}, "spec": spec}
    harness.api.post(f"{old}/clusterqueues", body).ok(201)
    harness.local("q", harness.own("q"))
    harness.priority("high", 7)
    harness.job("a", "q", priority="high").ok(201)
    harness.wait_admitted("a")
    shown = {
        version: harness.api.get(f"{home}/clusterqueues/{harness.own('q')}").ok().json["spec"]
        for version, home in (("old", old), ("new", GROUP))
    }
    workload = harness.api.get(harness.path("a").replace("v1beta2", "v1beta1")).ok().json["spec"]
    harness.compare("older", {**shown, "workload": {key: value for key, value in workload.items() if key != "podSets"}})


_BAD: dict[str, dict[str, Any]] = {
    "negative": {"flavors": [{"name": "f", "cpu": -1}]},
    "borrowing_without_cohort": {"flavors": [{"name": "f", "cpu": [1, 1]}]},
    "lending_without_cohort": {"flavors": [{"name": "f", "cpu": [1, None, 1]}]},
    "lends_more_than_it_has": {"flavors": [{"name": "f", "cpu": [1, None, 2]}], "spec": {"cohortName": "x"}},
    "flavor_twice": {"flavors": [{"name": "f", "cpu": 1}, {"name": "f", "cpu": 1}]},
    "policies_that_clash": {
        "flavors": [{"name": "f", "cpu": 1}],
        "spec": {"preemption": {"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}}},
    },
    "unknown_strategy": {"flavors": [{"name": "f", "cpu": 1}], "spec": {"queueingStrategy": "Fast"}},
    "selector_without_key": {"flavors": [], "spec": {"namespaceSelector": {"matchLabels": {"": "x"}}}},
    "selector_without_operator": {
        "flavors": [{"name": "f", "cpu": -1}],
        "spec": {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
    },
    "no_flavors": {"flavors": [], "spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": []}]}},
}


@pytest.mark.parametrize("case", sorted(_BAD))
def test_invalid_queues_are_rejected(harness: KueueHarness, case: str) -> None:
    bad = _BAD[case]
    spec = {"resourceGroups": harness.groups(*bad["flavors"])} if bad["flavors"] else {}
    answer = harness.make("ClusterQueue", "clusterqueues", harness.own("q"), {**spec, **bad.get("spec", {})})
    harness.compare(f"refused_{case}", [answer.status, answer.json.get("reason"), answer.json["message"]])


def test_workload_without_pods_is_rejected_on_create_only(harness: KueueHarness) -> None:
    """Their queue does not exist: a workload without pods at the head of a queue crashes the real Kueue."""
    home, name = f"{GROUP}/namespaces/{harness.ns}/workloads", {"name": "w"}
    body: dict[str, Any] = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": name}
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    pods = {"name": "main", "count": 1, "template": {"spec": spec}}
    seen = {"nothing": harness.api.post(home, body), "no_pods": harness.api.post(home, {**body, "spec": {"queueName": "nowhere"}})}
    harness.api.post(home, {**body, "spec": {"queueName": "nowhere", "podSets": [pods]}}).ok(201)
    seen["pods_taken_away"] = harness.api.patch(f"{home}/w", {"spec": {"podSets": None}})
    harness.compare("refused_without_pods", {case: [item.status, item.json.get("message")] for case, item in seen.items()})
    harness.queue("q", {"name": "f", "cpu": 1})
    harness.job("a", "q").ok(201)
    harness.wait_admitted("a")


_BAD_JOBS: dict[str, dict[str, Any]] = {
    "no_time": {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "0"}},
    "time_is_no_number": {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "soon"}},
    "prebuilt_is_no_name": {"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "Not_A_Name"}},
    "least_is_no_number": {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "some"}},
    "least_is_all": {"pods": 2, "annotations": {"kueue.x-k8s.io/job-min-parallelism": "2"}},
    "least_is_none": {"pods": 2, "annotations": {"kueue.x-k8s.io/job-min-parallelism": "0"}},
    "same_is_no_answer": {"annotations": {"kueue.x-k8s.io/job-completions-equal-parallelism": "maybe"}},
    "same_without_indexes": {"annotations": {"kueue.x-k8s.io/job-completions-equal-parallelism": "true"}},
}


@pytest.mark.parametrize("case", sorted(_BAD_JOBS))
def test_invalid_jobs_are_rejected(harness: KueueHarness, case: str) -> None:
    answer = harness.job("a", "q", **_BAD_JOBS[case])
    harness.compare(f"refused_job_{case}", [answer.status, answer.json.get("reason"), answer.json.get("message")])


def test_invalid_updates_of_running_job_are_rejected(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 3})
    harness.job("a", "q", pods=5, annotations={"kueue.x-k8s.io/job-min-parallelism": "2"}).ok(201)
    harness.wait_admitted("a")
    changes: dict[str, dict[str, Any]] = {
        "parallelism": {"spec": {"parallelism": 2}},
        "time": {"metadata": {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "5"}}},
        "prebuilt": {"metadata": {"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "w"}}},
        "least": {"metadata": {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "9"}}},
    }
    seen = {}
    for name, body in changes.items():
        answer = harness.change_job("a", body)
        seen[name] = [answer.status, answer.json.get("message")]
    harness.compare("changes_refused", seen)


def test_default_queue_cannot_be_removed(harness: KueueHarness) -> None:
    harness.queue("default", {"name": "f", "cpu": 0})
    harness.job("a", "default").ok(201)
    answer = harness.change_job("a", {"metadata": {"labels": {QUEUE: None}}})
    harness.compare("default_stays", [answer.status, answer.json.get("message")])


def test_invalid_queue_name_is_rejected(harness: KueueHarness) -> None:
    answer = harness.job("a", "Not_A_Name")
    harness.compare("bad_queue_name", [answer.status, answer.json.get("reason"), answer.json["message"]])
