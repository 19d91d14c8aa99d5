"""The taint-eviction controller: deletes pods that do not tolerate a NoExecute taint."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.conditions import find_condition
from sliceworks.base.errors import NotFound
from sliceworks.kube.node_affinity import Tolerations, parse_taints
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import NamespacedName, ObjectKey, controller_user
from sliceworks.twin.controllers.runtime.pod_index import PodIndex
from sliceworks.twin.controllers.runtime.recorder import Recorder
from sliceworks.twin.controllers.runtime.resource_keys import NODES, PODS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.kube.node_affinity import Taint
    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext


class TaintEvictionController(Controller[NamespacedName]):
    """Deletes the pods of tainted nodes, after their tolerationSeconds if they have any."""

    workers = 8
    watches = frozenset({NODES, PODS})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = context.shared_index(PodIndex)
        user = controller_user("node-controller")
        self._writer, self._recorder = ApiWriter(context, user), Recorder(context, user, "taint-eviction-controller")
        self._taints: dict[str, tuple[Taint, ...]] = {}
        """The NoExecute taints of nodes."""
        self._tainted_since: dict[NamespacedName, float] = {}

    def observe(self, change: Change) -> None:
        if change.resource == NODES:
            spec = change.obj.get("spec") or {} if change.type != "DELETED" else {}
            taints = tuple(taint for taint in parse_taints(spec.get("taints") or ()) if taint[2] == "NoExecute")
            if taints == self._taints.get(change.name, ()):
                return
            if taints:
                self._taints[change.name] = taints
            else:
                self._taints.pop(change.name, None)
            for pod in self._pods.on_node(change.name):
                self.queue.add((pod.namespace, pod.name))
            return
        before, after = self._pods.before, self._pods.after
        if after is None:
            self._tainted_since.pop((change.namespace, change.name), None)
        elif after.node in self._taints and (before is None or before.node != after.node):
            self.queue.add((after.namespace, after.name))

    async def sync(self, key: NamespacedName) -> None:
        pod = self.context.get(PODS, *key)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            self._tainted_since.pop(key, None)
            return
        taints = self._taints.get((pod.get("spec") or {}).get("nodeName", ""), ())
        seconds = min_toleration_seconds((pod.get("spec") or {}).get("tolerations") or [], taints)
        if seconds is None:
            if self._tainted_since.pop(key, None) is not None:
                await self._record(key, f"Cancelling deletion of Pod {key[0]}/{key[1]}")
            return
        since = self._tainted_since.setdefault(key, clock.loop_time())
        remaining = since + seconds - clock.loop_time()
        if remaining > 0:
            self.queue.add_after(key, remaining)
            return
        await self._record(key, f"Marking for deletion Pod {key[0]}/{key[1]}")
        await self._evict(key, pod)

    async def _evict(self, key: NamespacedName, pod: Object) -> None:
        with suppress(NotFound):
            if set_disruption_target(pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"):
                await self._writer.update_status(PODS, pod)
            await self._writer.delete(ObjectKey(PODS, *key))

    async def _record(self, key: NamespacedName, message: str) -> None:
        pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": key[0], "name": key[1]}}
        await self._recorder.normal(pod, "TaintManagerEviction", message)


def min_toleration_seconds(tolerations: Iterable[Object], taints: Iterable[Taint]) -> float | None:
    """Seconds that a pod may stay on a node with these taints; None if it tolerates all of them indefinitely."""
    shortest: float | None = None
    for taint in taints:
        toleration = next((toleration for toleration in tolerations if Tolerations((toleration,)).tolerates(taint)), None)
        if toleration is None:
            return 0.0
        seconds = toleration.get("tolerationSeconds")
        if seconds is not None:
            shortest = max(0.0, float(seconds)) if shortest is None else min(shortest, max(0.0, float(seconds)))
    return shortest


def set_disruption_target(pod: Object, reason: str, message: str) -> bool:
    """Append the DisruptionTarget condition to a pod's status; False if it has it for this reason."""
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    current = find_condition(pod, "DisruptionTarget")
    if (current.get("status"), current.get("reason")) == ("True", reason):
        return False
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    condition["lastTransitionTime"] = clock.timestamp()
    if generation := pod["metadata"].get("generation"):
        condition["observedGeneration"] = generation
    if current:
        conditions.remove(current)
    conditions.append(condition)
    return True
