"""Pods and groups of pods in Kueue's queues: held at the gate, let go, sent away, replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.kueue import PRIORITY, QUEUE
from tests.support.kueue_pods import FAST, NAME, RETRIABLE, SERVING, TOTAL, PodDesk

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.kueue_settings import Settings

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
def desk(cluster: Cluster, kueue: Settings, ns: str) -> PodDesk:
    return PodDesk(cluster, ns)


def test_a_pod_is_let_go(desk: PodDesk) -> None:
    desk.flavor("f", nodeLabels={"pool": "one"}, tolerations=[{"key": "one", "operator": "Exists"}])
    desk.queue("q", {"name": "f", "cpu": 2})
    made = desk.pod("a").ok(201).json
    gates = [gate["name"] for gate in made["spec"]["schedulingGates"]]
    desk.until_free("a")
    desk.until(lambda: len(desk.events(*_TOLD)) == 2, "events")

    def look() -> dict[str, Any]:
        seen = {"pod": desk.pod_pictures("a"), "workload": desk.pod_workload("a")}
        return {"gates": gates, **seen, "events": desk.events(*_TOLD)}

    desk.settles("let_go", look)


def test_pods_wait_for_quota(desk: PodDesk) -> None:
    desk.queue("q", {"name": "f", "cpu": 1})
    desk.pod("a").ok(201)
    desk.until_free("a")
    desk.pod("b").ok(201)
    desk.until_waits("b", "more needed")
    desk.settles("waits", lambda: {**desk.pod_pictures("b"), "workload": desk.pod_workload("b")})
    desk.phase("a", "Succeeded")
    desk.until_free("b")
    desk.until_is("a", "Finished")
    desk.until(lambda: not desk.get_pod("a")["metadata"].get("finalizers"), "a is not held any longer")
    desk.phase("b", "Failed", message="out of luck")
    desk.until_is("b", "Finished")
    desk.until(lambda: len(desk.events("FinishedWorkload")) >= 2, "events")
    desk.settles("ended", lambda: {**desk.pod_pictures("a"), "a": desk.pod_workload("a"), "b": desk.pod_workload("b")})


def test_a_waiting_pod_is_deleted(desk: PodDesk) -> None:
    desk.pod("a", "nowhere").ok(201)
    desk.until_waits("a", "doesn't exist")
    desk.api.delete(f"{desk.core}/a").ok()
    desk.until_gone("a")
    desk.until(lambda: not desk.workloads(), "its Workload is gone")


def test_a_pod_is_preempted(desk: PodDesk) -> None:
    desk.priority("high", 100)
    desk.queue("q", {"name": "f", "cpu": 1}, preemption={"withinClusterQueue": "LowerPriority"})
    desk.pod("a").ok(201)
    desk.until_free("a")
    desk.api.patch(
        f"{desk.core}/a", {"metadata": {"finalizers": [*desk.get_pod("a")["metadata"]["finalizers"], "example.com/keep"]}}
    ).ok()
    desk.pod("b", priority="high").ok(201)
    desk.until_free("b")
    desk.until(lambda: any(row[2] == "Stopped" for row in desk.events(*_TOLD)), "a is stopped")
    desk.settles("preempted", lambda: {**desk.pod_pictures("a", "b"), "events": desk.events("Stopped")})
    desk.api.patch(f"{desk.core}/a", {"metadata": {"finalizers": None}}).ok()
    desk.until_gone("a")


def test_the_workload_of_a_pod_is_deleted(desk: PodDesk) -> None:
    desk.queue("q", {"name": "f", "cpu": 1})
    desk.pod("a").ok(201)
    desk.until_free("a")
    desk.api.delete(desk.path("a")).ok()
    desk.until_gone("a")


def test_the_default_queue_of_pods(desk: PodDesk) -> None:
    desk.queue("default", {"name": "f", "cpu": 1})
    made = desk.pod("a", "").ok(201).json
    desk.compare("default", [made["metadata"]["labels"], [gate["name"] for gate in made["spec"]["schedulingGates"]]])
    desk.until_free("a")


def test_pods_of_queued_jobs_are_not_held(desk: PodDesk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    pods = desk.until(lambda: list(desk.pods().values()), "the Job's pod")
    assert "schedulingGates" not in pods[0]["spec"]
    assert list(desk.workloads()) == ["a"]


def test_a_group_of_two_roles(desk: PodDesk) -> None:
    desk.flavor("f", nodeLabels={"pool": "one"})
    desk.queue("q", {"name": "f", "cpu": 4})
    desk.pod("a", cpu=1, group="g", total=3).ok(201)
    desk.pod("b", cpu=2, group="g", total=3).ok(201)
    desk.until(lambda: desk.events("ErrWorkloadCompose"), "it is told that pods are missing")
    desk.settles(
        "incomplete",
        lambda: {"events": sorted({tuple(row) for row in desk.events("ErrWorkloadCompose")}), "group": desk.group_picture("g")},
    )
    desk.pod("c", cpu=1, group="g", total=3).ok(201)
    desk.until_free("a", "b", "c")
    desk.until(lambda: len(desk.events("Started")) == 3, "events")
    desk.settles(
        "group",
        lambda: {
            "workload": desk.group_picture("g"),
            **desk.pod_pictures("a", "b", "c"),
            "events": desk.events("Started", "CreatedWorkload"),
        },
    )
    desk.phase("a", "Succeeded")
    desk.until(lambda: (desk.group("g")["status"] or {}).get("reclaimablePods"), "what a had is given back")
    desk.settles("reclaimed", lambda: desk.group_picture("g"))
    for name in "bc":
        desk.phase(name, "Succeeded")
    desk.until(lambda: desk.group_condition("g", "Finished") == "True", "the group is done")
    desk.until(lambda: not any(desk.get_pod(name)["metadata"].get("finalizers") for name in "abc"), "the pods are not held")
    desk.settles("group_done", lambda: desk.group_picture("g"))


def test_a_failed_pod_of_a_group_is_replaced(desk: PodDesk) -> None:
    desk.queue("q", {"name": "f", "cpu": 4})
    for name in "ab":
        desk.pod(name, group="g", total=2).ok(201)
    desk.until_free("a", "b")
    desk.phase("a", "Failed")
    desk.until(lambda: desk.group_condition("g", "WaitingForReplacementPods") == "True", "a replacement is waited for")
    desk.settles("replacement_wanted", lambda: {"workload": desk.group_picture("g"), **desk.pod_pictures("a")})
    desk.pod("c", group="g", total=2).ok(201)
    desk.until_free("c")
    desk.until(lambda: desk.group_condition("g", "WaitingForReplacementPods") == "False", "nobody is missing")
    desk.until(lambda: not desk.get_pod("a")["metadata"].get("finalizers"), "a is not held any longer")
    desk.until(lambda: desk.events("OwnerReferencesAdded"), "it is told")
    desk.settles("replaced", lambda: {"workload": desk.group_picture("g"), "events": desk.events("OwnerReferencesAdded")})


def test_a_pod_too_many(desk: PodDesk) -> None:
    desk.queue("q", {"name": "f", "cpu": 4})
    for name in "ab":
        desk.pod(name, group="g", total=2).ok(201)
    desk.until_free("a", "b")
    desk.tick()
    desk.pod("c", group="g", total=2).ok(201)
    desk.until_gone("c")
    desk.until(lambda: desk.events("ExcessPodDeleted"), "it is told")
    desk.settles("too_many", lambda: {**desk.pod_pictures("a", "b"), "events": desk.events("ExcessPodDeleted")})


def test_a_group_that_is_not_tried_again(desk: PodDesk) -> None:
    desk.queue("q", {"name": "f", "cpu": 4})
    desk.pod("a", group="g", total=2, annotations={RETRIABLE: "false"}).ok(201)
    desk.pod("b", group="g", total=2).ok(201)
    desk.until_free("a", "b")
    desk.phase("a", "Failed")
    desk.phase("b", "Succeeded")
    desk.until(lambda: desk.group_condition("g", "Finished") == "True", "the group is over")
    desk.settles("not_again", lambda: desk.group_picture("g"))
    answer = desk.api.patch(f"{desk.core}/a", {"metadata": {"annotations": {RETRIABLE: "true"}}})
    desk.compare("again_after_all", [answer.status, answer.json.get("message")])


def test_a_group_is_preempted(desk: PodDesk) -> None:
    desk.priority("high", 100)
    desk.queue("q", {"name": "f", "cpu": 2}, preemption={"withinClusterQueue": "LowerPriority"})
    for name in "ab":
        desk.pod(name, group="g", total=2).ok(201)
    desk.until_free("a", "b")
    desk.pod("h", cpu=2, priority="high").ok(201)
    desk.until_free("h")
    desk.until(
        lambda: all(name not in (pods := desk.pods()) or "deletionTimestamp" in pods[name]["metadata"] for name in "ab"),
        "all leave",
    )
    desk.until(lambda: desk.group_condition("g", "WaitingForReplacementPods") == "True", "replacements are waited for")
    desk.until(lambda: desk.group_condition("g", "QuotaReserved") == "False", "it has no quota")
    desk.settles("group_preempted", lambda: desk.group_picture("g"))
    for name in "cd":
        desk.pod(name, group="g", total=2).ok(201)
    desk.until_gone("a", "b")
    desk.until(lambda: desk.group_condition("g", "WaitingForReplacementPods") == "False", "nobody is missing")
    desk.phase("h", "Succeeded")
    desk.until_free("c", "d")
    desk.settles("group_back", lambda: desk.group_picture("g"))


def test_a_group_that_need_not_be_whole(desk: PodDesk) -> None:
    desk.queue("q", {"name": "f", "cpu": 4})
    desk.pod("a", group="g", total=3, annotations={FAST: "true"}).ok(201)
    desk.until_free("a")
    desk.until(lambda: desk.group_condition("g", "WaitingForReplacementPods") == "True", "the others are waited for")
    desk.settles("fast", lambda: desk.group_picture("g"))


def test_a_group_that_serves(desk: PodDesk) -> None:
    desk.queue("q", {"name": "f", "cpu": 4})
    for name in "ab":
        desk.pod(name, group="g", total=2, annotations={SERVING: "true"}).ok(201)
    desk.until_free("a", "b")
    desk.phase("a", "Succeeded")
    desk.phase("b", "Succeeded")
    desk.tick()
    desk.settles("serving", lambda: desk.group_picture("g"))


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
def test_pods_that_are_refused(desk: PodDesk, case: str) -> None:
    answer = desk.pod("a", **_BAD[case])
    desk.compare(f"refused_{case}", [answer.status, answer.json.get("reason"), answer.json.get("message")])


_CHANGES: dict[str, dict[str, Any]] = {
    "another_queue": {"labels": {QUEUE: "r"}},
    "another_group": {"labels": {NAME: "h"}},
    "another_total": {"annotations": {TOTAL: "5"}},
    "a_class": {"labels": {PRIORITY: "high"}},
    "a_limit": {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "60"}},
}


@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize("case", sorted(_CHANGES))
def test_changes_of_pods(desk: PodDesk, case: str, running: bool) -> None:
    desk.queue("q", {"name": "f", "cpu": 1})
    desk.queue("r", {"name": "f", "cpu": 1})
    desk.pod("a", cpu=1 if running else 2, group="g", total=1).ok(201)
    if running:
        desk.until_free("a")
    answer = desk.api.patch(f"{desk.core}/a", {"metadata": _CHANGES[case]})
    desk.compare(f"changed_{case}_{'running' if running else 'waiting'}", [answer.status, answer.json.get("message")])
