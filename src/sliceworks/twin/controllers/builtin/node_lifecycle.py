"""The node lifecycle controller: Unknown conditions, taints and rate-limited eviction for nodes that stop reporting."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.conditions import find_condition
from sliceworks.base.errors import NotFound
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import controller_user, object_key
from sliceworks.twin.controllers.runtime.pod_index import PodIndex
from sliceworks.twin.controllers.runtime.recorder import Recorder
from sliceworks.twin.controllers.runtime.resource_keys import LEASES, NODES, PODS

if TYPE_CHECKING:
    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_CONDITION_TAINTS = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_MANAGED_TAINTS = frozenset({*_CONDITION_TAINTS.values(), UNSCHEDULABLE})
_KUBELET_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_LEGACY_LABELS = {"kubernetes.io/os": "beta.kubernetes.io/os", "kubernetes.io/arch": "beta.kubernetes.io/arch"}
_LEASE_NAMESPACE = "kube-node-lease"
_GRACE_SECONDS, _STARTUP_GRACE_SECONDS = 50.0, 60.0
_LEASE_SECONDS = 40.0
"""The kubelet's default lease duration; a longer lease extends the grace period by the difference."""


def no_schedule_taints(node: Object, now: str) -> list[Object]:
    """The taints of a node, with the NoSchedule taints that follow from its conditions and spec.unschedulable."""
    spec, conditions = node.get("spec") or {}, (node.get("status") or {}).get("conditions") or ()
    keys = [_CONDITION_TAINTS.get((condition["type"], condition["status"])) for condition in conditions]
    keys += [UNSCHEDULABLE] if spec.get("unschedulable") else []
    kept = [
        taint
        for taint in spec.get("taints") or ()
        if taint["effect"] != "NoSchedule" or taint["key"] not in _MANAGED_TAINTS or taint["key"] in keys
    ]
    present = {taint["key"] for taint in kept if taint["effect"] == "NoSchedule"}
    return kept + [{"key": key, "effect": "NoSchedule", "timeAdded": now} for key in keys if key and key not in present]


def no_execute_taints(node: Object, key: str, now: str) -> list[Object]:
    """The taints of a node, with the NoExecute taint of this key, or without one if the key is empty."""
    taints: list[Object] = (node.get("spec") or {}).get("taints") or []
    removed = {NOT_READY, UNREACHABLE} - {key}
    kept = [taint for taint in taints if taint["effect"] != "NoExecute" or taint["key"] not in removed]
    if not key or any(taint["effect"] == "NoExecute" and taint["key"] == key for taint in kept):
        return kept
    return [*kept, {"key": key, "effect": "NoExecute", "timeAdded": now}]


def legacy_labels(node: Object) -> Object:
    """The deprecated labels to add or correct."""
    labels = node["metadata"].get("labels") or {}
    return {old: labels[new] for new, old in _LEGACY_LABELS.items() if new in labels and labels.get(old) != labels[new]}


def unknown_conditions(node: Object, now: str) -> list[Object]:
    """The conditions of a node whose kubelet stopped reporting: the kubelet's conditions become Unknown."""
    conditions = [dict(condition) for condition in (node.get("status") or {}).get("conditions") or ()]
    by_type = {condition["type"]: condition for condition in conditions}
    for kind in _KUBELET_CONDITIONS:
        condition = by_type.get(kind)
        if condition is None:
            cause = {"reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status."}
            times = {"lastHeartbeatTime": node["metadata"]["creationTimestamp"], "lastTransitionTime": now}
            conditions.append({"type": kind, "status": "Unknown", **times, **cause})
        elif condition["status"] != "Unknown":
            cause = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
            condition.update({"status": "Unknown", "lastTransitionTime": now, **cause})
    return conditions


def node_zone(node: Object) -> str:
    """The `region:zone` of a node."""
    labels = node["metadata"].get("labels") or {}
    return ":".join(labels.get(f"topology.kubernetes.io/{name}", "") for name in ("region", "zone"))


