"""A graph and one instance: what each resource should be now, whether it is ready, and what the instance's status says.

It only decides. Whoever calls it applies what is desired, looks up what is referred to, and says what was observed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.cel.formulas import ABSENT
from sliceworks.cel.libraries.conditions import VALUE
from sliceworks.graph.collections import arranged, combinations
from sliceworks.graph.errors import EvaluationFailed
from sliceworks.graph.identities import complete, duplicate
from sliceworks.graph.model import (
    EACH,
    LARGEST_COLLECTION,
    RUNTIME,
    SCHEMA,
    Condition,
    Conditions,
    Desired,
    Excluded,
    Lookup,
    Projection,
    Role,
    Waiting,
)
from sliceworks.graph.values import NotYet, Values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sliceworks.graph.model import Expression, Graph, Node, Object, Outcome


class Evaluation:
    """One pass over one instance. Resolve nodes in the graph's order; observe each before those that depend on it."""

    def __init__(self, graph: Graph, instance: Object, *, largest: int = LARGEST_COLLECTION) -> None:
        self.graph, self.instance, self._largest = graph, instance, largest
        self.scope: dict[str, Any] = {SCHEMA: {name: value for name, value in instance.items() if name != "status"}}
        self._values = Values(graph)
        self._nodes = {node.id: node for node in graph.nodes}
        self._dependents: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
        for node in graph.nodes:
            for name in node.dependencies:
                self._dependents[name].append(node.id)
        self._outcomes: dict[str, Outcome] = {}
        self._failures: dict[str, EvaluationFailed] = {}
        self._readiness: dict[str, Waiting | None] = {}

    def observe(self, name: str, objects: Sequence[Object]) -> None:
        """Say what the cluster has for a resource: one object or none, or all objects of a collection, in any order."""
        node = self._nodes[name]
        self._readiness.pop(name, None)
        self._forget_waiting(name)
        if node.role.is_list:
            outcome = self._outcomes.get(name)
            wanted = outcome.objects if isinstance(outcome, Desired) else None
            self.scope[name] = arranged(objects, wanted) if wanted is not None else list(objects)
        elif objects:
            self.scope[name] = objects[0]
        else:
            self.scope.pop(name, None)

    def resolve(self, node: Node) -> Outcome:
        """What a resource should be. EvaluationFailed for what no waiting can mend; what depends on it then waits."""
        if node.id in self._failures:
            raise self._failures[node.id]
        if node.id not in self._outcomes:
            try:
                self._outcomes[node.id] = self._resolved(node)
            except EvaluationFailed as error:
                self._failures[node.id] = error
                raise
        return self._outcomes[node.id]

    def readiness(self, node: Node) -> Waiting | None:
        """What a resource still waits for, or None where it is ready. What is left out counts as ready."""
        if node.id not in self._readiness:
            self._readiness[node.id] = self._checked_readiness(node)
        return self._readiness[node.id]

    def _forget_waiting(self, name: str) -> None:
        """What waited for a resource, directly or through others, must be asked again."""
        pending = [name]
        while pending:
            for dependent in self._dependents[pending.pop()]:
                if isinstance(self._outcomes.get(dependent), Waiting):
                    del self._outcomes[dependent]
                    self._readiness.pop(dependent, None)
                    pending.append(dependent)

    def _resolved(self, node: Node) -> Outcome:
        decided = self._decided(node)
        if decided is not None:
            return decided
        for name in node.dependencies:
            waiting = self._unmet(name)
            if waiting is not None:
                return waiting
        try:
            return self._made(node)
        except NotYet as error:
            return error.waiting

    def _unmet(self, name: str, expression: str = "") -> Waiting | None:
        """Why a resource that another one needs cannot be used yet, or None where it can."""
        try:
            waiting = self.readiness(self._nodes[name])
        except EvaluationFailed as error:
            return Waiting(f"{name} failed: {error.reason}", expression or error.expression, (name,))
        if waiting is None:
            return None
        # What waits itself hands on the reason that it was given: the root is what a person wants to know.
        handed_on = isinstance(self._outcomes.get(name), Waiting)
        reason = waiting.reason if handed_on else f"{name} is not ready: {waiting.reason}"
        return Waiting(reason, expression or waiting.expression, (name,))

    def _excluded(self, name: str) -> bool:
        try:
            return isinstance(self.resolve(self._nodes[name]), Excluded)
        except EvaluationFailed:
            return False

    def _decided(self, node: Node) -> Outcome | None:
        """Whether a resource is left out, or that this cannot be said yet; None where it is wanted."""
        for name in node.dependencies:
            if self._excluded(name):
                return Excluded(because=name)
        for expression in node.include_when:
            for name in node.dependencies:
                waiting = self._unmet(name, expression.written) if name in expression.names else None
                if waiting is not None:
                    return waiting
            try:
                if not self._holds(expression, self.scope, node):
                    return Excluded(expression.written)
            except NotYet as error:
                return error.waiting
        return None

    def _holds(self, expression: Expression, scope: Mapping[str, Any], node: Node) -> bool:
        value = self._values.of(expression, scope, node)
        if value is ABSENT or value is None:
            return False
        if isinstance(value, bool):
            return value
        raise self._values.failed(expression, f"gives {value!r}, which is neither true nor false", node)

    def _made(self, node: Node) -> Outcome:
        if node.role is Role.COLLECTION:
            objects = self._collection(node)
        else:
            values = [self._values.of(field.expression, self.scope, node) for field in node.fields]
            objects = [node.blueprint.fill(values)]
        if node.role is Role.EXTERNAL_COLLECTION:
            metadata = objects[0]["metadata"]
            return Lookup(metadata.get("namespace") or "", selector=metadata["selector"])
        for each in objects:
            problem = complete(each, node.kind, self.instance)
            if problem:
                raise EvaluationFailed(problem, node=node.id, place=self.graph.definition.place(("spec", "resources", node.index)))
        if node.role is Role.EXTERNAL:
            return Lookup(objects[0]["metadata"].get("namespace", ""), objects[0]["metadata"]["name"])
        return Desired(tuple(objects))

    def _collection(self, node: Node) -> list[Object]:
        lists = {each.name: self._values.items(each.expression, self.scope, node) for each in node.for_each}
        total = 1
        for items in lists.values():
            total *= len(items)
        if total > self._largest:
            reason = f"forEach makes {total} objects; {self._largest} is the most"
            raise self._values.failed(node.for_each[0].expression, reason, node)
        if not total:
            return []
        iterated = [bool(field.expression.names & lists.keys()) for field in node.fields]
        pairs = zip(node.fields, iterated, strict=True)
        values = [None if each else self._values.of(field.expression, self.scope, node) for field, each in pairs]
        made = []
        changing = [(number, field.expression) for number, field in enumerate(node.fields) if iterated[number]]
        needed = frozenset().union(*(expression.names for _, expression in changing))
        shared = {name: value for name, value in self.scope.items() if name in needed}
        for combination in combinations(lists):
            scope = {**shared, **combination}
            for number, expression in changing:
                values[number] = self._values.of(expression, scope, node)
            made.append(node.blueprint.fill(values))
        twice = duplicate(made)
        if twice:
            raise EvaluationFailed(f"forEach makes {twice} more than once", node=node.id)
        return made

    def _checked_readiness(self, node: Node) -> Waiting | None:
        outcome = self.resolve(node)
        if isinstance(outcome, Excluded):
            return None
        if isinstance(outcome, Waiting):
            return outcome
        observed = self.scope.get(node.id)
        if observed is None:
            what = f"{outcome.name} does not exist" if isinstance(outcome, Lookup) and outcome.name else "it does not exist yet"
            return Waiting(what, on=(node.id,)) if not (isinstance(outcome, Desired) and not outcome.objects) else None
        if isinstance(outcome, Desired) and node.role is Role.COLLECTION and len(observed) < len(outcome.objects):
            return Waiting(f"{len(observed)} of {len(outcome.objects)} objects exist", on=(node.id,))
        return self._unready(node, observed)

    def _unready(self, node: Node, observed: Any) -> Waiting | None:
        scopes = [{EACH: one} for one in observed] if node.role is Role.COLLECTION else [{node.id: observed}]
        for scope in scopes if node.ready_when else ():
            for expression in node.ready_when:
                try:
                    if not self._holds(expression, scope, node):
                        return Waiting(f"{expression.written} is not true yet", expression.written, (node.id,))
                except NotYet as error:
                    return error.waiting
        return None

    def status(self) -> Projection:
        """The author's fields of the instance's status, as far as they are known now."""
        values, waiting, failures = [], [], []
        for field in self.graph.status:
            value: Any = ABSENT
            try:
                value = self._values.of(field.expression, self.scope)
            except NotYet as error:
                waiting.append(error.waiting)
            except EvaluationFailed as error:
                failures.append(error)
            values.append(value)
        return Projection(self.graph.status_blueprint.fill_known(values), tuple(waiting), tuple(failures))

    def conditions(self, builtins: Iterable[Object]) -> Conditions:
        """The author's conditions. `builtins` are the instance's own conditions, which they may read from `schema`."""
        instance = {**self.scope[SCHEMA], "status": {"conditions": list(builtins)}}
        scope = {**self.scope, SCHEMA: instance, RUNTIME: VALUE}
        found: list[Condition] = []
        waiting, failures = [], []
        for expression in self.graph.conditions:
            try:
                value = self._values.of(expression, scope)
            except NotYet as error:
                waiting.append(error.waiting)
            except EvaluationFailed as error:
                failures.append(error)
            else:
                found.extend(Condition(**one) for one in (value if isinstance(value, list) else [value]))
        kinds = [one.type for one in found]
        twice = sorted({kind for kind in kinds if kinds.count(kind) > 1})
        if twice:
            failures.append(EvaluationFailed(f"more than one condition has the type {' and '.join(twice)}, so none of them is set"))
        return Conditions(tuple(one for one in found if one.type not in twice), tuple(waiting), tuple(failures))


def evaluate(graph: Graph, instance: Object, observed: Mapping[str, Sequence[Object]]) -> dict[str, Outcome]:
    """What each resource should be, given all that is observed: the whole pass at once."""
    evaluation = Evaluation(graph, instance)
    outcomes = {}
    for node in graph.nodes:
        outcomes[node.id] = evaluation.resolve(node)
        if node.id in observed:
            evaluation.observe(node.id, observed[node.id])
    return outcomes
