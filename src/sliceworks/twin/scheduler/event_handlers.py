"""Event handlers: keep the snapshot and the queue up to date, and requeue pods that a change may make schedulable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from sliceworks.base.errors import BadRequest
from sliceworks.kube.selectors import from_label_selector
from sliceworks.twin.controllers.runtime.pod_index import is_finished
from sliceworks.twin.controllers.runtime.resource_keys import (
    BUDGETS,
    CLAIMS,
    NAMESPACES,
    NODES,
    PODS,
    SERVICES,
    STORAGE_CLASSES,
    VOLUMES,
)
from sliceworks.twin.scheduler.default_preemption import DisruptionBudget
from sliceworks.twin.scheduler.node_plugins import FilterStatus, check_node, check_resources
from sliceworks.twin.scheduler.pod_info import DEFAULT_SCHEDULER, PodKey
from sliceworks.twin.scheduler.pod_queue import SchedulingQueue
from sliceworks.twin.scheduler.snapshot import Snapshot
from sliceworks.twin.scheduler.topology_constraints import WORKLOADS
from sliceworks.twin.scheduler.volume_binding import PLUGIN, RESTRICTIONS

if TYPE_CHECKING:
    from sliceworks.twin.controllers.runtime.controller import Change
    from sliceworks.twin.scheduler.node_info import NodeInfo
    from sliceworks.twin.scheduler.pod_info import PodInfo
    from sliceworks.twin.scheduler.pod_queue import QueuedPods

_MIN_SHAPES = 4096
# The plugins whose result may change after an event.
_HELPED_BY_POD_REMOVED = frozenset((RESTRICTIONS, "PodTopologySpread", "PodAffinity", "PodAntiAffinity"))
_HELPED_BY_POD_ADDED = frozenset(("PodTopologySpread", "PodAffinity"))
_HELPED_BY_NODE = frozenset(
    ("NodePorts", PLUGIN, RESTRICTIONS, "VolumeZone", "PodTopologySpread", "PodAffinity", "PodAntiAffinity")
)
_HELPED_BY_VOLUMES = frozenset((PLUGIN, RESTRICTIONS, "VolumeZone"))
_HELPED_BY_FREE_RESOURCES = frozenset(("NodeResourcesFit", "NodePorts"))


class EventHandlers:
    """Keeps a snapshot and a scheduling queue in step with the cluster."""

    resources: ClassVar[frozenset[str]] = frozenset(
        (PODS, NODES, NAMESPACES, BUDGETS, CLAIMS, VOLUMES, STORAGE_CLASSES, SERVICES, *WORKLOADS)
    )

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self.queue = SchedulingQueue(self.snapshot.existing_terms.label_keys)
        self.budgets: dict[PodKey, DisruptionBudget] = {}
        self._max_shapes = _MIN_SHAPES

    def observe(self, change: Change) -> None:
        """Update the snapshot and the queue."""
        resource, deleted = change.resource, change.type == "DELETED"
        if resource == PODS:
            if deleted:
                self._delete_pod((change.namespace, change.name))
            else:
                self.update_pod(change.obj)
        elif resource == NODES:
            self._update_node(change.name, None if deleted else change.obj)
        elif resource == NAMESPACES:
            self.snapshot.set_namespace(change.name, None if deleted else change.obj["metadata"].get("labels") or {})
            self.queue.requeue_rejected(_HELPED_BY_POD_REMOVED)
        elif resource == CLAIMS:
            key = (change.namespace, change.name)
            if deleted:
                self.snapshot.volumes.claims.pop(key, None)
            else:
                self.snapshot.volumes.claims[key] = change.obj
            self.queue.requeue_rejected(_HELPED_BY_VOLUMES)
        elif resource == VOLUMES:
            self.snapshot.volumes.set_volume(change.name, None if deleted else change.obj)
            self.queue.requeue_rejected(_HELPED_BY_VOLUMES)
        elif resource == STORAGE_CLASSES:
            if deleted:
                self.snapshot.volumes.classes.pop(change.name, None)
            else:
                self.snapshot.volumes.classes[change.name] = change.obj
            self.queue.requeue_rejected(_HELPED_BY_VOLUMES)
        elif resource == BUDGETS:
            self._update_budget((change.namespace, change.name), None if deleted else change.obj)
        elif resource == SERVICES:
            self.snapshot.default_spreads.set_service(change.namespace, change.name, None if deleted else change.obj)
        elif resource in WORKLOADS:
            self.snapshot.default_spreads.set_workload(resource, change.namespace, change.name, None if deleted else change.obj)

    def update_pod(self, obj: dict[str, Any]) -> None:
        """Update the snapshot and the queue with a pod that exists."""
        metadata, spec = obj["metadata"], obj["spec"]
        key = (metadata["namespace"], metadata["name"])
        if is_finished(obj):
            self._delete_pod(key)
        elif spec.get("nodeName"):
            self._update_scheduled(key, obj)
        elif metadata.get("deletionTimestamp") or not _is_responsible_for(spec):
            self._delete_pod(key)
        else:
            self._update_pending(key, obj)

    def _update_scheduled(self, key: PodKey, obj: dict[str, Any]) -> None:
        snapshot = self.snapshot
        known = snapshot.pods.get(key)
        if known is not None and self._is_unchanged(known, obj):
            known.started = (obj.get("status") or {}).get("startTime") or ""
            return
        pod = snapshot.shapes.parse(obj)
        self._dequeue(key)
        snapshot.add_pod(pod, pod.node)
        self.queue.requeue_rejected(_HELPED_BY_POD_ADDED)
        if known is not None and (pod.shape is not known.shape or pod.labels != known.labels):
            self._requeue_for_free_resources(pod.node)

    def _is_unchanged(self, known: PodInfo, obj: dict[str, Any]) -> bool:
        metadata, node = obj["metadata"], self.snapshot.node_of(known)
        return (
            known.uid == metadata["uid"]
            and node is not None
            and node.name == obj["spec"]["nodeName"]
            and known.generation == (metadata.get("generation") or 0)
            and known.labels == (metadata.get("labels") or {})
            and known.terminating == bool(metadata.get("deletionTimestamp"))
        )

    def _update_pending(self, key: PodKey, obj: dict[str, Any]) -> None:
        pod = self.snapshot.shapes.parse(obj)
        placed = self.snapshot.pods.get(key)
        if placed is not None:
            if placed.uid == pod.uid:
                return  # assumed: its binding is in progress
            self._delete_pod(key)
        known = self.queue.get(key)
        if known is not None:
            same = known.uid == pod.uid and known.shape is pod.shape and known.labels == pod.labels
            if same and known.nominated == pod.nominated and known.priority == pod.priority:
                known.resource_version = pod.resource_version
                return
            self.snapshot.remove_nomination(known, known.nominated)
        if pod.nominated:
            self.snapshot.nominate(pod, pod.nominated)
        self.queue.add(pod)

    def _delete_pod(self, key: PodKey) -> None:
        self._dequeue(key)
        placed = self.snapshot.pods.get(key)
        if placed is not None:
            node = self.snapshot.node_of(placed)
            self.snapshot.remove_pod(key)
            if node is not None:
                self._requeue_for_free_resources(node.name)

    def _dequeue(self, key: PodKey) -> None:
        pod = self.queue.get(key)
        if pod is not None:
            self.queue.remove(key)
            if pod.nominated:
                self.snapshot.remove_nomination(pod, pod.nominated)
                self._requeue_for_free_resources(pod.nominated)

    def _requeue_for_free_resources(self, name: str) -> None:
        """Requeue pods that may fit on a node with more free resources."""
        if not len(self.queue):
            return
        node, lowest = self.snapshot.nodes.get(name), self.snapshot.lowest_priority
        self.queue.requeue_rejected(_HELPED_BY_POD_REMOVED)
        if node is not None:
            self.queue.requeue_for_node(node.labels, _HELPED_BY_FREE_RESOURCES, lambda group: _may_fit(group, node, lowest))

    def _update_node(self, name: str, obj: dict[str, Any] | None) -> None:
        if obj is None:
            self.snapshot.drop_node(name)
            self.queue.requeue_rejected(_HELPED_BY_POD_REMOVED)
            return
        node = self.snapshot.set_node(obj)
        if node is not None:
            self.queue.requeue(lambda plugins, group: _may_accept(plugins, group, node))

    def _update_budget(self, key: PodKey, obj: dict[str, Any] | None) -> None:
        self.budgets.pop(key, None)
        if obj is None:
            return
        status = obj.get("status") or {}
        try:
            selector = from_label_selector((obj.get("spec") or {}).get("selector"))
        except BadRequest:
            return
        self.budgets[key] = DisruptionBudget(
            key[0], selector, status.get("disruptionsAllowed", 0), frozenset(status.get("disruptedPods") or ())
        )

    def compact(self) -> None:
        """Drop unused pod shapes, once there are too many."""
        shapes = self.snapshot.shapes
        if len(shapes) > self._max_shapes:
            shapes.retain({pod.shape.key for pod in (*self.snapshot.pods.values(), *self.queue.pods())})
            self._max_shapes = 2 * len(shapes) + _MIN_SHAPES

    def assume(self, pod: PodInfo, node: str) -> None:
        """Treat a pod as scheduled on a node, before its binding is written."""
        self.queue.remove(pod.key)
        if pod.nominated:
            self.snapshot.remove_nomination(pod, pod.nominated)
        self.snapshot.add_pod(pod, node)
        self.queue.requeue_rejected(_HELPED_BY_POD_ADDED)

    def forget_assumed(self, pod: PodInfo) -> None:
        """Undo `assume` after the binding failed."""
        self._delete_pod(pod.key)

    def nominate(self, pod: PodInfo, node: str, plugins: frozenset[str]) -> None:
        """Set the node where victims are evicted for a pod, and mark the pod unschedulable until they are deleted."""
        self.clear_nomination(pod)
        self.queue.remove(pod.key)
        pod.nominated = node
        self.snapshot.nominate(pod, node)
        self.queue.add(pod)
        self.queue.mark_pod_unschedulable(pod.key, plugins)

    def clear_nomination(self, pod: PodInfo) -> None:
        """Remove the pod's nomination from the snapshot."""
        if pod.nominated:
            self.snapshot.remove_nomination(pod, pod.nominated)

    def lower_nominated(self, pod: PodInfo, node: str) -> list[PodInfo]:
        """The pods of lower priority that are nominated to the same node; they lose their nomination."""
        nominated = self.snapshot.nominated.get(node, {}).values()
        return [other for other in nominated if other.priority < pod.priority]


