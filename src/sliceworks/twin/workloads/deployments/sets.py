"""What a Deployment does to its ReplicaSets: take them in, let them go, resize them, forget the oldest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import NotFound
from sliceworks.kube.resources import owner_reference
from sliceworks.twin.controllers.world import STRATEGIC
from sliceworks.twin.workloads.dependents import REPLICA_SETS, Dependents
from sliceworks.twin.workloads.deployments import numbers, revisions
from sliceworks.twin.workloads.deployments.numbers import Obj, wanted
from sliceworks.twin.workloads.hands import selector_of

if TYPE_CHECKING:
    from sliceworks.twin.auth.identity import User
    from sliceworks.twin.controllers.events import Recorder
    from sliceworks.twin.controllers.world import World

_NEVER = (1 << 31) - 1


class SetHands:
    """Acts as the Deployment controller, and tells of changes of size on the Deployment."""

    def __init__(self, world: World, user: User, recorder: Recorder) -> None:
        self._world, self._user, self._recorder = world, user, recorder
        self._dependents = world.shared(Dependents)

    async def resize(self, found: Obj, each: Obj, size: int, *, annotate: bool = False) -> bool:
        """Give a ReplicaSet another size; it is changed in place."""
        before = wanted(each)
        if before == size and not (annotate and revisions.has_other_sizes(found, each)):
            return False
        each["spec"]["replicas"] = size
        revisions.note_sizes(found, each)
        each.update(await self.put(each))
        if before == size:
            return False
        way = "up" if before < size else "down"
        name = each["metadata"]["name"]
        await self._recorder.normal(found, "ScalingReplicaSet", f"Scaled {way} replica set {name} from {before} to {size}")
        return True

    async def forget(self, found: Obj, old: list[Obj]) -> None:
        """Delete the oldest sets that are empty, beyond as many as are to be kept."""
        limit = found["spec"].get("revisionHistoryLimit", _NEVER)
        kept = [each for each in old if not each["metadata"].get("deletionTimestamp")]
        if limit == _NEVER or len(kept) <= limit:
            return
        for each in numbers.by_revision(kept)[: len(kept) - limit]:
            seen = numbers.state(each, "observedGeneration") >= each["metadata"].get("generation", 0)
            if numbers.state(each, "replicas") == 0 and wanted(each) == 0 and seen:
                try:
                    await self._world.send(self._user, "DELETE", _path(each))
                except NotFound:
                    continue

    async def claim(self, found: Obj) -> list[Obj]:
        """The Deployment's sets, after it took in those that it selects and let go of those that it no longer does."""
        selector, metadata = selector_of(found), found["metadata"]
        sets: list[Obj] = []
        ending = bool(metadata.get("deletionTimestamp"))
        places = [(place, True) for place in self._dependents.owned_by(REPLICA_SETS, metadata["uid"])]
        places += [(place, False) for place in self._dependents.orphans(REPLICA_SETS, metadata["namespace"]) if not ending]
        for place, mine in places:
            each = self._world.get(REPLICA_SETS, *place)
            if each is None:
                continue
            matches = selector.matches(each["metadata"].get("labels"))
            if mine and not matches and not ending:
                await self._patch(each, {"ownerReferences": [{"$patch": "delete", "uid": metadata["uid"]}]})
            elif mine:
                sets.append(each)
            elif matches and not each["metadata"].get("deletionTimestamp"):
                sets.append(await self._patch(each, {"ownerReferences": [owner_reference(found)]}))
        return sets

    async def _patch(self, each: Obj, metadata: Obj) -> Obj:
        body = {"metadata": {"uid": each["metadata"]["uid"], **metadata}}
        return await self._world.send(self._user, "PATCH", _path(each), body, content_type=STRATEGIC)

    async def put(self, each: Obj) -> Obj:
        return await self._world.send(self._user, "PUT", _path(each), each)


def _path(each: Obj) -> str:
    return f"/apis/apps/v1/namespaces/{each['metadata']['namespace']}/replicasets/{each['metadata']['name']}"
