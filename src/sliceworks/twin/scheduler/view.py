"""What the scheduler has heard: it keeps the snapshot and the waiting pods up to date, and wakes those a change may help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from sliceworks.base.errors import BadRequest
from sliceworks.kube.selectors import from_label_selector
from sliceworks.twin.scheduler.families import SERVICES, SETS
from sliceworks.twin.scheduler.groups import lacking, unchanging
from sliceworks.twin.scheduler.pods import DEFAULT_SCHEDULER, Key, has_ended
from sliceworks.twin.scheduler.preemption import Budget
from sliceworks.twin.scheduler.snapshot import Snapshot
from sliceworks.twin.scheduler.verdicts import Verdict
from sliceworks.twin.scheduler.waiting import Waiting

if TYPE_CHECKING:
    from sliceworks.twin.controllers.loop import Change
    from sliceworks.twin.scheduler.nodes import Node
    from sliceworks.twin.scheduler.pods import Pod
    from sliceworks.twin.scheduler.waiting import Lane

_PODS, _NODES, _NAMESPACES, _BUDGETS = "/pods", "/nodes", "/namespaces", "policy/poddisruptionbudgets"
_CLAIMS = "/persistentvolumeclaims"
_SPARE_SHAPES = 4096
_EASED_BY_LEAVING = frozenset(("PodTopologySpread", "PodAffinity", "PodAntiAffinity"))
_EASED_BY_COMING = frozenset(("PodTopologySpread", "PodAffinity"))
_MOVED_BY_NODES = frozenset(("NodePorts", "PodTopologySpread", "PodAffinity", "PodAntiAffinity"))
_EASED_BY_CLAIMS = frozenset(("VolumeBinding",))
_EASED_BY_ROOM = frozenset(("NodeResourcesFit", "NodePorts"))


class View:
    """The snapshot and those who wait."""

    resources: ClassVar[frozenset[str]] = frozenset((_PODS, _NODES, _NAMESPACES, _BUDGETS, _CLAIMS, SERVICES, *SETS))

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self.waiting = Waiting(self.snapshot.standing.keys)
        self.budgets: dict[Key, Budget] = {}
        self._most_shapes = _SPARE_SHAPES

    def observe(self, change: Change) -> None:
        """Take note of a change in the store."""
        resource, gone = change.resource, change.type == "DELETED"
        if resource == _PODS:
            if gone:
                self._lose_pod((change.namespace, change.name))
            else:
                self.see_pod(change.obj)
        elif resource == _NODES:
            self._see_node(change.name, None if gone else change.obj)
        elif resource == _NAMESPACES:
            self.snapshot.set_namespace(change.name, None if gone else change.obj["metadata"].get("labels") or {})
            self.waiting.wake_failed(_EASED_BY_LEAVING)
        elif resource == _CLAIMS:
            (self.snapshot.claims.discard if gone else self.snapshot.claims.add)((change.namespace, change.name))
            self.waiting.wake_failed(_EASED_BY_CLAIMS)
        elif resource == _BUDGETS:
            self._see_budget((change.namespace, change.name), None if gone else change.obj)
        elif resource == SERVICES:
            self.snapshot.families.set_service(change.namespace, change.name, None if gone else change.obj)
        elif resource in SETS:
            self.snapshot.families.set_set(resource, change.namespace, change.name, None if gone else change.obj)

    def see_pod(self, obj: dict[str, Any]) -> None:
        """A pod as it is now."""
        metadata, spec = obj["metadata"], obj["spec"]
        key = (metadata["namespace"], metadata["name"])
        if has_ended(obj):
            self._lose_pod(key)
        elif spec.get("nodeName"):
            self._see_placed(key, obj)
        elif metadata.get("deletionTimestamp") or not _is_ours(spec):
            self._lose_pod(key)
        else:
            self._see_waiting(key, obj)

    def _see_placed(self, key: Key, obj: dict[str, Any]) -> None:
        snapshot = self.snapshot
        known = snapshot.pods.get(key)
        if known is not None and self._is_as_before(known, obj):
            known.started = (obj.get("status") or {}).get("startTime") or ""
            return
        pod = snapshot.shapes.read(obj)
        self._stop_waiting(key)
        snapshot.place(pod, pod.node)
        self.waiting.wake_failed(_EASED_BY_COMING)
        if known is not None and (pod.shape is not known.shape or pod.labels != known.labels):
            self._freed(pod.node)

    def _is_as_before(self, known: Pod, obj: dict[str, Any]) -> bool:
        metadata, node = obj["metadata"], self.snapshot.node_of(known)
        return (
            known.uid == metadata["uid"]
            and node is not None
            and node.name == obj["spec"]["nodeName"]
            and known.generation == (metadata.get("generation") or 0)
            and known.labels == (metadata.get("labels") or {})
            and known.terminating == bool(metadata.get("deletionTimestamp"))
        )

    def _see_waiting(self, key: Key, obj: dict[str, Any]) -> None:
        pod = self.snapshot.shapes.read(obj)
        placed = self.snapshot.pods.get(key)
        if placed is not None:
            if placed.uid == pod.uid:
                return  # it is about to be bound
            self._lose_pod(key)
        known = self.waiting.get(key)
        if known is not None:
            same = known.uid == pod.uid and known.shape is pod.shape and known.labels == pod.labels
            if same and known.nominated == pod.nominated and known.priority == pod.priority:
                known.revision = pod.revision
                return
            self.snapshot.withdraw(known, known.nominated)
        if pod.nominated:
            self.snapshot.nominate(pod, pod.nominated)
        self.waiting.add(pod)

    def _lose_pod(self, key: Key) -> None:
        self._stop_waiting(key)
        placed = self.snapshot.pods.get(key)
        if placed is not None:
            node = self.snapshot.node_of(placed)
            self.snapshot.unplace(key)
            if node is not None:
                self._freed(node.name)

    def _stop_waiting(self, key: Key) -> None:
        pod = self.waiting.get(key)
        if pod is not None:
            self.waiting.remove(key)
            if pod.nominated:
                self.snapshot.withdraw(pod, pod.nominated)
                self._freed(pod.nominated)

    def _freed(self, name: str) -> None:
        """There is more room on a node."""
        if not len(self.waiting):
            return
        node, lowest = self.snapshot.nodes.get(name), self.snapshot.lowest_priority
        self.waiting.wake_failed(_EASED_BY_LEAVING)
        if node is not None:
            self.waiting.wake_for(node.labels, _EASED_BY_ROOM, lambda lane: _has_room(lane, node, lowest))

    def _see_node(self, name: str, obj: dict[str, Any] | None) -> None:
        if obj is None:
            self.snapshot.drop_node(name)
            self.waiting.wake_failed(_EASED_BY_LEAVING)
            return
        node = self.snapshot.set_node(obj)
        if node is not None:
            self.waiting.wake(lambda rules, lane: _may_take(rules, lane, node))

    def _see_budget(self, key: Key, obj: dict[str, Any] | None) -> None:
        self.budgets.pop(key, None)
        if obj is None:
            return
        status = obj.get("status") or {}
        try:
            selector = from_label_selector((obj.get("spec") or {}).get("selector"))
        except BadRequest:
            return
        self.budgets[key] = Budget(
            key[0], selector, status.get("disruptionsAllowed", 0), frozenset(status.get("disruptedPods") or ())
        )

    def tidy(self) -> None:
        """Forget what no pod asks for any more, now and then."""
        shapes = self.snapshot.shapes
        if len(shapes) > self._most_shapes:
            shapes.forget({pod.shape.key for pod in (*self.snapshot.pods.values(), *self.waiting.pods())})
            self._most_shapes = 2 * len(shapes) + _SPARE_SHAPES

    def assume(self, pod: Pod, node: str) -> None:
        """The pod will lie there in a moment."""
        self.waiting.remove(pod.key)
        if pod.nominated:
            self.snapshot.withdraw(pod, pod.nominated)
        self.snapshot.place(pod, node)
        self.waiting.wake_failed(_EASED_BY_COMING)

    def take_back(self, pod: Pod) -> None:
        """It will not lie there after all."""
        self._lose_pod(pod.key)

    def nominate(self, pod: Pod, node: str, rules: frozenset[str]) -> None:
        """Room is being made for the pod: it waits for that on its own."""
        self.withdraw(pod)
        self.waiting.remove(pod.key)
        pod.nominated = node
        self.snapshot.nominate(pod, node)
        self.waiting.add(pod)
        self.waiting.park_one(pod.key, rules)

    def withdraw(self, pod: Pod) -> None:
        """The pod waits for no particular node any more."""
        if pod.nominated:
            self.snapshot.withdraw(pod, pod.nominated)

    def outbid(self, pod: Pod, node: str) -> list[Pod]:
        """Those of lower priority who wait for room on the same node: they look for another."""
        waiting = self.snapshot.nominated.get(node, {}).values()
        return [other for other in waiting if other.priority < pod.priority]


def _is_ours(spec: dict[str, Any]) -> bool:
    """Whether a pod without a node is the scheduler's to place, and may be placed."""
    return spec.get("schedulerName", DEFAULT_SCHEDULER) == DEFAULT_SCHEDULER and not spec.get("schedulingGates")


def _may_take(rules: frozenset[str], lane: Lane, node: Node) -> bool:
    """Whether a node that came or changed passes one of the checks that failed, or moves the places that are counted."""
    wants = lane.first.shape.wants
    return (
        not rules
        or not _MOVED_BY_NODES.isdisjoint(rules)
        or ("NodeResourcesFit" in rules and all(amount <= node.allocatable.get(name, 0) for name, amount in wants.requests))
        or ("TaintToleration" in rules and not wants.tolerations.refuses(node.taints))
        or ("NodeAffinity" in rules and wants.choice.accepts(node.name, node.labels))
        or ("NodeUnschedulable" in rules and not node.unschedulable)
    )


def _has_room(lane: Lane, node: Node, lowest: int | None) -> bool:
    """Whether such a pod fits on the node now, or might if others made room."""
    wants = lane.first.shape.wants
    if isinstance(unchanging(wants, node), Verdict):
        return False
    return (lowest is not None and lowest < lane.first.priority) or lacking(wants, node) is None