def _is_responsible_for(spec: dict[str, Any]) -> bool:
    """Whether an unscheduled pod names this scheduler and has no scheduling gates."""
    return spec.get("schedulerName", DEFAULT_SCHEDULER) == DEFAULT_SCHEDULER and not spec.get("schedulingGates")


def _may_accept(plugins: frozenset[str], group: QueuedPods, node: NodeInfo) -> bool:
    """Whether a new or changed node may change the result of one of the plugins that rejected a group."""
    requirements = group.first.shape.node
    return (
        not plugins
        or not _HELPED_BY_NODE.isdisjoint(plugins)
        or (
            "NodeResourcesFit" in plugins and all(amount <= node.allocatable.get(name, 0) for name, amount in requirements.requests)
        )
        or ("TaintToleration" in plugins and not requirements.tolerations.has_untolerated(node.taints))
        or ("NodeAffinity" in plugins and requirements.affinity.matches(node.name, node.labels))
        or ("NodeUnschedulable" in plugins and not node.unschedulable)
    )


def _may_fit(group: QueuedPods, node: NodeInfo, lowest: int | None) -> bool:
    """Whether the group's pods fit on a node, or might after preemption."""
    requirements = group.first.shape.node
    if isinstance(check_node(requirements, node), FilterStatus):
        return False
    return (lowest is not None and lowest < group.first.priority) or check_resources(requirements, node) is None
