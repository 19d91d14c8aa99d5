"""What the scheduler hears, and whom it tries again: nobody who could have a node is forgotten."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.support.placing import HOST, ZONE, pod_object

from sliceworks.twin.scheduler.decide import Placement, decide
from sliceworks.twin.scheduler.view import View

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
Obj = dict[str, Any]


class Told:
    """A change as the store tells it."""

    def __init__(self, kind: str, resource: str, obj: Obj) -> None:
        self.type, self.resource, self.obj, self.entry = kind, resource, obj, Bytes()
        self.namespace, self.name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


class Bytes:
    data = b""


class World:
    """Objects that change at random, and a view that follows them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.view = View()
        self.nodes: dict[str, Obj] = {}
        self.pods: dict[str, Obj] = {}
        self._number = 0

    def step(self) -> None:
        kind = self.chance.random()
        if kind < 0.25:
            self._change_node()
        elif kind < 0.6 or not self.pods:
            self._new_pod()
        elif kind < 0.8:
            self._lose_pod()
        else:
            self._label_pod()
        self._drain()

    def _tell(self, kind: str, resource: str, obj: Obj) -> None:
        self.view.observe(Told(kind, resource, obj))

    def _change_node(self) -> None:
        chance, name = self.chance, f"n{self.chance.randrange(6)}"
        if name in self.nodes and chance.random() < 0.2:
            self._tell("DELETED", "/nodes", self.nodes.pop(name))
            return
        labels = {HOST: name, ZONE: f"z{chance.randrange(2)}", "pool": chance.choice("pq")}
        spec = {
            "taints": [{"key": "t", "effect": "NoSchedule"}] if chance.random() < 0.3 else [],
            "unschedulable": chance.random() < 0.1,
        }
        offers = {"cpu": chance.choice("24"), "memory": "8Gi", "pods": chance.choice("48")}
        self.nodes[name] = {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"allocatable": offers}}
        self._tell("MODIFIED", "/nodes", self.nodes[name])

    def _new_pod(self) -> None:
        chance, spec = self.chance, {}  # type: tuple[random.Random, Obj]
        self._number += 1
        if chance.random() < 0.4:
            spec["nodeSelector"] = {"pool": chance.choice("pq")}
        if chance.random() < 0.4:
            spec["tolerations"] = [{"operator": "Exists", "key": "t"}]
        if chance.random() < 0.4:
            term = {"labelSelector": {"matchLabels": {"app": chance.choice("xy")}}, "topologyKey": chance.choice((HOST, ZONE))}
            spec["affinity"] = {chance.choice(("podAffinity", "podAntiAffinity")): {REQUIRED: [term]}}
        if chance.random() < 0.2:
            ports = [{"containerPort": 80, "hostPort": 80}]
            spec["containers"] = [{"name": "main", "image": "image", "ports": ports, "resources": {"requests": {"cpu": "1"}}}]
        name = f"p{self._number}"
        self.pods[name] = pod_object(name, labels={"app": chance.choice("xy")}, asks={"cpu": chance.choice("12")}, **spec)
        self._tell("ADDED", "/pods", self.pods[name])

    def _lose_pod(self) -> None:
        name = self.chance.choice(sorted(self.pods))
        self._tell("DELETED", "/pods", self.pods.pop(name))

    def _label_pod(self) -> None:
        pod = self.pods[self.chance.choice(sorted(self.pods))]
        pod["metadata"] = {**pod["metadata"], "labels": {"app": self.chance.choice("xyz")}}
        self._tell("MODIFIED", "/pods", pod)

    def _drain(self) -> None:
        view = self.view
        while (lane := view.waiting.next()) is not None:
            decision = decide(lane.first, view.snapshot)
            if isinstance(decision, Placement):
                pod = lane.first
                view.assume(pod, decision.node)
                obj = self.pods[pod.key[1]]
                obj["spec"] = {**obj["spec"], "nodeName": decision.node}
                self._tell("MODIFIED", "/pods", obj)
            else:
                view.waiting.park(lane, decision.rules)


@pytest.mark.parametrize("seed", range(20))
def test_nobody_who_could_have_a_node_is_forgotten(seed: int) -> None:
    world = World(seed)
    for _ in range(120):
        world.step()
        for pod in list(world.view.waiting.pods()):
            assert not isinstance(decide(pod, world.view.snapshot), Placement), pod.key


def test_everybody_is_either_placed_or_waits() -> None:
    world = World(99)
    for _ in range(150):
        world.step()
    placed = {name for name, pod in world.pods.items() if pod["spec"].get("nodeName")}
    assert {key[1] for key in world.view.snapshot.pods} == placed
    assert {pod.key[1] for pod in world.view.waiting.pods()} == set(world.pods) - placed


def test_a_gate_and_another_scheduler_keep_a_pod_out() -> None:
    view = View()
    view.observe(Told("ADDED", "/pods", pod_object("gated", schedulingGates=[{"name": "x"}])))
    view.observe(Told("ADDED", "/pods", pod_object("theirs", schedulerName="other")))
    assert len(view.waiting) == 0
    view.observe(Told("MODIFIED", "/pods", pod_object("gated")))
    assert len(view.waiting) == 1


def test_a_pod_of_the_same_name_is_another() -> None:
    view = View()
    first = pod_object("a", nodeName="n")
    view.observe(Told("ADDED", "/pods", first))
    second = pod_object("a")
    second["metadata"]["uid"] = "another"
    view.observe(Told("MODIFIED", "/pods", second))
    assert ("ns", "a") in view.waiting
    assert not view.snapshot.pods
