"""Conditions that a definition's author computes with `runtime.newCondition`, compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.cel import syntax
from sliceworks.cel.libraries.conditions import STATUSES
from sliceworks.cel.results import shown
from sliceworks.cel.scopes import CONDITION_TYPE, RUNTIME_TYPE, Scope
from sliceworks.graph import texts
from sliceworks.graph.model import RUNTIME, SCHEMA
from sliceworks.graph.statuses import ROOT

if TYPE_CHECKING:
    from sliceworks.graph.expressions import Workshop
    from sliceworks.graph.model import Expression, Path

BUILT_IN = ("InstanceManaged", "GraphResolved", "ResourcesReady", "Ready")


def compile_conditions(given: Any, workshop: Workshop) -> tuple[Expression, ...]:
    """The expressions of `status.conditions`, in their order."""
    path = (*ROOT, "conditions")
    if not isinstance(given, list):
        workshop.wrong(path, "status.conditions must be a list of expressions", remedy="such as - ${runtime.newCondition({…})}")
        return ()
    scope = Scope(workshop.types, {RUNTIME: (RUNTIME_TYPE, None)})
    found = [_condition(text, (*path, index), workshop, scope) for index, text in enumerate(given)]
    expressions = tuple(one for one in found if one is not None)
    _check_literals(expressions, workshop, scope)
    return expressions


def _condition(text: Any, path: Path, workshop: Workshop, scope: Scope) -> Expression | None:
    if not isinstance(text, str):
        workshop.wrong(path, "a condition must be an expression", remedy="such as ${runtime.newCondition({…})}")
        return None
    expression = workshop.lone(text, path, scope, "a condition")
    if expression is None:
        return None
    result = expression.program.result
    item = result.element if result.kind == "list" and result.element else result
    if item == CONDITION_TYPE or item.kind == "dyn":
        return expression
    workshop.wrong(path, f"a condition must be made by runtime.newCondition(…), and this gives {shown(result)}", text)
    return None


def _check_literals(expressions: tuple[Expression, ...], workshop: Workshop, scope: Scope) -> None:
    calls = [(one, node.call) for one in expressions for node in _runtime_calls(one, scope)]
    owners: dict[str, Expression] = {}
    for expression, call in calls:
        kind = _entry(call, "type") if call.function == "newCondition" else None
        if kind is not None and owners.setdefault(kind, expression) is not expression:
            workshop.wrong(expression.path, f"the condition {kind} is made by more than one entry", expression.written)
    for expression, call in calls:
        problem = _wrong_making(call) if call.function == "newCondition" else _wrong_lookup(call, owners)
        if problem:
            workshop.wrong(expression.path, problem, expression.written)


def _runtime_calls(expression: Expression, scope: Scope) -> list[Any]:
    tree = scope.tree(texts.lone(expression.written) or "")
    return [
        node
        for node in syntax.walk(tree.checked.expr)
        if syntax.kind(node) == "call"
        and node.call.target.ident.name == RUNTIME
        and node.call.function in ("newCondition", "condition")
    ]


def _wrong_making(call: Any) -> str:
    status = _entry(call, "status")
    if status is not None and status not in STATUSES:
        return f"runtime.newCondition: status must be one of {', '.join(STATUSES)}, not {status!r}"
    return "runtime.newCondition: type must not be empty" if _entry(call, "type") == "" else ""


def _wrong_lookup(call: Any, owners: dict[str, Expression]) -> str:
    if call.args[0].ident.name != SCHEMA or not call.args[1].const.HasField("string"):
        return ""
    name = call.args[1].const.string
    if name in BUILT_IN:
        return ""
    if name in owners:
        return f"runtime.condition(schema, {name!r}): conditions of your own cannot refer to one another"
    return f"runtime.condition(schema, {name!r}): unknown condition; of schema only {', '.join(BUILT_IN)} can be read"


def _entry(call: Any, key: str) -> str | None:
    """A literal text in the map that a call is given."""
    for entry in call.args[0].struct.entries if call.args else ():
        if entry.key.const.string == key and entry.value.const.HasField("string"):
            return str(entry.value.const.string)
    return None
