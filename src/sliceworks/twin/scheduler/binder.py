"""Writes decisions to the API: binding, the PodScheduled condition, preemption, and events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import ApiError
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller_context import STRATEGIC_MERGE_PATCH, ObjectKey
from sliceworks.twin.controllers.runtime.recorder import SeriesRecorder
from sliceworks.twin.controllers.runtime.resource_keys import CLAIMS, PODS, VOLUMES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.twin.apiserver.auth.authentication import User
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext
    from sliceworks.twin.scheduler.default_preemption import Preemption
    from sliceworks.twin.scheduler.pod_info import PodInfo
    from sliceworks.twin.scheduler.volume_binding import VolumeBindings

    Condition = dict[str, Any]

COMPONENT = "default-scheduler"
_USER_AGENT = "kube-scheduler"
_MAX_NOTE = 1024


def _reference(pod: PodInfo) -> dict[str, str]:
    return {
        "kind": "Pod",
        "namespace": pod.key[0],
        "name": pod.key[1],
        "uid": pod.uid,
        "apiVersion": "v1",
        "resourceVersion": pod.resource_version,
    }


class Binder:
    """Writes the scheduler's decisions as its user."""

    def __init__(self, context: ControllerContext, user: User) -> None:
        self._context = context
        self._writer = ApiWriter(context, user, user_agent=_USER_AGENT)
        self._recorder = SeriesRecorder(context, user, COMPONENT, COMPONENT, user_agent=_USER_AGENT)

    async def bind(self, pod: PodInfo, node: str) -> None:
        """Bind a pod to a node."""
        namespace, name = pod.key
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": pod.uid},
            "target": {"kind": "Node", "name": node},
        }
        await self._writer.create_subresource(_key(pod), "binding", body)
        regarding, message = _reference(pod), f"Successfully assigned {namespace}/{name} to {node}"
        self._recorder.forget(regarding, "FailedScheduling")
        await self._recorder.event(regarding, "Normal", "Scheduled", "Binding", message)

    async def bind_volumes(self, bindings: VolumeBindings) -> None:
        """Reserve volumes for claims, and name the node of claims whose volumes must be provisioned there."""
        for volume in bindings.volumes:
            await self._writer.update(VOLUMES, volume)
        for claim in bindings.claims:
            await self._writer.update(CLAIMS, claim)

    async def report_unschedulable(self, pod: PodInfo, message: str, *, is_new: bool, clears_nomination: bool) -> None:
        """Record why a pod is unschedulable, and write its condition if the message is new or its nomination is cleared."""
        await self._record_failure(pod, message)
        if is_new or clears_nomination:
            condition = _condition(pod, "PodScheduled", "False", "Unschedulable", message)
            await self._patch_status(pod, condition, **({"nominatedNodeName": None} if clears_nomination else {}))

    async def preempt(self, pod: PodInfo, preemption: Preemption, message: str, lower_nominated: Iterable[PodInfo]) -> None:
        """Nominate a node for a pod, clear the nominations of lower priority there, and evict the victims."""
        await self._record_failure(pod, message)
        condition = _condition(pod, "PodScheduled", "False", "Unschedulable", message)
        await self._patch_status(pod, condition, nominatedNodeName=preemption.node.name)
        for other in lower_nominated:
            await self._patch_status(other, None, nominatedNodeName=None)
        for victim in preemption.victims:
            if not victim.terminating:
                await self._evict(victim, pod, preemption.node.name)

    async def _record_failure(self, pod: PodInfo, message: str) -> None:
        note = message if len(message) <= _MAX_NOTE else message[: _MAX_NOTE - 4] + " ..."
        await self._recorder.event(_reference(pod), "Warning", "FailedScheduling", "Scheduling", note)

    async def _evict(self, victim: PodInfo, preemptor: PodInfo, node: str) -> None:
        message = f"{COMPONENT}: preempting to accommodate a higher priority pod"
        condition = _condition(victim, "DisruptionTarget", "True", "PreemptionByScheduler", message)
        await self._patch_status(victim, condition)
        if await self._writer.delete_if_exists(_key(victim)):
            note = f"Preempted by pod {preemptor.uid} on node {node}"
            await self._recorder.event(_reference(victim), "Normal", "Preempted", "Preempting", note, _reference(preemptor))

    async def _patch_status(self, pod: PodInfo, condition: Condition | None, **fields: str | None) -> None:
        """Patch a pod's status; a deleted or replaced pod is ignored."""
        status: dict[str, Any] = dict(fields)
        if condition is not None:
            obj = self._context.get(PODS, *pod.key) or {}
            conditions = (obj.get("status") or {}).get("conditions") or ()
            status.update(_condition_patch(condition, {current["type"]: current for current in conditions}))
        if not status:
            return
        body = {"metadata": {"uid": pod.uid}, "status": status}
        try:
            await self._writer.patch(_key(pod), body, "status", content_type=STRATEGIC_MERGE_PATCH)
        except ApiError:
            return


def _condition_patch(condition: Condition, current: dict[str, Condition]) -> dict[str, Any]:
    """The strategic merge patch that sets a condition: the order is kept, and the time changes only with the status."""
    before = current.get(condition["type"], {})
    if before.get("status") == condition["status"]:
        condition["lastTransitionTime"] = before.get("lastTransitionTime")
    if before == condition:
        return {}
    order = [{"type": kind} for kind in dict.fromkeys((*current, condition["type"]))]
    return {"conditions": [condition], "$setElementOrder/conditions": order}


def _condition(pod: PodInfo, kind: str, status: str, reason: str, message: str) -> Condition:
    return {
        "type": kind,
        "observedGeneration": pod.generation,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": clock.timestamp(),
        "reason": reason,
        "message": message,
    }


def _key(pod: PodInfo) -> ObjectKey:
    return ObjectKey(PODS, *pod.key)
