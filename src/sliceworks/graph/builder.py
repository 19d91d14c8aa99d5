"""Builds an immutable graph from a definition; every error that can be found before run time is reported here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sliceworks.base.names import suggest_name
from sliceworks.cel.expressions import CompiledExpression
from sliceworks.cel.scopes import Scope, Types
from sliceworks.cel.types import DYN, STRING, CelType, format_type
from sliceworks.graph import crds, dag, simple_schema
from sliceworks.graph.expressions import ExpressionCompiler
from sliceworks.graph.model import EACH, SCHEMA, DefinitionError, Dimension, Field, Graph, Issue, Node, NodeType, Note
from sliceworks.graph.resources import parse_resource
from sliceworks.graph.status_projection import RESERVED_FIELDS, STATUS_PATH, compile_conditions, compile_status
from sliceworks.graph.templates import CompiledTemplate
from sliceworks.schemas import Schema, build

if TYPE_CHECKING:
    from sliceworks.graph.kinds import Kinds
    from sliceworks.graph.model import Definition, Expression, Path
    from sliceworks.graph.resources import ParsedResource
    from sliceworks.graph.templates import TemplateField

_ANY: tuple[CelType, Schema | None] = (DYN, None)
_NAME, _NAMESPACE, _SELECTOR = ("metadata", "name"), ("metadata", "namespace"), ("metadata", "selector")


def build_graph(definition: Definition, kinds: Kinds) -> Graph:
    """The graph of a definition; raises DefinitionError with all its issues."""
    try:
        return _build(definition, kinds)
    except RecursionError as error:
        raise DefinitionError([Issue(("spec",), "spec: nested too deeply", place=definition.place(("spec",)))]) from error


def _build(definition: Definition, kinds: Kinds) -> Graph:
    block = definition.schema
    spec, issues = simple_schema.to_openapi(block.spec, block.types, ("spec", "schema"))
    resources = [parse_resource(entry, kinds, instance_namespaced=block.namespaced) for entry in definition.resources]
    schemas = {SCHEMA: crds.instance_schema(block, spec)} | {resource.id: _variable_schema(resource) for resource in resources}
    compiler = ExpressionCompiler(Types(schemas))
    issues += [issue for resource in resources for issue in resource.parsed_template.issues]
    scope = Scope(compiler.types)
    parts = {resource.id: _parts(resource, compiler, scope, block.namespaced) for resource in resources}
    projected_status = {key: value for key, value in block.status.items() if key not in RESERVED_FIELDS}
    fields, status = compile_status(projected_status, compiler, scope)
    conditions = compile_conditions(block.status["conditions"], compiler) if block.status.get("conditions") is not None else ()
    dependencies = {resource.id: _dependencies(resource, parts[resource.id], resources, compiler) for resource in resources}
    order = _order(dependencies, resources, compiler)
    issues += compiler.issues
    if issues:
        raise DefinitionError(_placed(issues, definition))
    levels = dag.topological_levels(dependencies)
    by_id = {resource.id: resource for resource in resources}
    return Graph(
        definition,
        tuple(_node(by_id[name], parts[name], dependencies[name], levels[name]) for name in order),
        crds.generate(block, spec, status),
        fields,
        CompiledTemplate(projected_status, [field.path for field in fields]),
        conditions,
        (*definition.notes, *(_with_place(note, definition) for note in _notes(definition, resources))),
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    """The compiled expressions of one resource."""

    fields: tuple[Field, ...]
    dimensions: tuple[Dimension, ...]
    include_when: tuple[Expression, ...]
    ready_when: tuple[Expression, ...]


def _variable_schema(resource: ParsedResource) -> Schema | None:
    """The schema of a resource's variable in expressions: its object, or a list of objects."""
    if resource.kind is None:
        return None
    schema = resource.kind.schema
    return build({"type": "array", "items": {"$ref": "item"}}, lambda _: schema) if resource.type.is_list else schema


