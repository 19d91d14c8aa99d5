"""PodDisruptionBudgets: how many of the pods they select may be missing, and how many are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import ApiError
from sliceworks.kube.resources import controller_of
from sliceworks.twin.controllers.events import Recorder
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.controllers.world import controller_user
from sliceworks.twin.workloads.dependents import REPLICA_SETS
from sliceworks.twin.workloads.deployments.controller import DEPLOYMENTS
from sliceworks.twin.workloads.deployments.numbers import scaled, wanted
from sliceworks.twin.workloads.hands import selector_of
from sliceworks.twin.workloads.jobs.backoff import moment
from sliceworks.twin.workloads.pods import PODS, Pod, Pods
from sliceworks.twin.workloads.selecting import Selecting
from sliceworks.twin.workloads.statefulsets.controller import STATEFUL_SETS

if TYPE_CHECKING:
    from sliceworks.twin.controllers.world import World

BUDGETS = "policy/poddisruptionbudgets"
_USER = controller_user("disruption-controller")
_PATIENCE = 120.0
"""Seconds in which a pod whose eviction was granted has to be gone."""

Obj = dict[str, Any]
Key = tuple[str, str]


class Uncountable(Exception):
    """How many pods there should be cannot be known."""


class Disruption(Controller[Key]):
    """Counts anew whenever a budget, one of its pods or the size of their controllers changes."""

    watches = frozenset({BUDGETS, PODS, REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._pods = world.shared(Pods)
        self._recorder = Recorder(world, _USER, "controllermanager")
        self._selectors = Selecting()
        self._members: dict[Key, dict[str, None]] = {}

    def observe(self, change: Change) -> None:
        if change.resource == BUDGETS:
            self._observe_budget(change)
        elif not self._members:
            return
        elif change.resource == PODS:
            before, after = self._pods.before, self._pods.after
            if before is not None:
                self._move(before, there=False)
            if after is not None:
                self._move(after)
        else:
            uid = change.obj["metadata"]["uid"]
            for pod in list(self._pods.owned_by(uid))[:1]:
                self._move(pod)

    def _observe_budget(self, change: Change) -> None:
        key = (change.namespace, change.name)
        if change.type == "DELETED":
            self._selectors.remove(*key)
            self._members.pop(key, None)
            return
        selector = selector_of(change.obj)
        if self._selectors.get(*key) != selector:
            self._selectors.put(*key, selector)
            self._members[key] = {pod.name: None for pod in self._pods.matching(change.namespace, selector)}
        self.queue.add(key)

    def _move(self, pod: Pod, *, there: bool = True) -> None:
        for name in self._selectors.matching(pod.namespace, pod.labels):
            key = (pod.namespace, name)
            if there:
                self._members[key][pod.name] = None
            else:
                self._members[key].pop(pod.name, None)
            self.queue.add(key)

    async def sync(self, key: Key) -> None:
        budget = self.world.get(BUDGETS, *key)
        if budget is None:
            return
        pods = [pod for name in self._members.get(key, ()) if (pod := self._pods.get(key[0], name)) is not None]
        if not pods:
            await self._recorder.normal(budget, "NoPods", "No matching pods found")
        old = budget.get("status") or {}
        try:
            expected, needed = await self._numbers(budget, pods)
        except Uncountable as error:
            words = f"Failed to calculate the number of expected pods: {error}"
            await self._recorder.warning(budget, "CalculateExpectedPodCountFailed", words)
            status = {**old, "disruptionsAllowed": 0}
            _put_condition(status, budget, "SyncFailed", str(error), generation=old.get("observedGeneration", 0))
        else:
            status = self._status(key, budget, pods, expected, needed)
        if status != old:
            path = f"/apis/policy/v1/namespaces/{key[0]}/poddisruptionbudgets/{key[1]}/status"
            await self.world.send(_USER, "PUT", path, {**budget, "status": status})

    def _status(self, key: Key, budget: Obj, pods: list[Pod], expected: int, needed: int) -> Obj:
        old, now = budget.get("status") or {}, clock.now()
        there = {pod.name for pod in pods if not pod.deleting}
        leaving = {name: time for name, time in (old.get("disruptedPods") or {}).items() if name in there}
        left = {name: _PATIENCE - (now - moment(time)).total_seconds() for name, time in leaving.items()}
        leaving = {name: time for name, time in leaving.items() if left[name] > 0}
        if leaving:
            self.queue.add_after(key, min(left[name] for name in leaving) + 0.01)
        healthy = sum(1 for pod in pods if pod.ready and not pod.deleting and pod.name not in leaving)
        status: Obj = {
            "currentHealthy": healthy,
            "desiredHealthy": needed,
            "expectedPods": expected,
            "disruptionsAllowed": max(0, healthy - needed) if expected > 0 else 0,
            "observedGeneration": budget["metadata"].get("generation", 0),
            "conditions": [dict(each) for each in old.get("conditions") or ()],
        }
        if leaving:
            status["disruptedPods"] = leaving
        reason = "SufficientPods" if status["disruptionsAllowed"] else "InsufficientPods"
        _put_condition(status, budget, reason, "")
        return status

    async def _numbers(self, budget: Obj, pods: list[Pod]) -> tuple[int, int]:
        """How many pods there should be, and how many of them have to be well."""
        spec = budget["spec"]
        most, least = spec.get("maxUnavailable"), spec.get("minAvailable")
        if most is not None:
            expected = await self._scale(pods)
            return expected, max(0, expected - scaled(most, expected, up=True))
        if isinstance(least, str):
            expected = await self._scale(pods)
            return expected, scaled(least, expected, up=True)
        return len(pods), int(least or 0)

    async def _scale(self, pods: list[Pod]) -> int:
        """The sizes of all controllers of these pods together."""
        sizes: dict[str, int] = {}
        seen: set[str] = set()
        for pod in pods:
            if pod.owner and pod.owner not in seen:
                seen.add(pod.owner)
                uid, size = await self._size(pod)
                sizes[uid] = size
        return sum(sizes.values())

    async def _size(self, pod: Pod) -> tuple[str, int]:
        resource = {"ReplicaSet": REPLICA_SETS, "StatefulSet": STATEFUL_SETS}.get(pod.owner_kind)
        found = self.world.get(resource, pod.namespace, pod.owner_name) if resource else None
        if found is None:
            return pod.owner, await self._asked_size(pod)
        owner = controller_of(found)
        if owner is not None and owner["kind"] == "Deployment":
            found = self.world.get(DEPLOYMENTS, pod.namespace, owner["name"]) or found
        return found["metadata"]["uid"], wanted(found)

    async def _asked_size(self, pod: Pod) -> int:
        obj = self.world.get(PODS, pod.namespace, pod.name) or {"metadata": {}}
        owner = controller_of(obj) or {"apiVersion": ""}
        served = self.world.of_kind(owner["apiVersion"], pod.owner_kind)
        if served is None:
            raise Uncountable(f'found no controllers for pod "{pod.name}"')
        try:
            scale = await self.world.send(_USER, "GET", served.path(pod.namespace, pod.owner_name, "scale"))
        except ApiError as error:
            kind = f"{served.plural}.{served.resource.partition('/')[0]}"
            if pod.owner_kind == "Job":
                raise Uncountable(f"{kind} does not implement the scale subresource") from error
            raise Uncountable(f'found no controllers for pod "{pod.name}"') from error
        return int((scale.get("spec") or {}).get("replicas") or 0)


def _put_condition(status: Obj, budget: Obj, reason: str, message: str, generation: int | None = None) -> None:
    """Set DisruptionAllowed; its time changes with its status alone."""
    state = "True" if reason == "SufficientPods" else "False"
    seen = budget["metadata"].get("generation", 0) if generation is None else generation
    conditions = [dict(each) for each in status.get("conditions") or ()]
    found = next((each for each in conditions if each["type"] == "DisruptionAllowed"), None)
    since = found["lastTransitionTime"] if found and found["status"] == state else clock.timestamp()
    wanted_one: Obj = {"type": "DisruptionAllowed", "status": state, "reason": reason, "message": message}
    wanted_one |= {"lastTransitionTime": since, **({"observedGeneration": seen} if seen else {})}
    if found is None:
        conditions.append(wanted_one)
    else:
        conditions[conditions.index(found)] = wanted_one
    status["conditions"] = conditions
