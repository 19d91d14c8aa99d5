"""ReplicaSets: so many pods of a template, no more and no less."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.kube.resources import controller_of
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.workloads.dependents import REPLICA_SETS, Dependents
from sliceworks.twin.workloads.hands import PHASES, PodHands, selector_of, slow_start
from sliceworks.twin.workloads.jobs.backoff import moment
from sliceworks.twin.workloads.pods import PODS, Pod, Pods
from sliceworks.twin.workloads.selecting import Selecting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from sliceworks.base.errors import ApiError
    from sliceworks.twin.controllers.world import World

_MOST_AT_ONCE = 500
Obj = dict[str, Any]
Key = tuple[str, str]


class ReplicaSets(Controller[Key]):
    """Makes and deletes pods until there are as many as wanted."""

    workers = 5
    watches = frozenset({REPLICA_SETS, PODS})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._pods, self._dependents = world.shared(Pods), world.shared(Dependents)
        self._hands = PodHands(world, "replicaset-controller", "replicaset-controller")
        self._selectors = Selecting()

    def observe(self, change: Change) -> None:
        if change.resource == REPLICA_SETS:
            if change.type == "DELETED":
                self._selectors.remove(change.namespace, change.name)
            elif (change.namespace, change.name) not in self._selectors:
                self._selectors.put(change.namespace, change.name, selector_of(change.obj))
            self.queue.add((change.namespace, change.name))
        else:
            self._observe_pod()

    def _observe_pod(self) -> None:
        before, after = self._pods.before, self._pods.after
        for pod in (before, after):
            if pod is not None and pod.owner_kind == "ReplicaSet":
                self.queue.add((pod.namespace, pod.owner_name))
        if (
            after is not None
            and not after.owner
            and after.labels
            and (before is None or before.labels != after.labels or before.owner)
        ):
            for name in self._selectors.matching(after.namespace, after.labels):
                self.queue.add((after.namespace, name))

    async def sync(self, key: Key) -> None:
        found = self.world.get(REPLICA_SETS, *key)
        if found is None:
            return
        # 1. Whose pods are these.
        mine = await self._hands.claim(found, self._pods, active_only=True)
        active = [pod for pod in mine if pod.active]
        # 2. As many as wanted.
        error: ApiError | None = None
        if not found["metadata"].get("deletionTimestamp"):
            error = await self._manage(found, active)
        # 3. What there is, as of before.
        now = clock.now()
        terminating = sum(1 for pod in mine if pod.terminating)
        status = status_of(found, active, terminating, error.message if error else "", now)
        if status != (found.get("status") or {}):
            path = f"/apis/apps/v1/namespaces/{key[0]}/replicasets/{key[1]}/status"
            await self.world.send(self._hands.user, "PUT", path, {**found, "status": status})
        if error is not None:
            raise error
        if (wait := next_available(active, min_ready(found), now)) is not None:
            self.queue.add_after(key, wait)

    async def _manage(self, found: Obj, active: list[Pod]) -> ApiError | None:
        surplus = len(active) - int(found["spec"].get("replicas", 1))
        if surplus < 0:
            template = found["spec"].get("template") or {}
            count = min(-surplus, _MOST_AT_ONCE)
            return (await slow_start(count, lambda _: self._hands.create(found, template)))[1]
        if surplus > 0:
            for pod in victims(active, self._related(found), min(surplus, _MOST_AT_ONCE), clock.now()):
                await self._hands.delete(found, pod)
        return None

    def _related(self, found: Obj) -> Iterable[Pod]:
        """The pods of all sets that belong to the same owner."""
        owner = controller_of(found)
        if owner is None:
            return self._pods.owned_by(found["metadata"]["uid"])
        sets = (self.world.get(REPLICA_SETS, *place) for place in self._dependents.owned_by(REPLICA_SETS, owner["uid"]))
        return [pod for each in sets if each is not None for pod in self._pods.owned_by(each["metadata"]["uid"])]


def min_ready(found: Mapping[str, Any]) -> int:
    return int(found["spec"].get("minReadySeconds") or 0)


def is_available(pod: Pod, least: int, now: datetime) -> bool:
    """Whether a pod has been ready for long enough."""
    if not pod.ready or not least:
        return pod.ready
    return pod.ready_at != "-" and (now - moment(pod.ready_at)).total_seconds() >= least


def next_available(pods: Iterable[Pod], least: int, now: datetime) -> float | None:
    """Seconds until the next pod will have been ready for long enough."""
    if not least:
        return None
    waits = [least - (now - moment(pod.ready_at)).total_seconds() for pod in pods if pod.ready and pod.ready_at != "-"]
    return min((wait for wait in waits if wait > 0), default=None)


def status_of(found: Obj, active: list[Pod], terminating: int, error: str, now: datetime) -> Obj:
    """The status of a set with these pods."""
    wanted = (found["spec"].get("template") or {}).get("metadata", {}).get("labels") or {}
    least = min_ready(found)
    counts = {
        "fullyLabeledReplicas": sum(1 for pod in active if wanted.items() <= pod.labels.items()),
        "readyReplicas": sum(1 for pod in active if pod.ready),
        "availableReplicas": sum(1 for pod in active if is_available(pod, least, now)),
        "observedGeneration": found["metadata"].get("generation", 0),
    }
    status: Obj = {"replicas": len(active), **{name: count for name, count in counts.items() if count}}
    status["terminatingReplicas"] = terminating
    conditions = _conditions(found, len(active), error)
    return {**status, "conditions": conditions} if conditions else status


def _conditions(found: Obj, active: int, error: str) -> list[Obj]:
    conditions: list[Obj] = (found.get("status") or {}).get("conditions") or []
    failing = any(each["type"] == "ReplicaFailure" for each in conditions)
    if error and not failing:
        reason = "FailedCreate" if active < int(found["spec"].get("replicas", 1)) else "FailedDelete"
        failure = {"type": "ReplicaFailure", "status": "True", "reason": reason, "message": error}
        return [*conditions, {**failure, "lastTransitionTime": clock.timestamp()}]
    if not error and failing:
        return [each for each in conditions if each["type"] != "ReplicaFailure"]
    return conditions


def victims(active: list[Pod], related: Iterable[Pod], count: int, now: datetime) -> list[Pod]:
    """The pods that are missed least: those of least use, then those that share their node with most of their like."""
    if count >= len(active):
        return active
    neighbours: dict[str, int] = {}
    for pod in related:
        if pod.active:
            neighbours[pod.node] = neighbours.get(pod.node, 0) + 1

    def compare(one: Pod, other: Pod) -> int:
        for mine, its in zip(_usefulness(one, neighbours), _usefulness(other, neighbours), strict=True):
            if mine != its:
                return -1 if mine < its else 1
        return _younger(one, other, now)

    return sorted(active, key=functools.cmp_to_key(compare))[:count]


def _usefulness(pod: Pod, neighbours: Mapping[str, int]) -> tuple[int, ...]:
    return (bool(pod.node), PHASES.get(pod.phase, 0), pod.ready, pod.cost, -neighbours.get(pod.node, 0))


def _younger(one: Pod, other: Pod, now: datetime) -> int:
    """Which goes first of two that are alike: the younger, where ages of the same magnitude count as equal."""
    if one.ready and one.ready_at != other.ready_at:
        return _by_age(one, other, one.ready_at, other.ready_at, now)
    if one.restarts != other.restarts:
        return -1 if one.restarts > other.restarts else 1
    return _by_age(one, other, one.created, other.created, now) if one.created != other.created else 0


def _by_age(one: Pod, other: Pod, mine: str, its: str, now: datetime) -> int:
    difference = _magnitude(mine, now) - _magnitude(its, now)
    if difference:
        return difference
    return -1 if one.uid < other.uid else 1


def _magnitude(time: str, now: datetime) -> int:
    age = (now - moment(time)).total_seconds() * 1e9 if time != "-" else 0.0
    return int(math.log2(age)) if age > 0 else -1
