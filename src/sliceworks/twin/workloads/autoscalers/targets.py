"""What an autoscaler scales: anything with a scale subresource, whatever kind it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import Conflict, NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.auth.identity import User
    from sliceworks.twin.controllers.world import World

_TRIES = 5
_PAUSE = 0.01


class Target:
    """The scale of one object, read and written as one user."""

    def __init__(self, world: World, user: User, path: str, scale: dict[str, Any]) -> None:
        self._world, self._user, self._path, self._scale = world, user, path, scale

    @property
    def replicas(self) -> int:
        """How many are asked for."""
        return int((self._scale.get("spec") or {}).get("replicas") or 0)

    @property
    def counted(self) -> int:
        """How many there are."""
        return int((self._scale.get("status") or {}).get("replicas") or 0)

    @property
    def selector(self) -> str:
        """The labels of its pods, as text; empty where it has none."""
        return str((self._scale.get("status") or {}).get("selector") or "")

    async def resize(self, replicas: int) -> None:
        """Ask for another number, again where somebody else was faster."""
        for attempt in range(_TRIES):
            try:
                await self._world.tell(self._user, "PUT", self._path, {**self._scale, "spec": {"replicas": replicas}})
            except Conflict:
                if attempt == _TRIES - 1:
                    raise
                await clock.sleep(_PAUSE)
                self._scale = await self._world.send(self._user, "GET", self._path)
            else:
                return


async def find(world: World, user: User, namespace: str, reference: Mapping[str, Any]) -> Target:
    """The target that a reference names; raises the ApiError that tells why there is none."""
    group, kind = reference.get("apiVersion", "").rpartition("/")[0], reference["kind"]
    served = world.of_kind(reference.get("apiVersion", ""), kind)
    if served is None:
        raise NotFound(f'no matches for kind "{kind}" in group "{group}"')
    path = served.path(namespace, reference["name"], "scale")
    return Target(world, user, path, await world.send(user, "GET", path))
