"""The event handlers: every pod that a change makes schedulable is requeued."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.support.scheduler_snapshot import HOST, ZONE, pod_object

from sliceworks.twin.scheduler.event_handlers import EventHandlers
from sliceworks.twin.scheduler.schedule_one import ScheduleResult, schedule_pod
from sliceworks.twin.store.entry import Entry
from sliceworks.twin.store.watch_cache import Change

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
Obj = dict[str, Any]


def new_change(kind: str, resource: str, obj: Obj) -> Change:
    namespace, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
    return Change(kind, Entry(resource, namespace, name, 1, b""), None, obj)


class RandomCluster:
    """Nodes and pods that change at random, and the event handlers that follow them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.handlers = EventHandlers()
        self.nodes: dict[str, Obj] = {}
        self.pods: dict[str, Obj] = {}
        self._number = 0

    def step(self) -> None:
        kind = self.rng.random()
        if kind < 0.25:
            self._change_node()
        elif kind < 0.6 or not self.pods:
            self._new_pod()
        elif kind < 0.8:
            self._delete_pod()
        else:
            self._label_pod()
        self._drain()

    def _notify(self, kind: str, resource: str, obj: Obj) -> None:
        self.handlers.observe(new_change(kind, resource, obj))

    def _change_node(self) -> None:
        rng, name = self.rng, f"n{self.rng.randrange(6)}"
        if name in self.nodes and rng.random() < 0.2:
            self._notify("DELETED", "/nodes", self.nodes.pop(name))
            return
        labels = {HOST: name, ZONE: f"z{rng.randrange(2)}", "pool": rng.choice("pq")}
        spec = {
            "taints": [{"key": "t", "effect": "NoSchedule"}] if rng.random() < 0.3 else [],
            "unschedulable": rng.random() < 0.1,
        }
        offers = {"cpu": rng.choice("24"), "memory": "8Gi", "pods": rng.choice("48")}
        self.nodes[name] = {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"allocatable": offers}}
        self._notify("MODIFIED", "/nodes", self.nodes[name])

    def _new_pod(self) -> None:
        rng = self.rng
        spec: Obj = {}
        self._number += 1
        if rng.random() < 0.4:
            spec["nodeSelector"] = {"pool": rng.choice("pq")}
        if rng.random() < 0.4:
            spec["tolerations"] = [{"operator": "Exists", "key": "t"}]
        if rng.random() < 0.4:
            term = {"labelSelector": {"matchLabels": {"app": rng.choice("xy")}}, "topologyKey": rng.choice((HOST, ZONE))}
            spec["affinity"] = {rng.choice(("podAffinity", "podAntiAffinity")): {REQUIRED: [term]}}
        if rng.random() < 0.2:
            ports = [{"containerPort": 80, "hostPort": 80}]
            spec["containers"] = [{"name": "main", "image": "image", "ports": ports, "resources": {"requests": {"cpu": "1"}}}]
        name = f"p{self._number}"
        self.pods[name] = pod_object(name, labels={"app": rng.choice("xy")}, asks={"cpu": rng.choice("12")}, **spec)
        self._notify("ADDED", "/pods", self.pods[name])

    def _delete_pod(self) -> None:
        name = self.rng.choice(sorted(self.pods))
        self._notify("DELETED", "/pods", self.pods.pop(name))

    def _label_pod(self) -> None:
        pod = self.pods[self.rng.choice(sorted(self.pods))]
        pod["metadata"] = {**pod["metadata"], "labels": {"app": self.rng.choice("xyz")}}
        self._notify("MODIFIED", "/pods", pod)

    def _drain(self) -> None:
        handlers = self.handlers
        while (group := handlers.queue.next()) is not None:
            decision = schedule_pod(group.first, handlers.snapshot)
            if isinstance(decision, ScheduleResult):
                pod = group.first
                handlers.assume(pod, decision.node)
                obj = self.pods[pod.key[1]]
                obj["spec"] = {**obj["spec"], "nodeName": decision.node}
                self._notify("MODIFIED", "/pods", obj)
            else:
                handlers.queue.mark_unschedulable(group, decision.failed_plugins)


@pytest.mark.parametrize("seed", range(20))
def test_no_schedulable_pod_stays_in_the_queue(seed: int) -> None:
    cluster = RandomCluster(seed)
    for _ in range(120):
        cluster.step()
        for pod in list(cluster.handlers.queue.pods()):
            assert not isinstance(schedule_pod(pod, cluster.handlers.snapshot), ScheduleResult), pod.key


def test_every_pod_is_scheduled_or_pending() -> None:
    cluster = RandomCluster(99)
    for _ in range(150):
        cluster.step()
    scheduled = {name for name, pod in cluster.pods.items() if pod["spec"].get("nodeName")}
    assert {key[1] for key in cluster.handlers.snapshot.pods} == scheduled
    assert {pod.key[1] for pod in cluster.handlers.queue.pods()} == set(cluster.pods) - scheduled


def test_gated_pods_and_pods_of_other_schedulers_are_not_queued() -> None:
    handlers = EventHandlers()
    handlers.observe(new_change("ADDED", "/pods", pod_object("gated", schedulingGates=[{"name": "x"}])))
    handlers.observe(new_change("ADDED", "/pods", pod_object("theirs", schedulerName="other")))
    assert len(handlers.queue) == 0
    handlers.observe(new_change("MODIFIED", "/pods", pod_object("gated")))
    assert len(handlers.queue) == 1


def test_recreated_pod_is_queued_again() -> None:
    handlers = EventHandlers()
    first = pod_object("a", nodeName="n")
    handlers.observe(new_change("ADDED", "/pods", first))
    second = pod_object("a")
    second["metadata"]["uid"] = "another"
    handlers.observe(new_change("MODIFIED", "/pods", second))
    assert ("ns", "a") in handlers.queue
    assert not handlers.snapshot.pods
