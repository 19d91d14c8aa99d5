"""Reads slices from the cluster and the cloud, and marks JobSets as drained."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import CloudNotFound, NotFound, SliceworksError
from sliceworks.catalog.labels import NODE_POOL
from sliceworks.cli import slice_view
from sliceworks.cli.connections import find_twin_cluster, open_cluster, open_container, resolve_settings
from sliceworks.controllers.slices import well_known
from sliceworks.controllers.slices.object_views import is_drained
from sliceworks.kube.resources import JOBSET, NAMESPACE, NODE, Key, key_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sliceworks.cli.slice_view import SliceView
    from sliceworks.cloud import Container
    from sliceworks.kube import Client

Object = dict[str, Any]
_NO_CLUSTER = "pass --project, --location and --cluster; on a twin, start sliceworks controller run slices --twin first"


@dataclass(frozen=True, slots=True)
class SliceMatch:
    """A slice with its nodes, or a JobSet with its slices."""

    name: str
    slices: list[SliceView]
    jobset: Object | None
    nodes: list[Object]

    def data(self) -> Object:
        """Return the match as data."""
        conditions = ((self.jobset or {}).get("status") or {}).get("conditions") or []
        if self.slices and self.slices[0].name == self.name:
            nodes = [node["metadata"]["name"] for node in self.nodes]
            return {**slice_view.slice_data(self.slices[0]), "nodes": nodes, "ownerConditions": conditions}
        return {"name": self.name, "slices": [slice_view.slice_data(view) for view in self.slices], "conditions": conditions}


@dataclass(frozen=True, slots=True)
class SliceInventory:
    """Slices of a cluster, read from its API and its cloud."""

    client: Client
    container: Container

    async def slices(self) -> list[SliceView]:
        """Return every node pool with its nodes and JobSet."""
        return slice_view.build_views(*await asyncio.gather(self._pools(), self._nodes(), self._jobsets()))

    async def named(self, name: str) -> SliceMatch:
        """Find a slice by its node pool, or a JobSet of the namespace with its slices."""
        pools, nodes, jobsets = await asyncio.gather(self._pools(), self._nodes(), self._jobsets())
        views = slice_view.build_views(pools, nodes, jobsets)
        by_ref = {key_of(jobset): jobset for jobset in jobsets}
        match = next((view for view in views if view.name == name), None)
        if match is not None:
            its = [node for node in nodes if node["metadata"]["labels"].get(NODE_POOL) == name]
            return SliceMatch(name, [match], by_ref.get(match.owner) if match.owner else None, its)
        ref = Key(self.client.namespace, name)
        mine = [view for view in views if view.owner == ref]
        if not mine and ref not in by_ref:
            raise SliceworksError(f"slice or JobSet {name!r} not found in namespace {ref.namespace}", hint=_names(views))
        return SliceMatch(name, mine, by_ref.get(ref), [])

    async def owners(self, name: str | None) -> Counter[Key]:
        """Return the JobSets to drain and their number of slices: by node pool, by JobSet, or all."""
        if name is None:
            return Counter(view.owner for view in await self.slices() if view.owner)
        match = await self.named(name)
        owner = next((view.owner for view in match.slices), Key(self.client.namespace, name))
        if owner is None:
            raise SliceworksError(f"node pool {name} does not belong to a JobSet", hint="delete it with the tool that created it")
        return Counter({owner: sum(view.owner == owner for view in await self.slices())})

    async def drained(self) -> list[Key]:
        """Return the JobSets that are drained by name."""
        jobsets = [jobset for jobset in await self._jobsets() if is_drained(jobset)]
        return [key_of(item) for item in jobsets]

    async def drain_everything(self, *, undo: bool) -> None:
        """Drain or undrain the whole cluster, including JobSets created later."""
        await self.client.patch(NAMESPACE, well_known.WHOLE_CLUSTER, _mark(undo=undo))

    async def drain(self, owner: Key, *, undo: bool) -> None:
        """Mark a JobSet as drained, or remove the mark; the slices controller acts on it."""
        try:
            await self.client.patch(JOBSET, owner.name, _mark(undo=undo), owner.namespace)
        except NotFound as error:
            raise SliceworksError(f"JobSet {owner} was deleted", hint="the slices controller deletes its slices") from error

    async def pause(self, seconds: float) -> None:
        """Wait before the next poll."""
        await clock.sleep(seconds)

    async def _pools(self) -> list[Object]:
        try:
            return await self.container.list_node_pools()
        except CloudNotFound as error:
            place = f"{self.container.project}, {self.container.location}"
            raise SliceworksError(f"cluster {self.container.cluster} not found in {place}", hint=_NO_CLUSTER) from error

    async def _nodes(self) -> list[Object]:
        return (await self.client.list_all(NODE, labels=NODE_POOL)).items

    async def _jobsets(self) -> list[Object]:
        """Return all JobSets; none if the CRD is not installed."""
        try:
            return (await self.client.list_all(JOBSET)).items
        except NotFound:
            return []


def _mark(*, undo: bool) -> Object:
    return {"metadata": {"annotations": {well_known.DRAIN: None if undo else "true"}}}


def _names(views: list[SliceView]) -> str:
    names = [view.name for view in views if view.owner][:4]
    return f"available: {', '.join(names)}" if names else "sliceworks slices list -A"


@asynccontextmanager
async def open_inventory(
    namespace: str, *, kubeconfig: str | None, context: str | None, twin: bool, **cloud: Any
) -> AsyncIterator[SliceInventory]:
    """Connect to the cluster and its cloud."""
    client = open_cluster(kubeconfig, context, twin, namespace)
    settings = resolve_settings(cloud, twin=twin, kubeconfig=kubeconfig, context=context)
    async with client:
        if twin:
            settings = await find_twin_cluster(client, settings)
        async with open_container(settings) as container:
            yield SliceInventory(client, container)
