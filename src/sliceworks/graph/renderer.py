"""Renders a graph for an instance without a cluster; fields whose values are unknown keep their expressions.

Every resource counts as ready. The values of observed objects, such as external references, are known if the caller passes them in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.cel.expressions import ABSENT
from sliceworks.graph import templates
from sliceworks.graph.model import SCHEMA, EvaluationFailed, NodeType
from sliceworks.graph.resolver import DataPendingError, ExpressionEvaluator, cartesian_product, set_namespace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sliceworks.graph.model import Field, Graph, Node, Object

_CHAIN = re.compile(r"\s*([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\s*")
RENDERED, EXTERNAL, EXCLUDED, UNRESOLVED = "rendered", "external", "excluded", "unresolved"


@dataclass(frozen=True, slots=True)
class Rendered:
    """The rendering of one resource. `unknown` are the strings that still contain expressions; `reason` explains the state."""

    node: Node
    state: str
    objects: tuple[Object, ...] = ()
    unknown: tuple[str, ...] = ()
    reason: str = ""


def render(graph: Graph, instance: Object, observed: Mapping[str, Sequence[Object]] | None = None) -> list[Rendered]:
    """Every resource, in order. Raises EvaluationFailed for permanent failures."""
    renderer = _Renderer(graph, instance, observed or {})
    return [renderer.add(node) for node in graph.nodes]


class _Renderer:
    """Renders the nodes in order; `_scope` contains the known part of each resource, `_shown` the rendering with expressions."""

    def __init__(self, graph: Graph, instance: Object, observed: Mapping[str, Sequence[Object]]) -> None:
        self._instance, self._observed = instance, observed
        self._evaluator = ExpressionEvaluator(graph)
        self._scope: dict[str, Any] = {SCHEMA: {name: value for name, value in instance.items() if name != "status"}}
        self._shown: dict[str, Object] = {}
        self._excluded: set[str] = set()

    def add(self, node: Node) -> Rendered:
        """Render the next node."""
        excluded_by = next((name for name in node.dependencies if name in self._excluded), "")
        included = self._is_included(node)
        if excluded_by or included is False:
            self._excluded.add(node.id)
            return Rendered(node, EXCLUDED, reason=f"{excluded_by} is excluded" if excluded_by else node.include_when[0].source)
        rendered = self._render(node)
        if isinstance(included, str) and rendered.state == RENDERED:
            rendered = Rendered(node, UNRESOLVED, rendered.objects, rendered.unknown, included)
        return rendered

    def _is_included(self, node: Node) -> bool | str:
        """Whether a node is included, or the condition that cannot be evaluated yet."""
        for expression in node.include_when:
            try:
                if not self._evaluator.evaluate(expression, self._scope, node):
                    return False
            except DataPendingError:
                return f"only if {expression.source}"
        return True

    def _render(self, node: Node) -> Rendered:
        unknown: list[str] = []
        try:
            scopes = list(self._scopes(node))
        except DataPendingError as error:
            scopes = [self._scope]
            unknown.append(error.pending.expression)
        pairs = [self._object(node, scope, unknown) for scope in scopes]
        shown, known = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        self._observe(node, known)
        if shown and not node.type.is_list:
            self._shown[node.id] = shown[0]
        state = EXTERNAL if node.type.is_external else RENDERED
        reason = ""
        if node.type is NodeType.COLLECTION and unknown and scopes == [self._scope]:
            state, reason = UNRESOLVED, f"one per item of {unknown[0]}"
        return Rendered(node, state, tuple(shown), tuple(dict.fromkeys(unknown)), reason)

    def _scopes(self, node: Node) -> Iterator[Mapping[str, Any]]:
        if node.type is not NodeType.COLLECTION:
            yield self._scope
            return
        lists = {
            dimension.name: self._evaluator.evaluate_list(dimension.expression, self._scope, node) for dimension in node.for_each
        }
        for combination in cartesian_product(lists):
            yield {**self._scope, **combination}

    def _object(self, node: Node, scope: Mapping[str, Any], unknown: list[str]) -> tuple[Object, Object]:
        """The object with expressions for unknown values, and its known part only."""
        shown, known = [], []
        for field in node.fields:
            value, is_known = self._value(field, scope, node)
            shown.append(value)
            known.append(value if is_known else ABSENT)
            if not is_known:
                unknown.append(str(value))
        shown_object, known_object = node.compiled_template.render(shown), node.compiled_template.render(known)
        if not node.type.is_external:
            for obj in (shown_object, known_object):
                problem = set_namespace(obj, node.kind, self._instance)
            if problem and shown_object["metadata"].get("name") is None:
                raise EvaluationFailed(problem, node=node.id)
        return shown_object, known_object

    def _value(self, field: Field, scope: Mapping[str, Any], node: Node) -> tuple[Any, bool]:
        try:
            return self._evaluator.evaluate(field.expression, scope, node), True
        except DataPendingError:
            return render_known(field.expression.source, scope, self._shown), False

    def _observe(self, node: Node, known: list[Object]) -> None:
        observed = self._observed.get(node.id)
        if observed is not None:
            known = list(observed)
        elif node.type is NodeType.EXTERNAL_COLLECTION:
            return
        if node.type.is_list:
            self._scope[node.id] = known
        elif known:
            self._scope[node.id] = known[0]


def render_known(string: str, *known: Mapping[str, Any]) -> str:
    """The string with each expression replaced that is a plain path to a known string; other expressions are unchanged."""
    return "".join(part if isinstance(part, str) else _substitute(part.text, known) for part in templates.split_expressions(string))


def _substitute(expression: str, known: Sequence[Mapping[str, Any]]) -> str:
    chain = _CHAIN.fullmatch(expression)
    for scope in known if chain else ():
        value: Any = scope
        for step in chain[1].split(".") if chain else ():
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, str):
            return value
    return f"${{{expression}}}"
