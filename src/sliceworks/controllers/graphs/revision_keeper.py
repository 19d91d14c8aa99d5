"""Keeps the GraphRevisions of a definition: issues them, adopts those that lost their owner, and lets old ones go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import AlreadyExists, NotFound
from sliceworks.controllers.graphs import names, revisions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.controllers.graphs.views import View
    from sliceworks.controllers.graphs.world import World
    from sliceworks.graph.model import Graph
    from sliceworks.kube.controller import Outcome
    from sliceworks.kube.resources import Key, Object


class RevisionKeeper:
    """The revisions of all definitions."""

    def __init__(self, world: World, view: View) -> None:
        self._world, self._view = world, view

    async def of(self, definition: Object) -> list[Object]:
        """The revisions of a definition that stay, all owned by it."""
        name = definition["metadata"]["name"]
        found = [record.object for record in self._view.all() if not record.deleting]
        own = [item for item in found if item["spec"]["snapshot"]["name"] == name]
        return [await self._adopted(item, definition) for item in own]

    async def issue(self, definition: Object, issued: Sequence[Object], graph: Graph, last: int) -> int:
        """The number of the revision that has this spec, made if there is none; its status tells that it compiled."""
        digest = revisions.digest(definition["spec"])
        newest = max(issued, key=revisions.number, default=None)
        if newest is None or revisions.digest(newest["spec"]["snapshot"]["spec"]) != digest:
            number = max(last, revisions.number(newest) if newest else 0) + 1
            self._world.measures.revisions_issued.add("spec_changed" if newest else "no_revision")
            newest = await self._create(revisions.snapshot(definition, number, digest))
        await self._tell(newest, graph)
        return revisions.number(newest)

    async def collect(self, definition: Object) -> None:
        """Let the oldest revisions go."""
        for revision in revisions.superfluous(await self.of(definition), self._world.options.revisions_kept):
            metadata = revision["metadata"]
            try:
                await self._world.client.delete(names.GRAPH_REVISION, metadata["name"], uid=metadata["uid"])
            except NotFound:
                continue
            self._world.measures.revisions_collected.add()

    async def release(self, key: Key) -> Outcome:
        """Reconciles a revision: one that is being deleted may go."""
        from sliceworks.kube.controller import Done

        record = self._view.get(key.name)
        if record is None or not record.deleting:
            return Done()
        metadata = record.object["metadata"]
        finalizers = [name for name in metadata.get("finalizers") or () if name != names.FINALIZER]
        if len(finalizers) != len(metadata.get("finalizers") or ()):
            change = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers}}
            try:
                await self._world.client.patch(names.GRAPH_REVISION, key.name, change, field_manager=names.WRITER)
            except NotFound:
                return Done()
        return Done()

    async def _create(self, revision: Object) -> Object:
        try:
            answer = await self._world.client.create(revision, resource=names.GRAPH_REVISION, field_manager=names.WRITER)
        except AlreadyExists:
            # Made just before a restart, and the cache has not heard of it.
            answer = await self._world.client.get(names.GRAPH_REVISION, revision["metadata"]["name"])
        return self._view.wrote(answer).object

    async def _tell(self, revision: Object, graph: Graph) -> None:
        made = revisions.status(revision, graph)
        if made == revision.get("status"):
            return
        answer = await self._world.client.replace(
            {**revision, "status": made}, resource=names.GRAPH_REVISION, subresource="status", field_manager=names.WRITER
        )
        self._view.wrote(answer)

    async def _adopted(self, revision: Object, definition: Object) -> Object:
        """The revision with this definition as its owner: the one it was made for may have been deleted and made again."""
        wanted = revisions.owner(definition)
        owners = revision["metadata"].get("ownerReferences") or []
        if any(owner["uid"] == wanted["uid"] and owner.get("controller") for owner in owners):
            return revision
        others = [owner for owner in owners if owner["kind"] != wanted["kind"] or owner["apiVersion"] != wanted["apiVersion"]]
        metadata = revision["metadata"]
        change = {"metadata": {"resourceVersion": metadata["resourceVersion"], "ownerReferences": [*others, wanted]}}
        answer = await self._world.client.patch(names.GRAPH_REVISION, metadata["name"], change, field_manager=names.WRITER)
        return self._view.wrote(answer).object
