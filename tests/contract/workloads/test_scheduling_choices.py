"""The scheduler's choice of a node: the chosen node must have the highest score in the twin's own calculation.

Pods are created one after the other on different nodes; rejection messages are compared literally. Only ties are random.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.polling import eventually
from tests.support.scheduling import HOST, PREFERRED, REQUIRED, ZONE, SchedulerHarness

from sliceworks.twin.scheduler.default_preemption import preempt
from sliceworks.twin.scheduler.node_plugins import format_failure
from sliceworks.twin.scheduler.schedule_one import ScheduleResult, best_nodes, schedule_pod
from sliceworks.twin.scheduler.snapshot import Snapshot

if TYPE_CHECKING:
    from tests.support.http import Api

    from sliceworks.twin.scheduler.pod_info import PodInfo

CLUSTER = "scheduling"
Obj = dict[str, Any]


def some_nodes(chance: random.Random, scheduler: SchedulerHarness, snapshot: Snapshot) -> None:
    for number in range(chance.randint(3, 9)):
        labels = {ZONE: f"z{number % 3}", "pool": chance.choice(("p0", "p1"))}
        taints = [{"key": "t", "effect": chance.choice(("NoSchedule", "PreferNoSchedule"))}] if chance.random() < 0.25 else None
        sizes = {"cpu": chance.choice("248"), "memory": chance.choice(("4Gi", "8Gi", "32Gi")), "pods": chance.choice(("5", "20"))}
        if chance.random() < 0.4:
            sizes["tpu"] = chance.choice("48")
        scheduler.node(f"n{number}", labels=labels, taints=taints, **sizes)
        if chance.random() < 0.3:
            scheduler.images(f"n{number}", {"names": ["example.test/image:1"], "sizeBytes": chance.randint(1, 900) * 1024 * 1024})
    scheduler.settle()
    for node in scheduler.api.get("/api/v1/nodes").json["items"]:
        snapshot.set_node(node)


def some_pod(chance: random.Random, name: str) -> Obj:
    labels = {"app": chance.choice("xyz")}
    asks = {"cpu": chance.choice(("100m", "500m", "1")), "memory": chance.choice(("128Mi", "1Gi", "2Gi"))}
    fields: Obj = {"labels": labels, "asks": {key: value for key, value in asks.items() if chance.random() < 0.7}}
    if chance.random() < 0.2:
        fields["asks"]["tpu"] = chance.choice("24")
    if chance.random() < 0.2:
        fields["nodeSelector"] = {"pool": chance.choice(("p0", "p1"))}
    if chance.random() < 0.3:
        fields["tolerations"] = [{"key": "t", "operator": "Exists"}]
    if affinity := some_affinity(chance):
        fields["affinity"] = affinity
    if chance.random() < 0.3:
        fields["topologySpreadConstraints"] = [
            {
                "topologyKey": chance.choice((HOST, ZONE)),
                "maxSkew": chance.randint(1, 2),
                "whenUnsatisfiable": chance.choice(("DoNotSchedule", "ScheduleAnyway")),
                "labelSelector": {"matchLabels": labels},
            }
        ]
    return {"name": name, **fields}


def some_affinity(chance: random.Random) -> Obj:
    def term() -> Obj:
        return {"labelSelector": {"matchLabels": {"app": chance.choice("xyz")}}, "topologyKey": chance.choice((HOST, ZONE))}

    affinity: Obj = {}
    for kind, likely in (("podAffinity", 0.1), ("podAntiAffinity", 0.15)):
        if chance.random() < likely:
            affinity.setdefault(kind, {})[REQUIRED] = [term()]
        if chance.random() < 0.15:
            affinity.setdefault(kind, {})[PREFERRED] = [{"weight": chance.randint(1, 100), "podAffinityTerm": term()}]
    if chance.random() < 0.2:
        expressions = [{"key": "pool", "operator": "In", "values": ["p1"]}]
        preferred = {"weight": chance.randint(1, 100), "preference": {"matchExpressions": expressions}}
        affinity["nodeAffinity"] = {PREFERRED: [preferred]}
    return affinity


def outcome(scheduler: SchedulerHarness, name: str) -> tuple[str, str]:
    """The node of a pod, or its unschedulable message."""

    def find() -> tuple[str, str] | None:
        pod = scheduler.get(name)
        if node := pod["spec"].get("nodeName"):
            return node, ""
        message = next((condition.get("message", "") for condition in pod["status"].get("conditions") or ()), "")
        return ("", message) if message else None

    result = eventually(find, what=f"an outcome for {name}")
    assert result is not None
    return result


def expected(pod: PodInfo, snapshot: Snapshot) -> tuple[list[str], str]:
    """The nodes with the highest score, or the unschedulable message."""
    decision = schedule_pod(pod, snapshot)
    if isinstance(decision, ScheduleResult):
        return best_nodes(pod, snapshot), ""
    result = preempt(pod, snapshot, decision, ()) if decision.preemption_may_help else ""
    assert isinstance(result, str)
    return [], format_failure(decision.message, result)


@pytest.mark.parametrize("seed", range(12))
def test_node_with_highest_score_is_chosen(api: Api, ns: str, seed: int) -> None:
    chance, scheduler, snapshot = random.Random(seed), SchedulerHarness(api, ns), Snapshot()
    snapshot.set_namespace(ns, {})
    try:
        if chance.random() < 0.5:
            snapshot.default_spreads.set_service(ns, "web", scheduler.serve("web", {"app": "x"}))
        some_nodes(chance, scheduler, snapshot)
        for number in range(25):
            pod = snapshot.shapes.parse(scheduler.pod(**some_pod(chance, f"p{number}")))
            nodes, message = expected(pod, snapshot)
            node, output = outcome(scheduler, f"p{number}")
            assert output == message, f"pod {number}"
            if node:
                assert node in nodes, f"pod {number}"
                snapshot.add_pod(pod, node)
            else:
                scheduler.delete(f"p{number}")
    finally:
        scheduler.clear()
