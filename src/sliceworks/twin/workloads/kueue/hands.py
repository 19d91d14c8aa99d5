"""What Kueue's controllers do to the API: change the status of Workloads, patch jobs, and tell of it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import NotFound
from sliceworks.twin.controllers.events import Recorder
from sliceworks.twin.workloads.kueue.keys import MANAGER, USER, WORKLOADS, Obj, path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sliceworks.twin.controllers.world import World


class Hands:
    """Acts as Kueue's manager; events come from one of its components."""

    def __init__(self, world: World, component: str) -> None:
        self.world = world
        self._recorder = Recorder(world, USER, component)

    async def normal(self, obj: Mapping[str, Any], reason: str, message: str) -> None:
        await self._recorder.normal(obj, reason, message)

    async def warning(self, obj: Mapping[str, Any], reason: str, message: str) -> None:
        await self._recorder.warning(obj, reason, message)

    async def status(self, key: tuple[str, str], change: Callable[[Obj], Any]) -> Obj | None:
        """Change a Workload's status as it is now; None when nothing changed or it is gone."""
        obj = self.world.get(WORKLOADS, *key)
        if obj is None:
            return None
        before = copy.deepcopy(obj.get("status"))
        if change(obj) is False or obj.get("status") == before:
            return None
        try:
            return await self.world.send(USER, "PUT", path("workloads", *key, "status"), obj, fieldManager=MANAGER)
        except NotFound:
            return None

    async def put(self, plural: str, obj: Obj, below: str = "") -> Obj | None:
        """Write an object back as it was changed."""
        metadata = obj["metadata"]
        where = path(plural, metadata.get("namespace", ""), metadata["name"], below)
        try:
            return await self.world.send(USER, "PUT", where, obj, fieldManager=MANAGER)
        except NotFound:
            return None

    async def drop_finalizer(self, plural: str, obj: Obj, finalizer: str) -> None:
        finalizers = obj["metadata"].get("finalizers") or []
        if finalizer in finalizers:
            finalizers.remove(finalizer)
            await self.put(plural, obj)
