"""Scheduling one pod: the selected node, or the reasons of all nodes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.support.scheduler_snapshot import HOST, ZONE, SnapshotBuilder

from sliceworks.twin.scheduler.node_plugins import NO_NODES, format_fit_error
from sliceworks.twin.scheduler.schedule_one import ScheduleResult, Unschedulable, check_fit
from sliceworks.twin.scheduler.topology_plugins import TopologyFilter

REQUIRED, PREFERRED = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.fixture
def builder() -> SnapshotBuilder:
    return SnapshotBuilder()


def term(labels: dict[str, str], topology: str = HOST, **fields: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": topology, **fields}


def test_cluster_without_nodes(builder: SnapshotBuilder) -> None:
    assert builder.why_not(builder.pod("a")) == "no nodes available to schedule pods"


def test_reasons_are_counted_and_sorted(builder: SnapshotBuilder) -> None:
    for number in range(3):
        builder.node(f"tpu-{number}", labels={"pool": "tpu"}, tpu=1)
    for number in range(9):
        builder.node(f"cpu-{number}")
    pod = builder.pod("a", asks={"google.com/tpu": "4"}, nodeSelector={"pool": "tpu"})
    expected = "3 Insufficient google.com/tpu, 9 node(s) didn't match Pod's node affinity/selector"
    assert builder.why_not(pod) == f"0/12 nodes are available: {expected}."


def test_reasons_follow_node_changes(builder: SnapshotBuilder) -> None:
    builder.node("a", cpu="1")
    pod = builder.pod("p", asks={"cpu": "2"})
    assert builder.why_not(pod) == "0/1 nodes are available: 1 Insufficient cpu."
    builder.node("b", taints=[{"key": "t", "effect": "NoSchedule"}])
    assert builder.why_not(pod) == "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
    builder.snapshot.drop_node("a")
    assert builder.why_not(pod) == "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
    builder.node("b")
    assert builder.where(pod) == "b"


def test_node_reports_first_failed_plugin_with_all_insufficient_resources(builder: SnapshotBuilder) -> None:
    builder.node("a", cpu="1", memory="1Gi", taints=[{"key": "t", "effect": "NoSchedule"}])
    tolerant = [{"operator": "Exists"}]
    assert builder.why_not(builder.pod("p", asks={"cpu": "9"})).endswith("1 node(s) had untolerated taint(s).")
    message = builder.why_not(builder.pod("q", asks={"cpu": "9", "memory": "9Gi"}, tolerations=tolerant))
    assert message == "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."


def test_resolvable_nodes_could_fit_after_preemption(builder: SnapshotBuilder) -> None:
    builder.node("small", cpu="1")
    builder.node("taken", cpu="4")
    builder.place("there", "taken", asks={"cpu": "3"})
    decision = builder.decide(builder.pod("p", asks={"cpu": "2"}))
    assert isinstance(decision, Unschedulable)
    assert [node.name for node in decision.resolvable_nodes()] == ["taken"]
    assert decision.failed_plugins == {"NodeResourcesFit"}


def test_equal_pods_are_distributed_evenly(builder: SnapshotBuilder) -> None:
    for number in range(5):
        builder.node(f"n{number}")
    placed = [builder.where(builder.pod(f"p{number}", asks={"cpu": "1", "memory": "1Gi"})) for number in range(20)]
    assert sorted(placed) == sorted(f"n{number}" for number in range(5) for _ in range(4))
    assert builder.why_not(builder.pod("late", asks={"cpu": "1"})) == "0/5 nodes are available: 5 Insufficient cpu."


def test_removed_pod_frees_resources(builder: SnapshotBuilder) -> None:
    builder.node("a", cpu="1")
    first = builder.pod("first", asks={"cpu": "1"})
    builder.where(first)
    second = builder.pod("second", asks={"cpu": "1"})
    builder.why_not(second)
    builder.snapshot.remove_pod(first.key)
    assert builder.where(second) == "a"


def test_preferred_affinity_outweighs_free_resources(builder: SnapshotBuilder) -> None:
    builder.node("large", cpu="64", memory="64Gi")
    builder.node("liked", cpu="4", memory="4Gi", labels={"x": "1"})
    preferred = [{"weight": 1, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}]
    pod = builder.pod("p", asks={"cpu": "1"}, affinity={"nodeAffinity": {PREFERRED: preferred}})
    assert builder.where(pod) == "liked"


def test_nominated_node_is_tried_first(builder: SnapshotBuilder) -> None:
    for name in ("a", "b", "c"):
        builder.node(name)
    builder.place("there", "b", asks={"cpu": "2"})
    pod = builder.pod("p", asks={"cpu": "1"})
    pod.nominated = "b"
    assert builder.where(pod) == "b"


def test_resources_are_reserved_for_nominated_pods_of_higher_priority(builder: SnapshotBuilder) -> None:
    builder.node("a", cpu="2")
    high = builder.pod("high", asks={"cpu": "2"}, priority=10)
    builder.snapshot.nominate(high, "a")
    assert builder.why_not(builder.pod("low", asks={"cpu": "1"})) == "0/1 nodes are available: 1 Insufficient cpu."
    assert builder.where(builder.pod("higher", asks={"cpu": "1"}, priority=11)) == "a"


def test_pod_affinity_follows_pods_scheduled_later(builder: SnapshotBuilder) -> None:
    builder.node("a", labels={ZONE: "z1"})
    builder.node("b", labels={ZONE: "z2"})
    pod = builder.pod("p", affinity={"podAffinity": {REQUIRED: [term({"app": "db"}, ZONE)]}})
    assert builder.why_not(pod) == "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."
    builder.place("db", "b", labels={"app": "db"})
    assert builder.where(pod) == "b"


def test_anti_affinity_without_exact_labels(builder: SnapshotBuilder) -> None:
    """Exclusive placement: away from all pods that have the label with another value."""
    for number in range(4):
        builder.node(f"n{number}", labels={"pool": f"p{number // 2}"})
    expressions = [{"key": "job", "operator": "Exists"}, {"key": "job", "operator": "NotIn", "values": ["j1"]}]
    away = {"labelSelector": {"matchExpressions": expressions}, "topologyKey": "pool", "namespaceSelector": {}}
    builder.place("other", "n0", labels={"job": "j0"})
    pod = builder.pod("p", labels={"job": "j1"}, affinity={"podAntiAffinity": {REQUIRED: [away]}})
    assert builder.where(pod) in ("n2", "n3")
    third = builder.pod("q", labels={"job": "j2"})
    assert builder.where(third) in ("n0", "n1")


def test_topology_domains_follow_node_labels(builder: SnapshotBuilder) -> None:
    builder.node("a", labels={ZONE: "z1"})
    builder.node("b", labels={ZONE: "z1"})
    builder.place("guard", "a", affinity={"podAntiAffinity": {REQUIRED: [term({"app": "x"}, ZONE)]}})
    pod = builder.pod("p", labels={"app": "x"})
    assert builder.why_not(pod) == "0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."
    builder.node("b", labels={ZONE: "z2"})
    assert builder.where(pod) == "b"


def test_terminating_pods_do_not_count_for_spread_constraints(builder: SnapshotBuilder) -> None:
    builder.node("a", labels={ZONE: "z1"})
    builder.node("b", labels={ZONE: "z2"})
    constraint = {"topologyKey": ZONE, "maxSkew": 1, "labelSelector": {"matchLabels": {"app": "s"}}}
    builder.place("s0", "a", labels={"app": "s"}).terminating = True
    builder.place("s1", "b", labels={"app": "s"})
    pod = builder.pod("s2", labels={"app": "s"}, topologySpreadConstraints=[constraint])
    assert builder.where(pod) == "a"


def test_spread_constraints_count_only_eligible_nodes(builder: SnapshotBuilder) -> None:
    builder.node("a", labels={ZONE: "z1", "pool": "p"})
    builder.node("b", labels={ZONE: "z2", "pool": "p"})
    builder.node("c", labels={ZONE: "z3"})
    constraint = {"topologyKey": ZONE, "maxSkew": 1, "labelSelector": {"matchLabels": {"app": "s"}}}
    placed = [
        builder.where(builder.pod(f"s{n}", labels={"app": "s"}, nodeSelector={"pool": "p"}, topologySpreadConstraints=[constraint]))
        for n in range(4)
    ]
    assert sorted(placed) == ["a", "a", "b", "b"]


def _random_pod(rng: random.Random, builder: SnapshotBuilder, number: int) -> Any:
    labels = {"app": rng.choice("xyz"), "job": rng.choice("pqr")}
    spec: dict[str, Any] = {"priority": rng.choice((0, 0, 10))}
    if rng.random() < 0.4:
        spec["nodeSelector"] = {"pool": rng.choice(("p0", "p1", "p2"))}
    if rng.random() < 0.4:
        spec["tolerations"] = [{"key": "t", "operator": "Exists"}]
    affinity: dict[str, Any] = {}
    if rng.random() < 0.25:
        affinity["podAntiAffinity"] = {REQUIRED: [term({"app": rng.choice("xyz")}, rng.choice((HOST, ZONE)))]}
    if rng.random() < 0.15:
        affinity["podAffinity"] = {REQUIRED: [term({"job": rng.choice("pqr")}, ZONE)]}
    if affinity:
        spec["affinity"] = affinity
    if rng.random() < 0.2:
        selector = {"matchLabels": {"app": labels["app"]}}
        spec["topologySpreadConstraints"] = [{"topologyKey": ZONE, "maxSkew": 1, "labelSelector": selector}]
    asks = {"cpu": rng.choice(("1", "2", "500m")), "memory": "1Gi"}
    return builder.pod(f"p{number}", labels=labels, asks=asks, **spec)


@pytest.mark.parametrize("seed", range(25))
def test_cached_results_equal_fresh_ones(seed: int) -> None:
    """Compares with an evaluation of every node, while nodes and pods change at random."""
    rng, builder = random.Random(seed), SnapshotBuilder()

    def change_node() -> None:
        name = f"n{rng.randrange(12)}"
        if name in builder.snapshot.nodes and rng.random() < 0.3:
            builder.snapshot.drop_node(name)
        else:
            taints = [{"key": "t", "effect": "NoSchedule"}] if rng.random() < 0.3 else []
            labels = {"pool": f"p{rng.randrange(3)}", ZONE: f"z{rng.randrange(3)}"}
            builder.node(name, labels=labels, taints=taints, cpu=rng.choice("248"))

    for _ in range(8):
        change_node()
    for number in range(120):
        action = rng.random()
        if action < 0.15:
            change_node()
        elif action < 0.35 and builder.snapshot.pods:
            builder.snapshot.remove_pod(rng.choice(sorted(builder.snapshot.pods)))
        else:
            pod = _random_pod(rng, builder, number)
            decision = builder.decide(pod)
            fresh = TopologyFilter(pod, builder.snapshot, builder.snapshot.default_spreads.spreads(pod))
            nodes = builder.snapshot.nodes.values()
            statuses = {node.name: check_fit(pod, node, fresh, builder.snapshot) for node in nodes}
            feasible = {name for name, status in statuses.items() if status is None}
            if isinstance(decision, ScheduleResult):
                assert decision.node in feasible
                builder.snapshot.add_pod(pod, decision.node)
            else:
                assert not feasible
                reasons = [(status.reasons, 1) for status in statuses.values() if status is not None]
                assert decision.message == (format_fit_error(len(nodes), reasons) if nodes else NO_NODES)
                resolvable = {name for name, status in statuses.items() if status is not None and status.resolvable}
                assert {node.name for node in decision.resolvable_nodes()} == resolvable
                assert decision.resolvable == len(resolvable)


@pytest.mark.parametrize("seed", range(10))
def test_incremental_counts_equal_new_counts(seed: int) -> None:
    """Removing every scheduled pod from the counts leaves zero."""
    rng, builder = random.Random(seed), SnapshotBuilder()
    for number in range(6):
        builder.node(f"n{number}", labels={ZONE: f"z{number % 3}"}, cpu="64", memory="64Gi", pods="99")
    for number in range(150):
        if rng.random() < 0.3 and builder.snapshot.pods:
            builder.snapshot.remove_pod(rng.choice(sorted(builder.snapshot.pods)))
            continue
        pod = _random_pod(rng, builder, number)
        if isinstance(decision := builder.decide(pod), ScheduleResult):
            builder.snapshot.add_pod(pod, decision.node)
    kept = dict(builder.snapshot.topology_counts._cache)
    for key, counts_entry in kept.items():
        counts = dict(counts_entry.counts)
        for pod, node in builder.snapshot.scheduled_pods(None):
            counts_entry.add(pod, node, -1)
        assert not any(counts_entry.counts.values()), (key, counts)
