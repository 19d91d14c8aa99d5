"""The DefaultPreemption plugin: victims and candidate nodes."""

from __future__ import annotations

import pytest
from tests.support.scheduler_snapshot import HOST, SnapshotBuilder

from sliceworks.kube.selectors import from_labels
from sliceworks.twin.scheduler.default_preemption import DisruptionBudget, Preemption, preempt
from sliceworks.twin.scheduler.schedule_one import Unschedulable

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.fixture
def builder() -> SnapshotBuilder:
    return SnapshotBuilder()


def attempt(builder: SnapshotBuilder, budgets: tuple[DisruptionBudget, ...] = (), **pod: object) -> Preemption | str:
    high = builder.pod("high", priority=100, **pod)  # type: ignore[arg-type]
    failure = builder.decide(high)
    assert isinstance(failure, Unschedulable)
    return preempt(high, builder.snapshot, failure, budgets)


def victims(preemption: Preemption | str) -> tuple[str, list[str]]:
    assert isinstance(preemption, Preemption), preemption
    return preemption.node.name, [pod.key[1] for pod in preemption.victims]


def test_preemption_fails_without_pods_of_lower_priority(builder: SnapshotBuilder) -> None:
    builder.node("a", cpu="1")
    builder.node("small", cpu="500m")
    builder.place("equal", "a", asks={"cpu": "1"}, priority=100)
    expected = "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling"
    assert attempt(builder, asks={"cpu": "1"}) == f"0/2 nodes are available: {expected}."


def test_preemption_evicts_the_fewest_pods(builder: SnapshotBuilder) -> None:
    builder.node("a", cpu="4")
    for name, cpu, priority in (("keep", "2", 50), ("one", "1", 10), ("two", "1", 20)):
        builder.place(name, "a", asks={"cpu": cpu}, priority=priority)
    assert victims(attempt(builder, asks={"cpu": "1"})) == ("a", ["one"])
    assert victims(attempt(builder, asks={"cpu": "2"})) == ("a", ["two", "one"])
    assert victims(attempt(builder, asks={"cpu": "3"})) == ("a", ["keep", "one"])


def test_node_with_the_lowest_priority_victims_is_preferred(builder: SnapshotBuilder) -> None:
    for name, priority in (("a", 50), ("b", 10), ("c", 20)):
        builder.node(name, cpu="1")
        builder.place(f"on-{name}", name, asks={"cpu": "1"}, priority=priority)
    assert victims(attempt(builder, asks={"cpu": "1"})) == ("b", ["on-b"])


def test_node_with_fewer_victims_is_preferred(builder: SnapshotBuilder) -> None:
    builder.node("a", cpu="2")
    builder.node("b", cpu="2")
    builder.place("whole", "a", asks={"cpu": "2"}, priority=10)
    builder.place("half", "b", asks={"cpu": "1"}, priority=10)
    builder.place("other", "b", asks={"cpu": "1"}, priority=0)
    assert victims(attempt(builder, asks={"cpu": "2"})) == ("a", ["whole"])


def test_node_with_the_latest_start_time_is_preferred(builder: SnapshotBuilder) -> None:
    for name, month in (("a", "01"), ("b", "03"), ("c", "02")):
        builder.node(name, cpu="1")
        builder.place(f"on-{name}", name, asks={"cpu": "1"}, started=f"2026-{month}-01T00:00:00Z")
    assert victims(attempt(builder, asks={"cpu": "1"})) == ("b", ["on-b"])


def test_disruption_budgets_are_respected_if_possible(builder: SnapshotBuilder) -> None:
    builder.node("a", cpu="1")
    builder.node("b", cpu="1")
    builder.place("kept", "a", asks={"cpu": "1"}, labels={"app": "kept"})
    builder.place("free", "b", asks={"cpu": "1"}, priority=50)
    budget = DisruptionBudget("ns", from_labels({"app": "kept"}), 0, frozenset())
    assert victims(attempt(builder, (budget,), asks={"cpu": "1"})) == ("b", ["free"])
    builder.snapshot.drop_node("b")
    assert victims(attempt(builder, (budget,), asks={"cpu": "1"})) == ("a", ["kept"])


def test_preemption_resolves_existing_anti_affinity(builder: SnapshotBuilder) -> None:
    builder.node("a")
    away = {"podAntiAffinity": {REQUIRED: [{"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": HOST}]}}
    builder.place("guard", "a", affinity=away)
    builder.place("bystander", "a")
    assert victims(attempt(builder, labels={"app": "x"})) == ("a", ["guard"])


def test_preemption_policy_never_is_not_eligible(builder: SnapshotBuilder) -> None:
    builder.node("a", cpu="1")
    builder.place("low", "a", asks={"cpu": "1"})
    preemption = attempt(builder, asks={"cpu": "1"}, preemptionPolicy="Never")
    assert preemption == "not eligible due to preemptionPolicy=Never."


def test_pod_waits_for_terminating_victims_on_its_nominated_node(builder: SnapshotBuilder) -> None:
    builder.node("a", cpu="1")
    victim = builder.place("low", "a", asks={"cpu": "1"})
    victim.preempted = True
    high = builder.pod("high", asks={"cpu": "1"}, priority=100)
    high.nominated = "a"
    failure = builder.decide(high)
    assert isinstance(failure, Unschedulable)
    assert preempt(high, builder.snapshot, failure, ()) == "not eligible due to a terminating pod on the nominated node."
