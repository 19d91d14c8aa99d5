"""Evaluates expressions with three outcomes by type (value, data pending, failed), expands collections, and identifies objects."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from sliceworks.cel.engine import EvaluationError
from sliceworks.cel.expressions import ABSENT, CompiledExpression, MissingValue
from sliceworks.graph.model import SCHEMA, DataPending, EvaluationFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sliceworks.cel.references import Reference
    from sliceworks.graph.kinds import Kind
    from sliceworks.graph.model import Expression, Graph, Node, Object


Identity = tuple[str, str, str, str]


def identity_of(obj: Object) -> Identity:
    """Group, kind, namespace and name."""
    metadata = obj.get("metadata") or {}
    group = str(obj.get("apiVersion", "")).rpartition("/")[0]
    return group, str(obj.get("kind", "")), metadata.get("namespace") or "", metadata.get("name") or ""


def set_namespace(obj: Object, kind: Kind, instance: Object) -> str:
    """Default the namespace of a new object to the instance's. Returns the error, or an empty string."""
    metadata = obj["metadata"]
    if not isinstance(metadata.get("name"), str) or not metadata["name"]:
        return f"metadata.name: the {kind.kind} has no name"
    if kind.namespaced and not metadata.get("namespace"):
        namespace = (instance.get("metadata") or {}).get("namespace")
        if not namespace:
            return f"metadata.namespace: required for {kind.kind} {metadata['name']}, because the instance is cluster-scoped"
        metadata["namespace"] = namespace
    return ""


def find_duplicate(objects: Iterable[Object]) -> str:
    """The first duplicate object, formatted; empty if all are unique."""
    seen = set()
    for obj in objects:
        key = identity_of(obj)
        if key in seen:
            return f"{key[1]} {key[2] + '/' if key[2] else ''}{key[3]}"
        seen.add(key)
    return ""


def cartesian_product(lists: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Every combination of one value per iterator; the last iterator changes fastest."""
    for values in product(*lists.values()):
        yield dict(zip(lists, values, strict=True))


def ordered_intersection(observed: Sequence[Object], desired: Sequence[Object]) -> list[Object]:
    """The observed objects that are desired, in the order of `desired`."""
    by_identity = {identity_of(obj): obj for obj in observed}
    return [by_identity[key] for obj in desired if (key := identity_of(obj)) in by_identity]


_SERVER_SET_METADATA = frozenset({"uid", "creationTimestamp", "generation", "resourceVersion", "selfLink", "managedFields"})


class DataPendingError(Exception):
    """Raised when an expression reads data that is not available yet."""

    def __init__(self, pending: DataPending) -> None:
        super().__init__(pending.reason)
        self.pending = pending


class ExpressionEvaluator:
    """Evaluates the expressions of one graph."""

    def __init__(self, graph: Graph) -> None:
        self._definition = graph.definition
        ids = frozenset(node.id for node in graph.nodes)
        # Resource ids that each iterator's list is read from, by node.
        self._iterators = {
            node.id: {dimension.name: dimension.expression.names & ids for dimension in node.for_each} for node in graph.nodes
        }

    def evaluate(self, expression: Expression, scope: Mapping[str, Any], node: Node | None = None) -> Any:
        """The value, or ABSENT. Raises DataPendingError if a resource may still provide it, EvaluationFailed otherwise."""
        try:
            return expression.program.run(scope)
        except MissingValue as error:
            sources = self._sources(error, expression, node)
            if sources:
                raise DataPendingError(
                    DataPending(f"waiting for {_missing_data(error, sources)}", expression.source, tuple(sorted(sources)))
                ) from error
            if isinstance(expression.program, CompiledExpression) and expression.program.path is not None:
                return ABSENT
            raise self.error_for(expression, str(error), node, _hint(error)) from error
        except EvaluationError as error:
            raise self.error_for(expression, str(error), node) from error

    def evaluate_list(self, expression: Expression, scope: Mapping[str, Any], node: Node) -> list[Any]:
        """The value of an expression that must return a list; empty if absent."""
        value = self.evaluate(expression, scope, node)
        if value is ABSENT or value is None:
            return []
        if not isinstance(value, list):
            raise self.error_for(expression, f"must return a list, got {type(value).__name__}", node)
        return value

    def error_for(self, expression: Expression, reason: str, node: Node | None = None, hint: str = "") -> EvaluationFailed:
        """The error for an expression, with its `file:line`."""
        return EvaluationFailed(
            reason,
            node=node.id if node is not None else "",
            expression=expression.source,
            path=expression.path,
            place=self._definition.place(expression.path),
            hint=hint,
        )

    def _sources(self, error: MissingValue, expression: Expression, node: Node | None) -> frozenset[str]:
        """The resources that may still provide the missing data; empty if it must come from the instance."""
        roots = {read.root for read in error.reads} or set(expression.names)
        iterators = self._iterators.get(node.id, {}) if node is not None else {}
        sources = {root for root in roots if root not in iterators and root != SCHEMA}
        for root in roots & iterators.keys():
            sources |= iterators[root]
        if any(_is_set_by_server(read) for read in error.reads):
            sources.add(SCHEMA)
        return frozenset(sources)


def _is_set_by_server(read: Reference) -> bool:
    return (
        read.root == SCHEMA
        and read.steps[:1] == ("metadata",)
        and bool(_SERVER_SET_METADATA.intersection(map(str, read.steps[1:2])))
    )


def _missing_data(error: MissingValue, sources: frozenset[str]) -> str:
    named = [str(read) for read in error.reads if read.root in sources]
    return " and ".join(named) or error.subject


def _hint(error: MissingValue) -> str:
    if not error.reads:
        return "check it with has(…), or use .?field.orValue(…)"
    path = str(error.reads[0])
    head, _, last = path.rpartition(".")
    return f"set it, give it a default, or write {head}.?{last}.orValue(…)" if head else f"set {path}"
