"""Reconciles ResourceGraphDefinitions: compile, issue a revision, ensure the CRD, serve instances; cleanup on deletion."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sliceworks.base.errors import NotFound, SliceworksError
from sliceworks.controllers.graphs import applyset, crds, revisions, well_known
from sliceworks.controllers.graphs.applyset import InvalidInventory
from sliceworks.controllers.graphs.compiler import CompileFailure
from sliceworks.controllers.graphs.completion import remove_completion_finalizer
from sliceworks.controllers.graphs.conditions import ConditionSet
from sliceworks.controllers.graphs.object_deletion import members
from sliceworks.kube.controller import Done, Pending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.controllers.graphs.compiler import Compiler
    from sliceworks.controllers.graphs.context import Context
    from sliceworks.controllers.graphs.crds import CRDWatcher
    from sliceworks.controllers.graphs.dynamic_controller import DynamicController
    from sliceworks.controllers.graphs.object_cache import ObjectCache
    from sliceworks.controllers.graphs.revisions import RevisionManager
    from sliceworks.graph.model import Graph
    from sliceworks.kube.controller import Outcome
    from sliceworks.kube.resources import Key, Object, Resource

log = logging.getLogger(__name__)
RESOLVED, ACCEPTED, KIND, RUNNING = "GraphRevisionsResolved", "GraphAccepted", "KindReady", "ControllerReady"
_DELETION_POLL = 1.0
_DISCOVERY_DELAY = 1.0
"""Seconds until a kind whose CRD is established is looked up again."""


class DefinitionCleanup:
    """Deletes one definition: instances by `spec.lifecycle.onDelete`, then the CRD if enabled, then the finalizer."""

    def __init__(self, context: Context, dynamic_controller: DynamicController, cache: ObjectCache, definition: Object) -> None:
        self._context, self._dynamic_controller, self._cache, self._definition = context, dynamic_controller, cache, definition
        self._name: str = definition["metadata"]["name"]
        self._policy: str = (definition["spec"].get("lifecycle") or {}).get("onDelete") or "orphan"

    async def step(self, resource: Resource | None) -> Outcome:
        """Continue the deletion. `resource` is the generated kind, or None if it was never created."""
        if resource is not None:
            instances = await self._instances(resource)
            # Instances that are being deleted still need the controller, which deletes their objects.
            blocking = [item for item in instances if self._policy != "orphan" or "deletionTimestamp" in item["metadata"]]
            if blocking:
                return await self._wait_for_instances(resource, blocking)
            await self._dynamic_controller.deregister(self._name)
            for instance in instances:
                await self._remove_completion_finalizers(instance)
                await self._orphan(resource, instance)
            if self._context.options.allow_crd_deletion:
                await crds.delete(self._context.client, resource.qualified, self._name)
        await self._remove_finalizer()
        self._context.metrics.graph_deletions.inc(self._name)
        return Done()

    async def _wait_for_instances(self, resource: Resource, instances: list[Object]) -> Outcome:
        if self._policy == "cascade":
            for instance in instances:
                await self._delete(resource, instance)
            return Pending(f"waiting for the deletion of {len(instances)} instances", _DELETION_POLL)
        terminating = sum("deletionTimestamp" in instance["metadata"] for instance in instances)
        reason = f"{len(instances)} instances of {resource.kind} remain ({terminating} terminating)"
        if terminating < len(instances):
            self._context.warn(
                self._definition,
                "DeletionRefused",
                f"{reason}: delete them, or set spec.lifecycle.onDelete to orphan or cascade",
            )
        return Pending(reason, _DELETION_POLL)

    async def _instances(self, resource: Resource) -> list[Object]:
        try:
            listed = await self._context.client.list_all(resource)
        except NotFound:
            return []  # the kind was deleted, with all instances
        own_or_unlabeled = (self._name, None)
        return [
            item
            for item in listed.items
            if (item["metadata"].get("labels") or {}).get(well_known.DEFINITION_NAME) in own_or_unlabeled
        ]

    async def _delete(self, resource: Resource, instance: Object) -> None:
        metadata = instance["metadata"]
        if "deletionTimestamp" in metadata:
            return
        try:
            await self._context.client.delete(resource, metadata["name"], metadata.get("namespace"), uid=metadata["uid"])
        except NotFound:
            return

    async def _remove_completion_finalizers(self, instance: Object) -> None:
        """Remove the completion finalizers: completions are no longer recorded."""
        try:
            inventory = applyset.read_inventory(instance)
        except InvalidInventory:
            return  # without an inventory the objects are unknown
        for cache, record in await members(self._context, applyset.compute_id(instance), inventory):
            await remove_completion_finalizer(self._context.client, cache, record)

    async def _orphan(self, resource: Resource, instance: Object) -> None:
        """Remove the finalizer. Inventory and labels stay, so that a new definition of this name adopts the instance."""
        await self._context.client.remove_finalizer(resource, instance["metadata"], well_known.FINALIZER)

    async def _remove_finalizer(self) -> None:
        response = await self._context.client.remove_finalizer(
            well_known.GRAPH_DEFINITION, self._definition["metadata"], well_known.FINALIZER
        )
        if response is not None:
            # The deletion of the CRD requeues the definition, possibly before the watch reports its deletion.
            self._cache.record_write(response)


class DefinitionReconciler:
    """Reconciles every definition of the cluster."""

    def __init__(
        self,
        context: Context,
        cache: ObjectCache,
        *,
        compiler: Compiler,
        revision_manager: RevisionManager,
        dynamic_controller: DynamicController,
        crds: CRDWatcher,
    ) -> None:
        self._context, self._cache, self._compiler = context, cache, compiler
        self._revision_manager, self._dynamic_controller, self._crds = revision_manager, dynamic_controller, crds

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one definition."""
        # 1. Read it from the cache.
        record = self._cache.get(key.name)
        if record is None:
            self._crds.set_missing(key.name, frozenset())
            await self._dynamic_controller.deregister(key.name)
            return Done()
        definition = record.object
        # 2. Continue a deletion.
        if record.deleting:
            return await self._delete(definition)
        # 3. Add the finalizer.
        definition = await self._add_finalizer(definition)
        conditions = ConditionSet(definition, (RESOLVED, ACCEPTED, KIND, RUNNING), prunes=("ResourceGraphAccepted",))
        return await self._reconcile(definition, conditions)

    async def _reconcile(self, definition: Object, conditions: ConditionSet) -> Outcome:
        name, spec = definition["metadata"]["name"], definition["spec"]
        issued = await self._revision_manager.list(definition)
        last = int((definition.get("status") or {}).get("lastIssuedRevision") or 0)
        # 4. Compile.
        graph = await self._compiler.compile(name, spec)
        previous_revision = max((revisions.revision_number(item) for item in issued), default=0)
        if isinstance(graph, CompileFailure):
            self._crds.set_missing(name, graph.missing)
            if previous_revision:
                conditions.true(RESOLVED, "Resolved", f"revision {previous_revision} compiled and active")
            outcome = await self._reject(definition, conditions, graph.message, issued)
            # Discovery lists a kind shortly after its CRD is established, and there is no event for that.
            is_discoverable = self._crds.has_any(graph.missing)
            return Pending("waiting for discovery of a new kind", _DISCOVERY_DELAY) if is_discoverable else outcome
        self._crds.set_missing(name, frozenset())
        # 5. Issue a revision.
        current = await self._revision_manager.issue(definition, issued, graph, last)
        for note in graph.notes if current > previous_revision else ():
            self._context.warn(definition, "DeprecatedForm", str(note))
        conditions.true(RESOLVED, "Resolved", f"revision {current} compiled and active")
        conditions.true(ACCEPTED, "Valid", "resource graph and schema are valid")
        # 6. and 7. Ensure the CRD, and serve the instances.
        failure = await self._serve(definition, graph, conditions)
        if failure is not None and not self._dynamic_controller.serves(name):
            await self._keep_serving(definition, [item for item in issued if revisions.revision_number(item) != current])
        await self._revision_manager.garbage_collect(definition)
        # 8. Write the status.
        await self._write_status(definition, conditions, graph, current)
        if failure is not None:
            raise failure
        return Done()

    async def _reject(self, definition: Object, conditions: ConditionSet, reason: str, issued: Sequence[Object]) -> Outcome:
        previous = conditions.get(ACCEPTED)
        if previous is None or previous["message"] != reason:
            self._context.warn(definition, "InvalidResourceGraph", reason)
        conditions.false(ACCEPTED, "InvalidResourceGraph", reason)
        await self._keep_serving(definition, issued)
        await self._write_status(definition, conditions, None, int((definition.get("status") or {}).get("lastIssuedRevision") or 0))
        return Done()

    async def _serve(self, definition: Object, graph: Graph, conditions: ConditionSet) -> SliceworksError | None:
        desired = _crd(graph, definition)
        try:
            crd = await crds.ensure(self._context.client, desired, definition)
        except SliceworksError as error:
            conditions.false(KIND, "Failed", f"{error}; {error.hint}" if error.hint else str(error))
            return error
        conditions.true(KIND, "Ready", f"kind {crd['status']['acceptedNames']['kind']} has been accepted and ready")
        try:
            await self._dynamic_controller.register(definition["metadata"]["name"], graph, definition)
        except SliceworksError as error:
            conditions.false(RUNNING, "FailedToStart", str(error))
            return error
        conditions.true(RUNNING, "Running", "controller is running")
        return None

    async def _keep_serving(self, definition: Object, issued: Sequence[Object]) -> None:
        """After a restart with an invalid spec: serve the newest valid revision."""
        name = definition["metadata"]["name"]
        if self._dynamic_controller.serves(name):
            return
        for revision in sorted(issued, key=revisions.revision_number, reverse=True):
            graph = await self._compiler.compile(name, revision["spec"]["snapshot"]["spec"])
            if not isinstance(graph, CompileFailure) and await self._register(name, graph, definition):
                return
        # Without a graph instances can still be deleted, by their inventories.
        if (resource := self._crds.resource_for(name)) is not None:
            await self._dynamic_controller.register_for_deletion(name, resource, definition)

    async def _register(self, name: str, graph: Graph, definition: Object) -> bool:
        try:
            await self._dynamic_controller.register(name, graph, definition)
        except SliceworksError as error:
            log.warning("cannot serve an older revision of %s: %s", name, error)
            return False
        return True

    async def _add_finalizer(self, definition: Object) -> Object:
        metadata = definition["metadata"]
        if well_known.FINALIZER in (metadata.get("finalizers") or ()):
            return definition
        finalizers = [*(metadata.get("finalizers") or ()), well_known.FINALIZER]
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers}}
        response = await self._context.client.patch(well_known.GRAPH_DEFINITION, metadata["name"], patch)
        return self._cache.record_write(response).object

    async def _delete(self, definition: Object) -> Outcome:
        if well_known.FINALIZER not in (definition["metadata"].get("finalizers") or ()):
            return Done()
        # After a restart the kind may not be served yet, but instances need their controller for deletion.
        name = definition["metadata"]["name"]
        await self._keep_serving(definition, await self._revision_manager.list(definition))
        return await DefinitionCleanup(self._context, self._dynamic_controller, self._cache, definition).step(
            self._crds.resource_for(name)
        )

    async def _write_status(self, definition: Object, conditions: ConditionSet, graph: Graph | None, revision: int) -> None:
        previous_revision = definition.get("status") or {}
        state = "Active" if conditions.are_true(ACCEPTED, KIND, RUNNING) else "Inactive"
        status: Object = {"conditions": conditions.items, "state": state}
        if revision:
            status["lastIssuedRevision"] = revision
        if graph is not None:
            if graph.order:
                status["topologicalOrder"] = list(graph.order)
            if resources := revisions.resource_information(graph):
                status["resources"] = resources
        if status == previous_revision:
            return
        updated = {**definition, "status": status}
        try:
            response = await self._context.client.replace(updated, resource=well_known.GRAPH_DEFINITION, subresource="status")
        except NotFound:
            return
        self._cache.record_write(response)
        if previous_revision.get("state") and previous_revision["state"] != state:
            self._context.metrics.graph_transitions.inc(definition["metadata"]["name"], previous_revision["state"], state)


def _crd(graph: Graph, definition: Object) -> Object:
    metadata = graph.crd["metadata"]
    labels = {**(metadata.get("labels") or {}), **well_known.instance_labels(definition)}
    return {**graph.crd, "metadata": {**metadata, "labels": labels}}
