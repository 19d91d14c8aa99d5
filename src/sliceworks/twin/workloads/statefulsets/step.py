"""One look at a StatefulSet: what to do next, and its status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sliceworks.twin.workloads.replicasets import is_available, min_ready
from sliceworks.twin.workloads.statefulsets import identity

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.twin.workloads.pods import Pod
    from sliceworks.twin.workloads.statefulsets.identity import Obj


class Hands(Protocol):
    """Who does what is decided here."""

    async def create(self, found: Obj, template: Obj, number: int, revision: str) -> None: ...
    async def make_claims(self, found: Obj, number: int) -> None: ...
    async def own_claims(self, found: Obj, number: int) -> None: ...
    async def delete(self, found: Obj, pod: Pod) -> None: ...
    async def rename(self, pod: Pod) -> None: ...


class Step:
    """One look at a set: what it has, what to do next, and its status."""

    def __init__(self, hands: Hands, found: Obj, revisions: tuple[Obj, Obj], pods: list[Pod], now: datetime) -> None:
        self._hands, self._found, self._pods, self.now = hands, found, pods, now
        self._current, self._update = revisions
        self._least, self._burst = min_ready(found), found["spec"].get("podManagementPolicy") == "Parallel"
        numbers = identity.numbers(found)
        by_number = {identity.ordinal(pod.name): pod for pod in pods}
        self._replicas = {number: by_number.get(number) for number in numbers}
        self._condemned = [by_number[number] for number in sorted(by_number, reverse=True) if number >= 0 and number not in numbers]
        self._updating = 0

    async def take(self) -> None:
        """Make what is missing, then delete what is too much, then delete what is of an older template."""
        for number, pod in self._replicas.items():
            if await self._keep(number, pod) and not self._burst:
                return
        for pod in self._condemned:
            await self._hands.own_claims(self._found, identity.ordinal(pod.name))
        for pod in self._condemned:
            if await self._condemn(pod) and not self._burst:
                return
        await self._roll()

    async def _keep(self, number: int, pod: Pod | None) -> bool:
        """Whether nothing more can be done because of this pod."""
        if pod is None:
            await self._create(number)
            return True
        if pod.ended:
            if not pod.deleting:
                await self._hands.delete(self._found, pod)
            return True
        if pod.phase == "Pending":
            await self._hands.make_claims(self._found, number)
            await self._hands.own_claims(self._found, number)
        if not self._burst and not self._is_fine(pod):
            return True
        if pod.labels.get(identity.NAME) != pod.name:
            await self._hands.rename(pod)
        await self._hands.own_claims(self._found, number)
        return False

    async def _create(self, number: int) -> None:
        strategy = self._found["spec"].get("updateStrategy") or {}
        start = identity.numbers(self._found).start
        rolling = strategy.get("rollingUpdate")
        if rolling is None:
            kept = int((self._found.get("status") or {}).get("currentReplicas") or 0) if _is_rolling(self._found) else 0
        else:
            kept = int(rolling.get("partition") or 0)
        revision = self._current if number < start + kept else self._update
        template = identity.template_of(revision)
        await self._hands.create(self._found, template, number, revision["metadata"]["name"])

    async def _condemn(self, pod: Pod) -> bool:
        if pod.deleting:
            return True
        if not self._burst and not self._is_fine(pod) and pod is not self._first_unfit():
            return True
        await self._hands.delete(self._found, pod)
        return True

    def _first_unfit(self) -> Pod | None:
        there = [*(pod for pod in self._replicas.values() if pod is not None), *reversed(self._condemned)]
        return next((pod for pod in there if not self._is_fine(pod)), None)

    async def _roll(self) -> None:
        strategy = self._found["spec"].get("updateStrategy") or {}
        if not _is_rolling(self._found):
            return
        first = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
        for pod in reversed(list(self._replicas.values())[first:]):
            if pod is None:
                return
            if pod.labels.get(identity.REVISION) != self._update["metadata"]["name"] and not pod.deleting:
                await self._hands.delete(self._found, pod)
                self._updating = 1
                return
            if not self._is_fine(pod):
                return

    def _is_fine(self, pod: Pod) -> bool:
        return not pod.deleting and pod.phase == "Running" and is_available(pod, self._least, self.now)

    def status(self, collisions: int) -> Obj:
        """The set's status by the pods that it had when it was looked at."""
        there = [pod for pod in (*self._replicas.values(), *self._condemned) if pod is not None and pod.phase]
        running = [pod for pod in there if pod.ready and pod.phase == "Running"]
        current, update = self._current["metadata"]["name"], self._update["metadata"]["name"]
        revisions = [pod.labels.get(identity.REVISION) for pod in there if not pod.deleting]
        counts = {
            "readyReplicas": len(running),
            "currentReplicas": revisions.count(current) - self._updating,
            "updatedReplicas": revisions.count(update),
        }
        replicas, wanted = len(there), len(identity.numbers(self._found))
        if _is_rolling(self._found) and counts["updatedReplicas"] == counts["readyReplicas"] == replicas == wanted:
            counts["currentReplicas"], current = counts["updatedReplicas"], update
        return {
            "observedGeneration": self._found["metadata"].get("generation", 0),
            "replicas": replicas,
            **{name: count for name, count in counts.items() if count},
            "availableReplicas": sum(1 for pod in running if is_available(pod, self._least, self.now)),
            "currentRevision": current,
            "updateRevision": update,
            "collisionCount": collisions,
        }


def _is_rolling(found: Obj) -> bool:
    return bool((found["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate") == "RollingUpdate")
