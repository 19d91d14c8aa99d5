"""The controllers of ReplicaSets and of ReplicationControllers, which differ in their kind and selector alone."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.conditions import find_condition
from sliceworks.kube.resources import controller_of
from sliceworks.twin.controllers.builtin.pod_control import (
    PHASE_ORDER,
    PodControl,
    is_available,
    min_ready_seconds,
    parse_time,
    seconds_to_available,
    selector_of,
    slow_start_batch,
)
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import NamespacedName
from sliceworks.twin.controllers.runtime.object_index import OwnerIndex, SelectorIndex
from sliceworks.twin.controllers.runtime.pod_index import Pod, PodIndex
from sliceworks.twin.controllers.runtime.resource_keys import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from sliceworks.base.errors import ApiError
    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_BURST_REPLICAS = 500


class ReplicaSetController(Controller[NamespacedName]):
    """Creates and deletes pods to match spec.replicas."""

    workers = 5
    watches = frozenset({REPLICA_SETS, PODS})
    resource, kind, account = REPLICA_SETS, "ReplicaSet", "replicaset-controller"
    has_immutable_selector = True
    reports_terminating = True
    """Whether the status of the kind has `terminatingReplicas`."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods, self._owners = context.shared_index(PodIndex), context.shared_index(OwnerIndex)
        self._pod_control = PodControl(context, self.account, self.account)
        self._selectors = SelectorIndex()

    def observe(self, change: Change) -> None:
        if change.resource == self.resource:
            if change.type == "DELETED":
                self._selectors.remove(change.namespace, change.name)
            elif not self.has_immutable_selector or (change.namespace, change.name) not in self._selectors:
                self._selectors.put(change.namespace, change.name, selector_of(change.obj))
            self.queue.add((change.namespace, change.name))
        else:
            self._observe_pod()

    def _observe_pod(self) -> None:
        before, after = self._pods.before, self._pods.after
        for pod in (before, after):
            if pod is not None and pod.owner_kind == self.kind:
                self.queue.add((pod.namespace, pod.owner_name))
        if (
            after is not None
            and not after.owner
            and after.labels
            and (before is None or before.labels != after.labels or before.owner)
        ):
            for name in self._selectors.matching(after.namespace, after.labels):
                self.queue.add((after.namespace, name))

    async def sync(self, key: NamespacedName) -> None:
        replica_set = self.context.get(self.resource, *key)
        if replica_set is None:
            return
        # 1. Claim pods.
        pods = await self._pod_control.claim(replica_set, self._pods, active_only=True)
        active = [pod for pod in pods if pod.active]
        # 2. Create or delete pods.
        error: ApiError | None = None
        if not replica_set["metadata"].get("deletionTimestamp"):
            error = await self._manage_replicas(replica_set, active)
        # 3. Write the status of the pods as they were before step 2.
        now = clock.now()
        terminating = sum(1 for pod in pods if pod.terminating) if self.reports_terminating else None
        status = compute_status(replica_set, active, terminating, error.message if error else "", now)
        if status != (replica_set.get("status") or {}):
            await self._pod_control.writer.update_status(self.resource, replica_set, status)
        if error is not None:
            raise error
        if (wait := seconds_to_available(active, min_ready_seconds(replica_set), now)) is not None:
            self.queue.add_after(key, wait)

    async def _manage_replicas(self, replica_set: Object, active: list[Pod]) -> ApiError | None:
        surplus = len(active) - int(replica_set["spec"].get("replicas", 1))
        if surplus < 0:
            template = replica_set["spec"].get("template") or {}
            count = min(-surplus, _BURST_REPLICAS)
            return (await slow_start_batch(count, lambda _: self._pod_control.create(replica_set, template)))[1]
        if surplus > 0:
            for pod in pods_to_delete(active, self._related_pods(replica_set), min(surplus, _BURST_REPLICAS), clock.now()):
                await self._pod_control.delete(replica_set, pod)
        return None

    def _related_pods(self, replica_set: Object) -> Iterable[Pod]:
        """The pods of all ReplicaSets with the same controller."""
        owner = controller_of(replica_set)
        if owner is None:
            return self._pods.owned_by(replica_set["metadata"]["uid"])
        siblings = (self.context.get(REPLICA_SETS, *key) for key in self._owners.owned_by(REPLICA_SETS, owner["uid"]))
        return [pod for sibling in siblings if sibling is not None for pod in self._pods.owned_by(sibling["metadata"]["uid"])]