def _parts(resource: ParsedResource, compiler: ExpressionCompiler, scope: Scope, instance_namespaced: bool) -> _Parts:
    dimensions = _dimensions(resource, compiler, scope)
    iterators = dict.fromkeys((name for name, _ in resource.block.for_each), _ANY) | {
        dimension.name: _iterator(dimension, scope) for dimension in dimensions
    }
    within = Scope(compiler.types, iterators) if iterators else scope
    compiled = (_field(template_field, resource, compiler, within) for template_field in resource.parsed_template.fields)
    fields = tuple(field for field in compiled if field is not None)
    _check_identity(resource, fields, dimensions, compiler, instance_namespaced)
    include = [
        compiler.compile_condition(source, path, scope, "includeWhen") for source, path in _conditions(resource, "includeWhen")
    ]
    return _Parts(
        fields,
        dimensions,
        tuple(condition for condition in include if condition is not None),
        _ready_when(resource, compiler, scope),
    )


def _conditions(resource: ParsedResource, name: str) -> list[tuple[str, Path]]:
    """The sources and paths of a resource's conditions."""
    sources = resource.block.include_when if name == "includeWhen" else resource.block.ready_when
    return [(source, (*resource.block.path, name, index)) for index, source in enumerate(sources)]


def _dimensions(resource: ParsedResource, compiler: ExpressionCompiler, scope: Scope) -> tuple[Dimension, ...]:
    names = [name for name, _ in resource.block.for_each]
    # The other iterators are in scope so that a reference to one is reported as such.
    scope = Scope(compiler.types, dict.fromkeys(names, _ANY)) if len(names) > 1 else scope
    dimensions = []
    for index, (name, text) in enumerate(resource.block.for_each):
        path = (*resource.block.path, "forEach", index, name)
        expression = compiler.compile_standalone(text, path, scope, "forEach")
        if expression is None:
            continue
        result = expression.program.result
        if expression.names.intersection(names):
            compiler.add_issue(path, "iterators must not refer to each other", text)
        elif result.kind != "list":
            compiler.add_issue(path, f"forEach {name} must return a list, got {format_type(result)}", text)
        else:
            dimensions.append(Dimension(name, expression))
    return tuple(dimensions)


def _iterator(dimension: Dimension, scope: Scope) -> tuple[CelType, Schema | None]:
    program = dimension.expression.program
    assert isinstance(program, CompiledExpression)
    schema = scope.schema_at(program)
    return program.result.element or DYN, schema.items if schema is not None else None


def _field(template_field: TemplateField, resource: ParsedResource, compiler: ExpressionCompiler, scope: Scope) -> Field | None:
    expression = compiler.compile_field(
        template_field.text, (*resource.root, *template_field.path), scope, _expected(template_field, resource, compiler)
    )
    return Field(template_field.path, expression) if expression is not None else None


def _expected(template_field: TemplateField, resource: ParsedResource, compiler: ExpressionCompiler) -> CelType:
    if resource.type is NodeType.EXTERNAL_COLLECTION and template_field.path[:2] == _SELECTOR:
        return _selector_type(template_field.path[2:])
    schema = template_field.schema
    if schema is None and resource.kind is not None:
        schema = resource.kind.schema.at(template_field.path)
    return compiler.types.type_of(schema, resource.id)


def _selector_type(path: Path) -> CelType:
    if not path:
        return CelType("map", DYN)
    if path[0] == "matchLabels":
        return STRING if len(path) > 1 else CelType("map", STRING)
    return CelType("list", DYN) if path == ("matchExpressions",) else DYN


def _check_identity(
    resource: ParsedResource,
    fields: tuple[Field, ...],
    dimensions: tuple[Dimension, ...],
    compiler: ExpressionCompiler,
    instance_namespaced: bool,
) -> None:
    """The names of a collection must use every iterator, and a name must not be omitted."""
    namespaced = resource.kind is None or resource.kind.namespaced
    identity = [field for field in fields if field.path == _NAME or (field.path == _NAMESPACE and namespaced)]
    used = {name for field in identity for name in field.expression.names}
    for dimension in dimensions:
        if dimension.name not in used:
            message = f"iterator {dimension.name} must be used in metadata.name{' or metadata.namespace' if namespaced else ''}"
            compiler.add_issue(dimension.expression.path, message, hint="otherwise several objects have the same name")
    for field in identity:
        needed = field.path == _NAME or not instance_namespaced
        if field.expression.program.omits and needed:
            message = f"omit() is not allowed in {'.'.join(map(str, field.path))}"
            compiler.add_issue(field.expression.path, message, field.expression.source)


