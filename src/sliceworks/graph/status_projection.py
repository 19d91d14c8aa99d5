"""Compiles an instance's status: the author's fields, the schema inferred from their types, and the author's conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.cel import syntax
from sliceworks.cel.libraries.kro import CONDITION_STATUSES
from sliceworks.cel.scopes import CONDITION_TYPE, RUNTIME_TYPE, Scope
from sliceworks.cel.types import DYN, TIMESTAMP, CelType, format_type
from sliceworks.graph import templates
from sliceworks.graph.expressions import OMIT_OUTSIDE_TEMPLATE
from sliceworks.graph.model import RUNTIME, SCHEMA, Field, format_path
from sliceworks.graph.templates import parse_template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.cel.types import Declarations
    from sliceworks.graph.expressions import ExpressionCompiler
    from sliceworks.graph.model import Expression, Object, Path


STATUS_PATH: Path = ("spec", "schema", "status")
RESERVED_FIELDS = ("conditions", "state")
"""Status fields that are not projected: `conditions` has its own form, and the controller sets `state`."""
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_PRIMITIVES: dict[str, Object] = {
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "uint": {"type": "integer"},
    "double": {"type": "number"},
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "null": {"description": "null type - any value allowed", _PRESERVE: True},
}
_MAX_DEPTH = 24


def compile_status(status: Object, compiler: ExpressionCompiler, scope: Scope) -> tuple[tuple[Field, ...], Object]:
    """The author's fields, and the schema inferred from their types."""
    parsed = parse_template(status, None, STATUS_PATH)
    compiler.issues.extend(parsed.issues)
    expression_paths = {template_field.path for template_field in parsed.fields}
    for path in _leaves(status, ()):
        if path not in expression_paths:
            hint = "such as ${deployment.status.replicas}"
            compiler.add_issue((*STATUS_PATH, *path), f"status.{format_path(path)}: must be an expression", hint=hint)
    fields: list[Field] = []
    schema: Object = {"type": "object", "properties": {}}
    for template_field in parsed.fields:
        expression = compiler.compile_field(template_field.text, (*STATUS_PATH, *template_field.path), scope, DYN)
        if expression is not None and _check_field(expression, template_field.path, compiler):
            fields.append(Field(template_field.path, expression))
            _insert_schema(schema, template_field.path, infer_schema(expression.program.result, compiler.types.declarations))
    return tuple(fields), schema


def _check_field(expression: Expression, path: Path, compiler: ExpressionCompiler) -> bool:
    if expression.program.omits:
        compiler.add_issue(expression.path, OMIT_OUTSIDE_TEMPLATE, expression.source)
    elif not expression.names:
        message = f"status.{format_path(path)} must refer to a resource or to schema"
        compiler.add_issue(expression.path, message, expression.source, "constants are not allowed in status")
    return bool(expression.names) and not expression.program.omits


def _leaves(value: Any, path: Path) -> Iterator[Path]:
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _leaves(child, (*path, name))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _leaves(child, (*path, index))
    else:
        yield path


def infer_schema(kind: CelType, declarations: Declarations) -> Object:
    """The OpenAPI schema of values of a type."""
    if kind.kind in _PRIMITIVES:
        return dict(_PRIMITIVES[kind.kind])
    if kind.kind == "list":
        return {"type": "array", "items": infer_schema(kind.element or DYN, declarations)}
    if kind.kind == "map":
        return {"type": "object", "additionalProperties": infer_schema(kind.element or DYN, declarations)}
    if kind.kind == "message":
        return _nested_schema(kind, declarations, 0)
    if kind.kind == "dyn":
        return {_PRESERVE: True}
    if kind.kind == TIMESTAMP:
        return {"description": "Timestamp representing a creation time", "type": "string", "format": "date-time"}
    name = f"optional_type({kind.element.text if kind.element else 'dyn'})" if kind.kind == "optional" else kind.kind
    return {"description": f"unknown CEL type: {name}", _PRESERVE: True}


def _nested_schema(kind: CelType, declarations: Declarations, depth: int) -> Object:
    """The schema of a type inside an object, where types without an OpenAPI form accept any value."""
    if depth > _MAX_DEPTH:
        return {"type": "object", _PRESERVE: True}
    if kind.kind == "list":
        return {"type": "array", "items": _nested_schema(kind.element or DYN, declarations, depth + 1)}
    if kind.kind == "map":
        return {"type": "object", "additionalProperties": _nested_schema(kind.element or DYN, declarations, depth + 1)}
    if kind.kind != "message":
        return dict(_PRIMITIVES.get(kind.kind) or {_PRESERVE: True})
    message = declarations.messages[kind.message]
    fields = {message.names.get(name, name): child for name, child in message.fields.items()}
    properties = {name: _nested_schema(child, declarations, depth + 1) for name, child in fields.items()}
    schema: Object = {"type": "object", "properties": properties} if properties else {"type": "object"}
    if message.schema is not None and message.schema.preserve_unknown:
        schema[_PRESERVE] = True
    return schema


