"""The Deployment controller: one step of a rollout, of scaling or of nothing each time it looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import AlreadyExists, ApiError
from sliceworks.kube.resources import controller_of
from sliceworks.twin.controllers.events import Recorder
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.controllers.world import controller_user
from sliceworks.twin.workloads.dependents import REPLICA_SETS, Dependents
from sliceworks.twin.workloads.deployments import numbers, revisions
from sliceworks.twin.workloads.deployments.numbers import wanted
from sliceworks.twin.workloads.deployments.sets import SetHands
from sliceworks.twin.workloads.deployments.status import (
    Obj,
    condition,
    counted,
    find,
    has_deadline,
    is_complete,
    next_look,
    put,
    rolled,
)
from sliceworks.twin.workloads.hands import selector_of
from sliceworks.twin.workloads.pods import PODS, Pods
from sliceworks.twin.workloads.selecting import Selecting

if TYPE_CHECKING:
    from sliceworks.twin.controllers.world import World

DEPLOYMENTS = "apps/deployments"
Key = tuple[str, str]


class Deployments(Controller[Key]):
    """Moves each Deployment's pods from older ReplicaSets to the one of its template."""

    workers = 5
    watches = frozenset({DEPLOYMENTS, REPLICA_SETS, PODS})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._pods, self._dependents = world.shared(Pods), world.shared(Dependents)
        self._user = controller_user("deployment-controller")
        self._recorder = Recorder(world, self._user, "deployment-controller")
        self._sets = SetHands(world, self._user, self._recorder)
        self._names: dict[str, Key] = {}
        self._selectors = Selecting()

    def observe(self, change: Change) -> None:
        place = (change.namespace, change.name)
        if change.resource == DEPLOYMENTS:
            self._observe_deployment(change, place)
        elif change.resource == REPLICA_SETS:
            self._observe_set(change)
        elif self._pods.after is None and self._pods.before is not None and self._pods.before.owner_kind == "ReplicaSet":
            # Only one that waits for the last old pod to go needs to know.
            owned = self.world.get(REPLICA_SETS, change.namespace, self._pods.before.owner_name)
            owner = controller_of(owned) if owned else None
            if owner is not None and owner["uid"] in self._names:
                self.queue.add(self._names[owner["uid"]])

    def _observe_deployment(self, change: Change, place: Key) -> None:
        if change.type == "DELETED":
            self._selectors.remove(change.namespace, change.name)
            self._names.pop(change.obj["metadata"]["uid"], None)
            return
        self._names[change.obj["metadata"]["uid"]] = place
        self._selectors.put(change.namespace, change.name, selector_of(change.obj))
        self.queue.add(place)

    def _observe_set(self, change: Change) -> None:
        owner = controller_of(change.obj)
        for uid in (self._dependents.before, owner["uid"] if owner else ""):
            if uid in self._names:
                self.queue.add(self._names[uid])
        labels = change.obj["metadata"].get("labels")
        if owner is None and labels and change.type != "DELETED":
            for name in self._selectors.matching(change.namespace, labels):
                self.queue.add((change.namespace, name))

    async def sync(self, key: Key) -> None:
        found = self.world.get(DEPLOYMENTS, *key)
        if found is None:
            return
        sets = await self._sets.claim(found)
        if found["metadata"].get("deletionTimestamp"):
            newest = numbers.newest_of(found, sets)
            await self._write(found, counted(found, _with(_old(sets, newest), newest), newest))
            return
        await self._tell_pause(found)
        newest = await self._newest(found, sets)
        old = _old(sets, newest)
        if found["spec"].get("paused") or _is_scaling(found, _with(old, newest)):
            await self._scale(found, newest, old)
        elif numbers.is_rolling(found):
            await self._roll(key, found, sets, old)
        else:
            await self._recreate(key, found, sets, newest, old)

    async def _scale(self, found: Obj, newest: Obj | None, old: list[Obj]) -> None:
        """Follow a change of size without moving on in the rollout."""
        both = _with(old, newest)
        alive = numbers.active(both)
        if len(alive) <= 1:
            latest = alive[0] if alive else newest or (numbers.by_age(old)[-1] if old else None)
            if latest is not None:
                await self._sets.resize(found, latest, wanted(found))
        elif _is_saturated(found, newest):
            for each in numbers.active(old):
                await self._sets.resize(found, each, 0)
        elif numbers.is_rolling(found):
            for each, size in _sized(alive, numbers.proportions(found, alive)):
                await self._sets.resize(found, each, size, annotate=True)
        if found["spec"].get("paused"):
            await self._sets.forget(found, old)
        await self._write(found, counted(found, both, newest))

    async def _roll(self, key: Key, found: Obj, sets: list[Obj], old: list[Obj]) -> None:
        """One step of a rolling update: more new pods if there may be, else fewer old ones if there need not be."""
        newest = await self._newest(found, sets, create=True)
        if newest is None:
            return
        both = _with(old, newest)
        scaled = await self._grow(found, newest, both) or await self._shrink(found, newest, old)
        if not scaled and is_complete(found, found.get("status") or {}):
            await self._sets.forget(found, old)
        await self._finish(key, found, both, newest)

    async def _grow(self, found: Obj, newest: Obj, both: list[Obj | None]) -> bool:
        size = wanted(newest)
        if size == wanted(found):
            return False
        target = wanted(found) if size > wanted(found) else numbers.next_size(found, both, size)
        return await self._sets.resize(found, newest, target)

    async def _shrink(self, found: Obj, newest: Obj, old: list[Obj]) -> bool:
        """Take pods from older sets: those that are of no use first, then as many as there are available ones to spare."""
        alive = numbers.by_age(numbers.active(old))
        least = wanted(found) - numbers.limits(found)[1]
        unready = wanted(newest) - numbers.state(newest, "availableReplicas")
        spare = numbers.total_wanted([*old, newest]) - least - unready
        if not alive or spare <= 0:
            return False
        changed = False
        for each, size in revisions.without_unhealthy(alive, spare):
            changed |= await self._sets.resize(found, each, size)
        available = numbers.total([*alive, newest], "availableReplicas")
        for each, size in revisions.smaller(alive, max(0, available - least)):
            changed |= await self._sets.resize(found, each, size)
        return changed

    async def _recreate(self, key: Key, found: Obj, sets: list[Obj], newest: Obj | None, old: list[Obj]) -> None:
        """All old pods go before a new one comes."""
        scaled = False
        for each in numbers.active(old):
            scaled |= await self._sets.resize(found, each, 0)
        if scaled or self._old_pods_run(old):
            await self._finish(key, found, _with(old, newest), newest)
            return
        newest = newest or await self._newest(found, sets, create=True)
        if newest is None:
            return
        await self._sets.resize(found, newest, wanted(found))
        if is_complete(found, found.get("status") or {}):
            await self._sets.forget(found, old)
        await self._finish(key, found, _with(old, newest), newest)

    def _old_pods_run(self, old: list[Obj]) -> bool:
        pods = (pod for each in old for pod in self._pods.owned_by(each["metadata"]["uid"]))
        return numbers.total(old, "replicas") > 0 or any(not pod.ended for pod in pods)

    async def _finish(self, key: Key, found: Obj, both: list[Obj | None], newest: Obj | None) -> None:
        status = rolled(found, both, newest, clock.now())
        if not await self._write(found, status) and (wait := next_look(found, status, clock.now())) is not None:
            self.queue.add_after(key, wait)

    async def _newest(self, found: Obj, sets: list[Obj], *, create: bool = False) -> Obj | None:
        """The set of the Deployment's template, with its revision; made when there is none and `create` says so."""
        newest = numbers.newest_of(found, sets)
        revision = max((numbers.revision(each) for each in _old(sets, newest)), default=0) + 1
        if newest is not None:
            return await self._refresh(found, newest, revision)
        return await self._create(found, sets, revision) if create else None

    async def _refresh(self, found: Obj, newest: Obj, revision: int) -> Obj:
        if revisions.annotate(found, newest, revision) or _min_ready(newest) != _min_ready(found):
            newest["spec"]["minReadySeconds"] = _min_ready(found)
            written = await self._sets.put(newest)
            newest.update(written)
            return newest
        status: Obj = dict(found.get("status") or {})
        annotations = found["metadata"].setdefault("annotations", {})
        known = newest["metadata"]["annotations"][numbers.REVISION]
        stale = annotations.get(numbers.REVISION) != known
        annotations[numbers.REVISION] = known
        if has_deadline(found) and find(status, "Progressing") is None:
            message = f'Found new replica set "{newest["metadata"]["name"]}"'
            put(status, condition("Progressing", "True", "FoundNewReplicaSet", message))
        await self._write(found, status, force=stale)
        return newest

    async def _create(self, found: Obj, sets: list[Obj], revision: int) -> Obj | None:
        made = revisions.new_set(found, sets, revision)
        name, namespace = made["metadata"]["name"], made["metadata"]["namespace"]
        try:
            newest = await self.world.send(self._user, "POST", f"/apis/apps/v1/namespaces/{namespace}/replicasets", made)
        except AlreadyExists:
            await self._collide(found)
            return None
        except ApiError as error:
            await self._tell_failure(found, f'Failed to create new replica set "{name}": {error.message}')
            raise
        if wanted(newest):
            await self._recorder.normal(found, "ScalingReplicaSet", f"Scaled up replica set {name} from 0 to {wanted(newest)}")
        status: Obj = dict(found.get("status") or {})
        found["metadata"].setdefault("annotations", {})[numbers.REVISION] = str(revision)
        if has_deadline(found):
            put(status, condition("Progressing", "True", "NewReplicaSetCreated", f'Created new replica set "{name}"'))
        await self._write(found, status, force=True)
        return newest

    async def _collide(self, found: Obj) -> None:
        """Another set has the name that the new one would have: the next try takes another."""
        status = dict(found.get("status") or {})
        status["collisionCount"] = status.get("collisionCount", 0) + 1
        await self._write(found, status)

    async def _tell_failure(self, found: Obj, message: str) -> None:
        if has_deadline(found):
            status: Obj = dict(found.get("status") or {})
            put(status, condition("Progressing", "False", "ReplicaSetCreateError", message))
            await self._write(found, status)
        await self._recorder.warning(found, "ReplicaSetCreateError", message)

    async def _tell_pause(self, found: Obj) -> None:
        status: Obj = dict(found.get("status") or {})
        current = find(status, "Progressing") or {}
        if not has_deadline(found) or current.get("reason") == "ProgressDeadlineExceeded":
            return
        known, paused = current.get("reason") == "DeploymentPaused", bool(found["spec"].get("paused"))
        if paused and not known:
            put(status, condition("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused"))
        elif known and not paused:
            put(status, condition("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed"))
        await self._write(found, status)

    async def _write(self, found: Obj, status: Obj, *, force: bool = False) -> bool:
        """Write a status if it is another, and keep `found` as it then is; whether there was anything to write."""
        if status == (found.get("status") or {}) and not force:
            return False
        metadata = found["metadata"]
        path = f"/apis/apps/v1/namespaces/{metadata['namespace']}/deployments/{metadata['name']}/status"
        found.update(await self.world.send(self._user, "PUT", path, {**found, "status": status}))
        return True


def _min_ready(found: Obj) -> int:
    return int(found["spec"].get("minReadySeconds") or 0)


def _old(sets: list[Obj], newest: Obj | None) -> list[Obj]:
    uid = newest["metadata"]["uid"] if newest is not None else ""
    return [each for each in sets if each["metadata"]["uid"] != uid]


def _with(old: list[Obj], newest: Obj | None) -> list[Obj | None]:
    return [*old, newest]


def _sized(alive: list[Obj], sizes: dict[str, int]) -> list[tuple[Obj, int]]:
    return [(each, sizes[each["metadata"]["name"]]) for each in alive]


def _is_scaling(found: Obj, sets: list[Obj | None]) -> bool:
    """Whether the Deployment's size is another than the one its sets know of."""
    known = (numbers.number(each, numbers.DESIRED) for each in numbers.active(sets))
    return any(size is not None and size != wanted(found) for size in known)


def _is_saturated(found: Obj, newest: Obj | None) -> bool:
    if newest is None:
        return False
    sizes = (wanted(newest), numbers.number(newest, numbers.DESIRED), numbers.state(newest, "availableReplicas"))
    return all(size == wanted(found) for size in sizes)