def _ready_when(resource: ParsedResource, compiler: ExpressionCompiler, scope: Scope) -> tuple[Expression, ...]:
    allowed = EACH if resource.type is NodeType.COLLECTION else resource.id
    if resource.type is NodeType.COLLECTION and resource.block.ready_when:
        schema = resource.kind.schema if resource.kind is not None else None
        scope = Scope(compiler.types, {EACH: (compiler.types.type_of(schema, EACH), schema)})
    conditions = []
    for text, path in _conditions(resource, "readyWhen"):
        expression = compiler.compile_condition(text, path, scope, "readyWhen")
        if expression is None:
            continue
        others = sorted(expression.names - {allowed})
        if others:
            message = f"readyWhen must refer to {allowed} only, got {', '.join(others)}"
            compiler.add_issue(path, message, text, f"write {allowed}.…" if allowed == EACH and others == [resource.id] else "")
        else:
            conditions.append(expression)
    return tuple(conditions)


def _dependencies(
    resource: ParsedResource, parts: _Parts, resources: list[ParsedResource], compiler: ExpressionCompiler
) -> tuple[str, ...]:
    """The ids that a resource depends on, in the order of the definition."""
    ids = [resource.id for resource in resources]
    expressions = [
        *(field.expression for field in parts.fields),
        *(dimension.expression for dimension in parts.dimensions),
        *parts.include_when,
    ]
    for expression in expressions:
        if resource.id in expression.names:
            compiler.add_issue(expression.path, f"{resource.id} must not refer to itself", expression.source)
    for index, name in enumerate(resource.block.depends_on):
        path = (*resource.block.path, "dependsOn", index)
        if name == resource.id:
            compiler.add_issue(path, f"{name} must not depend on itself")
        elif name not in ids:
            compiler.add_issue(path, f"dependsOn: resource {name} not found", hint=suggest_name(name, ids))
    named = {name for expression in expressions for name in expression.names} | set(resource.block.depends_on)
    return tuple(name for name in dict.fromkeys(ids) if name in named and name != resource.id)


def _order(dependencies: dict[str, tuple[str, ...]], resources: list[ParsedResource], compiler: ExpressionCompiler) -> list[str]:
    try:
        return dag.topological_sort(dependencies)
    except dag.CycleError as error:
        first = next(resource for resource in resources if resource.id == error.cycle[0])
        compiler.add_issue(first.block.path, str(error), hint="remove one of the references")
        return []


def _node(resource: ParsedResource, parts: _Parts, dependencies: tuple[str, ...], level: int) -> Node:
    assert resource.kind is not None
    return Node(
        id=resource.id,
        index=resource.block.index,
        type=resource.type,
        kind=resource.kind,
        template=resource.template,
        fields=parts.fields,
        compiled_template=CompiledTemplate(resource.template, [field.path for field in parts.fields]),
        dependencies=dependencies,
        apply_order=level,
        include_when=parts.include_when,
        ready_when=parts.ready_when,
        for_each=parts.dimensions,
        lifecycle=resource.block.lifecycle,
    )


def _notes(definition: Definition, resources: list[ParsedResource]) -> list[Note]:
    notes = [note for resource in resources for note in resource.parsed_template.notes]
    if "state" in definition.schema.status:
        notes.append(Note((*STATUS_PATH, "state"), "status.state is ignored: the controller sets it"))
    return notes


def _with_place(note: Note, definition: Definition) -> Note:
    return replace(note, place=definition.place(note.path))


def _placed(issues: list[Issue], definition: Definition) -> list[Issue]:
    """The issues with `file:line`, in the order of the document."""
    placed = [replace(issue, place=definition.place(issue.path)) for issue in dict.fromkeys(issues)]
    return sorted(placed, key=lambda issue: int(issue.place.rpartition(":")[2] or 0)) if definition.places else placed
