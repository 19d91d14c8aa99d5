"""Deletes pods from nodes whose taints they do not tolerate, at once or when their patience ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import NotFound
from sliceworks.twin.controllers.events import Recorder
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.controllers.world import controller_user
from sliceworks.twin.workloads.nodehealth.lifecycle import NODES
from sliceworks.twin.workloads.pods import PODS, Pods

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.workloads.nodehealth.health import Obj

Key = tuple[str, str]


class TaintEviction(Controller[Key]):
    """Looks at the pods of a node whenever its taints change."""

    workers = 8
    watches = frozenset({NODES, PODS})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._pods = world.shared(Pods)
        self._user = controller_user("node-controller")
        self._recorder = Recorder(world, self._user, "taint-eviction-controller")
        self._taints: dict[str, list[Obj]] = {}
        self._since: dict[Key, float] = {}

    def observe(self, change: Change) -> None:
        if change.resource == NODES:
            spec = change.obj.get("spec") or {} if change.type != "DELETED" else {}
            taints = [each for each in spec.get("taints") or () if each.get("effect") == "NoExecute"]
            if taints == self._taints.get(change.name, []):
                return
            if taints:
                self._taints[change.name] = taints
            else:
                self._taints.pop(change.name, None)
            for pod in self._pods.on(change.name):
                self.queue.add((pod.namespace, pod.name))
            return
        before, after = self._pods.before, self._pods.after
        if after is None:
            self._since.pop((change.namespace, change.name), None)
        elif after.node in self._taints and (before is None or before.node != after.node):
            self.queue.add((after.namespace, after.name))

    async def sync(self, key: Key) -> None:
        pod = self.world.get(PODS, *key)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            self._since.pop(key, None)
            return
        taints = self._taints.get((pod.get("spec") or {}).get("nodeName", ""), [])
        patience = tolerance((pod.get("spec") or {}).get("tolerations") or [], taints)
        if patience is None:
            if self._since.pop(key, None) is not None:
                await self._tell(key, f"Cancelling deletion of Pod {key[0]}/{key[1]}")
            return
        since = self._since.setdefault(key, clock.loop_time())
        left = since + patience - clock.loop_time()
        if left > 0:
            self.queue.add_after(key, left)
            return
        await self._tell(key, f"Marking for deletion Pod {key[0]}/{key[1]}")
        await self._evict(key, pod)

    async def _evict(self, key: Key, pod: Obj) -> None:
        path = f"/api/v1/namespaces/{key[0]}/pods/{key[1]}"
        words = {"reason": "DeletionByTaintManager", "message": "Taint manager: deleting due to NoExecute taint"}
        try:
            if mark_disrupted(pod, **words):
                await self.world.send(self._user, "PUT", f"{path}/status", pod)
            await self.world.send(self._user, "DELETE", path)
        except NotFound:
            return

    async def _tell(self, key: Key, words: str) -> None:
        about = {"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": key[0], "name": key[1]}}
        await self._recorder.normal(about, "TaintManagerEviction", words)


def tolerance(tolerations: Iterable[Obj], taints: list[Obj]) -> float | None:
    """How many seconds a pod stays on a node with these taints: none when it does not tolerate one, None when it stays for good."""
    patience: float | None = None
    for taint in taints:
        fitting = [each for each in tolerations if tolerates(each, taint)]
        if not fitting:
            return 0.0
        for seconds in (each.get("tolerationSeconds") for each in fitting[:1]):
            if seconds is not None:
                patience = max(0.0, float(seconds)) if patience is None else min(patience, max(0.0, float(seconds)))
    return patience


def tolerates(toleration: Obj, taint: Obj) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]) or toleration.get("key") not in (None, "", taint["key"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def mark_disrupted(pod: Obj, *, reason: str, message: str) -> bool:
    """Write into a pod's status why it is about to go; False when it says so already."""
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    found = next((each for each in conditions if each["type"] == "DisruptionTarget"), None)
    if found is not None and found["status"] == "True" and found.get("reason") == reason:
        return False
    wanted = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    wanted["lastTransitionTime"] = clock.timestamp()
    if generation := pod["metadata"].get("generation"):
        wanted["observedGeneration"] = generation
    if found is not None:
        conditions.remove(found)
    conditions.append(wanted)
    return True
