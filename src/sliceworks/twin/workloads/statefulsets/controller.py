"""The StatefulSet controller: one pod after the other, or all at once, and always the same names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import AlreadyExists, ApiError, Conflict, NotFound
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.workloads.dependents import REVISIONS, Dependents
from sliceworks.twin.workloads.hands import PodHands
from sliceworks.twin.workloads.pods import PODS, Pod, Pods
from sliceworks.twin.workloads.replicasets import min_ready, next_available
from sliceworks.twin.workloads.statefulsets import identity
from sliceworks.twin.workloads.statefulsets.step import Step

if TYPE_CHECKING:
    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.workloads.statefulsets.identity import Obj

STATEFUL_SETS = "apps/statefulsets"
_CLAIMS = "/persistentvolumeclaims"
Key = tuple[str, str]


class StatefulSets(Controller[Key]):
    """Keeps the numbered pods of each set, and moves them to its newest template from the last to the first."""

    workers = 5
    watches = frozenset({STATEFUL_SETS, PODS})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._pods, self._dependents = world.shared(Pods), world.shared(Dependents)
        self._hands = PodHands(world, "statefulset-controller", "statefulset-controller")
        self._known: set[Key] = set()

    def observe(self, change: Change) -> None:
        if change.resource == STATEFUL_SETS:
            if change.type == "DELETED":
                self._known.discard((change.namespace, change.name))
            else:
                self._known.add((change.namespace, change.name))
                self.queue.add((change.namespace, change.name))
            return
        for pod in (self._pods.before, self._pods.after):
            if pod is not None and pod.owner_kind == "StatefulSet":
                self.queue.add((pod.namespace, pod.owner_name))
            elif pod is not None and not pod.owner and (pod.namespace, identity.parent(pod.name)) in self._known:
                self.queue.add((pod.namespace, identity.parent(pod.name)))

    async def sync(self, key: Key) -> None:
        found = self.world.get(STATEFUL_SETS, *key)
        if found is None:
            return
        # 1. Its pods and its revisions.
        pods = await self._hands.claim(found, self._pods, named=key[1])
        revisions = self._revisions(found)
        current, update, collisions = await self._current(found, revisions)
        # 2. One step, or as many as may be taken at once.
        step = Step(self, found, (current, update), pods, clock.now())
        failure: ApiError | None = None
        if not found["metadata"].get("deletionTimestamp"):
            try:
                await step.take()
            except AlreadyExists:
                pass
            except ApiError as error:
                failure = error
        # 3. What there was.
        await self._write(found, step.status(collisions))
        await self._forget(found, pods, revisions, current, update)
        if failure is not None:
            raise failure
        if (wait := next_available(pods, min_ready(found), step.now)) is not None:
            self.queue.add_after(key, wait)

    def _revisions(self, found: Obj) -> list[Obj]:
        places = self._dependents.owned_by(REVISIONS, found["metadata"]["uid"])
        revisions = [each for place in places if (each := self.world.get(REVISIONS, *place)) is not None]
        return sorted(revisions, key=lambda each: int(each["revision"]))

    async def _current(self, found: Obj, revisions: list[Obj]) -> tuple[Obj, Obj, int]:
        """The revision that the set comes from, the one it goes to, and how many names were taken."""
        status = found.get("status") or {}
        collisions = int(status.get("collisionCount") or 0)
        last = revisions[-1] if revisions else None
        wanted = identity.revision(found, (last["revision"] if last else 0) + 1, collisions)
        equal = [each for each in revisions if each["data"] == wanted["data"]]
        path = f"/apis/apps/v1/namespaces/{found['metadata']['namespace']}/controllerrevisions"
        if equal and last is not None and equal[-1]["data"] == last["data"]:
            update = last
        elif equal:
            body = {**equal[-1], "revision": wanted["revision"]}
            update = await self.world.send(self._hands.user, "PUT", f"{path}/{body['metadata']['name']}", body)
        else:
            update, collisions = await self._remember(found, path, wanted, collisions)
        current = next((each for each in revisions if each["metadata"]["name"] == status.get("currentRevision")), update)
        return current, update, collisions

    async def _remember(self, found: Obj, path: str, wanted: Obj, collisions: int) -> tuple[Obj, int]:
        while True:
            try:
                return await self.world.send(self._hands.user, "POST", path, wanted), collisions
            except AlreadyExists:
                taken = self.world.get(REVISIONS, found["metadata"]["namespace"], wanted["metadata"]["name"])
                if taken is not None and taken["data"] == wanted["data"]:
                    raise Conflict("a revision of another set is in the way") from None
                collisions += 1
                wanted = identity.revision(found, wanted["revision"], collisions)

    async def _forget(self, found: Obj, pods: list[Pod], revisions: list[Obj], current: Obj, update: Obj) -> None:
        """Delete the oldest revisions that nothing uses, beyond as many as are to be kept."""
        live = {current["metadata"]["name"], update["metadata"]["name"], *(pod.labels.get(identity.REVISION) for pod in pods)}
        history = [each["metadata"]["name"] for each in revisions if each["metadata"]["name"] not in live]
        limit = int(found["spec"].get("revisionHistoryLimit", 10))
        namespace = found["metadata"]["namespace"]
        for name in history[: max(0, len(history) - limit)]:
            try:
                await self.world.send(
                    self._hands.user, "DELETE", f"/apis/apps/v1/namespaces/{namespace}/controllerrevisions/{name}"
                )
            except NotFound:
                continue

    async def _write(self, found: Obj, status: Obj) -> None:
        old = found.get("status") or {}
        if all(status.get(name) == old.get(name) for name in (*status, "currentReplicas", "updatedReplicas", "readyReplicas")):
            return
        metadata = found["metadata"]
        path = f"/apis/apps/v1/namespaces/{metadata['namespace']}/statefulsets/{metadata['name']}/status"
        await self.world.send(self._hands.user, "PUT", path, {**found, "status": status})

    async def create(self, found: Obj, template: Obj, number: int, revision: str) -> None:
        """Make a pod and what it mounts."""
        made, name = identity.pod(found, template, number, revision), found["metadata"]["name"]
        await self.make_claims(found, number)
        pod = made["metadata"]["name"]
        try:
            await self.world.send(self._hands.user, "POST", f"/api/v1/namespaces/{found['metadata']['namespace']}/pods", made)
        except AlreadyExists:
            raise
        except ApiError as error:
            message = f"Create Pod {pod} in StatefulSet {name} failed error: {error.message}"
            await self._hands.recorder.warning(found, "FailedCreate", message)
            raise
        await self.own_claims(found, number)
        await self._hands.recorder.normal(found, "SuccessfulCreate", f"Create Pod {pod} in StatefulSet {name} successful")

    async def make_claims(self, found: Obj, number: int) -> None:
        namespace, name = found["metadata"]["namespace"], found["metadata"]["name"]
        for claim in identity.claims(found, number).values():
            if self.world.get(_CLAIMS, namespace, claim["metadata"]["name"]) is None:
                path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
                await self.world.send(self._hands.user, "POST", path, claim)
                words = f"Create Claim {claim['metadata']['name']} Pod {name}-{number} in StatefulSet {name} success"
                await self._hands.recorder.normal(found, "SuccessfulCreate", words)

    async def own_claims(self, found: Obj, number: int) -> None:
        """Give claims the owners that the set's policy wants, so that they go when they are to."""
        namespace = found["metadata"]["namespace"]
        pod = self._pods.get(namespace, f"{found['metadata']['name']}-{number}")
        for name in (claim["metadata"]["name"] for claim in identity.claims(found, number).values()):
            claim = self.world.get(_CLAIMS, namespace, name)
            if claim is None:
                continue
            refs = claim["metadata"].get("ownerReferences") or []
            wanted = identity.claim_owners(found, pod, number, refs)
            if {ref["uid"] for ref in refs} != {ref["uid"] for ref in wanted}:
                claim["metadata"]["ownerReferences"] = wanted
                path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
                await self.world.send(self._hands.user, "PUT", path, claim)

    async def delete(self, found: Obj, pod: Pod) -> None:
        name = found["metadata"]["name"]
        await self.world.send(self._hands.user, "DELETE", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}")
        await self._hands.recorder.normal(found, "SuccessfulDelete", f"Delete Pod {pod.name} in StatefulSet {name} successful")

    async def rename(self, pod: Pod) -> None:
        """Give a pod that was taken in the labels by which it is known."""
        await self._hands.patch(pod, {"labels": {identity.NAME: pod.name, identity.NUMBER: str(identity.ordinal(pod.name))}})
