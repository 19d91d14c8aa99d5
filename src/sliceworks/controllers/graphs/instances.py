"""Reconciles instances: the numbered steps of one look at one of them.

1. Find it in the cache; gone means forgotten.
2. Stop here if nothing that the last look saw has changed.
3. One that is being deleted gives up its objects, the last made first.
4. Claim it: finalizer, labels and the inventory of what will be made, in one write.
5. Leave a suspended one alone.
6. Walk the graph: resolve and apply, level by level.
7. Take away what is no longer wanted, once everything wanted is known.
8. Keep the inventory to what is there, and note what has finished.
9. Write the status, if it changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.controllers.graphs import applyset, names, pruning, states, status
from sliceworks.controllers.graphs.applying import Applier, Memories
from sliceworks.controllers.graphs.claims import Claim
from sliceworks.controllers.graphs.completed import Completed
from sliceworks.controllers.graphs.deletion import Deletion
from sliceworks.controllers.graphs.passes import Pass, looked_up
from sliceworks.controllers.graphs.records import Owner
from sliceworks.controllers.graphs.states import NodeState, Step
from sliceworks.graph.evaluate import Evaluation
from sliceworks.kube.controller import Done, Failed, Pending

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.controllers.graphs.conditions import Conditions
    from sliceworks.controllers.graphs.options import Options
    from sliceworks.controllers.graphs.records import Record
    from sliceworks.controllers.graphs.served import Served
    from sliceworks.controllers.graphs.views import View
    from sliceworks.controllers.graphs.world import World
    from sliceworks.graph.model import Graph
    from sliceworks.kube.controller import Outcome
    from sliceworks.kube.resources import Key, Object

_MANY, _PATIENCE = 100, 10.0
_SUSPENDED = frozenset({"suspended", "disabled"})


class NotDone(SliceworksError):
    """Something went wrong that may go better next time; the status tells it."""


def _never(_: Record) -> bool:
    return False


@dataclass(slots=True)
class _Known:
    """What is remembered of an instance between looks, to do nothing again. All of it can be lost."""

    memories: Memories = field(default_factory=dict)
    seen: tuple[object, ...] = ()
    took: float = 0.0
    ended: float = 0.0
    current: Callable[[Record], bool] = _never
    """Whether an instance and all that the last pass saw of its objects are still the same."""

    def rest(self) -> float:
        """How long to leave it alone: a large instance whose many objects change one by one is looked at half of the time."""
        return self.took - (clock.loop_time() - self.ended) if len(self.memories) > _MANY else 0.0


class Instances:
    """Reconciles the instances of one kind, by the graph that serves now."""

    def __init__(self, world: World, served: Served, view: View) -> None:
        self.served = served
        self._world, self._view = world, view
        self._options: Options = world.options
        self._known: dict[Key, _Known] = {}

    async def reconcile(self, key: Key) -> Outcome:
        """Look at one instance."""
        # 1. Find it.
        record = self._view.get(key.name, key.namespace)
        if record is None:
            self._forget(key)
            return Done()
        # 2. Has anything changed?
        known = self._known.setdefault(key, _Known())
        if known.seen and known.seen == self._fingerprint(key, record):
            return Done()
        if (rest := known.rest()) > 0:
            return Pending("it was looked at a moment ago", rest)
        known.seen = ()
        instance, began = record.object, clock.loop_time()
        # 3. Deletion needs no graph: it goes by the inventory.
        if record.deleting:
            return await self._delete(key, instance)
        outcome = await self._bring_about(key, known, instance)
        known.ended = clock.loop_time()
        known.took = known.ended - began
        fresh = self._view.get(key.name, key.namespace)
        # What came in while we worked has not been seen by anyone: then there is more to do, and the key waits already.
        if fresh is not None and not isinstance(outcome, Pending) and known.current(fresh):
            known.seen = self._fingerprint(key, fresh)
        known.current = _never  # it holds the whole pass
        return outcome

    def look_anew(self, key: Key) -> None:
        """Look at an instance next time even if nothing seems to have changed."""
        if (known := self._known.get(key)) is not None:
            known.seen = ()
            known.memories.clear()

    async def _bring_about(self, key: Key, known: _Known, instance: Object) -> Outcome:
        graph = self.served.graph
        conditions = status.conditions_of(instance)
        if graph is None:
            conditions.false(status.RESOLVED, "ResolutionFailed", "latest issued graph revision not available")
            await self._tell(instance, conditions, states.ERROR, _projected(instance))
            return Done()
        # 4. Claim it before anything is made for it.
        claim = Claim(self._world.client, self._view, self.served, graph, instance)
        instance = await self._claim(claim, conditions)
        # 5. Leave a suspended one alone.
        annotations = instance["metadata"].get("annotations") or {}
        if annotations.get(names.RECONCILE, "").lower() in _SUSPENDED:
            status.suspended(conditions)
            await self._tell(instance, conditions, states.ACTIVE, _projected(instance))
            return Done()
        # 6. Walk the graph.
        evaluation = Evaluation(graph, instance, largest=self._options.largest_collection)
        completed = Completed(instance)
        walk = self._pass(claim, evaluation, completed, known.memories)
        known.current = lambda fresh: walk.is_current and _same_wishes(fresh.object, claim.instance)
        await walk.run(graph.nodes)
        self._world.lookups.set(self._owner(key), walk.lookups)
        # 7. Take away what is no longer wanted.
        complete = walk.states.settled and await self._prune(claim, walk, graph)
        # 8. Keep the inventory to what is there, and note what has finished.
        await claim.settle(walk.inventory if complete else claim.inventory, completed)
        await walk.unpin(self._world.client)
        # 9. Write the status.
        status.judge(conditions, walk.states)
        return await self._report(claim.instance, conditions, walk, evaluation)

    async def _claim(self, claim: Claim, conditions: Conditions) -> Object:
        try:
            instance = await claim.ensure()
        except SliceworksError as error:
            conditions.false(status.MANAGED, "ManagementFailed", f"finalizer/labeling failed: {error}")
            await self._tell(claim.instance, conditions, states.ERROR, _projected(claim.instance))
            raise NotDone(str(error)) from error
        status.managed(conditions)
        status.resolved(conditions)
        return instance

    def _pass(self, claim: Claim, evaluation: Evaluation, completed: Completed, memories: Memories) -> Pass:
        adopt = (claim.instance["metadata"].get("annotations") or {}).get(names.ADOPT) == "true"
        return Pass(
            claim.instance,
            evaluation,
            views=self.served.views,
            applier=Applier(self._world.client, claim.set_id, adopt, memories),
            completed=completed,
            declare=claim.declare,
            most_at_once=self._options.most_applies_at_once,
        )

    async def _prune(self, claim: Claim, walk: Pass, graph: Graph) -> bool:
        try:
            return await pruning.prune(self._world, claim.set_id, claim.inventory, walk.kept, graph)
        except SliceworksError as error:
            walk.states.nodes[""] = NodeState(Step.FAILED, f"what is no longer wanted cannot be taken away: {error}")
            return False

    async def _report(self, instance: Object, conditions: Conditions, walk: Pass, evaluation: Evaluation) -> Outcome:
        projection = evaluation.status()
        for failure in projection.failures:
            self._world.warn(instance, "StatusFailed", str(failure))
        await self._tell(instance, conditions, walk.states.state, projection.values, evaluation)
        failed = walk.states.first(Step.FAILED)
        if failed is None:
            return Done()
        if walk.states.lasting:
            return Failed(failed.message)
        raise NotDone(failed.message)

    async def _tell(
        self, instance: Object, conditions: Conditions, state: str, projected: Object, evaluation: Evaluation | None = None
    ) -> None:
        made = status.assemble(conditions, state, projected)
        graph = self.served.graph
        if graph is not None and graph.conditions and evaluation is not None:
            authored = evaluation.conditions(conditions.items)
            made["conditions"] = status.authored(instance, authored)
            if authored.failures:
                made["state"] = states.ERROR
        before = instance.get("status") or {}
        if made == before:
            return
        answer = await self._world.client.replace(
            {**instance, "status": made},
            resource=self.served.resource,
            subresource="status",
            field_manager=names.WRITER,
        )
        self._view.wrote(answer)
        self._world.told(instance, before, made)

    async def _delete(self, key: Key, instance: Object) -> Outcome:
        if names.FINALIZER not in (instance["metadata"].get("finalizers") or ()):
            return Done()
        conditions = status.conditions_of(instance)
        deletion = Deletion(self._world, self.served.resource, instance)
        try:
            gone = await deletion.step()
        except SliceworksError as error:
            cause = "validate deletion inventory: " if isinstance(error, applyset.BrokenInventory) else ""
            status.deleting(conditions, f"deletion blocked: {cause}{error}")
            await self._tell(instance, conditions, states.DELETING, _projected(instance))
            raise NotDone(str(error)) from error
        if gone:
            self._forget(key)
            return Done()
        status.deleting(conditions, deletion.message)
        await self._tell(instance, conditions, states.DELETING, _projected(instance))
        return Pending(deletion.message, _PATIENCE)  # what goes is watched; this is for what nobody watches any more

    def _forget(self, key: Key) -> None:
        self._known.pop(key, None)
        self._world.lookups.set(self._owner(key), {})

    def _owner(self, key: Key) -> Owner:
        resource = self.served.resource
        return Owner(resource.group, resource.kind, key.namespace, key.name)

    def _fingerprint(self, key: Key, record: Record) -> tuple[object, ...]:
        """Everything that a look depends on, in versions."""
        set_id = applyset.set_id(_identity(self.served, key))
        members = (member for view in self.served.own_views for member in view.members(set_id))
        looked = (item.version for item in self._looked_up(key))
        return (self.served, record.version, *((member.uid, member.version) for member in members), *looked)

    def _looked_up(self, key: Key) -> list[Record]:
        found: list[Record] = []
        for node, (_, lookup) in self._world.lookups.of(self._owner(key)).items():
            if node in self.served.views:
                found += looked_up(self.served.views[node], lookup)
        return found


def _same_wishes(one: Object, other: Object) -> bool:
    """Whether two states of an instance ask for the same."""
    asked = ("uid", "generation", "labels", "annotations", "deletionTimestamp")
    return all(one["metadata"].get(name) == other["metadata"].get(name) for name in asked)


def _identity(served: Served, key: Key) -> Object:
    resource = served.resource
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": key.name, "namespace": key.namespace}}


def _projected(instance: Object) -> Object:
    """What the status told before, for looks that cannot tell it anew."""
    before: Object = instance.get("status") or {}
    return {name: value for name, value in before.items() if name not in ("conditions", "state")}