def _insert_schema(schema: Object, path: Path, leaf: Object) -> None:
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        schema["type"] = "array"
        schema.pop("properties", None)
        if not rest:
            schema["items"] = leaf
        else:
            _insert_schema(schema.setdefault("items", {"type": "object", "properties": {}}), rest, leaf)
        return
    properties = schema.setdefault("properties", {})
    if not rest:
        properties[step] = leaf
    else:
        _insert_schema(properties.setdefault(step, {"type": "object", "properties": {}}), rest, leaf)


BUILTIN_CONDITIONS = ("InstanceManaged", "GraphResolved", "ResourcesReady", "Ready")


def compile_conditions(conditions: Any, compiler: ExpressionCompiler) -> tuple[Expression, ...]:
    """The expressions of `status.conditions`, in their order."""
    path = (*STATUS_PATH, "conditions")
    if not isinstance(conditions, list):
        compiler.add_issue(path, "status.conditions: must be a list of expressions", hint="such as - ${runtime.newCondition({…})}")
        return ()
    scope = Scope(compiler.types, {RUNTIME: (RUNTIME_TYPE, None)})
    compiled = [_condition(source, (*path, index), compiler, scope) for index, source in enumerate(conditions)]
    expressions = tuple(expression for expression in compiled if expression is not None)
    _check_literals(expressions, compiler, scope)
    return expressions


def _condition(source: Any, path: Path, compiler: ExpressionCompiler, scope: Scope) -> Expression | None:
    if not isinstance(source, str):
        compiler.add_issue(path, "a condition must be an expression", hint="such as ${runtime.newCondition({…})}")
        return None
    expression = compiler.compile_standalone(source, path, scope, "a condition")
    if expression is None:
        return None
    result = expression.program.result
    item = result.element if result.kind == "list" and result.element else result
    if item == CONDITION_TYPE or item.kind == "dyn":
        return expression
    compiler.add_issue(path, f"a condition must be created by runtime.newCondition(…), got {format_type(result)}", source)
    return None


def _check_literals(expressions: tuple[Expression, ...], compiler: ExpressionCompiler, scope: Scope) -> None:
    calls = [(expression, node.call) for expression in expressions for node in _runtime_calls(expression, scope)]
    expression_by_type: dict[str, Expression] = {}
    for expression, call in calls:
        kind = _literal_entry(call, "type") if call.function == "newCondition" else None
        if kind is not None and expression_by_type.setdefault(kind, expression) is not expression:
            compiler.add_issue(expression.path, f"duplicate condition {kind}", expression.source)
    for expression, call in calls:
        problem = _check_new_condition(call) if call.function == "newCondition" else _check_lookup(call, expression_by_type)
        if problem:
            compiler.add_issue(expression.path, problem, expression.source)


def _runtime_calls(expression: Expression, scope: Scope) -> list[Any]:
    tree = scope.tree(templates.standalone_expression(expression.source) or "")
    return [
        node
        for node in syntax.walk(tree.checked.expr)
        if syntax.kind(node) == "call"
        and node.call.target.ident.name == RUNTIME
        and node.call.function in ("newCondition", "condition")
    ]


def _check_new_condition(call: Any) -> str:
    status = _literal_entry(call, "status")
    if status is not None and status not in CONDITION_STATUSES:
        return f"runtime.newCondition: status must be one of {', '.join(CONDITION_STATUSES)}, got {status!r}"
    return "runtime.newCondition: type must not be empty" if _literal_entry(call, "type") == "" else ""


def _check_lookup(call: Any, expression_by_type: dict[str, Expression]) -> str:
    if call.args[0].ident.name != SCHEMA or not call.args[1].const.HasField("string"):
        return ""
    name = call.args[1].const.string
    if name in BUILTIN_CONDITIONS:
        return ""
    if name in expression_by_type:
        return f"runtime.condition(schema, {name!r}): author conditions must not refer to each other"
    return f"runtime.condition(schema, {name!r}): unknown condition; schema has {', '.join(BUILTIN_CONDITIONS)}"


def _literal_entry(call: Any, key: str) -> str | None:
    """A string literal in the map argument of a call."""
    for entry in call.args[0].struct.entries if call.args else ():
        if entry.key.const.string == key and entry.value.const.HasField("string"):
            return str(entry.value.const.string)
    return None