class ReplicationManager(ReplicaSetController):
    """The controller of ReplicationControllers; its name and account are those of kube-controller-manager."""

    watches = frozenset({REPLICATION_CONTROLLERS, PODS})
    resource, kind, account = REPLICATION_CONTROLLERS, "ReplicationController", "replication-controller"
    has_immutable_selector = False
    reports_terminating = False

    def _related_pods(self, replica_set: Object) -> Iterable[Pod]:
        return self._pods.owned_by(replica_set["metadata"]["uid"])


def compute_status(replica_set: Object, active: list[Pod], terminating: int | None, error: str, now: datetime) -> Object:
    """The status of a ReplicaSet with these pods; None leaves `terminatingReplicas` out."""
    template_labels = (replica_set["spec"].get("template") or {}).get("metadata", {}).get("labels") or {}
    min_ready = min_ready_seconds(replica_set)
    counts = {
        "fullyLabeledReplicas": sum(1 for pod in active if template_labels.items() <= pod.labels.items()),
        "readyReplicas": sum(1 for pod in active if pod.ready),
        "availableReplicas": sum(1 for pod in active if is_available(pod, min_ready, now)),
        "observedGeneration": replica_set["metadata"].get("generation", 0),
    }
    status: Object = {"replicas": len(active), **{name: count for name, count in counts.items() if count}}
    if terminating is not None:
        status["terminatingReplicas"] = terminating
    conditions = _conditions(replica_set, len(active), error)
    return {**status, "conditions": conditions} if conditions else status


def _conditions(replica_set: Object, active: int, error: str) -> list[Object]:
    conditions: list[Object] = (replica_set.get("status") or {}).get("conditions") or []
    failing = bool(find_condition(replica_set, "ReplicaFailure"))
    if error and not failing:
        reason = "FailedCreate" if active < int(replica_set["spec"].get("replicas", 1)) else "FailedDelete"
        failure = {"type": "ReplicaFailure", "status": "True", "reason": reason, "message": error}
        return [*conditions, {**failure, "lastTransitionTime": clock.timestamp()}]
    if not error and failing:
        return [condition for condition in conditions if condition["type"] != "ReplicaFailure"]
    return conditions


def pods_to_delete(active: list[Pod], related: Iterable[Pod], count: int, now: datetime) -> list[Pod]:
    """The pods to delete: least useful first, then those that share a node with most related pods."""
    if count >= len(active):
        return active
    per_node: dict[str, int] = {}
    for pod in related:
        if pod.active:
            per_node[pod.node] = per_node.get(pod.node, 0) + 1

    def compare(pod: Pod, other: Pod) -> int:
        for mine, theirs in zip(_rank(pod, per_node), _rank(other, per_node), strict=True):
            if mine != theirs:
                return -1 if mine < theirs else 1
        return _compare_age(pod, other, now)

    return sorted(active, key=functools.cmp_to_key(compare))[:count]


def _rank(pod: Pod, per_node: Mapping[str, int]) -> tuple[int, ...]:
    return (bool(pod.node), PHASE_ORDER.get(pod.phase, 0), pod.ready, pod.cost, -per_node.get(pod.node, 0))


def _compare_age(pod: Pod, other: Pod, now: datetime) -> int:
    """Delete the younger of two equally ranked pods first; ages of the same magnitude are equal."""
    if pod.ready and pod.ready_at != other.ready_at:
        return _compare_magnitude(pod, other, pod.ready_at, other.ready_at, now)
    if pod.restarts != other.restarts:
        return -1 if pod.restarts > other.restarts else 1
    return _compare_magnitude(pod, other, pod.created, other.created, now) if pod.created != other.created else 0


def _compare_magnitude(pod: Pod, other: Pod, time: str, other_time: str, now: datetime) -> int:
    difference = _magnitude(time, now) - _magnitude(other_time, now)
    if difference:
        return difference
    return -1 if pod.uid < other.uid else 1


def _magnitude(time: str, now: datetime) -> int:
    age = (now - parse_time(time)).total_seconds() * 1e9 if time != "-" else 0.0
    return int(math.log2(age)) if age > 0 else -1
