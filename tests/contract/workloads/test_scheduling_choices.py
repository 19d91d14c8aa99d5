"""The choice of a node, score by score: what the cluster's scheduler chose must be among the best by our own reckoning.

Pods come one after the other onto nodes that differ; refusals are compared word by word. Chance decides only between equals.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.scheduling import HOST, PREFERRED, REQUIRED, ZONE, Stage
from tests.support.waiting import eventually

from sliceworks.twin.scheduler.decide import Placement, decide, equals
from sliceworks.twin.scheduler.preemption import preempt
from sliceworks.twin.scheduler.snapshot import Snapshot
from sliceworks.twin.scheduler.verdicts import sentence

if TYPE_CHECKING:
    from tests.support.http import Api

    from sliceworks.twin.scheduler.pods import Pod

CLUSTER = "scheduling"
Obj = dict[str, Any]


def some_nodes(chance: random.Random, stage: Stage, snapshot: Snapshot) -> None:
    for number in range(chance.randint(3, 9)):
        labels = {ZONE: f"z{number % 3}", "pool": chance.choice(("p0", "p1"))}
        taints = [{"key": "t", "effect": chance.choice(("NoSchedule", "PreferNoSchedule"))}] if chance.random() < 0.25 else None
        sizes = {"cpu": chance.choice("248"), "memory": chance.choice(("4Gi", "8Gi", "32Gi")), "pods": chance.choice(("5", "20"))}
        if chance.random() < 0.4:
            sizes["tpu"] = chance.choice("48")
        stage.node(f"n{number}", labels=labels, taints=taints, **sizes)
        if chance.random() < 0.3:
            stage.images(f"n{number}", {"names": ["example.test/image:1"], "sizeBytes": chance.randint(1, 900) * 1024 * 1024})
    stage.settle()
    for node in stage.api.get("/api/v1/nodes").json["items"]:
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


def outcome(stage: Stage, name: str) -> tuple[str, str]:
    """Where a pod went, or why nowhere."""

    def look() -> tuple[str, str] | None:
        pod = stage.get(name)
        if node := pod["spec"].get("nodeName"):
            return node, ""
        message = next((one.get("message", "") for one in pod["status"].get("conditions") or ()), "")
        return ("", message) if message else None

    found = eventually(look, what=f"an outcome for {name}")
    assert found is not None
    return found


def expected(pod: Pod, snapshot: Snapshot) -> tuple[list[str], str]:
    """The nodes it may go to, or why nowhere."""
    decision = decide(pod, snapshot)
    if isinstance(decision, Placement):
        return equals(pod, snapshot), ""
    found = preempt(pod, snapshot, decision, ()) if decision.may_help else ""
    assert isinstance(found, str)
    return [], sentence(decision.message, found)


@pytest.mark.parametrize("seed", range(12))
def test_the_best_node_is_chosen(api: Api, ns: str, seed: int) -> None:
    chance, stage, snapshot = random.Random(seed), Stage(api, ns), Snapshot()
    snapshot.set_namespace(ns, {})
    try:
        if chance.random() < 0.5:
            snapshot.families.set_service(ns, "web", stage.serve("web", {"app": "x"}))
        some_nodes(chance, stage, snapshot)
        for number in range(25):
            pod = snapshot.shapes.read(stage.pod(**some_pod(chance, f"p{number}")))
            nodes, message = expected(pod, snapshot)
            node, said = outcome(stage, f"p{number}")
            assert said == message, f"pod {number}"
            if node:
                assert node in nodes, f"pod {number}"
                snapshot.place(pod, node)
            else:
                stage.delete(f"p{number}")
    finally:
        stage.clear()
