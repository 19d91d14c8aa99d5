"""Indexes, hashes and the pure parts of the pod controllers."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from sliceworks.kube.selectors import from_labels, parse_labels
from sliceworks.twin.controllers.builtin import (
    deployment_rollout,
    endpoints_reconciler,
    endpointslice_reconciler,
    node_lifecycle,
    statefulset_identity,
)
from sliceworks.twin.controllers.builtin.endpointslicemirroring_controller import plan_mirrored_slices
from sliceworks.twin.controllers.builtin.pod_control import is_available, seconds_to_available
from sliceworks.twin.controllers.builtin.replicaset_controller import pods_to_delete
from sliceworks.twin.controllers.builtin.taint_eviction import min_toleration_seconds
from sliceworks.twin.controllers.runtime.object_index import SelectorIndex
from sliceworks.twin.controllers.runtime.pod_index import Pod, PodIndex, parse_pod
from sliceworks.twin.controllers.runtime.revisions import compute_hash, fnv32, fnv32a

NOW = datetime(2026, 11, 15, 4, 0, tzinfo=UTC)


def pod_object(name: str, *, owner: str = "", node: str = "", phase: str = "Running", **more: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "creationTimestamp": "2026-11-15T03:00:00Z"}
    if owner:
        metadata["ownerReferences"] = [{"uid": owner, "kind": "Job", "name": "work", "controller": True}]
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": more["ready"]}] if more.get("ready") else []
    status = {"phase": phase, "conditions": conditions}
    return {"metadata": {**metadata, **more.get("metadata", {})}, "spec": {"nodeName": node} if node else {}, "status": status}


def pod(name: str, **more: Any) -> Pod:
    return parse_pod(pod_object(name, **more))


def change(kind: str, obj: dict[str, Any]) -> Any:
    metadata = obj["metadata"]
    return SimpleNamespace(type=kind, resource="/pods", namespace=metadata["namespace"], name=metadata["name"], obj=obj)


def test_pod_index_by_owner_node_and_namespace() -> None:
    pods = PodIndex()
    pods.observe(change("ADDED", pod_object("a")))
    assert [item.name for item in pods.orphans("ns")] == ["a"]
    pods.observe(change("MODIFIED", pod_object("a", owner="o", node="n")))
    assert pods.before is not None
    assert pods.before.owner == ""
    assert not list(pods.orphans("ns"))
    assert [item.name for item in pods.owned_by("o")] == [item.name for item in pods.on_node("n")] == ["a"]
    pods.observe(change("DELETED", pod_object("a", owner="o", node="n")))
    assert pods.after is None
    assert not list(pods.owned_by("o"))
    assert not list(pods.in_namespace("ns"))
    assert not list(pods.on_node("n"))


def test_pod_index_by_changing_labels() -> None:
    pods, selector = PodIndex(), from_labels({"app": "x"})

    def names() -> list[str]:
        return [item.name for item in pods.matching("ns", selector)]

    pods.observe(change("ADDED", pod_object("a", metadata={"labels": {"app": "x"}})))
    assert names() == ["a"]
    pods.observe(change("ADDED", pod_object("b", metadata={"labels": {"app": "x", "tier": "back"}})))
    pods.observe(change("ADDED", pod_object("c", metadata={"labels": {"app": "y"}})))
    assert names() == ["a", "b"]
    assert [item.name for item in pods.matching("ns", parse_labels("app=x,tier"))] == ["b"]
    assert [item.name for item in pods.matching("ns", parse_labels("app notin (x)"))] == ["c"]
    pods.observe(change("MODIFIED", pod_object("a", metadata={"labels": {"app": "y"}})))
    pods.observe(change("MODIFIED", pod_object("c", metadata={"labels": {"app": "x"}})))
    pods.observe(change("DELETED", pod_object("b")))
    assert names() == ["c"]
    assert not pods.matching("other", selector)


def test_selector_index_by_labels() -> None:
    selectors = SelectorIndex()
    selectors.put("ns", "a", from_labels({"app": "x", "tier": "front"}))
    selectors.put("ns", "b", parse_labels("app,!canary"))
    selectors.put("other", "c", from_labels({"app": "x"}))
    assert selectors.matching("ns", {"app": "x", "tier": "front"}) == ["b", "a"]
    assert selectors.matching("ns", {"app": "x", "canary": ""}) == []
    selectors.put("ns", "a", from_labels({"app": "y"}))
    assert selectors.matching("ns", {"app": "y", "canary": "1"}) == ["a"]
    selectors.remove("ns", "b")
    assert selectors.matching("ns", {"app": "x", "tier": "front"}) == []


def test_hashes_equal_those_of_kubernetes() -> None:
    assert fnv32a(b"foobar") == 0xBF9CF968
    assert fnv32(b"foobar") == 0x31F0B262
    assert set(compute_hash({"a": 1})) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert compute_hash({"a": 1, "b": 2}) == compute_hash({"b": 2, "a": 1}) != compute_hash({"a": 1, "b": 2}, 1)


def deployment(replicas: int, surge: int | str = "25%", missing: int | str = "25%", **status: int) -> dict[str, Any]:
    rolling = {"maxSurge": surge, "maxUnavailable": missing}
    spec = {"replicas": replicas, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}
    return {"metadata": {"name": "d"}, "spec": spec, "status": status}


def replica_set(name: str, replicas: int, most: int | None = None, **status: int) -> dict[str, Any]:
    annotations = {deployment_rollout.MAX_REPLICAS: str(most)} if most is not None else {}
    metadata = {"name": name, "creationTimestamp": f"2026-11-15T03:00:0{len(name)}Z", "annotations": annotations}
    return {"metadata": metadata, "spec": {"replicas": replicas}, "status": status}


@pytest.mark.parametrize(
    ("replicas", "surge", "missing", "limits"),
    [(10, "25%", "25%", (3, 2)), (1, "25%", "25%", (1, 0)), (2, 0, "1%", (0, 1)), (0, "25%", "25%", (0, 0)), (3, 5, 9, (5, 3))],
)
def test_surge_and_unavailable_are_resolved(replicas: int, surge: int | str, missing: int | str, limits: tuple[int, int]) -> None:
    assert deployment_rollout.surge_and_unavailable(deployment(replicas, surge, missing)) == limits


def test_rollout_sizes() -> None:
    sets = [replica_set("old", 10), replica_set("new", 0)]
    assert deployment_rollout.new_set_size(deployment(10), sets, 0) == 3
    assert deployment_rollout.new_set_size(deployment(10), [replica_set("old", 13)], 0) == 0
    assert deployment_rollout.scale_down([replica_set("a", 3, availableReplicas=1)], 1, unavailable_only=True)[0][1] == 2
    assert [size for _, size in deployment_rollout.scale_down([replica_set("a", 2), replica_set("bb", 3)], 3)] == [0, 2]


def test_proportional_scaling_during_a_rollout() -> None:
    sets = [replica_set("a", 8, most=13), replica_set("bb", 5, most=13)]
    assert deployment_rollout.proportional_sizes(deployment(15, 3, 2), sets) == {"a": 11, "bb": 7}
    assert deployment_rollout.proportional_sizes(deployment(0, 3, 2), sets) == {"a": 0, "bb": 0}


def test_revision_annotations_are_updated() -> None:
    owner = deployment(3)
    new_set = replica_set("new", 0)
    assert deployment_rollout.annotate_set(owner, new_set, 2)
    assert new_set["metadata"]["annotations"][deployment_rollout.REVISION] == "2"
    assert deployment_rollout.annotate_set(owner, new_set, 5)
    assert new_set["metadata"]["annotations"][deployment_rollout.REVISION_HISTORY] == "2"
    assert not deployment_rollout.annotate_set(owner, new_set, 3)


def test_least_useful_pods_are_deleted_first() -> None:
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
    order = [item.name for item in pods_to_delete(pods, related, 5, NOW)]
    assert order == ["unplaced", "pending", "unready", "cheap", "crowded"]


def test_pods_become_available_after_min_ready_seconds() -> None:
    fresh, old = pod("a", ready="2026-11-15T03:59:50Z"), pod("b", ready="2026-11-15T03:00:00Z")
    assert is_available(fresh, 0, NOW)
    assert not is_available(fresh, 30, NOW)
    assert is_available(old, 30, NOW)
    assert seconds_to_available([fresh, old], 30, NOW) == 20
    assert seconds_to_available([fresh, old], 0, NOW) is None


def service(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web", "namespace": "ns", "uid": "u"}, "spec": {"clusterIP": "10.0.0.1", **spec}}


def endpoint(number: int) -> dict[str, Any]:
    return {"addresses": [f"10.1.0.{number}"], "conditions": {}, "targetRef": {"uid": str(number)}}


def named(made: dict[str, Any], name: str) -> dict[str, Any]:
    return {**made, "metadata": {**made["metadata"], "name": name, "resourceVersion": "1"}}


def test_endpoint_slices_change_minimally() -> None:
    ports = [{"name": "", "port": 80, "protocol": "TCP"}]
    desired = [(ports, endpoint(number)) for number in range(120)]
    changes = endpointslice_reconciler.plan_slices(service(), "IPv4", desired, [])
    assert [len(item["endpoints"]) for item in changes.create] == [100, 20]
    existing = [named(item, f"s{number}") for number, item in enumerate(changes.create)]
    assert endpointslice_reconciler.plan_slices(service(), "IPv4", desired, existing) == endpointslice_reconciler.SliceChanges()
    more = endpointslice_reconciler.plan_slices(service(), "IPv4", [*desired, (ports, endpoint(200))], existing)
    assert [(item["metadata"]["name"], len(item["endpoints"])) for item in more.update] == [("s1", 21)]
    fewer = endpointslice_reconciler.plan_slices(service(), "IPv4", desired[1:], existing)
    assert [(item["metadata"]["name"], len(item["endpoints"])) for item in fewer.update] == [("s0", 99)]
    none = endpointslice_reconciler.plan_slices(service(), "IPv4", [], existing[:1])
    assert [(item["metadata"]["name"], item["endpoints"]) for item in none.update] == [("s0", [])]


def addresses(first: int, last: int) -> list[dict[str, Any]]:
    return [{"ip": f"10.0.{number // 200}.{number % 200 + 1}"} for number in range(first, last)]


def test_endpoints_hold_1000_addresses() -> None:
    """Ready addresses come first, each subset keeps its share, and the annotation follows."""
    subsets = [{"addresses": addresses(0, 900), "ports": [{"port": 1}]}, {"notReadyAddresses": addresses(900, 1200)}]
    endpoints = endpoints_reconciler.update_endpoints(service(), subsets, None)
    assert endpoints is not None
    assert endpoints["metadata"]["annotations"] == {"endpoints.kubernetes.io/over-capacity": "truncated"}
    assert [len(subset.get("addresses") or subset["notReadyAddresses"]) for subset in endpoints["subsets"]] == [900, 100]
    assert endpoints_reconciler.update_endpoints(service(), subsets, endpoints) is None
    fewer = endpoints_reconciler.update_endpoints(service(), subsets[:1], endpoints)
    assert fewer is not None
    assert "annotations" not in fewer["metadata"]
    ready = [{"addresses": addresses(0, 1500), "notReadyAddresses": addresses(1500, 1510)}, {"addresses": addresses(1600, 2100)}]
    assert [{field: len(items) for field, items in subset.items()} for subset in endpoints_reconciler.truncate_subsets(ready)] == [
        {"addresses": 750},
        {"addresses": 250},
    ]


def test_an_address_that_is_also_not_ready_is_not_ready() -> None:
    subsets = [
        {"addresses": addresses(0, 2), "ports": [{"port": 1}]},
        {"notReadyAddresses": addresses(1, 2), "ports": [{"port": 1}]},
    ]
    (subset,) = endpoints_reconciler.repack_subsets(subsets)
    assert subset == {"addresses": addresses(0, 1), "notReadyAddresses": addresses(1, 2), "ports": [{"port": 1}]}


def test_mirrored_slices_change_minimally() -> None:
    endpoints: dict[str, Any] = {
        "metadata": {"name": "web", "namespace": "ns", "uid": "u"},
        "subsets": [{"addresses": addresses(0, 2)}],
    }
    (created,) = plan_mirrored_slices(endpoints, []).create
    live = named(created, "s0")
    assert plan_mirrored_slices(endpoints, [live]) == endpointslice_reconciler.SliceChanges()
    other_ports = {**endpoints, "subsets": [{"addresses": addresses(0, 1), "ports": [{"port": 1, "protocol": "TCP"}]}]}
    changes = plan_mirrored_slices(other_ports, [live])
    assert ([item["metadata"]["name"] for item in changes.update], changes.create, changes.delete) == (["s0"], [], [])
    assert plan_mirrored_slices({**endpoints, "subsets": []}, [live]).delete == [live]
    recreated = {**endpoints, "metadata": {**endpoints["metadata"], "uid": "new"}}
    assert len(plan_mirrored_slices(recreated, [live]).update) == 1


def test_stateful_set_ordinals() -> None:
    assert (statefulset_identity.parent_name("db-x-12"), statefulset_identity.ordinal("db-x-12")) == ("db-x", 12)
    assert (statefulset_identity.parent_name("db"), statefulset_identity.ordinal("db")) == ("", -1)
    stateful_set = {"metadata": {"name": "db"}, "spec": {"replicas": 2, "ordinals": {"start": 3}}}
    assert list(statefulset_identity.ordinals(stateful_set)) == [3, 4]


def test_node_taints_follow_conditions() -> None:
    node = {
        "metadata": {"labels": {"kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "z"}},
        "spec": {"taints": [{"key": "own", "effect": "NoSchedule"}, {"key": node_lifecycle.NOT_READY, "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}, {"type": "DiskPressure", "status": "True"}]},
    }
    taints = [(item["key"], item["effect"]) for item in node_lifecycle.no_schedule_taints(node, "now")]
    assert taints == [
        ("own", "NoSchedule"),
        (node_lifecycle.UNREACHABLE, "NoSchedule"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ]
    assert node_lifecycle.no_execute_taints(node, node_lifecycle.UNREACHABLE, "now")[-1]["timeAdded"] == "now"
    assert node_lifecycle.legacy_labels(node) == {"beta.kubernetes.io/os": "linux"}
    assert node_lifecycle.node_zone(node) == ":z"


@pytest.mark.parametrize(("total", "unready", "rate"), [(10, 1, 0.1), (10, 6, 0.0), (100, 60, 0.01), (10, 10, 0.1), (3, 2, 0.1)])
def test_eviction_rate_of_a_zone(total: int, unready: int, rate: float) -> None:
    assert node_lifecycle.eviction_rate(total, unready) == rate


def test_min_toleration_seconds() -> None:
    taints = [("a", "", "NoExecute"), ("b", "1", "NoExecute")]
    assert min_toleration_seconds([{"operator": "Exists"}], taints) is None
    assert min_toleration_seconds([], taints) == 0
    assert min_toleration_seconds([], []) is None
    limited = [{"key": "a", "operator": "Exists", "tolerationSeconds": 30}, {"key": "b", "value": "1", "tolerationSeconds": 9}]
    assert min_toleration_seconds(limited, taints) == 9
    assert min_toleration_seconds(limited[:1], taints) == 0
    assert min_toleration_seconds([{"key": "b", "value": "2"}, *limited[:1]], taints) == 0
