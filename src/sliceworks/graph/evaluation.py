"""Evaluates a graph for one instance: desired objects, readiness, status and conditions.

It does no I/O: the caller applies desired objects, reads external references, and passes in the observed objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.cel.expressions import ABSENT
from sliceworks.cel.libraries.kro import RUNTIME_VALUE
from sliceworks.graph.model import (
    EACH,
    MAX_COLLECTION_SIZE,
    RUNTIME,
    SCHEMA,
    Condition,
    Conditions,
    DataPending,
    Desired,
    EvaluationFailed,
    Excluded,
    Lookup,
    NodeType,
    StatusProjection,
)
from sliceworks.graph.resolver import (
    DataPendingError,
    ExpressionEvaluator,
    cartesian_product,
    find_duplicate,
    ordered_intersection,
    set_namespace,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sliceworks.graph.model import Expression, Graph, Node, Object, Outcome


class Evaluation:
    """One evaluation for one instance. Resolve nodes in the graph's order, and observe each before its dependents."""

    def __init__(self, graph: Graph, instance: Object, *, max_collection_size: int = MAX_COLLECTION_SIZE) -> None:
        self.graph, self.instance, self._max_collection_size = graph, instance, max_collection_size
        self.scope: dict[str, Any] = {SCHEMA: {name: value for name, value in instance.items() if name != "status"}}
        self._evaluator = ExpressionEvaluator(graph)
        self._nodes = {node.id: node for node in graph.nodes}
        self._dependents: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
        for node in graph.nodes:
            for name in node.dependencies:
                self._dependents[name].append(node.id)
        self._outcomes: dict[str, Outcome] = {}
        self._failures: dict[str, EvaluationFailed] = {}
        self._readiness: dict[str, DataPending | None] = {}

    def observe(self, name: str, objects: Sequence[Object]) -> None:
        """Set the observed objects of a resource: at most one object, or those of a collection in any order."""
        node = self._nodes[name]
        self._readiness.pop(name, None)
        self._invalidate_pending(name)
        if node.type.is_list:
            outcome = self._outcomes.get(name)
            desired = outcome.objects if isinstance(outcome, Desired) else None
            self.scope[name] = ordered_intersection(objects, desired) if desired is not None else list(objects)
        elif objects:
            self.scope[name] = objects[0]
        else:
            self.scope.pop(name, None)

    def resolve(self, node: Node) -> Outcome:
        """The outcome for a resource. Raises EvaluationFailed for permanent failures; its dependents are then pending."""
        if node.id in self._failures:
            raise self._failures[node.id]
        if node.id not in self._outcomes:
            try:
                self._outcomes[node.id] = self._resolve(node)
            except EvaluationFailed as error:
                self._failures[node.id] = error
                raise
        return self._outcomes[node.id]

    def readiness(self, node: Node) -> DataPending | None:
        """What the resource is waiting for, or None if it is ready. Excluded resources count as ready."""
        if node.id not in self._readiness:
            self._readiness[node.id] = self._check_readiness(node)
        return self._readiness[node.id]

    def _invalidate_pending(self, name: str) -> None:
        """Discard the pending outcomes of direct and indirect dependents, so that they are resolved again."""
        pending = [name]
        while pending:
            for dependent in self._dependents[pending.pop()]:
                if isinstance(self._outcomes.get(dependent), DataPending):
                    del self._outcomes[dependent]
                    self._readiness.pop(dependent, None)
                    pending.append(dependent)

    def _resolve(self, node: Node) -> Outcome:
        decision = self._check_included(node)
        if decision is not None:
            return decision
        for name in node.dependencies:
            pending = self._dependency_pending(name)
            if pending is not None:
                return pending
        try:
            return self._desired(node)
        except DataPendingError as error:
            return error.pending

    def _dependency_pending(self, name: str, expression: str = "") -> DataPending | None:
        """Why a dependency is not ready, or None if it is."""
        try:
            pending = self.readiness(self._nodes[name])
        except EvaluationFailed as error:
            return DataPending(f"{name} failed: {error.reason}", expression or error.expression, (name,))
        if pending is None:
            return None
        # A pending dependency passes on its own reason, so that users see the root cause.
        is_pending = isinstance(self._outcomes.get(name), DataPending)
        reason = pending.reason if is_pending else f"{name} is not ready: {pending.reason}"
        return DataPending(reason, expression or pending.expression, (name,))

    def _is_excluded(self, name: str) -> bool:
        try:
            return isinstance(self.resolve(self._nodes[name]), Excluded)
        except EvaluationFailed:
            return False

    def _check_included(self, node: Node) -> Outcome | None:
        """Excluded, or DataPending if that is not decidable yet; None if the resource is included."""
        for name in node.dependencies:
            if self._is_excluded(name):
                return Excluded(excluded_by=name)
        for expression in node.include_when:
            for name in node.dependencies:
                pending = self._dependency_pending(name, expression.source) if name in expression.names else None
                if pending is not None:
                    return pending
            try:
                if not self._is_true(expression, self.scope, node):
                    return Excluded(expression.source)
            except DataPendingError as error:
                return error.pending
        return None

    def _is_true(self, expression: Expression, scope: Mapping[str, Any], node: Node) -> bool:
        value = self._evaluator.evaluate(expression, scope, node)
        if value is ABSENT or value is None:
            return False
        if isinstance(value, bool):
            return value
        raise self._evaluator.error_for(expression, f"must return a boolean, got {value!r}", node)

    def _desired(self, node: Node) -> Outcome:
        if node.type is NodeType.COLLECTION:
            objects = self._collection(node)
        else:
            values = [self._evaluator.evaluate(field.expression, self.scope, node) for field in node.fields]
            objects = [node.compiled_template.render(values)]
        if node.type is NodeType.EXTERNAL_COLLECTION:
            metadata = objects[0]["metadata"]
            return Lookup(metadata.get("namespace") or "", selector=metadata["selector"])
        for obj in objects:
            problem = set_namespace(obj, node.kind, self.instance)
            if problem:
                raise EvaluationFailed(problem, node=node.id, place=self.graph.definition.place(("spec", "resources", node.index)))
        if node.type is NodeType.EXTERNAL:
            return Lookup(objects[0]["metadata"].get("namespace", ""), objects[0]["metadata"]["name"])
        return Desired(tuple(objects))

    def _collection(self, node: Node) -> list[Object]:
        lists = {
            dimension.name: self._evaluator.evaluate_list(dimension.expression, self.scope, node) for dimension in node.for_each
        }
        total = 1
        for items in lists.values():
            total *= len(items)
        if total > self._max_collection_size:
            reason = f"forEach: must return at most {self._max_collection_size} objects, got {total}"
            raise self._evaluator.error_for(node.for_each[0].expression, reason, node)
        if not total:
            return []
        # Fields without an iterator are evaluated once for the whole collection.
        iterated = {index: field.expression for index, field in enumerate(node.fields) if field.expression.names & lists.keys()}
        values = [
            None if index in iterated else self._evaluator.evaluate(field.expression, self.scope, node)
            for index, field in enumerate(node.fields)
        ]
        names = frozenset().union(*(expression.names for expression in iterated.values()))
        shared = {name: value for name, value in self.scope.items() if name in names}
        objects = []
        for combination in cartesian_product(lists):
            scope = {**shared, **combination}
            for index, expression in iterated.items():
                values[index] = self._evaluator.evaluate(expression, scope, node)
            objects.append(node.compiled_template.render(values))
        duplicate = find_duplicate(objects)
        if duplicate:
            raise EvaluationFailed(f"forEach returns a duplicate {duplicate}", node=node.id)
        return objects

    def _check_readiness(self, node: Node) -> DataPending | None:
        outcome = self.resolve(node)
        if isinstance(outcome, Excluded):
            return None
        if isinstance(outcome, DataPending):
            return outcome
        observed = self.scope.get(node.id)
        if observed is None:
            if isinstance(outcome, Desired) and not outcome.objects:
                return None
            subject = outcome.name if isinstance(outcome, Lookup) and outcome.name else "object"
            return DataPending(f"{subject} not found", on=(node.id,))
        if isinstance(outcome, Desired) and node.type is NodeType.COLLECTION and len(observed) < len(outcome.objects):
            return DataPending(f"{len(observed)} of {len(outcome.objects)} objects exist", on=(node.id,))
        return self._check_ready_when(node, observed)

    def _check_ready_when(self, node: Node, observed: Any) -> DataPending | None:
        scopes = [{EACH: obj} for obj in observed] if node.type is NodeType.COLLECTION else [{node.id: observed}]
        for scope in scopes if node.ready_when else ():
            for expression in node.ready_when:
                try:
                    if not self._is_true(expression, scope, node):
                        return DataPending(f"{expression.source} is false", expression.source, (node.id,))
                except DataPendingError as error:
                    return error.pending
        return None

    def status(self) -> StatusProjection:
        """The author's status fields, as far as their data is available."""
        values, pending, failures = [], [], []
        for field in self.graph.status:
            value: Any = ABSENT
            try:
                value = self._evaluator.evaluate(field.expression, self.scope)
            except DataPendingError as error:
                pending.append(error.pending)
            except EvaluationFailed as error:
                failures.append(error)
            values.append(value)
        return StatusProjection(self.graph.status_template.render_known_fields(values), tuple(pending), tuple(failures))

    def conditions(self, builtins: Iterable[Object]) -> Conditions:
        """The author's conditions. `builtins` are the controller's conditions, which expressions can read from `schema`."""
        instance = {**self.scope[SCHEMA], "status": {"conditions": list(builtins)}}
        scope = {**self.scope, SCHEMA: instance, RUNTIME: RUNTIME_VALUE}
        conditions: list[Condition] = []
        pending, failures = [], []
        for expression in self.graph.conditions:
            try:
                value = self._evaluator.evaluate(expression, scope)
            except DataPendingError as error:
                pending.append(error.pending)
            except EvaluationFailed as error:
                failures.append(error)
            else:
                conditions.extend(Condition(**item) for item in (value if isinstance(value, list) else [value]))
        types = [condition.type for condition in conditions]
        duplicates = sorted({name for name in types if types.count(name) > 1})
        if duplicates:
            failures.append(EvaluationFailed(f"duplicate condition types: {', '.join(duplicates)}"))
        return Conditions(
            tuple(condition for condition in conditions if condition.type not in duplicates), tuple(pending), tuple(failures)
        )
