"""The scheduler: follows the cluster and schedules pending pods one after the other."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import ApiError
from sliceworks.twin.apiserver.auth.authentication import AUTHENTICATED, User
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.resource_keys import CLAIMS, NODES, PODS, VOLUMES
from sliceworks.twin.scheduler.binder import Binder
from sliceworks.twin.scheduler.default_preemption import Preemption, preempt
from sliceworks.twin.scheduler.event_handlers import EventHandlers
from sliceworks.twin.scheduler.node_plugins import format_failure
from sliceworks.twin.scheduler.schedule_one import ScheduleResult, schedule_pod
from sliceworks.twin.scheduler.volume_binding import VolumeFilter

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext
    from sliceworks.twin.scheduler.pod_info import PodInfo, PodKey
    from sliceworks.twin.scheduler.pod_queue import QueuedPods
    from sliceworks.twin.scheduler.schedule_one import Unschedulable
    from sliceworks.twin.scheduler.volume_binding import VolumeBindings

log = logging.getLogger("sliceworks.twin.scheduler")
_USER = User("system:kube-scheduler", groups=(AUTHENTICATED,))
_SCHEDULE, _BIND = "schedule", "bind"
_VOLUME_RESOURCES = {PODS, NODES, CLAIMS, VOLUMES}
_BATCH_SIZE = 64
_RETRY_SECONDS = 1.0
# In a larger group of equal pods, a new message is reported for the first pod only.
_MAX_UPDATED = 16


class Scheduler(Controller[str]):
    """Schedules the pods of the default scheduler."""

    watches = EventHandlers.resources

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.handlers = EventHandlers()
        self.binder = Binder(context, _USER)
        self._waiting: dict[PodKey, tuple[PodInfo, str]] = {}
        """The pods whose volumes are being bound, with their nodes."""

    def observe(self, change: Change) -> None:
        self.handlers.observe(change)
        if self.handlers.queue.next() is not None:
            self.queue.add(_SCHEDULE)
        if self._waiting and change.resource in _VOLUME_RESOURCES:
            self.queue.add(_BIND)

    async def sync(self, key: str) -> None:
        """Schedule all active pods in batches, and write the results of each batch concurrently; or bind pods that waited."""
        if key == _BIND:
            await asyncio.gather(*(self._bind_if_ready(pod) for pod in list(self._waiting)))
            return
        while True:
            writes: list[Coroutine[Any, Any, None]] = []
            while len(writes) < _BATCH_SIZE and (group := self.handlers.queue.next()) is not None:
                writes += self._schedule_first(group)
            if not writes:
                self.handlers.compact()
                return
            await asyncio.gather(*writes)

    def _schedule_first(self, group: QueuedPods) -> list[Coroutine[Any, Any, None]]:
        """Schedule the first pod of a group; returns the writes to do."""
        pod = group.first
        handlers = self.handlers
        try:
            result = schedule_pod(pod, handlers.snapshot)
            preemption = self._preempt(pod, result)
        except Exception:
            # A pod that cannot be processed must not block the others.
            log.exception("failed to schedule pod %s/%s", *pod.key)
            handlers.queue.mark_unschedulable(group, frozenset())
            return []
        if isinstance(result, ScheduleResult):
            handlers.assume(pod, result.node)
            bindings = self._assume_volumes(pod, result.node)
            return [self._bind(pod, result.node) if bindings is None else self._bind_volumes(pod, result.node, bindings)]
        return self._handle_failure(group, pod, result, preemption)

    def _preempt(self, pod: PodInfo, result: ScheduleResult | Unschedulable) -> Preemption | str:
        """The victims for an unschedulable pod, or why preemption does not help; empty if it was not tried."""
        if isinstance(result, ScheduleResult) or not result.preemption_may_help:
            return ""
        return preempt(pod, self.handlers.snapshot, result, self.handlers.budgets.values())

    def _handle_failure(
        self, group: QueuedPods, pod: PodInfo, failure: Unschedulable, preemption: Preemption | str
    ) -> list[Coroutine[Any, Any, None]]:
        handlers = self.handlers
        if isinstance(preemption, Preemption):
            node = preemption.node.name
            handlers.nominate(pod, node, failure.failed_plugins)
            return [self.binder.preempt(pod, preemption, failure.message, handlers.lower_nominated(pod, node))]
        message = format_failure(failure.message, preemption)
        clears_nomination = bool(pod.nominated) and not preemption.startswith("not eligible")
        if clears_nomination:
            handlers.clear_nomination(pod)
        handlers.queue.mark_unschedulable(group, failure.failed_plugins)
        return [
            self.binder.report_unschedulable(other, message, is_new=is_new, clears_nomination=clears_nomination)
            for other, is_new in _pods_to_report(group, message)
        ]

    def _assume_volumes(self, pod: PodInfo, node: str) -> VolumeBindings | None:
        """Reserve the volumes of a pod, so that the next pod does not get them; None if all its claims are bound."""
        snapshot = self.handlers.snapshot
        bindings = VolumeFilter(pod, snapshot.volumes).bindings(snapshot.nodes[node]) if pod.claims else None
        if bindings is not None:
            self._waiting[pod.key] = pod, node
            snapshot.volumes.assume(bindings)
        return bindings

    async def _bind_volumes(self, pod: PodInfo, node: str, bindings: VolumeBindings) -> None:
        """Have the volumes of a pod bound; the pod is bound once they are."""
        try:
            await self.binder.bind_volumes(bindings)
        except ApiError as error:
            self._restore(bindings)
            del self._waiting[pod.key]
            self._retry_binding(pod, node, error)

    def _restore(self, bindings: VolumeBindings) -> None:
        """Undo what was assumed about volumes and claims that could not be written."""
        volumes = self.handlers.snapshot.volumes
        for volume in bindings.volumes:
            name = volume["metadata"]["name"]
            volumes.set_volume(name, self.context.get(VOLUMES, "", name))
        for claim in bindings.claims:
            key = claim["metadata"]["namespace"], claim["metadata"]["name"]
            if (current := self.context.get(CLAIMS, *key)) is not None:
                volumes.claims[key] = current

    async def _bind_if_ready(self, key: PodKey) -> None:
        """Bind a pod whose claims are bound; forget it if it was deleted or its node cannot have the volumes any more."""
        pod, node = self._waiting[key]
        snapshot = self.handlers.snapshot
        if snapshot.pods.get(key) is not pod:
            del self._waiting[key]
            return
        volumes = VolumeFilter(pod, snapshot.volumes)
        info = snapshot.nodes.get(node)
        problem = volumes.problem if info is not None else f'node "{node}" not found'
        if not problem and info is not None:
            if (status := volumes.filter(info)) is not None:
                problem = status.reasons[0]
            elif volumes.bindings(info) is not None:
                return
        del self._waiting[key]
        if problem:
            self._retry_binding(pod, node, ApiError(problem))
        else:
            await self._bind(pod, node)

    async def _bind(self, pod: PodInfo, node: str) -> None:
        try:
            await self.binder.bind(pod, node)
        except ApiError as error:
            self._retry_binding(pod, node, error)

    def _retry_binding(self, pod: PodInfo, node: str, error: ApiError) -> None:
        log.info("could not bind pod %s/%s to node %s: %s", *pod.key, node, error.message)
        self.handlers.forget_assumed(pod)
        asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._requeue, pod)

    def _requeue(self, pod: PodInfo) -> None:
        """Add a pod that could not be bound to the queue again, unless it was deleted or bound."""
        obj = self.context.get(PODS, *pod.key)
        if obj is not None:
            self.handlers.update_pod(obj)
            self.queue.add(_SCHEDULE)


def _pods_to_report(group: QueuedPods, message: str) -> list[tuple[PodInfo, bool]]:
    """The pods to report as unschedulable, and whether the message is new for each.

    These are the first pod, pods without a report so far, and in a small group all pods with another message.
    """
    first, is_small = group.first, len(group.pods) <= _MAX_UPDATED
    # A large group is tried again with every new node: skip the pods that all have a report.
    all_reported = len(group.last_message) == len(group.pods)
    pods = [first] if all_reported and not is_small else [pod for _, pod in group.pods.values()]
    reported = []
    for pod in pods:
        is_new = group.last_message.get(pod.key) != message
        if pod is first or pod.key not in group.last_message or (is_small and is_new):
            group.last_message[pod.key] = message
            reported.append((pod, is_new))
    return reported
