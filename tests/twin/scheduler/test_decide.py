"""Decisions: which node, and which reasons."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.support.placing import HOST, ZONE, Board

from sliceworks.twin.scheduler.decide import Placement, Unschedulable, fits
from sliceworks.twin.scheduler.links import Links
from sliceworks.twin.scheduler.verdicts import NO_NODES, summary

REQUIRED, PREFERRED = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.fixture
def board() -> Board:
    return Board()


def term(labels: dict[str, str], topology: str = HOST, **fields: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": topology, **fields}


def test_without_nodes(board: Board) -> None:
    assert board.why_not(board.pod("a")) == "no nodes available to schedule pods"


def test_reasons_are_counted_and_sorted(board: Board) -> None:
    for number in range(3):
        board.node(f"tpu-{number}", labels={"pool": "tpu"}, tpu=1)
    for number in range(9):
        board.node(f"cpu-{number}")
    pod = board.pod("a", asks={"google.com/tpu": "4"}, nodeSelector={"pool": "tpu"})
    expected = "3 Insufficient google.com/tpu, 9 node(s) didn't match Pod's node affinity/selector"
    assert board.why_not(pod) == f"0/12 nodes are available: {expected}."


def test_reasons_follow_the_nodes(board: Board) -> None:
    board.node("a", cpu="1")
    pod = board.pod("p", asks={"cpu": "2"})
    assert board.why_not(pod) == "0/1 nodes are available: 1 Insufficient cpu."
    board.node("b", taints=[{"key": "t", "effect": "NoSchedule"}])
    assert board.why_not(pod) == "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
    board.snapshot.drop_node("a")
    assert board.why_not(pod) == "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
    board.node("b")
    assert board.where(pod) == "b"


def test_a_node_gives_the_first_reason_only_but_all_its_shortages(board: Board) -> None:
    board.node("a", cpu="1", memory="1Gi", taints=[{"key": "t", "effect": "NoSchedule"}])
    tolerant = [{"operator": "Exists"}]
    assert board.why_not(board.pod("p", asks={"cpu": "9"})).endswith("1 node(s) had untolerated taint(s).")
    message = board.why_not(board.pod("q", asks={"cpu": "9", "memory": "9Gi"}, tolerations=tolerant))
    assert message == "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."


def test_which_shortages_preemption_could_end(board: Board) -> None:
    board.node("small", cpu="1")
    board.node("taken", cpu="4")
    board.place("there", "taken", asks={"cpu": "3"})
    decision = board.decide(board.pod("p", asks={"cpu": "2"}))
    assert isinstance(decision, Unschedulable)
    assert [node.name for node in decision.resolvable_nodes()] == ["taken"]
    assert decision.rules == {"NodeResourcesFit"}


def test_alike_pods_fill_the_nodes_evenly(board: Board) -> None:
    for number in range(5):
        board.node(f"n{number}")
    placed = [board.where(board.pod(f"p{number}", asks={"cpu": "1", "memory": "1Gi"})) for number in range(20)]
    assert sorted(placed) == sorted(f"n{number}" for number in range(5) for _ in range(4))
    assert board.why_not(board.pod("late", asks={"cpu": "1"})) == "0/5 nodes are available: 5 Insufficient cpu."


def test_a_pod_that_leaves_makes_room(board: Board) -> None:
    board.node("a", cpu="1")
    first = board.pod("first", asks={"cpu": "1"})
    board.where(first)
    second = board.pod("second", asks={"cpu": "1"})
    board.why_not(second)
    board.snapshot.unplace(first.key)
    assert board.where(second) == "a"


def test_preferences_outweigh_room(board: Board) -> None:
    board.node("large", cpu="64", memory="64Gi")
    board.node("liked", cpu="4", memory="4Gi", labels={"x": "1"})
    preferred = [{"weight": 1, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}]
    pod = board.pod("p", asks={"cpu": "1"}, affinity={"nodeAffinity": {PREFERRED: preferred}})
    assert board.where(pod) == "liked"


def test_the_nominated_node_is_asked_first(board: Board) -> None:
    for name in ("a", "b", "c"):
        board.node(name)
    board.place("there", "b", asks={"cpu": "2"})
    pod = board.pod("p", asks={"cpu": "1"})
    pod.nominated = "b"
    assert board.where(pod) == "b"


def test_room_kept_for_the_more_important(board: Board) -> None:
    board.node("a", cpu="2")
    high = board.pod("high", asks={"cpu": "2"}, priority=10)
    board.snapshot.nominate(high, "a")
    assert board.why_not(board.pod("low", asks={"cpu": "1"})) == "0/1 nodes are available: 1 Insufficient cpu."
    assert board.where(board.pod("higher", asks={"cpu": "1"}, priority=11)) == "a"


def test_terms_may_name_pods_that_come_later(board: Board) -> None:
    board.node("a", labels={ZONE: "z1"})
    board.node("b", labels={ZONE: "z2"})
    pod = board.pod("p", affinity={"podAffinity": {REQUIRED: [term({"app": "db"}, ZONE)]}})
    assert board.why_not(pod) == "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."
    board.place("db", "b", labels={"app": "db"})
    assert board.where(pod) == "b"


def test_terms_without_exact_labels(board: Board) -> None:
    """As a job has that wants a place for itself: away from all that have the label with another value."""
    for number in range(4):
        board.node(f"n{number}", labels={"pool": f"p{number // 2}"})
    expressions = [{"key": "job", "operator": "Exists"}, {"key": "job", "operator": "NotIn", "values": ["j1"]}]
    away = {"labelSelector": {"matchExpressions": expressions}, "topologyKey": "pool", "namespaceSelector": {}}
    board.place("other", "n0", labels={"job": "j0"})
    pod = board.pod("p", labels={"job": "j1"}, affinity={"podAntiAffinity": {REQUIRED: [away]}})
    assert board.where(pod) in ("n2", "n3")
    third = board.pod("q", labels={"job": "j2"})
    assert board.where(third) in ("n0", "n1")


def test_places_move_with_the_labels_of_nodes(board: Board) -> None:
    board.node("a", labels={ZONE: "z1"})
    board.node("b", labels={ZONE: "z1"})
    board.place("guard", "a", affinity={"podAntiAffinity": {REQUIRED: [term({"app": "x"}, ZONE)]}})
    pod = board.pod("p", labels={"app": "x"})
    assert board.why_not(pod) == "0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."
    board.node("b", labels={ZONE: "z2"})
    assert board.where(pod) == "b"


def test_terminating_pods_do_not_count_in_spreading(board: Board) -> None:
    board.node("a", labels={ZONE: "z1"})
    board.node("b", labels={ZONE: "z2"})
    constraint = {"topologyKey": ZONE, "maxSkew": 1, "labelSelector": {"matchLabels": {"app": "s"}}}
    board.place("s0", "a", labels={"app": "s"}).terminating = True
    board.place("s1", "b", labels={"app": "s"})
    pod = board.pod("s2", labels={"app": "s"}, topologySpreadConstraints=[constraint])
    assert board.where(pod) == "a"


def test_spreading_counts_only_nodes_the_pod_accepts(board: Board) -> None:
    board.node("a", labels={ZONE: "z1", "pool": "p"})
    board.node("b", labels={ZONE: "z2", "pool": "p"})
    board.node("c", labels={ZONE: "z3"})
    constraint = {"topologyKey": ZONE, "maxSkew": 1, "labelSelector": {"matchLabels": {"app": "s"}}}
    placed = [
        board.where(board.pod(f"s{n}", labels={"app": "s"}, nodeSelector={"pool": "p"}, topologySpreadConstraints=[constraint]))
        for n in range(4)
    ]
    assert sorted(placed) == ["a", "a", "b", "b"]


def _random_pod(chance: random.Random, board: Board, number: int) -> Any:
    labels = {"app": chance.choice("xyz"), "job": chance.choice("pqr")}
    spec: dict[str, Any] = {"priority": chance.choice((0, 0, 10))}
    if chance.random() < 0.4:
        spec["nodeSelector"] = {"pool": chance.choice(("p0", "p1", "p2"))}
    if chance.random() < 0.4:
        spec["tolerations"] = [{"key": "t", "operator": "Exists"}]
    affinity: dict[str, Any] = {}
    if chance.random() < 0.25:
        affinity["podAntiAffinity"] = {REQUIRED: [term({"app": chance.choice("xyz")}, chance.choice((HOST, ZONE)))]}
    if chance.random() < 0.15:
        affinity["podAffinity"] = {REQUIRED: [term({"job": chance.choice("pqr")}, ZONE)]}
    if affinity:
        spec["affinity"] = affinity
    if chance.random() < 0.2:
        selector = {"matchLabels": {"app": labels["app"]}}
        spec["topologySpreadConstraints"] = [{"topologyKey": ZONE, "maxSkew": 1, "labelSelector": selector}]
    asks = {"cpu": chance.choice(("1", "2", "500m")), "memory": "1Gi"}
    return board.pod(f"p{number}", labels=labels, asks=asks, **spec)


@pytest.mark.parametrize("seed", range(25))
def test_what_is_remembered_never_changes_who_fits(seed: int) -> None:
    """Against a look at every node anew, with nodes and pods that come, go and change."""
    chance, board = random.Random(seed), Board()

    def change_node() -> None:
        name = f"n{chance.randrange(12)}"
        if name in board.snapshot.nodes and chance.random() < 0.3:
            board.snapshot.drop_node(name)
        else:
            taints = [{"key": "t", "effect": "NoSchedule"}] if chance.random() < 0.3 else []
            labels = {"pool": f"p{chance.randrange(3)}", ZONE: f"z{chance.randrange(3)}"}
            board.node(name, labels=labels, taints=taints, cpu=chance.choice("248"))

    for _ in range(8):
        change_node()
    for number in range(120):
        action = chance.random()
        if action < 0.15:
            change_node()
        elif action < 0.35 and board.snapshot.pods:
            board.snapshot.unplace(chance.choice(sorted(board.snapshot.pods)))
        else:
            pod = _random_pod(chance, board, number)
            decision = board.decide(pod)
            fresh = Links(pod, board.snapshot, board.snapshot.families.spreads(pod))
            nodes = board.snapshot.nodes.values()
            verdicts = {node.name: fits(pod, node, fresh, board.snapshot) for node in nodes}
            fitting = {name for name, verdict in verdicts.items() if verdict is None}
            if isinstance(decision, Placement):
                assert decision.node in fitting
                board.snapshot.place(pod, decision.node)
            else:
                assert not fitting
                reasons = [(verdict.reasons, 1) for verdict in verdicts.values() if verdict is not None]
                assert decision.message == (summary(len(nodes), reasons) if nodes else NO_NODES)
                resolvable = {name for name, verdict in verdicts.items() if verdict is not None and verdict.resolvable}
                assert {node.name for node in decision.resolvable_nodes()} == resolvable
                assert decision.resolvable == len(resolvable)


@pytest.mark.parametrize("seed", range(10))
def test_counts_kept_are_counts_taken(seed: int) -> None:
    """What was counted pod by pod is what a new count finds."""
    chance, board = random.Random(seed), Board()
    for number in range(6):
        board.node(f"n{number}", labels={ZONE: f"z{number % 3}"}, cpu="64", memory="64Gi", pods="99")
    for number in range(150):
        if chance.random() < 0.3 and board.snapshot.pods:
            board.snapshot.unplace(chance.choice(sorted(board.snapshot.pods)))
            continue
        pod = _random_pod(chance, board, number)
        if isinstance(decision := board.decide(pod), Placement):
            board.snapshot.place(pod, decision.node)
    kept = dict(board.snapshot.tallies._tallies)
    for key, tally in kept.items():
        counts = dict(tally.counts)
        for pod, node in board.snapshot.placed(None):
            tally.add(pod, node, -1)
        assert not any(tally.counts.values()), (key, counts)
