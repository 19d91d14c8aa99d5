"""Values of expressions, and the three ways in which there may be none: not yet, absent, or a mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.cel.environment import EvaluationError
from sliceworks.cel.formulas import ABSENT, Formula, MissingValue
from sliceworks.graph.errors import EvaluationFailed
from sliceworks.graph.model import SCHEMA, Waiting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.cel.reads import Read
    from sliceworks.graph.model import Expression, Graph, Node

_GIVEN_BY_THE_SERVER = frozenset({"uid", "creationTimestamp", "generation", "resourceVersion", "selfLink", "managedFields"})


class NotYet(Exception):
    """Something that may still come is missing."""

    def __init__(self, waiting: Waiting) -> None:
        super().__init__(waiting.reason)
        self.waiting = waiting


class Values:
    """Runs the expressions of one graph."""

    def __init__(self, graph: Graph) -> None:
        self._definition = graph.definition
        self._ids = frozenset(node.id for node in graph.nodes)
        origins = {node.id: {each.name: each.expression.names & self._ids for each in node.for_each} for node in graph.nodes}
        self._iterators = {name: found for name, found in origins.items() if found}

    def of(self, expression: Expression, scope: Mapping[str, Any], node: Node | None = None) -> Any:
        """The value, or ABSENT. NotYet where a resource has not got that far, EvaluationFailed for mistakes."""
        try:
            return expression.program.run(scope)
        except MissingValue as error:
            sources = self._sources(error, expression, node)
            if sources:
                raise NotYet(
                    Waiting(f"waiting for {_shown(error, sources)}", expression.written, tuple(sorted(sources)))
                ) from error
            if isinstance(expression.program, Formula) and expression.program.path is not None:
                return ABSENT
            raise self.failed(expression, str(error), node, _remedy(error)) from error
        except EvaluationError as error:
            raise self.failed(expression, str(error), node) from error

    def items(self, expression: Expression, scope: Mapping[str, Any], node: Node) -> list[Any]:
        """The value of an expression that must give a list; what is absent has no items."""
        value = self.of(expression, scope, node)
        if value is ABSENT or value is None:
            return []
        if not isinstance(value, list):
            raise self.failed(expression, f"gives {type(value).__name__}, and a list is needed", node)
        return value

    def failed(self, expression: Expression, reason: str, node: Node | None = None, hint: str = "") -> EvaluationFailed:
        """A mistake in an expression, with its place."""
        return EvaluationFailed(
            reason,
            node=node.id if node is not None else "",
            expression=expression.written,
            path=expression.path,
            place=self._definition.place(expression.path),
            hint=hint,
        )

    def _sources(self, error: MissingValue, expression: Expression, node: Node | None) -> frozenset[str]:
        """The resources that may still bring what is missing. None where it is the instance's own."""
        roots = {read.root for read in error.reads} or set(expression.names)
        iterators = self._iterators.get(node.id, {}) if node is not None else {}
        found = {root for root in roots if root not in iterators and root != SCHEMA}
        for root in roots & iterators.keys():
            found |= iterators[root]
        if any(_given_by_the_server(read) for read in error.reads):
            found.add(SCHEMA)
        return frozenset(found)


def _given_by_the_server(read: Read) -> bool:
    return (
        read.root == SCHEMA
        and read.steps[:1] == ("metadata",)
        and bool(_GIVEN_BY_THE_SERVER.intersection(map(str, read.steps[1:2])))
    )


def _shown(error: MissingValue, sources: frozenset[str]) -> str:
    named = [str(read) for read in error.reads if read.root in sources]
    return " and ".join(named) or str(error).removesuffix(" is not there")


def _remedy(error: MissingValue) -> str:
    if not error.reads:
        return "guard it with has(…) or .?field.orValue(…)"
    path = str(error.reads[0])
    head, _, last = path.rpartition(".")
    return f"set it, give it a default, or write {head}.?{last}.orValue(…)" if head else f"set {path}"
