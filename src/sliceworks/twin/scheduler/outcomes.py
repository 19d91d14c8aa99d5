"""What a decision becomes in the API: a binding, a condition that tells why not, or pods that make room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import ApiError, NotFound
from sliceworks.twin.scheduler.recorder import COMPONENT, Recorder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.twin.auth.identity import User
    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.scheduler.pods import Pod
    from sliceworks.twin.scheduler.preemption import Preemption

Condition = dict[str, Any]
_STRATEGIC = "application/strategic-merge-patch+json"
_AGENT = "kube-scheduler"


class Outcomes:
    """Carries out decisions as the scheduler's user."""

    def __init__(self, world: World, user: User) -> None:
        self._world = world
        self._user = user
        self._events = Recorder(world, user)

    async def bind(self, pod: Pod, node: str) -> None:
        """Put a pod on its node."""
        namespace, name = pod.key
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": pod.uid},
            "target": {"kind": "Node", "name": node},
        }
        await self._send("POST", f"{_path(pod)}/binding", body)
        self._events.forget(pod)
        await self._events.normal(pod, "Scheduled", "Binding", f"Successfully assigned {namespace}/{name} to {node}")

    async def refuse(self, pod: Pod, message: str, *, is_new: bool, clears: bool) -> None:
        """Tell a pod why it has no node; `clears` takes its nomination away."""
        await self._events.warning(pod, "FailedScheduling", "Scheduling", message)
        if is_new or clears:
            condition = _condition(pod, "PodScheduled", "False", "Unschedulable", message)
            await self._patch(pod, condition, **({"nominatedNodeName": None} if clears else {}))

    async def preempt(self, pod: Pod, found: Preemption, message: str, outbid: Iterable[Pod]) -> None:
        """Tell a pod where room is made for it, and make it."""
        await self._events.warning(pod, "FailedScheduling", "Scheduling", message)
        condition = _condition(pod, "PodScheduled", "False", "Unschedulable", message)
        await self._patch(pod, condition, nominatedNodeName=found.node.name)
        for other in outbid:
            await self._patch(other, None, nominatedNodeName=None)
        for victim in found.victims:
            if not victim.terminating:
                await self._evict(victim, pod, found.node.name)

    async def _evict(self, victim: Pod, preemptor: Pod, node: str) -> None:
        message = f"{COMPONENT}: preempting to accommodate a higher priority pod"
        condition = _condition(victim, "DisruptionTarget", "True", "PreemptionByScheduler", message)
        await self._patch(victim, condition)
        try:
            await self._send("DELETE", _path(victim), None)
        except NotFound:
            return
        note = f"Preempted by pod {preemptor.uid} on node {node}"
        await self._events.normal(victim, "Preempted", "Preempting", note, preemptor)

    async def _patch(self, pod: Pod, condition: Condition | None, **fields: str | None) -> None:
        """Change a pod's status; one that is gone or another by now needs no word."""
        status: dict[str, Any] = dict(fields)
        obj = self._world.get("/pods", *pod.key) or {}
        if condition is not None:
            known = (obj.get("status") or {}).get("conditions") or ()
            status.update(_among(condition, {one["type"]: one for one in known}))
        if not status:
            return
        body = {"metadata": {"uid": pod.uid}, "status": status}
        try:
            await self._send("PATCH", f"{_path(pod)}/status", body, content_type=_STRATEGIC)
        except ApiError:
            return

    async def _send(self, method: str, path: str, body: dict[str, Any] | None, **options: str) -> None:
        await self._world.tell(self._user, method, path, body, user_agent=_AGENT, **options)


def _among(condition: Condition, known: dict[str, Condition]) -> dict[str, Any]:
    """The patch that brings a condition among those that stand: they keep their order, and its time changes with its status."""
    before = known.get(condition["type"], {})
    if before.get("status") == condition["status"]:
        condition["lastTransitionTime"] = before.get("lastTransitionTime")
    if before == condition:
        return {}
    order = [{"type": kind} for kind in dict.fromkeys((*known, condition["type"]))]
    return {"conditions": [condition], "$setElementOrder/conditions": order}


def _condition(pod: Pod, kind: str, status: str, reason: str, message: str) -> Condition:
    return {
        "type": kind,
        "observedGeneration": pod.generation,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": clock.timestamp(),
        "reason": reason,
        "message": message,
    }


def _path(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod.key[0]}/pods/{pod.key[1]}"
