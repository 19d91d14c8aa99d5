"""Where pods go and why some go nowhere: what nodes have, what pods ask of them, taints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.scheduling import NO_VICTIMS, PREFERRED, REQUIRED, UNHELPFUL, expression, node_affinity

if TYPE_CHECKING:
    from tests.support.scheduling import Stage

CLUSTER = "scheduling"


def test_no_nodes_at_all(stage: Stage) -> None:
    stage.pod("alone")
    stage.refused_with("alone", "no nodes available to schedule pods")


def test_a_pod_gets_a_node_and_an_event_says_so(stage: Stage) -> None:
    stage.node("a")
    stage.pod("first")
    assert stage.where("first") == "a"
    condition = stage.condition("first")
    assert condition["status"] == "True"
    assert "reason" not in condition
    assert "message" not in condition
    event = stage.event("first", "Scheduled")
    assert event["message"] == f"Successfully assigned {stage.ns}/first to a"
    assert (event["type"], event["action"], event["reportingComponent"]) == ("Normal", "Binding", "default-scheduler")
    assert event["involvedObject"]["kind"] == "Pod"
    assert event["involvedObject"]["uid"] == stage.get("first")["metadata"]["uid"]


def test_too_little_of_one_resource(stage: Stage) -> None:
    stage.node("a", cpu="2")
    stage.node("b", cpu="1")
    stage.pod("big", asks={"cpu": "3"})
    stage.refused_with("big", f"0/2 nodes are available: 2 Insufficient cpu. {UNHELPFUL.format(2)}")


def test_a_refusal_is_an_event_and_a_condition(stage: Stage) -> None:
    stage.node("a", cpu="2")
    stage.pod("big", asks={"cpu": "3"})
    message = stage.refusal("big")
    event = stage.event("big", "FailedScheduling")
    assert event["message"] == message
    assert (event["type"], event["action"], event["reportingComponent"]) == ("Warning", "Scheduling", "default-scheduler")
    condition = stage.condition("big")
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


def test_too_little_of_several_resources(stage: Stage) -> None:
    stage.node("a", cpu="2", memory="1Gi")
    stage.pod("big", asks={"cpu": "3", "memory": "2Gi", "ephemeral_storage": "1Gi"})
    expected = "1 Insufficient cpu, 1 Insufficient ephemeral-storage, 1 Insufficient memory"
    stage.refused_with("big", f"0/1 nodes are available: {expected}. {UNHELPFUL.format(1)}")


def test_taken_resources_leave_nobody_to_go(stage: Stage) -> None:
    stage.node("a", cpu="2")
    stage.pod("first", asks={"cpu": "1500m"})
    stage.where("first")
    stage.pod("second", asks={"cpu": "1"})
    stage.refused_with("second", f"0/1 nodes are available: 1 Insufficient cpu. {NO_VICTIMS.format(1)}")


def test_tpus_go_where_tpus_are(stage: Stage) -> None:
    stage.node("cpu")
    stage.node("tpu", tpu="4")
    stage.pod("worker", asks={"tpu": "4"})
    assert stage.where("worker") == "tpu"
    stage.pod("late", asks={"tpu": "4"})
    message = (
        "0/2 nodes are available: 2 Insufficient google.com/tpu. no new claims to deallocate, preemption: 0/2 nodes are available: "
    )
    stage.refused_with(
        "late", message + "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
    )


def test_gpus_and_selectors_give_two_reasons(stage: Stage) -> None:
    for name in ("a", "b", "c"):
        stage.node(name, labels={"pool": "gpu"}, gpu="1")
    stage.node("d", gpu="8")
    stage.pod("big", asks={"gpu": "8"}, nodeSelector={"pool": "gpu"})
    reasons = "1 node(s) didn't match Pod's node affinity/selector, 3 Insufficient nvidia.com/gpu"
    stage.refused_with("big", f"0/4 nodes are available: {reasons}. {UNHELPFUL.format(4)}")


def test_a_node_holds_so_many_pods(stage: Stage) -> None:
    stage.node("a", pods="1")
    stage.pod("first")
    stage.where("first")
    stage.pod("second")
    stage.refused_with("second", f"0/1 nodes are available: 1 Too many pods. {NO_VICTIMS.format(1)}")


def test_node_selector(stage: Stage) -> None:
    stage.node("a", labels={"disk": "ssd"})
    stage.node("b", labels={"disk": "hdd"})
    stage.pod("wants-hdd", nodeSelector={"disk": "hdd"})
    assert stage.where("wants-hdd") == "b"
    stage.pod("wants-tape", nodeSelector={"disk": "tape"})
    reason = "2 node(s) didn't match Pod's node affinity/selector"
    stage.refused_with("wants-tape", f"0/2 nodes are available: {reason}. {UNHELPFUL.format(2)}")


@pytest.mark.parametrize(
    ("asked", "expected"),
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
def test_node_affinity_operators(stage: Stage, asked: dict[str, Any], expected: str) -> None:
    stage.node("old", labels={"gen": "v4", "year": "2022"})
    stage.node("new", labels={"gen": "v5e", "year": "2024", "spot": "true"})
    stage.pod("one", affinity=node_affinity(asked))
    assert stage.where("one") == expected


def test_node_affinity_terms_are_alternatives(stage: Stage) -> None:
    stage.node("a", labels={"x": "1"})
    terms = [{"matchExpressions": [expression("x", "In", "9")]}, {"matchExpressions": [expression("x", "In", "1")]}]
    stage.pod("one", affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})
    assert stage.where("one") == "a"


def test_node_affinity_by_name(stage: Stage) -> None:
    for name in ("a", "b", "c"):
        stage.node(name)
    field = [expression("metadata.name", "In", "b")]
    stage.pod("one", affinity=node_affinity(fields=field))
    assert stage.where("one") == "b"
    stage.pod("big", affinity=node_affinity(fields=field), asks={"cpu": "9"})
    reasons = "1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]"
    stage.refused_with("big", f"0/3 nodes are available: {reasons}. {UNHELPFUL.format(3)}")


def test_node_affinity_that_contradicts_itself(stage: Stage) -> None:
    stage.node("a")
    fields = [expression("metadata.name", "In", "a"), expression("metadata.name", "In", "b")]
    stage.pod("one", affinity=node_affinity(fields=fields))
    stage.refused_with("one", "0/1 nodes are available: pod affinity terms conflict. not found")


def test_preferred_node_affinity(stage: Stage) -> None:
    stage.node("a", labels={"x": "1"})
    stage.node("b", labels={"x": "2"})
    stage.node("c", labels={"x": "3"})
    preferred = [
        {"weight": 10, "preference": {"matchExpressions": [expression("x", "In", "2")]}},
        {"weight": 90, "preference": {"matchExpressions": [expression("x", "In", "3")]}},
    ]
    stage.pod("one", affinity={"nodeAffinity": {PREFERRED: preferred}})
    assert stage.where("one") == "c"


def test_taints_keep_pods_away(stage: Stage) -> None:
    stage.node("a", taints=[{"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}])
    stage.pod("plain")
    stage.refused_with("plain", f"0/1 nodes are available: 1 node(s) had untolerated taint(s). {UNHELPFUL.format(1)}")
    stage.pod("exact", tolerations=[{"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}])
    stage.pod("exists", tolerations=[{"key": "google.com/tpu", "operator": "Exists"}])
    stage.pod("all", tolerations=[{"operator": "Exists"}])
    assert [stage.where(name) for name in ("exact", "exists", "all")] == ["a", "a", "a"]


def test_taints_that_evict_keep_pods_away_too(stage: Stage) -> None:
    stage.node("a", taints=[{"key": "broken", "effect": "NoExecute"}])
    stage.node("b", taints=[{"key": "broken", "value": "very", "effect": "NoSchedule"}])
    wrong = [{"key": "broken", "value": "other", "effect": "NoSchedule"}, {"key": "broken", "effect": "NoSchedule"}]
    stage.pod("plain", tolerations=wrong)
    stage.refused_with("plain", f"0/2 nodes are available: 2 node(s) had untolerated taint(s). {UNHELPFUL.format(2)}")


def test_taints_that_discourage(stage: Stage) -> None:
    stage.node("a", taints=[{"key": "old", "effect": "PreferNoSchedule"}])
    stage.node("b", cpu="2", memory="4Gi")
    stage.pod("one", asks={"cpu": "1", "memory": "1Gi"})
    assert stage.where("one") == "b"


def test_a_cordoned_node(stage: Stage) -> None:
    stage.node("a")
    stage.change_node("a", {"spec": {"unschedulable": True}})
    stage.pod("one")
    assert "node(s) were unschedulable" in stage.refusal("one") or "untolerated taint" in stage.refusal("one")
    stage.change_node("a", {"spec": {"unschedulable": False, "taints": None}})
    assert stage.where("one") == "a"


def test_host_ports(stage: Stage) -> None:
    def serving(name: str, port: int, **more: str) -> None:
        container = {"name": "c", "image": "x", "ports": [{"containerPort": port, "hostPort": port, **more}]}
        stage.pod(name, containers=[container])

    stage.node("a")
    serving("first", 8080)
    assert stage.where("first") == "a"
    serving("second", 8080)
    reason = "1 node(s) didn't have free ports for the requested pod ports"
    stage.refused_with("second", f"0/1 nodes are available: {reason}. {NO_VICTIMS.format(1)}")
    serving("other-port", 8081)
    serving("other-protocol", 8080, protocol="UDP")
    assert stage.where("other-port") == stage.where("other-protocol") == "a"
    serving("one-address", 8080, hostIP="127.0.0.1")
    stage.refused_with("one-address", f"0/1 nodes are available: {reason}. {NO_VICTIMS.format(1)}")


def test_init_containers_count_when_they_ask_for_more(stage: Stage) -> None:
    stage.node("a", cpu="2")
    init = [{"name": "init", "image": "x", "resources": {"requests": {"cpu": "3"}}}]
    stage.pod("one", initContainers=init, asks={"cpu": "1"})
    stage.refused_with("one", f"0/1 nodes are available: 1 Insufficient cpu. {UNHELPFUL.format(1)}")


def test_sidecars_are_added(stage: Stage) -> None:
    stage.node("a", cpu="2")
    sidecar = {"name": "side", "image": "x", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    stage.pod("fits", initContainers=[sidecar], asks={"cpu": "1"})
    assert stage.where("fits") == "a"
    stage.delete("fits")
    stage.pod("one", initContainers=[sidecar], asks={"cpu": "1500m"})
    stage.refused_with("one", f"0/1 nodes are available: 1 Insufficient cpu. {UNHELPFUL.format(1)}")


def test_the_emptier_node_is_preferred(stage: Stage) -> None:
    stage.node("a", cpu="8", memory="16Gi")
    stage.node("b", cpu="2", memory="4Gi")
    for number in range(3):
        stage.pod(f"one-{number}", asks={"cpu": "1", "memory": "2Gi"})
        assert stage.where(f"one-{number}") == "a"


def test_images_that_are_there_are_preferred(stage: Stage) -> None:
    for name in ("a", "b", "c"):
        stage.node(name)
    stage.images("b", {"names": ["example.test/image:1"], "sizeBytes": 900 * 1024 * 1024})
    stage.pod("one")
    assert stage.where("one") == "b"
