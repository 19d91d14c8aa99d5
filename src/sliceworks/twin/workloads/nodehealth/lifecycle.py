"""Watches over nodes: those not heard of become Unknown, those that are not ready get taints, and lose their pods in the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.conditions import condition
from sliceworks.base.errors import NotFound
from sliceworks.twin.controllers.events import Recorder
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.controllers.world import MERGE, controller_user
from sliceworks.twin.workloads.nodehealth import health
from sliceworks.twin.workloads.pods import PODS, Pods

if TYPE_CHECKING:
    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.workloads.nodehealth.health import Obj

NODES, LEASES = "/nodes", "coordination.k8s.io/leases"
_LEASE_NAMESPACE = "kube-node-lease"
_GRACE, _STARTUP_GRACE = 50.0, 60.0
_LEASE_SECONDS = 40.0
"""What a kubelet's lease says; a longer one asks to be waited for so much longer."""


@dataclass(slots=True)
class Seen:
    """What is known of a node: when it was heard of last, and how it was then."""

    uid: str
    at: float
    zone: str
    heartbeat: str = ""
    renewed: str = ""
    patience: float = 0.0
    ready: str = ""
    told: bool = False


class NodeLifecycle(Controller[str]):
    """Looks at a node when it changes and when it has not been heard of for too long."""

    workers = 4
    watches = frozenset({NODES, LEASES})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._pods = world.shared(Pods)
        self._user = controller_user("node-controller")
        self._recorder = Recorder(world, self._user, "node-controller")
        self._seen: dict[str, Seen] = {}
        self._zones: dict[str, dict[str, bool]] = {}
        self._well: set[str] = set()
        self._paced: dict[str, float] = {}
        self._gone: dict[str, str] = {}
        self._calm = True

    def observe(self, change: Change) -> None:
        if change.resource == NODES:
            self._observe_node(change)
        elif change.namespace == _LEASE_NAMESPACE and change.type != "DELETED":
            self._observe_lease(change.name, change.obj)

    def _observe_node(self, change: Change) -> None:
        name = change.name
        if change.type == "DELETED":
            seen = self._seen.pop(name, None)
            if seen is not None:
                self._zones.get(seen.zone, {}).pop(name, None)
                self._well.discard(name)
                self._gone[name] = seen.uid
            self.queue.add(name)
            return
        found = condition(change.obj, "Ready")
        seen = self._seen.get(name)
        if seen is None or seen.uid != change.obj["metadata"]["uid"]:
            seen = self._seen[name] = Seen(change.obj["metadata"]["uid"], clock.loop_time(), health.zone(change.obj))
        elif found.get("lastHeartbeatTime", "") != seen.heartbeat:
            seen.at = clock.loop_time()
        seen.heartbeat, seen.ready = found.get("lastHeartbeatTime", ""), found.get("status", "")
        self._zones.setdefault(seen.zone, {})[name] = seen.ready == "True"
        (self._well.add if seen.ready == "True" else self._well.discard)(name)
        self.queue.add(name)

    def _observe_lease(self, name: str, lease: Obj) -> None:
        seen, spec = self._seen.get(name), lease.get("spec") or {}
        if seen is not None and spec.get("renewTime", "") != seen.renewed:
            seen.renewed, seen.at = spec.get("renewTime", ""), clock.loop_time()
            patience = max(0.0, float(spec.get("leaseDurationSeconds") or 0) - _LEASE_SECONDS)
            if patience != seen.patience:
                seen.patience = patience
                self.queue.add(name)

    async def sync(self, key: str) -> None:
        seen, node = self._seen.get(key), self.world.get(NODES, "", key)
        if seen is None or node is None:
            if uid := self._gone.pop(key, ""):
                await self._tell(key, uid, "RemovingNode", f"Removing Node {key} from Controller")
            return
        # 1. A node that is new.
        if not seen.told:
            seen.told = True
            await self._tell(key, seen.uid, "RegisteredNode", f"Registered Node {key} in Controller")
        # 2. A node that has been silent for too long.
        node = await self._listen(key, seen, node)
        # 3. What its conditions ask for.
        await self._taint(key, node)
        await self._drive_away(key, seen, node)

    async def _listen(self, key: str, seen: Seen, node: Obj) -> Obj:
        grace = (_GRACE if seen.ready else _STARTUP_GRACE) + seen.patience
        left = seen.at + grace - clock.loop_time()
        if left > 0:
            self.queue.add_after(key, left + 0.001)
            return node
        conditions = health.silenced(node, clock.timestamp())
        if conditions == (node.get("status") or {}).get("conditions"):
            return node
        was_ready = seen.ready == "True"
        status = {**(node.get("status") or {}), "conditions": conditions}
        node = await self.world.send(self._user, "PUT", f"/api/v1/nodes/{key}/status", {**node, "status": status})
        if was_ready:
            await self._lose(key, node)
        return node

    async def _lose(self, key: str, node: Obj) -> None:
        await self._recorder.normal(_about(key, node["metadata"]["uid"]), "NodeNotReady", f"Node {key} status is now: NodeNotReady")
        for pod in list(self._pods.on(key)):
            if pod.ready:
                await self._unready(pod.namespace, pod.name)

    async def _unready(self, namespace: str, name: str) -> None:
        pod = self.world.get(PODS, namespace, name)
        if pod is None:
            return
        for each in pod["status"].get("conditions") or ():
            if each["type"] == "Ready" and each["status"] == "True":
                each.update({"status": "False", "lastTransitionTime": clock.timestamp()})
        try:
            await self.world.send(self._user, "PUT", f"/api/v1/namespaces/{namespace}/pods/{name}/status", pod)
        except NotFound:
            return
        await self._recorder.warning(pod, "NodeNotReady", "Node is not ready")

    async def _taint(self, key: str, node: Obj) -> None:
        taints = health.with_no_schedule(node, clock.timestamp())
        if taints != ((node.get("spec") or {}).get("taints") or []):
            await self._set_taints(key, node, taints)
        if labels := health.labels(node):
            await self.world.send(self._user, "PATCH", f"/api/v1/nodes/{key}", {"metadata": {"labels": labels}}, content_type=MERGE)

    async def _drive_away(self, key: str, seen: Seen, node: Obj) -> None:
        """Taint a node so that its pods leave, at a pace that spares a zone that is unwell as a whole."""
        taint = {"False": health.NOT_READY, "Unknown": health.UNREACHABLE}.get(health.readiness(node), "")
        if taint and not self._well:
            # When no node is well at all, it is more likely us who cannot hear them.
            taint = ""
            self._calm = False
        elif self._well and not self._calm:
            self._calm = True
            for name, other in self._seen.items():
                other.at = clock.loop_time()
                self.queue.add(name)
        taints = health.with_no_execute(node, taint, clock.timestamp())
        old = (node.get("spec") or {}).get("taints") or []
        if taints == old:
            return
        swaps = any(each["effect"] == "NoExecute" and each["key"] in (health.NOT_READY, health.UNREACHABLE) for each in old)
        if taint and not swaps and (wait := self._wait(seen.zone)) > 0:
            self.queue.add_after(key, wait)
            return
        await self._set_taints(key, node, taints)

    def _wait(self, zone: str) -> float:
        """Seconds until another node of a zone may lose its pods; taking its turn when it is now."""
        nodes = self._zones.get(zone, {})
        pace = health.pace(len(nodes), sum(1 for well in nodes.values() if not well))
        now = clock.loop_time()
        if not pace:
            return 10.0
        free = self._paced.get(zone, 0.0)
        if free > now:
            return free - now
        self._paced[zone] = now + 1 / pace
        return 0.0

    async def _set_taints(self, key: str, node: Obj, taints: list[Obj]) -> None:
        body = {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "spec": {"taints": taints or None}}
        found = await self.world.send(self._user, "PATCH", f"/api/v1/nodes/{key}", body, content_type=MERGE)
        node.update(found)

    async def _tell(self, key: str, uid: str, reason: str, words: str) -> None:
        await self._recorder.normal(_about(key, uid), reason, f"Node {key} event: {words}")


def _about(name: str, uid: str) -> Obj:
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "uid": uid}}
