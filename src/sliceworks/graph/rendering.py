"""What a graph makes of an instance, told without a cluster: every object in its order. What is not known yet stays an expression.

Everything is taken to become ready. Objects that are there already, such as external ones, may be given; what they hold is known
then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.cel.formulas import ABSENT
from sliceworks.graph import texts
from sliceworks.graph.collections import combinations
from sliceworks.graph.errors import EvaluationFailed
from sliceworks.graph.identities import complete
from sliceworks.graph.model import SCHEMA, Role
from sliceworks.graph.values import NotYet, Values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sliceworks.graph.model import Field, Graph, Node, Object

_CHAIN = re.compile(r"\s*([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\s*")
MADE, EXTERNAL, LEFT_OUT, UNDECIDED = "made", "external", "left out", "undecided"


@dataclass(frozen=True, slots=True)
class Rendered:
    """What becomes of one resource. `unknown` are the texts that still hold expressions; `because` says why it is so."""

    node: Node
    state: str
    objects: tuple[Object, ...] = ()
    unknown: tuple[str, ...] = ()
    because: str = ""


def render(graph: Graph, instance: Object, observed: Mapping[str, Sequence[Object]] | None = None) -> list[Rendered]:
    """Every resource in order. EvaluationFailed for what no waiting can mend."""
    renderer = _Renderer(graph, instance, observed or {})
    return [renderer.add(node) for node in graph.nodes]


class _Renderer:
    """Walks the graph once; `_scope` holds what is known of each resource so far."""

    def __init__(self, graph: Graph, instance: Object, observed: Mapping[str, Sequence[Object]]) -> None:
        self._instance, self._observed = instance, observed
        self._values = Values(graph)
        self._scope: dict[str, Any] = {SCHEMA: {name: value for name, value in instance.items() if name != "status"}}
        self._shown: dict[str, Object] = {}
        self._left_out: set[str] = set()

    def add(self, node: Node) -> Rendered:
        """Render the next node."""
        because = next((name for name in node.dependencies if name in self._left_out), "")
        decision = self._decision(node)
        if because or decision is False:
            self._left_out.add(node.id)
            return Rendered(node, LEFT_OUT, because=f"{because} is left out" if because else node.include_when[0].written)
        found = self._made(node)
        if isinstance(decision, str) and found.state == MADE:
            found = Rendered(node, UNDECIDED, found.objects, found.unknown, decision)
        return found

    def _decision(self, node: Node) -> bool | str:
        """Whether a node is wanted; the condition that cannot be told yet, if there is one."""
        for expression in node.include_when:
            try:
                if not self._values.of(expression, self._scope, node):
                    return False
            except NotYet:
                return f"only if {expression.written}"
        return True

    def _made(self, node: Node) -> Rendered:
        unknown: list[str] = []
        try:
            scopes = list(self._scopes(node))
        except NotYet as error:
            scopes = [self._scope]
            unknown.append(error.waiting.expression)
        pairs = [self._object(node, scope, unknown) for scope in scopes]
        shown, known = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        self._keep(node, known)
        if shown and not node.role.is_list:
            self._shown[node.id] = shown[0]
        state = EXTERNAL if node.role.is_external else MADE
        because = ""
        if node.role is Role.COLLECTION and unknown and scopes == [self._scope]:
            state, because = UNDECIDED, f"one for each of {unknown[0]}"
        return Rendered(node, state, tuple(shown), tuple(dict.fromkeys(unknown)), because)

    def _scopes(self, node: Node) -> Iterator[Mapping[str, Any]]:
        if node.role is not Role.COLLECTION:
            yield self._scope
            return
        lists = {each.name: self._values.items(each.expression, self._scope, node) for each in node.for_each}
        for combination in combinations(lists):
            yield {**self._scope, **combination}

    def _object(self, node: Node, scope: Mapping[str, Any], unknown: list[str]) -> tuple[Object, Object]:
        """The object as it is shown, with expressions where something is unknown, and what is known of it."""
        shown, known = [], []
        for field in node.fields:
            value, certain = self._value(field, scope, node)
            shown.append(value)
            known.append(value if certain else ABSENT)
            if not certain:
                unknown.append(str(value))
        made, certain_part = node.blueprint.fill(shown), node.blueprint.fill(known)
        if not node.role.is_external:
            for each in (made, certain_part):
                problem = complete(each, node.kind, self._instance)
            if problem and made["metadata"].get("name") is None:
                raise EvaluationFailed(problem, node=node.id)
        return made, certain_part

    def _value(self, field: Field, scope: Mapping[str, Any], node: Node) -> tuple[Any, bool]:
        try:
            return self._values.of(field.expression, scope, node), True
        except NotYet:
            return partly(field.expression.written, scope, self._shown), False

    def _keep(self, node: Node, known: list[Object]) -> None:
        given = self._observed.get(node.id)
        if given is not None:
            known = list(given)
        elif node.role is Role.EXTERNAL_COLLECTION:
            return
        if node.role.is_list:
            self._scope[node.id] = known
        elif known:
            self._scope[node.id] = known[0]


def partly(text: str, *known: Mapping[str, Any]) -> str:
    """A text with the expressions put in that are plain paths to a text in what is known; the others stay as they are written."""
    return "".join(piece if isinstance(piece, str) else _piece(piece.text, known) for piece in texts.pieces(text))


def _piece(expression: str, known: Sequence[Mapping[str, Any]]) -> str:
    chain = _CHAIN.fullmatch(expression)
    for scope in known if chain else ():
        value: Any = scope
        for step in chain[1].split(".") if chain else ():
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, str):
            return value
    return f"${{{expression}}}"
