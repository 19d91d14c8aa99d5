"""One pass over the resources of an instance: level by level, as deep as what is there and ready allows.

Resources of one level do not need each other, so they are resolved and applied together. What an apply answers is what the next
level sees: nothing is read back, and a graph of any depth takes one pass when its objects are ready at once.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from sliceworks.base.errors import Conflict, SliceworksError
from sliceworks.controllers.graphs import labels, ownership
from sliceworks.controllers.graphs.applying import Terminating
from sliceworks.controllers.graphs.applyset import Inventory, group_kind
from sliceworks.controllers.graphs.completed import finished, unpin, unpinned
from sliceworks.controllers.graphs.states import READY, SKIPPED, NodeState, States, Step
from sliceworks.graph.errors import EvaluationFailed
from sliceworks.graph.model import Desired, Excluded, Lookup, Role, Waiting
from sliceworks.kube.selectors import from_label_selector

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sliceworks.controllers.graphs.applying import Applier
    from sliceworks.controllers.graphs.completed import Completed
    from sliceworks.controllers.graphs.records import Record
    from sliceworks.controllers.graphs.views import View
    from sliceworks.graph.evaluate import Evaluation
    from sliceworks.graph.model import Node
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object, Resource


class Pass:
    """Walks the graph of one instance once. Afterwards it knows what is there, what should be, and how far everything is."""

    def __init__(
        self,
        instance: Object,
        evaluation: Evaluation,
        *,
        views: dict[str, View],
        applier: Applier,
        completed: Completed,
        declare: Callable[[Inventory], Awaitable[None]],
        most_at_once: int,
    ) -> None:
        self.states = States()
        self.kept: set[str] = set()
        self.inventory = Inventory()
        self.lookups: dict[str, tuple[Resource, Lookup]] = {}
        self._made: list[tuple[View, Record]] = []
        self._looked: list[tuple[View, Lookup, list[Record]]] = []
        self._pinned: list[tuple[View, Record]] = []
        self._namespace: str = instance["metadata"].get("namespace", "")
        self._labels = labels.child_labels(instance, applier.set_id)
        self._evaluation, self._views, self._applier = evaluation, views, applier
        self._completed, self._declare = completed, declare
        self._turns = asyncio.Semaphore(most_at_once)

    async def run(self, nodes: Sequence[Node]) -> None:
        """Walk all levels."""
        for level in levels(nodes):
            wanted = [(node, objects) for node in level if (objects := self._resolve(node)) is not None]
            if not wanted:
                continue
            await self._declare(self._noted(wanted))
            await asyncio.gather(*(self._make(node, objects) for node, objects in wanted))

    async def unpin(self, client: Client) -> None:
        """Let objects go that our finalizer holds no longer for a reason; what has finished must have been noted before."""
        for view, record in self._pinned:
            with suppress(Conflict):  # somebody was faster: that change brings the next look
                await unpin(client, view, record)

    @property
    def is_current(self) -> bool:
        """Whether everything is still as this pass saw it. Others may have been quicker than the pass."""
        made = all(
            (now := view.get(record.name, record.namespace)) is not None and now.version == record.version
            for view, record in self._made
        )
        return made and all(
            [(now.uid, now.version) for now in looked_up(view, lookup)] == [(then.uid, then.version) for then in seen]
            for view, lookup, seen in self._looked
        )

    def _resolve(self, node: Node) -> list[Object] | None:
        """The objects of a node as they are to be applied; none where there is nothing to apply now."""
        try:
            outcome = self._evaluation.resolve(node)
        except EvaluationFailed as error:
            self.states.nodes[node.id] = NodeState(Step.FAILED, _explained(error), lasting=True)
            return None
        match outcome:
            case Waiting():
                self.states.nodes[node.id] = NodeState(Step.UNRESOLVED, f'node "{node.id}": {outcome.reason}')
            case Excluded():
                self.states.nodes[node.id] = SKIPPED
            case Lookup():
                self._look_up(node, outcome)
            case Desired():
                size = len(outcome.objects)
                many = node.role is Role.COLLECTION
                return [
                    labels.dress(obj, node, self._labels, (index, size) if many else None)
                    for index, obj in enumerate(outcome.objects)
                ]
        return None

    def _noted(self, wanted: list[tuple[Node, list[Object]]]) -> Inventory:
        """The inventory must know of a kind or namespace before the first object is made there: a crash leaves nothing unknown."""
        kinds = frozenset(group_kind(node.kind.group, node.kind.kind) for node, objects in wanted if objects)
        spaces = {obj["metadata"].get("namespace", "") for node, objects in wanted if node.kind.namespaced for obj in objects}
        self.inventory |= Inventory(kinds, frozenset(spaces - {self._namespace, ""}))
        return self.inventory

    async def _make(self, node: Node, objects: list[Object]) -> None:
        results = await asyncio.gather(*(self._put(node, obj) for obj in objects), return_exceptions=True)
        failures = [result for result in results if isinstance(result, BaseException)]
        found = [result for result in results if not isinstance(result, BaseException)]
        if not failures:
            self._observe(node, found)
            return
        state = self.states.nodes[node.id] = _failed(node, failures)
        if state.step is Step.FAILED:
            # What could not be changed is still there: status and what depends on it go by how it is.
            refused = [obj for obj, result in zip(objects, results, strict=True) if isinstance(result, BaseException)]
            standing = [record.object for obj in refused if (record := self._standing(node, obj)) is not None]
            self._evaluation.observe(node.id, found + standing)

    def _standing(self, node: Node, wanted: Object) -> Record | None:
        """The object that is there in place of the wanted one, if it is ours."""
        record = self._views[node.id].get(wanted["metadata"]["name"], wanted["metadata"].get("namespace", ""))
        ours = record is not None and not record.deleting and ownership.is_ours(record, self._applier.set_id)
        return record if ours else None

    async def _put(self, node: Node, wanted: Object) -> Object:
        """The object as it is in the cluster afterwards, or as it was when it finished."""
        view = self._views[node.id]
        live = view.get(wanted["metadata"]["name"], wanted["metadata"].get("namespace", ""))
        if live is not None and live.deleting and ownership.is_ours(live, self._applier.set_id):
            self._pinned.append((view, live))
            self.kept.add(live.uid)  # how it ended is noted before anything else is done to it
        keep = node.lifecycle.on_complete == "keep"
        if keep and (done := self._recall(wanted, live)) is not None:
            wanted = unpinned(wanted)
            if live is None or live.deleting:
                return done
        async with self._turns:
            record = await self._applier.put(view, node, wanted)
        self.kept.add(record.uid)
        self._made.append((view, record))
        found = record.object
        if keep and finished(found):
            self._completed.note(wanted, found)
            self._pinned.append((view, record))
        return found

    def _recall(self, wanted: Object, live: Record | None) -> Object | None:
        """The object as it was when it finished: as was noted then, or is seen now that it goes."""
        if live is not None and live.deleting and ownership.is_as_wanted(live, wanted) and finished(found := live.object):
            self._completed.note(wanted, found)
        return self._completed.recall(wanted)

    def _look_up(self, node: Node, lookup: Lookup) -> None:
        view = self._views[node.id]
        self.lookups[node.id] = (view.resource, lookup)
        looked = looked_up(view, lookup)
        self._looked.append((view, lookup, looked))
        found = [record.object for record in looked]
        if lookup.selector is None and not found:
            self.states.nodes[node.id] = NodeState(Step.NOT_READY, f'waiting for external reference "{node.id}": not found')
            return
        self._observe(node, found)

    def _observe(self, node: Node, found: list[Object]) -> None:
        self._evaluation.observe(node.id, found)
        try:
            waiting = self._evaluation.readiness(node)
        except EvaluationFailed as error:
            self.states.nodes[node.id] = NodeState(Step.FAILED, _explained(error), lasting=True)
            return
        if waiting is None:
            self.states.nodes[node.id] = READY
        else:
            self.states.nodes[node.id] = NodeState(Step.NOT_READY, f'waiting for node "{node.id}": {waiting.reason}')


def looked_up(view: View, lookup: Lookup) -> list[Record]:
    """The objects that a reference points at, in order of their names."""
    if lookup.selector is None:
        record = view.get(lookup.name, lookup.namespace)
        return [] if record is None else [record]
    selector = from_label_selector(lookup.selector)
    found = [record for record in view.all(lookup.namespace) if selector.matches(record.labels)]
    return sorted(found, key=lambda record: (record.namespace, record.name))


def _failed(node: Node, failures: list[BaseException]) -> NodeState:
    """What to say of a node some of whose objects could not be applied. A bug is none of its failures."""
    for failure in failures:
        if not isinstance(failure, SliceworksError):
            raise failure
    for failure in failures:
        if not isinstance(failure, Terminating):
            return NodeState(Step.FAILED, f'node "{node.id}": {_explained(failure)}')
    return NodeState(Step.TERMINATING, str(failures[0]))


def levels(nodes: Sequence[Node]) -> list[list[Node]]:
    """The nodes of a graph, each as early as it can be: right after the last of those it needs."""
    depths: dict[str, int] = {}
    found: list[list[Node]] = []
    for node in nodes:  # what a node needs comes before it
        depth = depths[node.id] = max((depths[name] + 1 for name in node.dependencies), default=0)
        if depth == len(found):
            found.append([])
        found[depth].append(node)
    return found


def _explained(error: BaseException | None) -> str:
    hint = getattr(error, "hint", "")
    return f"{error}; {hint}" if hint else str(error)
