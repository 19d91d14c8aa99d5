"""Kueue: what its webhooks refuse, and objects of its older version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.kueue import GROUP, QUEUE

if TYPE_CHECKING:
    from tests.support.kueue import Desk

CLUSTER = "kueue"


def test_queues_that_say_nothing_of_themselves(desk: Desk) -> None:
    homes = {"ClusterQueue": f"{GROUP}/clusterqueues", "LocalQueue": f"{GROUP}/namespaces/{desk.ns}/localqueues"}
    name, seen = desk.own("q"), dict[str, Any]()
    for kind, home in homes.items():
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}}
        desk.api.post(home, body).ok(201)
        path = f"{home}/{name}"
        desk.until(lambda: desk.api.get(path).json.get("status"), f"the status of {kind}")  # noqa: B023
        found = desk.api.get(path).ok().json
        [active] = found["status"]["conditions"]
        seen[kind] = [found.get("spec"), active["status"], active["reason"], active["message"]]
    desk.job("waits", name).ok(201)
    desk.until_waits("waits", "exist")
    seen["Workload"] = desk.condition("waits", "QuotaReserved")["message"]
    desk.compare("without_spec", seen)
    desk.queue("after", {"name": "f", "cpu": 1})
    desk.job("a", "after").ok(201)
    desk.until_runs("a")


def test_the_older_version(desk: Desk) -> None:
    desk.flavor("f")
    spec = {
        "cohort": desk.own("all"),
        "namespaceSelector": {},
        "resourceGroups": desk.groups({"name": "f", "cpu": 4}),
        "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"},
    }
    old = GROUP.replace("v1beta2", "v1beta1")
    body = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": desk.own("q")}, "spec": spec}
    desk.api.post(f"{old}/clusterqueues", body).ok(201)
    desk.local("q", desk.own("q"))
    desk.priority("high", 7)
    desk.job("a", "q", priority="high").ok(201)
    desk.until_runs("a")
    shown = {
        version: desk.api.get(f"{home}/clusterqueues/{desk.own('q')}").ok().json["spec"]
        for version, home in (("old", old), ("new", GROUP))
    }
    workload = desk.api.get(desk.path("a").replace("v1beta2", "v1beta1")).ok().json["spec"]
    desk.compare("older", {**shown, "workload": {key: value for key, value in workload.items() if key != "podSets"}})


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
def test_queues_that_are_refused(desk: Desk, case: str) -> None:
    bad = _BAD[case]
    spec = {"resourceGroups": desk.groups(*bad["flavors"])} if bad["flavors"] else {}
    answer = desk.make("ClusterQueue", "clusterqueues", desk.own("q"), {**spec, **bad.get("spec", {})})
    desk.compare(f"refused_{case}", [answer.status, answer.json.get("reason"), answer.json["message"]])


def test_workloads_without_pods_are_refused_but_pods_can_be_taken_away(desk: Desk) -> None:
    """Their queue does not exist: one without pods that comes to its turn ends the real Kueue."""
    home, name = f"{GROUP}/namespaces/{desk.ns}/workloads", {"name": "w"}
    body: dict[str, Any] = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": name}
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    pods = {"name": "main", "count": 1, "template": {"spec": spec}}
    seen = {"nothing": desk.api.post(home, body), "no_pods": desk.api.post(home, {**body, "spec": {"queueName": "nowhere"}})}
    desk.api.post(home, {**body, "spec": {"queueName": "nowhere", "podSets": [pods]}}).ok(201)
    seen["pods_taken_away"] = desk.api.patch(f"{home}/w", {"spec": {"podSets": None}})
    desk.compare("refused_without_pods", {case: [each.status, each.json.get("message")] for case, each in seen.items()})
    desk.queue("q", {"name": "f", "cpu": 1})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")


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
def test_jobs_that_are_refused(desk: Desk, case: str) -> None:
    answer = desk.job("a", "q", **_BAD_JOBS[case])
    desk.compare(f"refused_job_{case}", [answer.status, answer.json.get("reason"), answer.json.get("message")])


def test_changes_of_a_running_job(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 3})
    desk.job("a", "q", pods=5, annotations={"kueue.x-k8s.io/job-min-parallelism": "2"}).ok(201)
    desk.until_runs("a")
    changes: dict[str, dict[str, Any]] = {
        "parallelism": {"spec": {"parallelism": 2}},
        "time": {"metadata": {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "5"}}},
        "prebuilt": {"metadata": {"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "w"}}},
        "least": {"metadata": {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "9"}}},
    }
    seen = {}
    for name, body in changes.items():
        answer = desk.change_job("a", body)
        seen[name] = [answer.status, answer.json.get("message")]
    desk.compare("changes_refused", seen)


def test_the_default_queue_stays(desk: Desk) -> None:
    desk.queue("default", {"name": "f", "cpu": 0})
    desk.job("a", "default").ok(201)
    answer = desk.change_job("a", {"metadata": {"labels": {QUEUE: None}}})
    desk.compare("default_stays", [answer.status, answer.json.get("message")])


def test_a_queue_name_that_is_none(desk: Desk) -> None:
    answer = desk.job("a", "Not_A_Name")
    desk.compare("bad_queue_name", [answer.status, answer.json.get("reason"), answer.json["message"]])
