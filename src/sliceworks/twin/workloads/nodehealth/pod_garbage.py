"""Ends pods that no node will: those whose node is gone for good, and those that were to go before they had one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import NotFound
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.controllers.world import STRATEGIC, controller_user
from sliceworks.twin.workloads.nodehealth.eviction import mark_disrupted
from sliceworks.twin.workloads.nodehealth.lifecycle import NODES
from sliceworks.twin.workloads.pods import PODS, Pod, Pods

if TYPE_CHECKING:
    from sliceworks.twin.controllers.world import World

_USER = controller_user("pod-garbage-collector")
_QUARANTINE = 40.0
"""Seconds that a node has to be gone: it may come back."""
_UNPLACED = 20.0
"""Seconds in which a pod that has no node is looked at."""

Key = tuple[str, str]


class PodGarbage(Controller[Key]):
    """Looks at the pods of nodes that are not there."""

    workers = 4
    watches = frozenset({NODES, PODS})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._pods = world.shared(Pods)
        self._nodes: set[str] = set()
        self._missing: dict[str, float] = {}

    def observe(self, change: Change) -> None:
        if change.resource == PODS:
            before, after = self._pods.before, self._pods.after
            if after is None:
                return
            placed = after.node and after.node not in self._nodes and (before is None or before.node != after.node)
            if placed or (after.deleting and not after.node):
                self._wait(after)
        elif change.type == "DELETED":
            self._nodes.discard(change.name)
            for pod in self._pods.on(change.name):
                self._wait(pod)
        else:
            self._nodes.add(change.name)
            self._missing.pop(change.name, None)

    def _wait(self, pod: Pod) -> None:
        if pod.node:
            self._missing.setdefault(pod.node, clock.loop_time())
        self.queue.add_after((pod.namespace, pod.name), _QUARANTINE if pod.node else _UNPLACED)

    async def sync(self, key: Key) -> None:
        pod = self._pods.get(*key)
        if pod is None or (pod.node in self._nodes if pod.node else not pod.deleting):
            return
        left = self._missing.setdefault(pod.node, clock.loop_time()) + _QUARANTINE - clock.loop_time() if pod.node else 0.0
        if left > 0:
            self.queue.add_after(key, left)
            return
        await self._end(key, pod)

    async def _end(self, key: Key, pod: Pod) -> None:
        found = self.world.get(PODS, *key)
        if found is None:
            return
        path = f"/api/v1/namespaces/{key[0]}/pods/{key[1]}"
        words = {"reason": "DeletionByPodGC", "message": "PodGC: node no longer exists"}
        status: dict[str, Any] = {} if pod.ended else {"phase": "Failed"}
        if pod.node and mark_disrupted(found, **words):
            status["conditions"] = found["status"]["conditions"][-1:]
        body = {"metadata": {"uid": pod.uid}, "status": status}
        try:
            if status:
                await self.world.send(_USER, "PATCH", f"{path}/status", body, content_type=STRATEGIC)
            await self.world.send(_USER, "DELETE", path, {"gracePeriodSeconds": 0})
        except NotFound:
            return
