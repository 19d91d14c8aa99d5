"""The scheduler at work: follows the cluster, gives waiting pods a node one after the other, and says so in the API."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import ApiError
from sliceworks.twin.auth.identity import AUTHENTICATED, User
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.scheduler.decide import Placement, decide
from sliceworks.twin.scheduler.outcomes import Outcomes
from sliceworks.twin.scheduler.preemption import Preemption, preempt
from sliceworks.twin.scheduler.verdicts import sentence
from sliceworks.twin.scheduler.view import View

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.scheduler.decide import Unschedulable
    from sliceworks.twin.scheduler.pods import Pod
    from sliceworks.twin.scheduler.waiting import Lane

log = logging.getLogger("sliceworks.twin.scheduler")

_USER = User("system:kube-scheduler", groups=(AUTHENTICATED,))
_TURN = "turn"
_BATCH = 64
_RETRY_SECONDS = 1.0
# In a lane that is longer, only the first is told again when the reasons change.
_MOST_TOLD_AGAIN = 16


class Scheduler(Controller[str]):
    """Places the pods that name no other scheduler."""

    watches = View.resources

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.view = View()
        self.outcomes = Outcomes(world, _USER)

    def observe(self, change: Change) -> None:
        self.view.observe(change)
        if self.view.waiting.next() is not None:
            self.queue.add(_TURN)

    async def sync(self, key: str) -> None:
        """Decide for those who wait, some at a time, and carry out what was decided."""
        while True:
            work: list[Coroutine[Any, Any, None]] = []
            while len(work) < _BATCH and (lane := self.view.waiting.next()) is not None:
                work += self._try(lane)
            if not work:
                self.view.tidy()
                return
            await asyncio.gather(*work)

    def _try(self, lane: Lane) -> list[Coroutine[Any, Any, None]]:
        """Decide for the first of a lane; what is left to do comes back."""
        pod = lane.first
        view = self.view
        try:
            decision = decide(pod, view.snapshot)
            found = self._room_for(pod, decision)
        except Exception:
            # One pod that cannot be understood must not keep the others waiting.
            log.exception("no decision for %s/%s", *pod.key)
            view.waiting.park(lane, frozenset())
            return []
        if isinstance(decision, Placement):
            view.assume(pod, decision.node)
            return [self._bind(pod, decision.node)]
        return self._fail(lane, pod, decision, found)

    def _room_for(self, pod: Pod, decision: Placement | Unschedulable) -> Preemption | str:
        """Who could make room for a pod that has no place; else why nobody can, if that was looked at."""
        if isinstance(decision, Placement) or not decision.may_help:
            return ""
        return preempt(pod, self.view.snapshot, decision, self.view.budgets.values())

    def _fail(self, lane: Lane, pod: Pod, failure: Unschedulable, found: Preemption | str) -> list[Coroutine[Any, Any, None]]:
        view = self.view
        if isinstance(found, Preemption):
            view.nominate(pod, found.node.name, failure.rules)
            return [self.outcomes.preempt(pod, found, failure.message, view.outbid(pod, found.node.name))]
        message = sentence(failure.message, found)
        clears = bool(pod.nominated) and not found.startswith("not eligible")
        if clears:
            view.withdraw(pod)
        view.waiting.park(lane, failure.rules)
        return [self.outcomes.refuse(each, message, is_new=is_new, clears=clears) for each, is_new in _to_be_told(lane, message)]

    async def _bind(self, pod: Pod, node: str) -> None:
        try:
            await self.outcomes.bind(pod, node)
        except ApiError as error:
            log.info("%s/%s was not bound to %s: %s", *pod.key, node, error.message)
            self.view.take_back(pod)
            asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._again, pod)

    def _again(self, pod: Pod) -> None:
        """A pod that could not be bound waits again, unless it is gone or bound by now."""
        obj = self.world.get("/pods", *pod.key)
        if obj is not None:
            self.view.see_pod(obj)
            self.queue.add(_TURN)


def _to_be_told(lane: Lane, message: str) -> list[tuple[Pod, bool]]:
    """Who hears of a refusal, and whether it is news: the first, those who heard nothing so far, and all where they are few."""
    pods = [pod for _, pod in lane.pods.values()]
    few = len(pods) <= _MOST_TOLD_AGAIN
    found = []
    for pod in pods:
        is_new = lane.told.get(pod.key) != message
        if pod is pods[0] or pod.key not in lane.told or (few and is_new):
            lane.told[pod.key] = message
            found.append((pod, is_new))
    return found
