"""What controllers of workloads share, and their pure parts."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from sliceworks.kube.selectors import from_labels, parse_labels
from sliceworks.twin.workloads.deployments import numbers, revisions
from sliceworks.twin.workloads.endpoints import slices
from sliceworks.twin.workloads.hashes import fnv32, fnv32a, go_json, safe_hash
from sliceworks.twin.workloads.nodehealth import health
from sliceworks.twin.workloads.nodehealth.eviction import tolerance
from sliceworks.twin.workloads.pods import Pod, Pods, read
from sliceworks.twin.workloads.replicasets import is_available, next_available, victims
from sliceworks.twin.workloads.selecting import Selecting
from sliceworks.twin.workloads.statefulsets import identity

NOW = datetime(2026, 11, 15, 4, 0, tzinfo=UTC)


def pod_object(name: str, *, owner: str = "", node: str = "", phase: str = "Running", **more: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "creationTimestamp": "2026-11-15T03:00:00Z"}
    if owner:
        metadata["ownerReferences"] = [{"uid": owner, "kind": "Job", "name": "work", "controller": True}]
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": more["ready"]}] if more.get("ready") else []
    status = {"phase": phase, "conditions": conditions}
    return {"metadata": {**metadata, **more.get("metadata", {})}, "spec": {"nodeName": node} if node else {}, "status": status}


def pod(name: str, **more: Any) -> Pod:
    return read(pod_object(name, **more))


def change(kind: str, obj: dict[str, Any]) -> Any:
    metadata = obj["metadata"]
    return SimpleNamespace(type=kind, resource="/pods", namespace=metadata["namespace"], name=metadata["name"], obj=obj)


def test_pods_are_found_by_owner_node_and_namespace() -> None:
    pods = Pods()
    pods.observe(change("ADDED", pod_object("a")))
    assert [each.name for each in pods.orphans("ns")] == ["a"]
    pods.observe(change("MODIFIED", pod_object("a", owner="o", node="n")))
    assert pods.before is not None
    assert pods.before.owner == ""
    assert not list(pods.orphans("ns"))
    assert [each.name for each in pods.owned_by("o")] == [each.name for each in pods.on("n")] == ["a"]
    pods.observe(change("DELETED", pod_object("a", owner="o", node="n")))
    assert pods.after is None
    assert not list(pods.owned_by("o"))
    assert not list(pods.of("ns"))
    assert pods.nodes() == []


def test_pods_are_found_by_labels_that_come_and_go() -> None:
    pods, wanted = Pods(), from_labels({"app": "x"})

    def names() -> list[str]:
        return [each.name for each in pods.matching("ns", wanted)]

    pods.observe(change("ADDED", pod_object("a", metadata={"labels": {"app": "x"}})))
    assert names() == ["a"]
    pods.observe(change("ADDED", pod_object("b", metadata={"labels": {"app": "x", "tier": "back"}})))
    pods.observe(change("ADDED", pod_object("c", metadata={"labels": {"app": "y"}})))
    assert names() == ["a", "b"]
    assert [each.name for each in pods.matching("ns", parse_labels("app=x,tier"))] == ["b"]
    assert [each.name for each in pods.matching("ns", parse_labels("app notin (x)"))] == ["c"]
    pods.observe(change("MODIFIED", pod_object("a", metadata={"labels": {"app": "y"}})))
    pods.observe(change("MODIFIED", pod_object("c", metadata={"labels": {"app": "x"}})))
    pods.observe(change("DELETED", pod_object("b")))
    assert names() == ["c"]
    assert not pods.matching("other", wanted)


def test_selectors_are_found_by_labels() -> None:
    selecting = Selecting()
    selecting.put("ns", "a", from_labels({"app": "x", "tier": "front"}))
    selecting.put("ns", "b", parse_labels("app,!canary"))
    selecting.put("other", "c", from_labels({"app": "x"}))
    assert selecting.matching("ns", {"app": "x", "tier": "front"}) == ["b", "a"]
    assert selecting.matching("ns", {"app": "x", "canary": ""}) == []
    selecting.put("ns", "a", from_labels({"app": "y"}))
    assert selecting.matching("ns", {"app": "y", "canary": "1"}) == ["a"]
    selecting.remove("ns", "b")
    assert selecting.matching("ns", {"app": "x", "tier": "front"}) == []


def test_hashes_are_those_of_kubernetes() -> None:
    assert fnv32a(b"foobar") == 0xBF9CF968
    assert fnv32(b"foobar") == 0x31F0B262
    assert set(safe_hash({"a": 1})) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert safe_hash({"a": 1, "b": 2}) == safe_hash({"b": 2, "a": 1}) != safe_hash({"a": 1, "b": 2}, 1)
    assert go_json({"b": "<&>", "a": 1}) == b'{"a":1,"b":"\\u003c\\u0026\\u003e"}'


def deployment(replicas: int, surge: int | str = "25%", missing: int | str = "25%", **status: int) -> dict[str, Any]:
    rolling = {"maxSurge": surge, "maxUnavailable": missing}
    spec = {"replicas": replicas, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}
    return {"metadata": {"name": "d"}, "spec": spec, "status": status}


def replica_set(name: str, replicas: int, most: int | None = None, **status: int) -> dict[str, Any]:
    annotations = {numbers.MOST: str(most)} if most is not None else {}
    metadata = {"name": name, "creationTimestamp": f"2026-11-15T03:00:0{len(name)}Z", "annotations": annotations}
    return {"metadata": metadata, "spec": {"replicas": replicas}, "status": status}


@pytest.mark.parametrize(
    ("replicas", "surge", "missing", "limits"),
    [(10, "25%", "25%", (3, 2)), (1, "25%", "25%", (1, 0)), (2, 0, "1%", (0, 1)), (0, "25%", "25%", (0, 0)), (3, 5, 9, (5, 3))],
)
def test_how_many_may_be_too_many_or_missing(replicas: int, surge: int | str, missing: int | str, limits: tuple[int, int]) -> None:
    assert numbers.limits(deployment(replicas, surge, missing)) == limits


def test_sizes_in_a_rollout() -> None:
    sets = [replica_set("old", 10), replica_set("new", 0)]
    assert numbers.next_size(deployment(10), sets, 0) == 3
    assert numbers.next_size(deployment(10), [replica_set("old", 13)], 0) == 0
    assert revisions.without_unhealthy([replica_set("a", 3, availableReplicas=1)], 1)[0][1] == 2
    assert [size for _, size in revisions.smaller([replica_set("a", 2), replica_set("bb", 3)], 3)] == [0, 2]


def test_scaling_in_the_middle_of_a_rollout() -> None:
    sets = [replica_set("a", 8, most=13), replica_set("bb", 5, most=13)]
    assert numbers.proportions(deployment(15, 3, 2), sets) == {"a": 11, "bb": 7}
    assert numbers.proportions(deployment(0, 3, 2), sets) == {"a": 0, "bb": 0}


def test_revisions_are_counted() -> None:
    own = deployment(3)
    newest = replica_set("new", 0)
    assert revisions.annotate(own, newest, 2)
    assert newest["metadata"]["annotations"][numbers.REVISION] == "2"
    assert revisions.annotate(own, newest, 5)
    assert newest["metadata"]["annotations"][numbers.HISTORY] == "2"
    assert not revisions.annotate(own, newest, 3)


def test_the_least_useful_pods_go_first() -> None:
    ready = "2026-11-15T03:30:00Z"
    pods = [
        pod("good", node="n", ready=ready),
        pod("crowded", node="m", ready=ready),
        pod("cheap", node="n", ready=ready, metadata={"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}),
        pod("unready", node="n"),
        pod("pending", node="n", phase="Pending"),
        pod("unplaced", phase="Pending"),
    ]
    related = [*pods, *(pod(f"other-{number}", node="m", ready=ready) for number in range(5))]
    order = [each.name for each in victims(pods, related, 5, NOW)]
    assert order == ["unplaced", "pending", "unready", "cheap", "crowded"]


def test_pods_become_available_after_a_while() -> None:
    fresh, old = pod("a", ready="2026-11-15T03:59:50Z"), pod("b", ready="2026-11-15T03:00:00Z")
    assert is_available(fresh, 0, NOW)
    assert not is_available(fresh, 30, NOW)
    assert is_available(old, 30, NOW)
    assert next_available([fresh, old], 30, NOW) == 20
    assert next_available([fresh, old], 0, NOW) is None


def service(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web", "namespace": "ns", "uid": "u"}, "spec": {"clusterIP": "10.0.0.1", **spec}}


def endpoint(number: int) -> dict[str, Any]:
    return {"addresses": [f"10.1.0.{number}"], "conditions": {}, "targetRef": {"uid": str(number)}}


def named(made: dict[str, Any], name: str) -> dict[str, Any]:
    return {**made, "metadata": {**made["metadata"], "name": name, "resourceVersion": "1"}}


def test_slices_change_as_little_as_they_can() -> None:
    ports = [{"name": "", "port": 80, "protocol": "TCP"}]
    wanted = [(ports, endpoint(number)) for number in range(120)]
    plan = slices.plan(service(), "IPv4", wanted, [])
    assert [len(each["endpoints"]) for each in plan.create] == [100, 20]
    there = [named(each, f"s{number}") for number, each in enumerate(plan.create)]
    assert slices.plan(service(), "IPv4", wanted, there) == slices.Plan()
    more = slices.plan(service(), "IPv4", [*wanted, (ports, endpoint(200))], there)
    assert [(each["metadata"]["name"], len(each["endpoints"])) for each in more.update] == [("s1", 21)]
    fewer = slices.plan(service(), "IPv4", wanted[1:], there)
    assert [(each["metadata"]["name"], len(each["endpoints"])) for each in fewer.update] == [("s0", 99)]
    none = slices.plan(service(), "IPv4", [], there[:1])
    assert [(each["metadata"]["name"], each["endpoints"]) for each in none.update] == [("s0", [])]


def test_numbers_in_names() -> None:
    assert (identity.parent("db-x-12"), identity.ordinal("db-x-12")) == ("db-x", 12)
    assert (identity.parent("db"), identity.ordinal("db")) == ("", -1)
    found = {"metadata": {"name": "db"}, "spec": {"replicas": 2, "ordinals": {"start": 3}}}
    assert list(identity.numbers(found)) == [3, 4]


def test_taints_follow_conditions() -> None:
    node = {
        "metadata": {"labels": {"kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "z"}},
        "spec": {"taints": [{"key": "own", "effect": "NoSchedule"}, {"key": health.NOT_READY, "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}, {"type": "DiskPressure", "status": "True"}]},
    }
    found = [(each["key"], each["effect"]) for each in health.with_no_schedule(node, "now")]
    assert found == [("own", "NoSchedule"), (health.UNREACHABLE, "NoSchedule"), ("node.kubernetes.io/disk-pressure", "NoSchedule")]
    assert health.with_no_execute(node, health.UNREACHABLE, "now")[-1]["timeAdded"] == "now"
    assert health.labels(node) == {"beta.kubernetes.io/os": "linux"}
    assert health.zone(node) == ":z"


@pytest.mark.parametrize(("total", "unready", "pace"), [(10, 1, 0.1), (10, 6, 0.0), (100, 60, 0.01), (10, 10, 0.1), (3, 2, 0.1)])
def test_pace_of_a_zone(total: int, unready: int, pace: float) -> None:
    assert health.pace(total, unready) == pace


def test_how_long_pods_stay() -> None:
    taints = [{"key": "a", "effect": "NoExecute"}, {"key": "b", "value": "1", "effect": "NoExecute"}]
    for_good = [{"operator": "Exists"}]
    assert tolerance(for_good, taints) is None
    assert tolerance([], taints) == 0
    assert tolerance([], []) is None
    patient = [{"key": "a", "operator": "Exists", "tolerationSeconds": 30}, {"key": "b", "value": "1", "tolerationSeconds": 9}]
    assert tolerance(patient, taints) == 9
    assert tolerance(patient[:1], taints) == 0
    assert tolerance([{"key": "b", "value": "2"}, *patient[:1]], taints) == 0
