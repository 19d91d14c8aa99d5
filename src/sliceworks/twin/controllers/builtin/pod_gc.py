"""The pod garbage collector: pods of deleted nodes, terminating pods that were never scheduled, and the oldest finished ones."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import NotFound
from sliceworks.twin.controllers.builtin.pod_control import pod_key
from sliceworks.twin.controllers.builtin.taint_eviction import set_disruption_target
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import STRATEGIC_MERGE_PATCH, NamespacedName, controller_user
from sliceworks.twin.controllers.runtime.pod_index import Pod, PodIndex
from sliceworks.twin.controllers.runtime.resource_keys import NODES, PODS

if TYPE_CHECKING:
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_USER = controller_user("pod-garbage-collector")
_QUARANTINE_SECONDS = 40.0
"""How long a node must be missing before its pods are deleted: it may be created again."""
_SURPLUS: NamespacedName = ("", "")
"""The key of all finished pods."""
_SURPLUS_SECONDS = 20.0
_UNSCHEDULED_SECONDS = 20.0
"""The delay before a terminating pod without a node is deleted."""


class PodGCController(Controller[NamespacedName]):
    """Deletes the pods of missing nodes, terminating pods that were never scheduled, and the oldest of too many finished pods."""

    workers = 4
    max_finished = 12_500
    watches = frozenset({NODES, PODS})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = context.shared_index(PodIndex)
        self._nodes: set[str] = set()
        self._missing: dict[str, float] = {}
        """When nodes were first seen missing."""
        self._finished: dict[NamespacedName, str] = {}
        """The finished pods, and when they were created."""
        self._writer = ApiWriter(context, _USER)

    def observe(self, change: Change) -> None:
        if change.resource == PODS:
            before, after = self._pods.before, self._pods.after
            if after is None:
                self._finished.pop((change.namespace, change.name), None)
                return
            if after.finished:
                self._finished[after.namespace, after.name] = after.created
                if len(self._finished) > self.max_finished:
                    self.queue.add_after(_SURPLUS, _SURPLUS_SECONDS)
            on_missing_node = after.node and after.node not in self._nodes and (before is None or before.node != after.node)
            if on_missing_node or (after.deleting and not after.node):
                self._enqueue(after)
        elif change.type == "DELETED":
            self._nodes.discard(change.name)
            for pod in self._pods.on_node(change.name):
                self._enqueue(pod)
        else:
            self._nodes.add(change.name)
            self._missing.pop(change.name, None)

    def _enqueue(self, pod: Pod) -> None:
        if pod.node:
            self._missing.setdefault(pod.node, clock.loop_time())
        self.queue.add_after((pod.namespace, pod.name), _QUARANTINE_SECONDS if pod.node else _UNSCHEDULED_SECONDS)

    async def _delete_surplus(self) -> None:
        """Force-delete the oldest finished pods beyond the limit."""
        oldest = sorted(self._finished, key=lambda key: (self._finished[key], key[1]))
        for key in oldest[: max(len(oldest) - self.max_finished, 0)]:
            if (pod := self._pods.get(*key)) is not None:
                await self._force_delete(pod)
            self._finished.pop(key, None)

    async def sync(self, key: NamespacedName) -> None:
        if key == _SURPLUS:
            await self._delete_surplus()
            return
        pod = self._pods.get(*key)
        if pod is None or (pod.node in self._nodes if pod.node else not pod.deleting):
            return
        if pod.node:
            now = clock.loop_time()
            remaining = self._missing.setdefault(pod.node, now) + _QUARANTINE_SECONDS - now
            if remaining > 0:
                self.queue.add_after(key, remaining)
                return
        await self._force_delete(pod)

    async def _force_delete(self, pod: Pod) -> None:
        obj = self.context.get(PODS, pod.namespace, pod.name)
        if obj is None:
            return
        status: dict[str, Any] = {} if pod.finished else {"phase": "Failed"}
        if pod.node and set_disruption_target(obj, "DeletionByPodGC", "PodGC: node no longer exists"):
            status["conditions"] = obj["status"]["conditions"][-1:]
        body = {"metadata": {"uid": pod.uid}, "status": status}
        with suppress(NotFound):
            if status:
                await self._writer.patch(pod_key(pod), body, "status", content_type=STRATEGIC_MERGE_PATCH)
            await self._writer.delete(pod_key(pod), {"gracePeriodSeconds": 0})