def eviction_rate(total: int, unready: int) -> float:
    """Nodes of a zone to evict per second: fewer, or none in a small zone, if most of the zone is unready."""
    if unready == total or unready <= 2 or unready / total < 0.55:
        return 0.1
    return 0.01 if total > 50 else 0.0


@dataclass(slots=True)
class NodeHealth:
    """When a node last reported, and its Ready status."""

    uid: str
    reported_at: float
    zone: str
    heartbeat: str = ""
    lease_renewed: str = ""
    extra_grace: float = 0.0
    ready: str = ""
    registered: bool = False


@dataclass(slots=True)
class Zone:
    """The ready and the unready nodes of a zone. A large outage asks for their number often."""

    ready: set[str] = field(default_factory=set)
    unready: set[str] = field(default_factory=set)

    def put(self, name: str, *, ready: bool) -> None:
        self.remove(name)
        (self.ready if ready else self.unready).add(name)

    def remove(self, name: str) -> None:
        self.ready.discard(name)
        self.unready.discard(name)


class NodeLifecycleController(Controller[str]):
    """Taints nodes by their conditions, and sets the conditions of nodes that stopped reporting to Unknown."""

    workers = 4
    watches = frozenset({NODES, LEASES})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = context.shared_index(PodIndex)
        user = controller_user("node-controller")
        self._writer, self._recorder = ApiWriter(context, user), Recorder(context, user, "node-controller")
        self._health: dict[str, NodeHealth] = {}
        self._zones: dict[str, Zone] = {}
        self._next_eviction: dict[str, float] = {}
        """By zone, the earliest time of the next eviction."""
        self._deleted: dict[str, str] = {}
        self._full_disruption = False

    def observe(self, change: Change) -> None:
        if change.resource == NODES:
            self._observe_node(change)
        elif change.namespace == _LEASE_NAMESPACE and change.type != "DELETED":
            self._observe_lease(change.name, change.obj)

    def _observe_node(self, change: Change) -> None:
        name = change.name
        if change.type == "DELETED":
            health = self._health.pop(name, None)
            if health is not None:
                self._zones[health.zone].remove(name)
                self._deleted[name] = health.uid
            self.queue.add(name)
            return
        ready = find_condition(change.obj, "Ready")
        health = self._health.get(name)
        if health is None or health.uid != change.obj["metadata"]["uid"]:
            health = self._health[name] = NodeHealth(change.obj["metadata"]["uid"], clock.loop_time(), node_zone(change.obj))
        elif ready.get("lastHeartbeatTime", "") != health.heartbeat:
            health.reported_at = clock.loop_time()
        health.heartbeat, health.ready = ready.get("lastHeartbeatTime", ""), ready.get("status", "")
        self._zones.setdefault(health.zone, Zone()).put(name, ready=health.ready == "True")
        self.queue.add(name)

    def _observe_lease(self, name: str, lease: Object) -> None:
        health, spec = self._health.get(name), lease.get("spec") or {}
        if health is None:
            return
        if spec.get("renewTime", "") != health.lease_renewed:
            health.lease_renewed, health.reported_at = spec.get("renewTime", ""), clock.loop_time()
        # The duration can change without the time: a node may fail at the time at which its lease was created.
        extra_grace = max(0.0, float(spec.get("leaseDurationSeconds") or 0) - _LEASE_SECONDS)
        if extra_grace != health.extra_grace:
            health.extra_grace = extra_grace
            self.queue.add(name)

    async def sync(self, key: str) -> None:
        health, node = self._health.get(key), self.context.get(NODES, "", key)
        if health is None or node is None:
            if uid := self._deleted.pop(key, ""):
                await self._record(key, uid, "RemovingNode", f"Removing Node {key} from Controller")
            return
        # 1. Register a new node.
        if not health.registered:
            health.registered = True
            await self._record(key, health.uid, "RegisteredNode", f"Registered Node {key} in Controller")
        # 2. Set the conditions of a node that stopped reporting.
        node = await self._monitor(key, health, node)
        # 3. Taint the node by its conditions.
        await self._sync_no_schedule_taints(node)
        await self._sync_no_execute_taint(key, health, node)

    async def _monitor(self, key: str, health: NodeHealth, node: Object) -> Object:
        grace = (_GRACE_SECONDS if health.ready else _STARTUP_GRACE_SECONDS) + health.extra_grace
        remaining = health.reported_at + grace - clock.loop_time()
        if remaining > 0:
            self.queue.add_after(key, remaining + 0.001)
            return node
        conditions = unknown_conditions(node, clock.timestamp())
        if conditions == (node.get("status") or {}).get("conditions"):
            return node
        was_ready = health.ready == "True"
        status = {**(node.get("status") or {}), "conditions": conditions}
        node = (await self._writer.update_status(NODES, node, status)).object()
        if was_ready:
            reference = _reference(key, node["metadata"]["uid"])
            await self._recorder.normal(reference, "NodeNotReady", f"Node {key} status is now: NodeNotReady")
            for pod in list(self._pods.on_node(key)):
                if pod.ready:
                    await self._mark_pod_not_ready(pod.namespace, pod.name)
        return node

    async def _mark_pod_not_ready(self, namespace: str, name: str) -> None:
        pod = self.context.get(PODS, namespace, name)
        if pod is None:
            return
        ready = find_condition(pod, "Ready")
        if ready.get("status") == "True":
            ready.update({"status": "False", "lastTransitionTime": clock.timestamp()})
        with suppress(NotFound):
            await self._writer.update_status(PODS, pod)
            await self._recorder.warning(pod, "NodeNotReady", "Node is not ready")

    async def _sync_no_schedule_taints(self, node: Object) -> None:
        taints = no_schedule_taints(node, clock.timestamp())
        if taints != ((node.get("spec") or {}).get("taints") or []):
            await self._set_taints(node, taints)
        if labels := legacy_labels(node):
            await self._writer.patch(object_key(NODES, node), {"metadata": {"labels": labels}})

    async def _sync_no_execute_taint(self, key: str, health: NodeHealth, node: Object) -> None:
        """Set or remove the NoExecute taint, at the eviction rate of the zone."""
        taint = {"False": NOT_READY, "Unknown": UNREACHABLE}.get(find_condition(node, "Ready").get("status", ""), "")
        any_ready = any(zone.ready for zone in self._zones.values())
        if taint and not any_ready:
            # If no node is ready, the control plane is more likely to be cut off than all nodes to be down.
            taint = ""
            self._full_disruption = True
        elif any_ready and self._full_disruption:
            self._full_disruption = False
            for name, other in self._health.items():
                other.reported_at = clock.loop_time()
                self.queue.add(name)
        taints = no_execute_taints(node, taint, clock.timestamp())
        old = (node.get("spec") or {}).get("taints") or []
        if taints == old:
            return
        is_tainted = any(taint["effect"] == "NoExecute" and taint["key"] in (NOT_READY, UNREACHABLE) for taint in old)
        if taint and not is_tainted and (wait := self._reserve_eviction(health.zone)) > 0:
            self.queue.add_after(key, wait)
            return
        await self._set_taints(node, taints)

    def _reserve_eviction(self, zone: str) -> float:
        """Seconds until another node of a zone may be evicted; zero reserves the eviction."""
        ready, unready = len(self._zones[zone].ready), len(self._zones[zone].unready)
        rate = eviction_rate(ready + unready, unready)
        now = clock.loop_time()
        if not rate:
            return 10.0
        earliest = self._next_eviction.get(zone, 0.0)
        if earliest > now:
            return earliest - now
        self._next_eviction[zone] = now + 1 / rate
        return 0.0

    async def _set_taints(self, node: Object, taints: list[Object]) -> None:
        body = {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "spec": {"taints": taints or None}}
        node.update((await self._writer.patch(object_key(NODES, node), body)).object())

    async def _record(self, key: str, uid: str, reason: str, message: str) -> None:
        await self._recorder.normal(_reference(key, uid), reason, f"Node {key} event: {message}")


def _reference(name: str, uid: str) -> Object:
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "uid": uid}}
