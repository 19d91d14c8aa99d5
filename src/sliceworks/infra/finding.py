"""What the cloud itself must be asked before a thing of its can be taken over: what it is called, and whether it is done."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import CloudNotFound

if TYPE_CHECKING:
    from sliceworks.cloud import Session
    from sliceworks.infra.targets import Target

Object = dict[str, Any]
_PAUSE = 1.0
_GOING_ON = ("PROVISIONING", "RECONCILING", "STOPPING")


@dataclass(frozen=True, slots=True)
class Finder:
    """Asks where an environment is made."""

    target: Target

    def named_by_the_cloud(self, kind: str, planned: Object) -> str:
        """The name of a thing that the cloud itself has named, found by what people call it; empty where there is none."""
        return asyncio.run(self._board(planned)) if kind == "google_vertex_ai_tensorboard" else ""

    async def _board(self, planned: Object) -> str:
        path = f"/v1/projects/{planned['project']}/locations/{planned['region']}/tensorboards"
        async with self.target.session("aiplatform", f"{planned['region']}-aiplatform") as session:
            found = await session.call("GET", path)
        named = [each for each in found.get("tensorboards") or () if each.get("displayName") == planned["display_name"]]
        return str(named[0]["name"]) if named else ""

    def wait_for(self, kind: str, planned: Object) -> None:
        """Wait until a cluster or a pool that is still being made is made, and do what its maker would have done then."""
        if kind == "google_container_cluster":
            asyncio.run(self._cluster(planned))
        elif kind == "google_container_node_pool":
            asyncio.run(self._pool(planned))

    async def _cluster(self, planned: Object) -> None:
        """A cluster begins with a pool of its own, which goes where ours take its place."""
        path = f"/v1/projects/{planned['project']}/locations/{planned['location']}/clusters/{planned['name']}"
        async with self.target.session("container") as session:
            if await _settled(session, path) is None or not planned.get("remove_default_node_pool"):
                return
            first = f"{path}/nodePools/default-pool"
            if await _settled(session, first) is not None:
                await session.call("DELETE", first)
                await _settled(session, first)

    async def _pool(self, planned: Object) -> None:
        cluster = str(planned["cluster"]).rpartition("/")[2]
        place = f"/v1/projects/{planned['project']}/locations/{planned['location']}"
        async with self.target.session("container") as session:
            await _settled(session, f"{place}/clusters/{cluster}/nodePools/{planned['name']}")


async def _settled(session: Session, path: str) -> Object | None:
    """A thing as soon as nothing goes on with it any more; None where there is none."""
    while True:
        try:
            found = await session.call("GET", path)
        except CloudNotFound:
            return None
        if found.get("status") not in _GOING_ON:
            return found
        await clock.sleep(_PAUSE)
