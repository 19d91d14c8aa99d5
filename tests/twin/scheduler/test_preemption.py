"""Who makes room."""

from __future__ import annotations

import pytest
from tests.support.placing import HOST, Board

from sliceworks.kube.selectors import from_labels
from sliceworks.twin.scheduler.decide import Unschedulable
from sliceworks.twin.scheduler.preemption import Budget, Preemption, preempt

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.fixture
def board() -> Board:
    return Board()


def attempt(board: Board, budgets: tuple[Budget, ...] = (), **pod: object) -> Preemption | str:
    high = board.pod("high", priority=100, **pod)  # type: ignore[arg-type]
    failure = board.decide(high)
    assert isinstance(failure, Unschedulable)
    return preempt(high, board.snapshot, failure, budgets)


def victims(found: Preemption | str) -> tuple[str, list[str]]:
    assert isinstance(found, Preemption), found
    return found.node.name, [pod.key[1] for pod in found.victims]


def test_nobody_is_less_important(board: Board) -> None:
    board.node("a", cpu="1")
    board.node("small", cpu="500m")
    board.place("equal", "a", asks={"cpu": "1"}, priority=100)
    expected = "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling"
    assert attempt(board, asks={"cpu": "1"}) == f"0/2 nodes are available: {expected}."


def test_those_who_would_not_help_stay(board: Board) -> None:
    board.node("a", cpu="4")
    for name, cpu, priority in (("keep", "2", 50), ("one", "1", 10), ("two", "1", 20)):
        board.place(name, "a", asks={"cpu": cpu}, priority=priority)
    assert victims(attempt(board, asks={"cpu": "1"})) == ("a", ["one"])
    assert victims(attempt(board, asks={"cpu": "2"})) == ("a", ["two", "one"])
    assert victims(attempt(board, asks={"cpu": "3"})) == ("a", ["keep", "one"])


def test_the_least_important_node_is_taken(board: Board) -> None:
    for name, priority in (("a", 50), ("b", 10), ("c", 20)):
        board.node(name, cpu="1")
        board.place(f"on-{name}", name, asks={"cpu": "1"}, priority=priority)
    assert victims(attempt(board, asks={"cpu": "1"})) == ("b", ["on-b"])


def test_fewer_victims_are_better_than_more(board: Board) -> None:
    board.node("a", cpu="2")
    board.node("b", cpu="2")
    board.place("whole", "a", asks={"cpu": "2"}, priority=10)
    board.place("half", "b", asks={"cpu": "1"}, priority=10)
    board.place("other", "b", asks={"cpu": "1"}, priority=0)
    assert victims(attempt(board, asks={"cpu": "2"})) == ("a", ["whole"])


def test_those_who_started_last_go_first(board: Board) -> None:
    for name, month in (("a", "01"), ("b", "03"), ("c", "02")):
        board.node(name, cpu="1")
        board.place(f"on-{name}", name, asks={"cpu": "1"}, started=f"2026-{month}-01T00:00:00Z")
    assert victims(attempt(board, asks={"cpu": "1"})) == ("b", ["on-b"])


def test_budgets_are_kept_where_possible(board: Board) -> None:
    board.node("a", cpu="1")
    board.node("b", cpu="1")
    board.place("kept", "a", asks={"cpu": "1"}, labels={"app": "kept"})
    board.place("free", "b", asks={"cpu": "1"}, priority=50)
    budget = Budget("ns", from_labels({"app": "kept"}), 0, frozenset())
    assert victims(attempt(board, (budget,), asks={"cpu": "1"})) == ("b", ["free"])
    board.snapshot.drop_node("b")
    assert victims(attempt(board, (budget,), asks={"cpu": "1"})) == ("a", ["kept"])


def test_a_place_kept_by_anti_affinity_opens(board: Board) -> None:
    board.node("a")
    away = {"podAntiAffinity": {REQUIRED: [{"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": HOST}]}}
    board.place("guard", "a", affinity=away)
    board.place("bystander", "a")
    assert victims(attempt(board, labels={"app": "x"})) == ("a", ["guard"])


def test_the_polite_do_not_preempt(board: Board) -> None:
    board.node("a", cpu="1")
    board.place("low", "a", asks={"cpu": "1"})
    found = attempt(board, asks={"cpu": "1"}, preemptionPolicy="Never")
    assert found == "not eligible due to preemptionPolicy=Never."


def test_one_preemption_at_a_time(board: Board) -> None:
    board.node("a", cpu="1")
    leaving = board.place("low", "a", asks={"cpu": "1"})
    leaving.leaving_for_others = True
    high = board.pod("high", asks={"cpu": "1"}, priority=100)
    high.nominated = "a"
    failure = board.decide(high)
    assert isinstance(failure, Unschedulable)
    assert preempt(high, board.snapshot, failure, ()) == "not eligible due to a terminating pod on the nominated node."
