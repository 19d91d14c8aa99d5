"""Pods and pod groups in Kueue's queues: gated, admitted, evicted, replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.kueue import PRIORITY, QUEUE
from tests.support.kueue_pods import FAST, NAME, RETRIABLE, SERVING, TOTAL, KueuePodHarness

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.kueue_install import Settings

CLUSTER = "pods"
PODS = True
_TOLD = (
    "CreatedWorkload",
    "Started",
    "Stopped",
    "FinishedWorkload",
    "ErrWorkloadCompose",
    "OwnerReferencesAdded",
    "ExcessPodDeleted",
)


@pytest.fixture
def harness(cluster: Cluster, kueue: Settings, ns: str) -> KueuePodHarness:
    return KueuePodHarness(cluster, ns)


def test_pod_is_admitted(harness: KueuePodHarness) -> None:
    harness.flavor("f", nodeLabels={"pool": "one"}, tolerations=[{"key": "one", "operator": "Exists"}])
    harness.queue("q", {"name": "f", "cpu": 2})
    created = harness.pod("a").ok(201).json
    gates = [gate["name"] for gate in created["spec"]["schedulingGates"]]
    harness.wait_ungated("a")
    harness.until(lambda: len(harness.events(*_TOLD)) == 2, "events")

    def find() -> dict[str, Any]:
        seen = {"pod": harness.pod_pictures("a"), "workload": harness.pod_workload("a")}
        return {"gates": gates, **seen, "events": harness.events(*_TOLD)}

    harness.settles("let_go", find)


def test_pods_wait_for_quota(harness: KueuePodHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 1})
    harness.pod("a").ok(201)
    harness.wait_ungated("a")
    harness.pod("b").ok(201)
    harness.wait_pending("b", "more needed")
    harness.settles("waits", lambda: {**harness.pod_pictures("b"), "workload": harness.pod_workload("b")})
    harness.phase("a", "Succeeded")
    harness.wait_ungated("b")
    harness.wait_condition("a", "Finished")
    harness.until(lambda: not harness.get_pod("a")["metadata"].get("finalizers"), "a is not held any longer")
    harness.phase("b", "Failed", message="out of luck")
    harness.wait_condition("b", "Finished")
    harness.until(lambda: len(harness.events("FinishedWorkload")) >= 2, "events")
    harness.settles("ended", lambda: {**harness.pod_pictures("a"), "a": harness.pod_workload("a"), "b": harness.pod_workload("b")})


def test_pending_pod_is_deleted(harness: KueuePodHarness) -> None:
    harness.pod("a", "nowhere").ok(201)
    harness.wait_pending("a", "doesn't exist")
    harness.api.delete(f"{harness.core}/a").ok()
    harness.wait_deleted("a")
    harness.until(lambda: not harness.workloads(), "its Workload is deleted")


def test_pod_is_preempted(harness: KueuePodHarness) -> None:
    harness.priority("high", 100)
    harness.queue("q", {"name": "f", "cpu": 1}, preemption={"withinClusterQueue": "LowerPriority"})
    harness.pod("a").ok(201)
    harness.wait_ungated("a")
    harness.api.patch(
        f"{harness.core}/a", {"metadata": {"finalizers": [*harness.get_pod("a")["metadata"]["finalizers"], "example.com/keep"]}}
    ).ok()
    harness.pod("b", priority="high").ok(201)
    harness.wait_ungated("b")
    harness.until(lambda: any(row[2] == "Stopped" for row in harness.events(*_TOLD)), "a is stopped")
    harness.settles("preempted", lambda: {**harness.pod_pictures("a", "b"), "events": harness.events("Stopped")})
    harness.api.patch(f"{harness.core}/a", {"metadata": {"finalizers": None}}).ok()
    harness.wait_deleted("a")


def test_workload_of_pod_is_deleted(harness: KueuePodHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 1})
    harness.pod("a").ok(201)
    harness.wait_ungated("a")
    harness.api.delete(harness.path("a")).ok()
    harness.wait_deleted("a")


def test_default_local_queue_of_pods(harness: KueuePodHarness) -> None:
    harness.queue("default", {"name": "f", "cpu": 1})
    created = harness.pod("a", "").ok(201).json
    harness.compare("default", [created["metadata"]["labels"], [gate["name"] for gate in created["spec"]["schedulingGates"]]])
    harness.wait_ungated("a")


def test_pods_of_queued_jobs_are_not_gated(harness: KueuePodHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 2})
    harness.job("a", "q").ok(201)
    harness.wait_admitted("a")
    pods = harness.until(lambda: list(harness.pods().values()), "the Job's pod")
    assert "schedulingGates" not in pods[0]["spec"]
    assert list(harness.workloads()) == ["a"]


def test_group_with_two_roles(harness: KueuePodHarness) -> None:
    harness.flavor("f", nodeLabels={"pool": "one"})
    harness.queue("q", {"name": "f", "cpu": 4})
    harness.pod("a", cpu=1, group="g", total=3).ok(201)
    harness.pod("b", cpu=2, group="g", total=3).ok(201)
    harness.until(lambda: harness.events("ErrWorkloadCompose"), "it has an event about missing pods")
    harness.settles(
        "incomplete",
        lambda: {
            "events": sorted({tuple(row) for row in harness.events("ErrWorkloadCompose")}),
            "group": harness.group_picture("g"),
        },
    )
    harness.pod("c", cpu=1, group="g", total=3).ok(201)
    harness.wait_ungated("a", "b", "c")
    harness.until(lambda: len(harness.events("Started")) == 3, "events")
    harness.settles(
        "group",
        lambda: {
            "workload": harness.group_picture("g"),
            **harness.pod_pictures("a", "b", "c"),
            "events": harness.events("Started", "CreatedWorkload"),
        },
    )
    harness.phase("a", "Succeeded")
    harness.until(lambda: (harness.group("g")["status"] or {}).get("reclaimablePods"), "the quota of a is released")
    harness.settles("reclaimed", lambda: harness.group_picture("g"))
    for name in "bc":
        harness.phase(name, "Succeeded")
    harness.until(lambda: harness.group_condition("g", "Finished") == "True", "the group is done")
    harness.until(lambda: not any(harness.get_pod(name)["metadata"].get("finalizers") for name in "abc"), "the pods are not held")
    harness.settles("group_done", lambda: harness.group_picture("g"))


def test_failed_pod_of_group_is_replaced(harness: KueuePodHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 4})
    for name in "ab":
        harness.pod(name, group="g", total=2).ok(201)
    harness.wait_ungated("a", "b")
    harness.phase("a", "Failed")
    harness.until(lambda: harness.group_condition("g", "WaitingForReplacementPods") == "True", "a replacement is waited for")
    harness.settles("replacement_wanted", lambda: {"workload": harness.group_picture("g"), **harness.pod_pictures("a")})
    harness.pod("c", group="g", total=2).ok(201)
    harness.wait_ungated("c")
    harness.until(lambda: harness.group_condition("g", "WaitingForReplacementPods") == "False", "no pod is missing")
    harness.until(lambda: not harness.get_pod("a")["metadata"].get("finalizers"), "a is not held any longer")
    harness.until(lambda: harness.events("OwnerReferencesAdded"), "it has an event")
    harness.settles("replaced", lambda: {"workload": harness.group_picture("g"), "events": harness.events("OwnerReferencesAdded")})


def test_excess_pod_of_group_is_deleted(harness: KueuePodHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 4})
    for name in "ab":
        harness.pod(name, group="g", total=2).ok(201)
    harness.wait_ungated("a", "b")
    harness.tick()
    harness.pod("c", group="g", total=2).ok(201)
    harness.wait_deleted("c")
    harness.until(lambda: harness.events("ExcessPodDeleted"), "it has an event")
    harness.settles("too_many", lambda: {**harness.pod_pictures("a", "b"), "events": harness.events("ExcessPodDeleted")})


def test_group_that_is_not_retriable(harness: KueuePodHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 4})
    harness.pod("a", group="g", total=2, annotations={RETRIABLE: "false"}).ok(201)
    harness.pod("b", group="g", total=2).ok(201)
    harness.wait_ungated("a", "b")
    harness.phase("a", "Failed")
    harness.phase("b", "Succeeded")
    harness.until(lambda: harness.group_condition("g", "Finished") == "True", "the group is over")
    harness.settles("not_again", lambda: harness.group_picture("g"))
    response = harness.api.patch(f"{harness.core}/a", {"metadata": {"annotations": {RETRIABLE: "true"}}})
    harness.compare("again_after_all", [response.status, response.json.get("message")])


def test_group_is_preempted(harness: KueuePodHarness) -> None:
    harness.priority("high", 100)
    harness.queue("q", {"name": "f", "cpu": 2}, preemption={"withinClusterQueue": "LowerPriority"})
    for name in "ab":
        harness.pod(name, group="g", total=2).ok(201)
    harness.wait_ungated("a", "b")
    harness.pod("h", cpu=2, priority="high").ok(201)
    harness.wait_ungated("h")
    harness.until(
        lambda: all(name not in (pods := harness.pods()) or "deletionTimestamp" in pods[name]["metadata"] for name in "ab"),
        "all leave",
    )
    harness.until(lambda: harness.group_condition("g", "WaitingForReplacementPods") == "True", "replacements are waited for")
    harness.until(lambda: harness.group_condition("g", "QuotaReserved") == "False", "it has no quota")
    harness.settles("group_preempted", lambda: harness.group_picture("g"))
    for name in "cd":
        harness.pod(name, group="g", total=2).ok(201)
    harness.wait_deleted("a", "b")
    harness.until(lambda: harness.group_condition("g", "WaitingForReplacementPods") == "False", "no pod is missing")
    harness.phase("h", "Succeeded")
    harness.wait_ungated("c", "d")
    harness.settles("group_back", lambda: harness.group_picture("g"))


def test_group_with_fast_admission(harness: KueuePodHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 4})
    harness.pod("a", group="g", total=3, annotations={FAST: "true"}).ok(201)
    harness.wait_ungated("a")
    harness.until(lambda: harness.group_condition("g", "WaitingForReplacementPods") == "True", "the other pods are missing")
    harness.settles("fast", lambda: harness.group_picture("g"))


def test_serving_group(harness: KueuePodHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 4})
    for name in "ab":
        harness.pod(name, group="g", total=2, annotations={SERVING: "true"}).ok(201)
    harness.wait_ungated("a", "b")
    harness.phase("a", "Succeeded")
    harness.phase("b", "Succeeded")
    harness.tick()
    harness.settles("serving", lambda: harness.group_picture("g"))


_BAD: dict[str, dict[str, Any]] = {
    "no_total": {"group": "g"},
    "no_name": {"total": 2},
    "total_of_none": {"group": "g", "total": 0},
    "total_is_no_number": {"group": "g", "total": "many"},
    "group_is_no_name": {"group": "Not_A_Name", "total": 2},
    "managed_otherwise": {"labels": {"kueue.x-k8s.io/managed": "maybe"}},
    "queue_is_no_name": {"queue": "Not_A_Name"},
    "no_time": {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "0"}},
    "time_is_no_number": {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "long"}},
    "prebuilt_is_no_name": {"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "Not_A_Name"}},
}


@pytest.mark.parametrize("case", sorted(_BAD))
def test_invalid_pods_are_rejected(harness: KueuePodHarness, case: str) -> None:
    answer = harness.pod("a", **_BAD[case])
    harness.compare(f"refused_{case}", [answer.status, answer.json.get("reason"), answer.json.get("message")])


_CHANGES: dict[str, dict[str, Any]] = {
    "another_queue": {"labels": {QUEUE: "r"}},
    "another_group": {"labels": {NAME: "h"}},
    "another_total": {"annotations": {TOTAL: "5"}},
    "a_class": {"labels": {PRIORITY: "high"}},
    "a_limit": {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "60"}},
}


@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize("case", sorted(_CHANGES))
def test_invalid_pod_updates_are_rejected(harness: KueuePodHarness, case: str, running: bool) -> None:
    harness.queue("q", {"name": "f", "cpu": 1})
    harness.queue("r", {"name": "f", "cpu": 1})
    harness.pod("a", cpu=1 if running else 2, group="g", total=1).ok(201)
    if running:
        harness.wait_ungated("a")
    response = harness.api.patch(f"{harness.core}/a", {"metadata": _CHANGES[case]})
    harness.compare(f"changed_{case}_{'running' if running else 'waiting'}", [response.status, response.json.get("message")])
