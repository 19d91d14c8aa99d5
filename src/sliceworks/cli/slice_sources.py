"""Where the slice commands look: nodes and JobSets of the cluster, node pools of the cloud; and the one thing they change."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import CloudNotFound, NotFound, SliceworksError
from sliceworks.catalog.labels import NODE_POOL
from sliceworks.cli import slice_views
from sliceworks.cli.clouds import open_container, settings_for
from sliceworks.cli.connections import open_cluster
from sliceworks.controllers.slices import words
from sliceworks.controllers.slices.reading import is_drained
from sliceworks.controllers.slices.views import Ref
from sliceworks.controllers.slices.watching import JOBSET
from sliceworks.kube.well_known import NAMESPACE, NODE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sliceworks.cli.slice_views import SliceView
    from sliceworks.cloud import Container
    from sliceworks.kube import Client

Object = dict[str, Any]
_NO_CLUSTER = "name it by --project, --location and --cluster; a twin's is known once sliceworks controller run slices --twin runs"


@dataclass(frozen=True, slots=True)
class Found:
    """What a name stands for: a slice, or a JobSet with its slices. `nodes` are the slice's, where it is one."""

    name: str
    slices: list[SliceView]
    jobset: Object | None
    nodes: list[Object]

    def data(self) -> Object:
        """The same as plain data."""
        conditions = ((self.jobset or {}).get("status") or {}).get("conditions") or []
        if self.slices and self.slices[0].name == self.name:
            nodes = [node["metadata"]["name"] for node in self.nodes]
            return {**slice_views.data(self.slices[0]), "nodes": nodes, "ownerConditions": conditions}
        return {"name": self.name, "slices": [slice_views.data(view) for view in self.slices], "conditions": conditions}


@dataclass(frozen=True, slots=True)
class Sources:
    """The cluster and the cloud of one command."""

    client: Client
    container: Container

    async def slices(self) -> list[SliceView]:
        """Every node pool, with what the cluster knows of it."""
        return slice_views.views(*await asyncio.gather(self._pools(), self._nodes(), self._jobsets()))

    async def named(self, name: str) -> Found:
        """A slice by its pool, or a JobSet of the namespace with its slices."""
        pools, nodes, jobsets = await asyncio.gather(self._pools(), self._nodes(), self._jobsets())
        found = slice_views.views(pools, nodes, jobsets)
        by_ref = {Ref(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in jobsets}
        one = next((view for view in found if view.name == name), None)
        if one is not None:
            its = [node for node in nodes if node["metadata"]["labels"].get(NODE_POOL) == name]
            return Found(name, [one], by_ref.get(one.owner) if one.owner else None, its)
        ref = Ref(self.client.namespace, name)
        mine = [view for view in found if view.owner == ref]
        if not mine and ref not in by_ref:
            raise SliceworksError(f"there is no slice and no JobSet {name!r} in {ref.namespace}", hint=_names(found))
        return Found(name, mine, by_ref.get(ref), [])

    async def owners(self, name: str | None) -> Counter[Ref]:
        """The JobSets that a drain is about, and how many slices each has: by a pool, by a JobSet's name, or all."""
        if name is None:
            return Counter(view.owner for view in await self.slices() if view.owner)
        found = await self.named(name)
        owner = next((view.owner for view in found.slices), Ref(self.client.namespace, name))
        if owner is None:
            raise SliceworksError(f"{name} was not made for a JobSet", hint="whoever made this pool gives it back")
        return Counter({owner: sum(view.owner == owner for view in await self.slices())})

    async def drained(self) -> list[Ref]:
        """The JobSets that are marked themselves."""
        found = [each for each in await self._jobsets() if is_drained(each)]
        return [Ref(each["metadata"]["namespace"], each["metadata"]["name"]) for each in found]

    async def drain_everything(self, *, undo: bool) -> None:
        """Mark the cluster: JobSets that are made later count too."""
        await self.client.patch(NAMESPACE, words.WHOLE_CLUSTER, _mark(undo=undo))

    async def drain(self, owner: Ref, *, undo: bool) -> None:
        """Mark a JobSet, or take the mark away; the controller does the rest."""
        try:
            await self.client.patch(JOBSET, owner.name, _mark(undo=undo), owner.namespace)
        except NotFound as error:
            raise SliceworksError(f"the JobSet {owner} is gone", hint="its slices are given back in any case") from error

    async def pause(self, seconds: float) -> None:
        """Wait before the next look."""
        await clock.sleep(seconds)

    async def _pools(self) -> list[Object]:
        try:
            return await self.container.node_pools()
        except CloudNotFound as error:
            place = f"{self.container.project}, {self.container.location}"
            raise SliceworksError(f"the cloud has no cluster {self.container.cluster} in {place}", hint=_NO_CLUSTER) from error

    async def _nodes(self) -> list[Object]:
        return (await self.client.list_all(NODE, labels=NODE_POOL)).items

    async def _jobsets(self) -> list[Object]:
        """All JobSets; none where the cluster does not have the kind."""
        try:
            return (await self.client.list_all(JOBSET)).items
        except NotFound:
            return []


def _mark(*, undo: bool) -> Object:
    return {"metadata": {"annotations": {words.DRAIN: None if undo else "true"}}}


def _names(found: list[SliceView]) -> str:
    names = [view.name for view in found if view.owner][:4]
    return f"there are {', '.join(names)}" if names else "sliceworks slices list -A"


@asynccontextmanager
async def open_sources(
    namespace: str, *, kubeconfig: str | None, context: str | None, twin: bool, **cloud: Any
) -> AsyncIterator[Sources]:
    """Connect to both."""
    client = open_cluster(kubeconfig, context, twin, namespace)
    settings = settings_for(cloud, twin=twin, kubeconfig=kubeconfig, context=context)
    async with client, open_container(settings) as container:
        yield Sources(client, container)
