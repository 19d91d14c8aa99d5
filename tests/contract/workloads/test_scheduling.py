"""Scheduling by resources, node selectors, affinity and taints, and the messages for unschedulable pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.scheduling import NO_VICTIMS, PREFERRED, REQUIRED, UNHELPFUL, expression, node_affinity

if TYPE_CHECKING:
    from tests.support.scheduling import SchedulerHarness

pytestmark = pytest.mark.controllers
CLUSTER = "scheduling"


def test_cluster_without_nodes(scheduler: SchedulerHarness) -> None:
    scheduler.pod("alone")
    scheduler.refused_with("alone", "no nodes available to schedule pods")


def test_pod_is_scheduled_with_an_event(scheduler: SchedulerHarness) -> None:
    scheduler.node("a")
    scheduler.pod("first")
    assert scheduler.where("first") == "a"
    condition = scheduler.condition("first")
    assert condition["status"] == "True"
    assert "reason" not in condition
    assert "message" not in condition
    event = scheduler.event("first", "Scheduled")
    assert event["message"] == f"Successfully assigned {scheduler.ns}/first to a"
    assert (event["type"], event["action"], event["reportingComponent"]) == ("Normal", "Binding", "default-scheduler")
    assert event["involvedObject"]["kind"] == "Pod"
    assert event["involvedObject"]["uid"] == scheduler.get("first")["metadata"]["uid"]


def test_insufficient_resource(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", cpu="2")
    scheduler.node("b", cpu="1")
    scheduler.pod("big", asks={"cpu": "3"})
    scheduler.refused_with("big", f"0/2 nodes are available: 2 Insufficient cpu. {UNHELPFUL.format(2)}")


def test_unschedulable_pod_has_event_and_condition(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", cpu="2")
    scheduler.pod("big", asks={"cpu": "3"})
    message = scheduler.refusal("big")
    event = scheduler.event("big", "FailedScheduling")
    assert event["message"] == message
    assert (event["type"], event["action"], event["reportingComponent"]) == ("Warning", "Scheduling", "default-scheduler")
    condition = scheduler.condition("big")
    assert condition["observedGeneration"] == 1
    assert condition["lastProbeTime"] is None
    assert condition["lastTransitionTime"]
    assert sorted(condition) == [
        "lastProbeTime",
        "lastTransitionTime",
        "message",
        "observedGeneration",
        "reason",
        "status",
        "type",
    ]


def test_several_insufficient_resources(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", cpu="2", memory="1Gi")
    scheduler.pod("big", asks={"cpu": "3", "memory": "2Gi", "ephemeral_storage": "1Gi"})
    expected = "1 Insufficient cpu, 1 Insufficient ephemeral-storage, 1 Insufficient memory"
    scheduler.refused_with("big", f"0/1 nodes are available: {expected}. {UNHELPFUL.format(1)}")


def test_used_resources_are_unavailable(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", cpu="2")
    scheduler.pod("first", asks={"cpu": "1500m"})
    scheduler.where("first")
    scheduler.pod("second", asks={"cpu": "1"})
    scheduler.refused_with("second", f"0/1 nodes are available: 1 Insufficient cpu. {NO_VICTIMS.format(1)}")


def test_tpu_pod_runs_on_tpu_node(scheduler: SchedulerHarness) -> None:
    scheduler.node("cpu")
    scheduler.node("tpu", tpu="4")
    scheduler.pod("worker", asks={"tpu": "4"})
    assert scheduler.where("worker") == "tpu"
    scheduler.pod("late", asks={"tpu": "4"})
    message = (
        "0/2 nodes are available: 2 Insufficient google.com/tpu. no new claims to deallocate, preemption: 0/2 nodes are available: "
    )
    scheduler.refused_with(
        "late", message + "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
    )


def test_two_reasons_are_reported(scheduler: SchedulerHarness) -> None:
    for name in ("a", "b", "c"):
        scheduler.node(name, labels={"pool": "gpu"}, gpu="1")
    scheduler.node("d", gpu="8")
    scheduler.pod("big", asks={"gpu": "8"}, nodeSelector={"pool": "gpu"})
    reasons = "1 node(s) didn't match Pod's node affinity/selector, 3 Insufficient nvidia.com/gpu"
    scheduler.refused_with("big", f"0/4 nodes are available: {reasons}. {UNHELPFUL.format(4)}")


def test_pod_limit_of_node(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", pods="1")
    scheduler.pod("first")
    scheduler.where("first")
    scheduler.pod("second")
    scheduler.refused_with("second", f"0/1 nodes are available: 1 Too many pods. {NO_VICTIMS.format(1)}")


def test_node_selector(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", labels={"disk": "ssd"})
    scheduler.node("b", labels={"disk": "hdd"})
    scheduler.pod("wants-hdd", nodeSelector={"disk": "hdd"})
    assert scheduler.where("wants-hdd") == "b"
    scheduler.pod("wants-tape", nodeSelector={"disk": "tape"})
    reason = "2 node(s) didn't match Pod's node affinity/selector"
    scheduler.refused_with("wants-tape", f"0/2 nodes are available: {reason}. {UNHELPFUL.format(2)}")


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        (expression("gen", "In", "v5e", "v6e"), "new"),
        (expression("gen", "NotIn", "v5e", "v6e"), "old"),
        (expression("spot", "Exists"), "new"),
        (expression("spot", "DoesNotExist"), "old"),
        (expression("year", "Gt", "2023"), "new"),
        (expression("year", "Lt", "2023"), "old"),
    ],
    ids=lambda value: value["operator"] if isinstance(value, dict) else "",
)
def test_node_affinity_operators(scheduler: SchedulerHarness, requests: dict[str, Any], expected: str) -> None:
    scheduler.node("old", labels={"gen": "v4", "year": "2022"})
    scheduler.node("new", labels={"gen": "v5e", "year": "2024", "spot": "true"})
    scheduler.pod("one", affinity=node_affinity(requests))
    assert scheduler.where("one") == expected


def test_node_affinity_terms_are_alternatives(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", labels={"x": "1"})
    terms = [{"matchExpressions": [expression("x", "In", "9")]}, {"matchExpressions": [expression("x", "In", "1")]}]
    scheduler.pod("one", affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})
    assert scheduler.where("one") == "a"


def test_node_affinity_by_name(scheduler: SchedulerHarness) -> None:
    for name in ("a", "b", "c"):
        scheduler.node(name)
    field = [expression("metadata.name", "In", "b")]
    scheduler.pod("one", affinity=node_affinity(fields=field))
    assert scheduler.where("one") == "b"
    scheduler.pod("big", affinity=node_affinity(fields=field), asks={"cpu": "9"})
    reasons = "1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]"
    scheduler.refused_with("big", f"0/3 nodes are available: {reasons}. {UNHELPFUL.format(3)}")


def test_contradictory_node_affinity(scheduler: SchedulerHarness) -> None:
    scheduler.node("a")
    fields = [expression("metadata.name", "In", "a"), expression("metadata.name", "In", "b")]
    scheduler.pod("one", affinity=node_affinity(fields=fields))
    scheduler.refused_with("one", "0/1 nodes are available: pod affinity terms conflict. not found")


def test_preferred_node_affinity(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", labels={"x": "1"})
    scheduler.node("b", labels={"x": "2"})
    scheduler.node("c", labels={"x": "3"})
    preferred = [
        {"weight": 10, "preference": {"matchExpressions": [expression("x", "In", "2")]}},
        {"weight": 90, "preference": {"matchExpressions": [expression("x", "In", "3")]}},
    ]
    scheduler.pod("one", affinity={"nodeAffinity": {PREFERRED: preferred}})
    assert scheduler.where("one") == "c"


def test_no_schedule_taint(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", taints=[{"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}])
    scheduler.pod("plain")
    scheduler.refused_with("plain", f"0/1 nodes are available: 1 node(s) had untolerated taint(s). {UNHELPFUL.format(1)}")
    scheduler.pod("exact", tolerations=[{"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}])
    scheduler.pod("exists", tolerations=[{"key": "google.com/tpu", "operator": "Exists"}])
    scheduler.pod("all", tolerations=[{"operator": "Exists"}])
    assert [scheduler.where(name) for name in ("exact", "exists", "all")] == ["a", "a", "a"]


def test_no_execute_taint(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", taints=[{"key": "broken", "effect": "NoExecute"}])
    scheduler.node("b", taints=[{"key": "broken", "value": "very", "effect": "NoSchedule"}])
    wrong = [{"key": "broken", "value": "other", "effect": "NoSchedule"}, {"key": "broken", "effect": "NoSchedule"}]
    scheduler.pod("plain", tolerations=wrong)
    scheduler.refused_with("plain", f"0/2 nodes are available: 2 node(s) had untolerated taint(s). {UNHELPFUL.format(2)}")


def test_prefer_no_schedule_taint(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", taints=[{"key": "old", "effect": "PreferNoSchedule"}])
    scheduler.node("b", cpu="2", memory="4Gi")
    scheduler.pod("one", asks={"cpu": "1", "memory": "1Gi"})
    assert scheduler.where("one") == "b"


def test_cordoned_node(scheduler: SchedulerHarness) -> None:
    scheduler.node("a")
    scheduler.change_node("a", {"spec": {"unschedulable": True}})
    scheduler.pod("one")
    assert "node(s) were unschedulable" in scheduler.refusal("one") or "untolerated taint" in scheduler.refusal("one")
    scheduler.change_node("a", {"spec": {"unschedulable": False, "taints": None}})
    assert scheduler.where("one") == "a"


def test_host_ports(scheduler: SchedulerHarness) -> None:
    def serving(name: str, port: int, **more: str) -> None:
        container = {"name": "c", "image": "x", "ports": [{"containerPort": port, "hostPort": port, **more}]}
        scheduler.pod(name, containers=[container])

    scheduler.node("a")
    serving("first", 8080)
    assert scheduler.where("first") == "a"
    serving("second", 8080)
    reason = "1 node(s) didn't have free ports for the requested pod ports"
    scheduler.refused_with("second", f"0/1 nodes are available: {reason}. {NO_VICTIMS.format(1)}")
    serving("other-port", 8081)
    serving("other-protocol", 8080, protocol="UDP")
    assert scheduler.where("other-port") == scheduler.where("other-protocol") == "a"
    serving("one-address", 8080, hostIP="127.0.0.1")
    scheduler.refused_with("one-address", f"0/1 nodes are available: {reason}. {NO_VICTIMS.format(1)}")


def test_largest_init_container_request_counts(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", cpu="2")
    init = [{"name": "init", "image": "x", "resources": {"requests": {"cpu": "3"}}}]
    scheduler.pod("one", initContainers=init, asks={"cpu": "1"})
    scheduler.refused_with("one", f"0/1 nodes are available: 1 Insufficient cpu. {UNHELPFUL.format(1)}")


def test_sidecar_requests_are_added(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", cpu="2")
    sidecar = {"name": "side", "image": "x", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    scheduler.pod("fits", initContainers=[sidecar], asks={"cpu": "1"})
    assert scheduler.where("fits") == "a"
    scheduler.delete("fits")
    scheduler.pod("one", initContainers=[sidecar], asks={"cpu": "1500m"})
    scheduler.refused_with("one", f"0/1 nodes are available: 1 Insufficient cpu. {UNHELPFUL.format(1)}")


def test_least_allocated_node_is_preferred(scheduler: SchedulerHarness) -> None:
    scheduler.node("a", cpu="8", memory="16Gi")
    scheduler.node("b", cpu="2", memory="4Gi")
    for number in range(3):
        scheduler.pod(f"one-{number}", asks={"cpu": "1", "memory": "2Gi"})
        assert scheduler.where(f"one-{number}") == "a"


def test_node_with_image_is_preferred(scheduler: SchedulerHarness) -> None:
    for name in ("a", "b", "c"):
        scheduler.node(name)
    scheduler.images("b", {"names": ["example.test/image:1"], "sizeBytes": 900 * 1024 * 1024})
    scheduler.pod("one")
    assert scheduler.where("one") == "b"
