"""Where pods go, why some go nowhere, and who makes room: on a cluster of its own, because every node counts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.clusters import Cluster, RealCluster, TwinCluster
from tests.support.scheduling import HOST, ZONE, Stage
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.http import Api

REQUIRED, PREFERRED = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
UNHELPFUL = "no new claims to deallocate, preemption: 0/{0} nodes are available: {0} Preemption is not helpful for scheduling."
NO_VICTIMS = "no new claims to deallocate, preemption: 0/{0} nodes are available: {0} No preemption victims found for incoming pod."


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster where no other case has nodes."""
    folder = tmp_path_factory.mktemp(f"{request.param}-scheduling")
    running: Cluster
    running = RealCluster(folder, workloads=True) if request.param == "real" else TwinCluster(folder, workloads=True)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def stage(api: Api, ns: str) -> Iterator[Stage]:
    """Empty before and after."""
    stage = Stage(api, ns)
    yield stage
    stage.clear()


def node_affinity(*expressions: dict[str, Any], fields: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Required affinity with one term."""
    term: dict[str, Any] = {"matchExpressions": list(expressions)} if expressions else {}
    if fields:
        term["matchFields"] = fields
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}


def near(labels: dict[str, str], topology: str = HOST, **fields: Any) -> dict[str, Any]:
    """An affinity term."""
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": topology, **fields}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


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
    images = [{"names": ["example.test/image:1"], "sizeBytes": 900 * 1024 * 1024}]
    stage.api.patch("/api/v1/nodes/b/status", {"status": {"images": images}}).ok()
    stage.pod("one")
    assert stage.where("one") == "b"


def test_pod_affinity(stage: Stage) -> None:
    stage.node("a", labels={ZONE: "z1"})
    stage.node("b", labels={ZONE: "z2"})
    stage.pod("db", labels={"app": "db"}, nodeSelector={HOST: "b"})
    stage.where("db")
    stage.pod("web", affinity={"podAffinity": {REQUIRED: [near({"app": "db"}, ZONE)]}})
    assert stage.where("web") == "b"
    stage.pod("lonely", affinity={"podAffinity": {REQUIRED: [near({"app": "none"}, ZONE)]}})
    stage.refused_with("lonely", f"0/2 nodes are available: 2 node(s) didn't match pod affinity rules. {UNHELPFUL.format(2)}")


def test_pod_affinity_to_itself_starts_somewhere(stage: Stage) -> None:
    stage.node("a", labels={"pool": "p1"})
    stage.node("b", labels={"pool": "p2"})
    stage.node("c")
    affinity = {"podAffinity": {REQUIRED: [near({"job": "j"}, "pool")]}}
    stage.pod("w-0", labels={"job": "j"}, affinity=affinity)
    first = stage.where("w-0")
    assert first in ("a", "b")
    stage.pod("w-1", labels={"job": "j"}, affinity=affinity)
    assert stage.where("w-1") == first


def test_pod_affinity_looks_into_other_namespaces_only_when_told(stage: Stage, api: Api, unique_name: str) -> None:
    stage.node("a")
    api.post("/api/v1/namespaces", {"metadata": {"name": unique_name, "labels": {"team": "data"}}}).ok(201)
    api.post(f"/api/v1/namespaces/{unique_name}/serviceaccounts", {"metadata": {"name": "default"}})
    other = Stage(api, unique_name)
    other.pod("db", labels={"app": "db"})
    other.where("db")
    stage.pod("own", affinity={"podAffinity": {REQUIRED: [near({"app": "db"})]}})
    stage.refused_with("own", f"0/1 nodes are available: 1 node(s) didn't match pod affinity rules. {UNHELPFUL.format(1)}")
    stage.pod("named", affinity={"podAffinity": {REQUIRED: [near({"app": "db"}, namespaces=[unique_name])]}})
    chosen = near({"app": "db"}, namespaceSelector={"matchLabels": {"team": "data"}})
    stage.pod("chosen", affinity={"podAffinity": {REQUIRED: [chosen]}})
    assert stage.where("named") == stage.where("chosen") == "a"
    other.delete("db")


def test_pod_anti_affinity(stage: Stage) -> None:
    stage.node("a")
    stage.node("b")
    away = {"podAntiAffinity": {REQUIRED: [near({"app": "web"})]}}
    stage.pod("web-0", labels={"app": "web"}, affinity=away)
    stage.pod("web-1", labels={"app": "web"}, affinity=away)
    assert {stage.where("web-0"), stage.where("web-1")} == {"a", "b"}
    stage.pod("web-2", labels={"app": "web"}, affinity=away)
    reason = "2 node(s) didn't match pod anti-affinity rules"
    stage.refused_with("web-2", f"0/2 nodes are available: {reason}. {NO_VICTIMS.format(2)}")


def test_placed_pods_keep_others_away(stage: Stage) -> None:
    stage.node("a")
    stage.pod("guard", affinity={"podAntiAffinity": {REQUIRED: [near({"app": "noisy"})]}})
    stage.where("guard")
    stage.pod("noisy", labels={"app": "noisy"})
    reason = "1 node(s) didn't satisfy existing pods anti-affinity rules"
    stage.refused_with("noisy", f"0/1 nodes are available: {reason}. {NO_VICTIMS.format(1)}")


def test_preferred_pod_affinity(stage: Stage) -> None:
    for name in ("a", "b", "c"):
        stage.node(name)
    stage.pod("db", labels={"app": "db"}, nodeSelector={HOST: "b"})
    stage.where("db")
    towards = [{"weight": 100, "podAffinityTerm": near({"app": "db"})}]
    stage.pod("web", affinity={"podAffinity": {PREFERRED: towards}})
    assert stage.where("web") == "b"
    stage.pod("loud", nodeSelector={HOST: "a"}, labels={"app": "loud"})
    stage.where("loud")
    stage.pod(
        "quiet", affinity={"podAntiAffinity": {PREFERRED: [*towards, {"weight": 100, "podAffinityTerm": near({"app": "loud"})}]}}
    )
    assert stage.where("quiet") == "c"


def spread(topology: str, how: str = "DoNotSchedule", **fields: Any) -> dict[str, Any]:
    return {
        "topologyKey": topology,
        "whenUnsatisfiable": how,
        "maxSkew": 1,
        "labelSelector": {"matchLabels": {"app": "s"}},
        **fields,
    }


def test_topology_spread(stage: Stage) -> None:
    for name, zone in (("a", "z1"), ("b", "z1"), ("c", "z2")):
        stage.node(name, labels={ZONE: zone})
    stage.node("nowhere")
    zones = []
    for number in range(4):
        stage.pod(f"s-{number}", labels={"app": "s"}, topologySpreadConstraints=[spread(ZONE)])
        zones.append("z2" if stage.where(f"s-{number}") == "c" else "z1")
    assert sorted(zones) == ["z1", "z1", "z2", "z2"]
    stage.change_node("c", {"spec": {"unschedulable": True}})
    eventually(lambda: stage.api.get("/api/v1/nodes/c").json["spec"].get("unschedulable"))
    stage.pod("s-4", labels={"app": "s"}, topologySpreadConstraints=[spread(ZONE)])
    stage.where("s-4")
    stage.pod("s-5", labels={"app": "s"}, topologySpreadConstraints=[spread(ZONE)])
    message = stage.refusal("s-5")
    assert "2 node(s) didn't match pod topology spread constraints. " in message
    assert "1 node(s) didn't match pod topology spread constraints (missing required label)" in message


def test_topology_spread_needs_domains(stage: Stage) -> None:
    stage.node("a", labels={ZONE: "z1"})
    constraint = spread(ZONE, minDomains=2)
    stage.pod("s-0", labels={"app": "s"}, topologySpreadConstraints=[constraint])
    stage.where("s-0")
    stage.pod("s-1", labels={"app": "s"}, topologySpreadConstraints=[constraint])
    reason = "1 node(s) didn't match pod topology spread constraints"
    stage.refused_with("s-1", f"0/1 nodes are available: {reason}. {NO_VICTIMS.format(1)}")
    stage.node("b", labels={ZONE: "z2"})
    assert stage.where("s-1") == "b"


def test_soft_topology_spread(stage: Stage) -> None:
    for name in ("a", "b", "c"):
        stage.node(name)
    constraint = spread(HOST, "ScheduleAnyway")
    for number in range(6):
        stage.pod(f"s-{number}", labels={"app": "s"}, topologySpreadConstraints=[constraint])
        stage.where(f"s-{number}")
    placed = [stage.where(f"s-{number}") for number in range(6)]
    assert sorted(placed) == ["a", "a", "b", "b", "c", "c"]


def test_pods_of_a_service_are_spread(stage: Stage) -> None:
    stage.node("a", cpu="64", memory="256Gi")
    stage.node("b", cpu="64", memory="256Gi")
    body = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    stage.api.post(f"/api/v1/namespaces/{stage.ns}/services", body).ok(201)
    placed = []
    for number in range(6):
        stage.pod(f"web-{number}", labels={"app": "web"})
        placed.append(stage.where(f"web-{number}"))
    assert sorted(placed) == ["a", "a", "a", "b", "b", "b"]


def test_gates_hold_a_pod(stage: Stage) -> None:
    stage.node("a")
    stage.pod("one", schedulingGates=[{"name": "example.com/quota"}])
    condition = stage.condition("one")
    assert (condition["status"], condition["reason"]) == ("False", "SchedulingGated")
    assert condition["message"] == "Scheduling is blocked due to non-empty scheduling gates"
    stage.pod("other")
    stage.where("other")
    assert "nodeName" not in stage.get("one")["spec"]
    assert stage.condition("one")["reason"] == "SchedulingGated"
    assert stage.events("one", "FailedScheduling") == []
    stage.change_pod("one", {"spec": {"schedulingGates": None}})
    assert stage.where("one") == "a"
    assert "reason" not in stage.condition("one")


def test_a_gated_pod_may_be_pinned_before_it_goes(stage: Stage) -> None:
    stage.node("a")
    stage.node("b")
    stage.pod("one", schedulingGates=[{"name": "example.com/topology"}])
    stage.change_pod("one", {"spec": {"nodeSelector": {HOST: "b"}, "schedulingGates": None}})
    assert stage.where("one") == "b"


def test_pods_of_other_schedulers_are_left_alone(stage: Stage) -> None:
    stage.node("a")
    stage.pod("theirs", schedulerName="other-scheduler")
    stage.pod("ours")
    stage.where("ours")
    assert "nodeName" not in stage.get("theirs")["spec"]
    assert stage.condition("theirs") == {}


def test_a_pod_with_a_node_needs_no_scheduler_but_takes_room(stage: Stage) -> None:
    stage.node("a", cpu="1")
    stage.pod("pinned", nodeName="a", asks={"cpu": "1"})
    assert stage.events("pinned", "Scheduled") == []
    stage.pod("late", asks={"cpu": "1"})
    stage.refused_with("late", f"0/1 nodes are available: 1 Insufficient cpu. {NO_VICTIMS.format(1)}")


@pytest.mark.parametrize("how", ["deleted", "ended", "failed"])
def test_room_is_found_again(stage: Stage, how: str) -> None:
    stage.node("a", tpu="4")
    stage.pod("first", asks={"tpu": "4"})
    stage.where("first")
    stage.pod("second", asks={"tpu": "4"})
    stage.refusal("second")
    if how == "deleted":
        stage.delete("first")
    else:
        stage.end("first", "Succeeded" if how == "ended" else "Failed")
    assert stage.where("second") == "a"
    assert "reason" not in stage.condition("second")


@pytest.mark.parametrize("what", ["new", "larger", "label", "taint"])
def test_nodes_that_change_help(stage: Stage, what: str) -> None:
    stage.node(
        "a",
        labels={} if what == "label" else {"pool": "p"},
        taints=[{"key": "t", "effect": "NoSchedule"}] if what == "taint" else None,
    )
    stage.pod("one", asks={"cpu": "5"} if what in ("new", "larger") else None, nodeSelector={"pool": "p"})
    stage.refusal("one")
    if what == "new":
        stage.node("b", labels={"pool": "p"}, cpu="8")
    elif what == "larger":
        stage.offer("a", cpu="8")
    elif what == "label":
        stage.change_node("a", {"metadata": {"labels": {"pool": "p"}}})
    else:
        stage.change_node("a", {"spec": {"taints": None}})
    assert stage.where("one") == ("b" if what == "new" else "a")


def test_a_new_toleration_helps(stage: Stage) -> None:
    stage.node("a", taints=[{"key": "t", "effect": "NoSchedule"}])
    stage.pod("one")
    stage.refusal("one")
    now = [*(stage.get("one")["spec"].get("tolerations") or ()), {"key": "t", "operator": "Exists"}]
    stage.change_pod("one", {"spec": {"tolerations": now}})
    assert stage.where("one") == "a"


def test_a_refusal_keeps_its_time_when_its_words_change(stage: Stage) -> None:
    stage.node("a", cpu="1")
    stage.pod("one", asks={"cpu": "4"}, nodeSelector={"x": "1"})
    first = stage.refusal("one")
    since = stage.condition("one")["lastTransitionTime"]
    time.sleep(1.1)
    stage.node("b", cpu="1", labels={"x": "1"})
    stage.change_node("a", {"metadata": {"labels": {"x": "1"}}})
    reason = f"0/2 nodes are available: 2 Insufficient cpu. {UNHELPFUL.format(2)}"
    stage.refused_with("one", reason)
    assert first != reason
    assert stage.condition("one")["lastTransitionTime"] == since
    eventually(lambda: {first, reason} <= {event["message"] for event in stage.events("one", "FailedScheduling")})


def test_refusals_are_told_again_when_they_change(stage: Stage) -> None:
    stage.node("a", labels={"x": "1"})
    stage.pod("one", nodeSelector={"x": "2"})
    stage.refusal("one")
    stage.node("b", labels={"x": "2"}, cpu="1")
    assert stage.where("one") == "b"
    stage.pod("two", nodeSelector={"x": "2"}, asks={"cpu": "2"})
    reasons = "1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector"
    stage.refused_with("two", f"0/2 nodes are available: {reasons}. {UNHELPFUL.format(2)}")
    stage.offer("b", cpu="2")
    assert stage.where("two") == "b"


def test_the_important_go_first(stage: Stage) -> None:
    stage.priority("high", 1000)
    stage.pod("low", asks={"cpu": "1"})
    stage.refusal("low")
    stage.pod("high", asks={"cpu": "1"}, priorityClassName="high")
    stage.refusal("high")
    stage.node("a", cpu="1")
    assert stage.where("high") == "a"
    assert "nodeName" not in stage.get("low")["spec"]


def test_preemption(stage: Stage) -> None:
    stage.priority("high", 1000)
    stage.node("a", cpu="2")
    stage.pod("low", asks={"cpu": "2"})
    stage.where("low")
    uid = stage.pod("high", asks={"cpu": "1"}, priorityClassName="high")["metadata"]["uid"]
    assert stage.where("high") == "a"
    event = stage.event("low", "Preempted")
    assert event["message"] == f"Preempted by pod {uid} on node a"
    assert (event["type"], event["action"], event["reportingComponent"]) == ("Normal", "Preempting", "default-scheduler")
    assert event["related"]["uid"] == uid
    assert stage.event("high", "FailedScheduling")["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert stage.api.get(f"{stage.pods}/low").status == 404
    assert "nominatedNodeName" not in stage.get("high")["status"]


def test_a_victim_may_take_its_time(stage: Stage) -> None:
    stage.priority("high", 1000)
    stage.node("a", cpu="2")
    stage.pod("low", asks={"cpu": "2"}, terminationGracePeriodSeconds=600)
    stage.where("low")
    stage.pod("high", asks={"cpu": "2"}, priorityClassName="high")
    eventually(lambda: stage.get("high")["status"].get("nominatedNodeName") == "a")
    eventually(lambda: stage.get("low")["metadata"].get("deletionTimestamp"))
    condition = stage.condition("low", "DisruptionTarget")
    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
    assert condition["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
    assert [one["type"] for one in stage.get("low")["status"]["conditions"]] == ["PodScheduled", "DisruptionTarget"]
    assert stage.refusal("high") == "0/1 nodes are available: 1 Insufficient cpu."
    stage.pod("opportunist", asks={"cpu": "1"})
    stage.refusal("opportunist")
    stage.delete("low")
    assert stage.where("high") == "a"
    assert "nodeName" not in stage.get("opportunist")["spec"]


def test_as_few_as_possible_make_room(stage: Stage) -> None:
    stage.priority("high", 1000)
    stage.priority("middle", 500)
    stage.node("a", cpu="4")
    stage.pod("low", asks={"cpu": "2"})
    stage.pod("middle", asks={"cpu": "2"}, priorityClassName="middle")
    stage.where("low"), stage.where("middle")
    stage.pod("high", asks={"cpu": "2"}, priorityClassName="high")
    assert stage.where("high") == "a"
    assert stage.api.get(f"{stage.pods}/low").status == 404
    assert stage.get("middle")["spec"]["nodeName"] == "a"


def test_room_is_made_where_it_hurts_least(stage: Stage) -> None:
    stage.priority("high", 1000)
    stage.priority("middle", 500)
    stage.node("a", cpu="2")
    stage.pod("middle", asks={"cpu": "2"}, priorityClassName="middle")
    stage.where("middle")
    stage.node("b", cpu="2")
    stage.pod("low", asks={"cpu": "2"})
    stage.where("low")
    stage.pod("high", asks={"cpu": "2"}, priorityClassName="high")
    assert stage.where("high") == "b"


def test_the_youngest_make_room(stage: Stage) -> None:
    stage.priority("high", 1000)
    stage.node("a", cpu="2")
    for name, since in (("old", "2026-01-01T00:00:00Z"), ("young", "2026-02-01T00:00:00Z")):
        stage.pod(name, asks={"cpu": "1"})
        stage.where(name)
        stage.start(name, since)
    stage.pod("high", asks={"cpu": "1"}, priorityClassName="high")
    stage.where("high")
    assert stage.api.get(f"{stage.pods}/young").status == 404
    assert stage.get("old")["spec"]["nodeName"] == "a"


def test_budgets_turn_preemption_elsewhere(stage: Stage) -> None:
    stage.priority("high", 1000)
    for node in ("a", "b"):
        stage.node(node, cpu="1")
        stage.pod(f"on-{node}", labels={"on": node}, asks={"cpu": "1"}, nodeSelector={HOST: node})
        stage.where(f"on-{node}")
        stage.start(f"on-{node}", f"2026-0{1 if node == 'b' else 2}-01T00:00:00Z")
    budgets = f"/apis/policy/v1/namespaces/{stage.ns}/poddisruptionbudgets"
    stage.api.post(
        budgets, {"metadata": {"name": "keep"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"on": "a"}}}}
    ).ok(201)
    stage.pod("high", asks={"cpu": "1"}, priorityClassName="high")
    assert stage.where("high") == "b"


def test_some_never_preempt(stage: Stage) -> None:
    stage.priority("polite", 1000, preemptionPolicy="Never")
    stage.node("a", cpu="1")
    stage.pod("low", asks={"cpu": "1"})
    stage.where("low")
    stage.pod("polite", asks={"cpu": "1"}, priorityClassName="polite")
    refused = "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."
    stage.refused_with("polite", f"0/1 nodes are available: 1 Insufficient cpu. {refused}")
    stage.delete("low")
    assert stage.where("polite") == "a"


def test_preemption_opens_a_place_kept_by_anti_affinity(stage: Stage) -> None:
    stage.priority("high", 1000)
    stage.node("a")
    away = {"podAntiAffinity": {REQUIRED: [near({"app": "x"})]}}
    stage.pod("low", labels={"app": "x"}, affinity=away)
    stage.where("low")
    stage.pod("high", labels={"app": "x"}, affinity=away, priorityClassName="high")
    assert stage.where("high") == "a"
    assert stage.event("low", "Preempted")


def test_a_pod_that_is_deleted_waits_no_longer(stage: Stage) -> None:
    stage.pod("one", asks={"cpu": "1"})
    stage.refusal("one")
    stage.delete("one")
    stage.pod("two", asks={"cpu": "1"})
    stage.refusal("two")
    stage.node("a", cpu="1")
    assert stage.where("two") == "a"


def test_a_node_that_is_large_enough_is_looked_at_even_if_it_is_tainted(stage: Stage) -> None:
    stage.node("a", cpu="1")
    stage.pod("one", asks={"cpu": "4"})
    stage.refusal("one")
    assert "series" not in stage.event("one", "FailedScheduling")
    for name in ("b", "c"):
        stage.node(name, cpu="8", taints=[{"key": "t", "effect": "NoSchedule"}])
    reasons = "1 Insufficient cpu, 2 node(s) had untolerated taint(s)"
    stage.refused_with("one", f"0/3 nodes are available: {reasons}. {UNHELPFUL.format(3)}")


def test_a_claim_that_does_not_exist(stage: Stage) -> None:
    stage.node("a")
    stage.pod("one", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    stage.refused_with("one", '0/1 nodes are available: persistentvolumeclaim "data" not found. not found')
