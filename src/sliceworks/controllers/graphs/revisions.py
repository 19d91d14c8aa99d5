"""GraphRevisions: an immutable copy of each accepted version of a definition; issued, adopted and garbage-collected."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import orjson

from sliceworks.base.errors import AlreadyExists, NotFound
from sliceworks.controllers.graphs import well_known
from sliceworks.controllers.graphs.conditions import ConditionSet
from sliceworks.kube.controller import Done
from sliceworks.kube.resources import owner_reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.controllers.graphs.context import Context
    from sliceworks.controllers.graphs.object_cache import ObjectCache
    from sliceworks.graph.model import Graph
    from sliceworks.kube.controller import Outcome
    from sliceworks.kube.resources import Key, Object


_MAX_NAME_LENGTH = 253
_VERIFIED = "GraphVerified"


def hash_spec(spec: Object) -> str:
    """A hash of a spec that does not depend on the order of resources and conditions."""
    resources = [_normalize(item) for item in spec.get("resources") or ()]
    normalized = {**spec, "resources": sorted(resources, key=lambda item: str(item.get("id")))}
    return hashlib.blake2b(orjson.dumps(normalized, option=orjson.OPT_SORT_KEYS), digest_size=8).hexdigest()


def revision_name(definition: str, revision: int) -> str:
    """`<definition>-r00001`; a name that is too long is truncated and gets a hash."""
    suffix = f"-r{revision:05d}"
    if len(definition) + len(suffix) <= _MAX_NAME_LENGTH:
        return definition + suffix
    suffix += f"-{_fnv32a(definition):08x}"
    return (definition[: _MAX_NAME_LENGTH - len(suffix)].rstrip(".-") or "gr") + suffix


def build_revision(definition: Object, revision: int, spec_hash: str) -> Object:
    """The GraphRevision of a definition's current spec."""
    metadata = definition["metadata"]
    return {
        "apiVersion": well_known.GRAPH_REVISION.api_version,
        "kind": well_known.GRAPH_REVISION.kind,
        "metadata": {
            "name": revision_name(metadata["name"], revision),
            "finalizers": [well_known.FINALIZER],
            "labels": {
                **well_known.own_labels(),
                well_known.DEFINITION_NAME: metadata["name"],
                well_known.REVISION_HASH: spec_hash,
            },
            "ownerReferences": [owner_reference(definition, block=False)],
        },
        "spec": {
            "revision": revision,
            "snapshot": {"name": metadata["name"], "generation": metadata.get("generation", 1), "spec": definition["spec"]},
        },
    }


def status(revision: Object, graph: Graph) -> Object:
    """The status of a valid revision."""
    conditions = ConditionSet(revision, (_VERIFIED,))
    conditions.true(_VERIFIED, "Verified", "graph revision compiled and verified")
    status: Object = {"conditions": conditions.items, "topologicalOrder": list(graph.order)}
    if resources := resource_information(graph):
        status["resources"] = resources
    return status


def resource_information(graph: Graph) -> list[Object]:
    """The dependencies of each resource, in the form of `status.resources`."""
    return [
        {"id": node.id, "dependencies": [{"id": name} for name in node.dependencies]} for node in graph.nodes if node.dependencies
    ]


def revision_number(revision: Object) -> int:
    """The number of a revision."""
    return int(revision["spec"]["revision"])


def expired(revisions: Sequence[Object], limit: int) -> list[Object]:
    """The oldest revisions beyond the history limit."""
    return sorted(revisions, key=revision_number)[: max(0, len(revisions) - limit)] if limit > 0 else []


def _normalize(resource: Object) -> Object:
    return {**resource, **{name: sorted(resource.get(name) or ()) for name in ("readyWhen", "includeWhen")}}


def _fnv32a(text: str) -> int:
    value = 0x811C9DC5
    for byte in text.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


class RevisionManager:
    """Issues, adopts and garbage-collects the revisions of all definitions."""

    def __init__(self, context: Context, cache: ObjectCache) -> None:
        self._context, self._cache = context, cache

    async def list(self, definition: Object) -> list[Object]:
        """The revisions of a definition that are not being deleted, with it as their owner."""
        name = definition["metadata"]["name"]
        revisions = [record.object for record in self._cache.all() if not record.deleting]
        return [await self._adopt(item, definition) for item in revisions if item["spec"]["snapshot"]["name"] == name]

    async def issue(self, definition: Object, issued: Sequence[Object], graph: Graph, last: int) -> int:
        """The number of the revision with this spec, which is created if necessary."""
        spec_hash = hash_spec(definition["spec"])
        newest = max(issued, key=revision_number, default=None)
        if newest is None or hash_spec(newest["spec"]["snapshot"]["spec"]) != spec_hash:
            number = max(last, revision_number(newest) if newest else 0) + 1
            self._context.metrics.revisions_issued.inc("spec_changed" if newest else "no_revision")
            newest = await self._create(build_revision(definition, number, spec_hash))
        await self._write_status(newest, graph)
        return revision_number(newest)

    async def garbage_collect(self, definition: Object) -> None:
        """Delete the oldest revisions beyond the history limit."""
        for revision in expired(await self.list(definition), self._context.options.revision_history_limit):
            metadata = revision["metadata"]
            try:
                await self._context.client.delete(well_known.GRAPH_REVISION, metadata["name"], uid=metadata["uid"])
            except NotFound:
                continue
            self._context.metrics.revisions_collected.inc()

    async def remove_finalizer(self, key: Key) -> Outcome:
        """Reconcile a revision: remove the finalizer of one that is being deleted."""
        record = self._cache.get(key.name)
        if record is not None and record.deleting:
            metadata = record.object["metadata"]
            await self._context.client.remove_finalizer(well_known.GRAPH_REVISION, metadata, well_known.FINALIZER)
        return Done()

    async def _create(self, revision: Object) -> Object:
        try:
            response = await self._context.client.create(revision, resource=well_known.GRAPH_REVISION)
        except AlreadyExists:
            # Created just before a restart, and not in the cache yet.
            response = await self._context.client.get(well_known.GRAPH_REVISION, revision["metadata"]["name"])
        return self._cache.record_write(response).object

    async def _write_status(self, revision: Object, graph: Graph) -> None:
        new_status = status(revision, graph)
        if new_status == revision.get("status"):
            return
        response = await self._context.client.replace(
            {**revision, "status": new_status},
            resource=well_known.GRAPH_REVISION,
            subresource="status",
        )
        self._cache.record_write(response)

    async def _adopt(self, revision: Object, definition: Object) -> Object:
        """The revision with this definition as its owner; the definition may have been deleted and recreated."""
        desired = owner_reference(definition, block=False)
        owners = revision["metadata"].get("ownerReferences") or []
        if any(owner["uid"] == desired["uid"] and owner.get("controller") for owner in owners):
            return revision
        others = [owner for owner in owners if owner["kind"] != desired["kind"] or owner["apiVersion"] != desired["apiVersion"]]
        metadata = revision["metadata"]
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "ownerReferences": [*others, desired]}}
        response = await self._context.client.patch(well_known.GRAPH_REVISION, metadata["name"], patch)
        return self._cache.record_write(response).object
