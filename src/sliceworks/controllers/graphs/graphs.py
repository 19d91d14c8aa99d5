"""Reconciles ResourceGraphDefinitions: the numbered steps of one look at one of them.

1. Find it; gone means that its kind is no longer served.
2. One that is being deleted ends as it says: refuse, orphan or cascade.
3. Hold it with a finalizer.
4. Compile it. One that does not compile is refused, and the last good revision goes on serving.
5. Issue a revision if the spec is a new one, and let old ones go.
6. Bring its CustomResourceDefinition about, unless that would break instances.
7. Serve its instances.
8. Write the status, if it changed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sliceworks.base.errors import NotFound, SliceworksError
from sliceworks.controllers.graphs import crds, labels, names, revisions
from sliceworks.controllers.graphs.compiling import NotCompiled
from sliceworks.controllers.graphs.conditions import Conditions
from sliceworks.controllers.graphs.ending import Ending
from sliceworks.kube.controller import Done, Pending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.controllers.graphs.compiling import Compiler
    from sliceworks.controllers.graphs.kinds_served import KindsServed
    from sliceworks.controllers.graphs.known_crds import KnownCrds
    from sliceworks.controllers.graphs.revision_keeper import RevisionKeeper
    from sliceworks.controllers.graphs.views import View
    from sliceworks.controllers.graphs.world import World
    from sliceworks.graph.model import Graph
    from sliceworks.kube.controller import Outcome
    from sliceworks.kube.resources import Key, Object

log = logging.getLogger(__name__)
_LATE = 1.0
"""Seconds until a kind is looked for again that must be there any moment."""
RESOLVED, ACCEPTED, KIND, RUNNING = "GraphRevisionsResolved", "GraphAccepted", "KindReady", "ControllerReady"


class Graphs:
    """Reconciles every definition of the cluster."""

    def __init__(
        self, world: World, view: View, *, compiler: Compiler, keeper: RevisionKeeper, kinds: KindsServed, crds: KnownCrds
    ) -> None:
        self._world, self._view, self._compiler = world, view, compiler
        self._keeper, self._kinds, self._crds = keeper, kinds, crds

    async def reconcile(self, key: Key) -> Outcome:
        """Look at one definition."""
        # 1. Find it.
        record = self._view.get(key.name)
        if record is None:
            self._crds.wait(key.name, frozenset())
            await self._kinds.stop(key.name)
            return Done()
        definition = record.object
        # 2. It may be on its way out.
        if record.deleting:
            return await self._end(definition)
        # 3. Hold it.
        definition = await self._hold(definition)
        conditions = Conditions(definition, (RESOLVED, ACCEPTED, KIND, RUNNING), prunes=("ResourceGraphAccepted",))
        return await self._bring_about(definition, conditions)

    async def _bring_about(self, definition: Object, conditions: Conditions) -> Outcome:
        name, spec = definition["metadata"]["name"], definition["spec"]
        issued = await self._keeper.of(definition)
        last = int((definition.get("status") or {}).get("lastIssuedRevision") or 0)
        # 4. Compile.
        graph = await self._compiler.compile(name, spec)
        before = max((revisions.number(item) for item in issued), default=0)
        if isinstance(graph, NotCompiled):
            self._crds.wait(name, graph.missing)
            if before:
                conditions.true(RESOLVED, "Resolved", f"revision {before} compiled and active")
            refused = await self._refuse(definition, conditions, graph.message, issued)
            # The API server lists a kind a moment after its definition says that it is there: no other news will come.
            late = self._crds.has_any(graph.missing)
            return Pending("a kind is about to be served", _LATE) if late else refused
        self._crds.wait(name, frozenset())
        # 5. Issue a revision.
        newest = await self._keeper.issue(definition, issued, graph, last)
        for note in graph.notes if newest > before else ():
            self._world.warn(definition, "OldForm", str(note))
        conditions.true(RESOLVED, "Resolved", f"revision {newest} compiled and active")
        conditions.true(ACCEPTED, "Valid", "resource graph and schema are valid")
        # 6. and 7. Its kind, and its instances.
        failure = await self._serve(definition, graph, conditions)
        if failure is not None and not self._kinds.serves(name):
            await self._keep_serving(definition, [item for item in issued if revisions.number(item) != newest])
        await self._keeper.collect(definition)
        # 8. Write the status.
        await self._tell(definition, conditions, graph, newest)
        if failure is not None:
            raise failure
        return Done()

    async def _refuse(self, definition: Object, conditions: Conditions, why: str, issued: Sequence[Object]) -> Outcome:
        told = conditions.get(ACCEPTED)
        if told is None or told["message"] != why:
            self._world.warn(definition, "InvalidResourceGraph", why)
        conditions.false(ACCEPTED, "InvalidResourceGraph", why)
        await self._keep_serving(definition, issued)
        await self._tell(definition, conditions, None, int((definition.get("status") or {}).get("lastIssuedRevision") or 0))
        return Done()

    async def _serve(self, definition: Object, graph: Graph, conditions: Conditions) -> SliceworksError | None:
        wanted = _crd(graph, definition)
        allow = (definition["metadata"].get("annotations") or {}).get(names.ALLOW_BREAKING) == "true"
        try:
            crd = await crds.ensure(self._world.client, wanted, allow_breaking=allow)
        except SliceworksError as error:
            conditions.false(KIND, "Failed", f"{error}; {error.hint}" if error.hint else str(error))
            return error
        conditions.true(KIND, "Ready", f"kind {crd['status']['acceptedNames']['kind']} has been accepted and ready")
        try:
            await self._kinds.start(definition["metadata"]["name"], graph, definition)
        except SliceworksError as error:
            conditions.false(RUNNING, "FailedToStart", str(error))
            return error
        conditions.true(RUNNING, "Running", "controller is running")
        return None

    async def _keep_serving(self, definition: Object, issued: Sequence[Object]) -> None:
        """After a restart with a spec that is no good: serve by the newest revision that is."""
        name = definition["metadata"]["name"]
        if self._kinds.serves(name):
            return
        for revision in sorted(issued, key=revisions.number, reverse=True):
            graph = await self._compiler.compile(name, revision["spec"]["snapshot"]["spec"])
            if not isinstance(graph, NotCompiled) and await self._starts(name, graph, definition):
                return
        # Without any graph, instances that are being deleted can still be: that goes by what they say of themselves.
        if (resource := self._crds.resource_for(name)) is not None:
            await self._kinds.hold(name, resource, definition)

    async def _starts(self, name: str, graph: Graph, definition: Object) -> bool:
        try:
            await self._kinds.start(name, graph, definition)
        except SliceworksError as error:
            log.warning("%s cannot be served by an older revision: %s", name, error)
            return False
        return True

    async def _hold(self, definition: Object) -> Object:
        metadata = definition["metadata"]
        finalizers = metadata.get("finalizers") or []
        if names.FINALIZER in finalizers:
            return definition
        change = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": [*finalizers, names.FINALIZER]}}
        answer = await self._world.client.patch(names.GRAPH_DEFINITION, metadata["name"], change, field_manager=names.WRITER)
        return self._view.wrote(answer).object

    async def _end(self, definition: Object) -> Outcome:
        if names.FINALIZER not in (definition["metadata"].get("finalizers") or ()):
            return Done()
        # A restart may have left nobody who serves: instances that are to go need somebody.
        name = definition["metadata"]["name"]
        await self._keep_serving(definition, await self._keeper.of(definition))
        return await Ending(self._world, self._kinds, self._view, definition).step(self._crds.resource_for(name))

    async def _tell(self, definition: Object, conditions: Conditions, graph: Graph | None, revision: int) -> None:
        before = definition.get("status") or {}
        state = "Active" if conditions.holds(ACCEPTED, KIND, RUNNING) else "Inactive"
        made: Object = {"conditions": conditions.items, "state": state}
        if revision:
            made["lastIssuedRevision"] = revision
        if graph is not None:
            if graph.order:
                made["topologicalOrder"] = list(graph.order)
            if resources := revisions.resource_information(graph):
                made["resources"] = resources
        if made == before:
            return
        written = {**definition, "status": made}
        try:
            answer = await self._world.client.replace(
                written, resource=names.GRAPH_DEFINITION, subresource="status", field_manager=names.WRITER
            )
        except NotFound:
            return
        self._view.wrote(answer)
        if before.get("state") and before["state"] != state:
            self._world.measures.graph_transitions.add(definition["metadata"]["name"], before["state"], state)


def _crd(graph: Graph, definition: Object) -> Object:
    metadata = graph.crd["metadata"]
    marked = {**(metadata.get("labels") or {}), **labels.instance_labels(definition)}
    return {**graph.crd, "metadata": {**metadata, "labels": marked}}
