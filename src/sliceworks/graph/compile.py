"""From a definition to a graph: everything that can be refused is refused here, with its place and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sliceworks.base.words import closest
from sliceworks.cel.formulas import Formula
from sliceworks.cel.results import shown
from sliceworks.cel.scopes import Scope, Types
from sliceworks.cel.types import DYN, STRING, CelType
from sliceworks.graph import crds, order, simple_schema
from sliceworks.graph.blueprints import Blueprint
from sliceworks.graph.conditions import compile_conditions
from sliceworks.graph.errors import DefinitionError
from sliceworks.graph.expressions import Workshop
from sliceworks.graph.model import EACH, SCHEMA, Dimension, Field, Graph, Issue, Node, Note, Role
from sliceworks.graph.resources import draft
from sliceworks.graph.statuses import OWN, ROOT, compile_status
from sliceworks.schemas.structural import Schema, build

if TYPE_CHECKING:
    from sliceworks.graph.kinds import Kinds
    from sliceworks.graph.model import Definition, Expression, Path
    from sliceworks.graph.resources import Draft
    from sliceworks.graph.templates import Slot

_ANY: tuple[CelType, Schema | None] = (DYN, None)
_NAME, _NAMESPACE, _SELECTOR = ("metadata", "name"), ("metadata", "namespace"), ("metadata", "selector")


def compile(definition: Definition, kinds: Kinds) -> Graph:  # noqa: A001 - the verb of this room
    """The graph of a definition; DefinitionError with everything that is wrong with it."""
    try:
        return _compiled(definition, kinds)
    except RecursionError as error:
        raise DefinitionError(
            [Issue(("spec",), "the definition is nested too deeply", place=definition.place(("spec",)))]
        ) from error


def _compiled(definition: Definition, kinds: Kinds) -> Graph:
    block = definition.schema
    spec, issues = simple_schema.convert(block.spec, block.types, ("spec", "schema"))
    drafts = [draft(one, kinds, instance_namespaced=block.namespaced) for one in definition.resources]
    schemas = {SCHEMA: crds.instance_schema(block, spec)} | {one.block.id: _seen_schema(one) for one in drafts}
    workshop = Workshop(Types(schemas))
    issues += [issue for one in drafts for issue in one.survey.issues]
    scope = Scope(workshop.types)
    parts = {one.block.id: _parts(one, workshop, scope, block.namespaced) for one in drafts}
    shown_status = {key: value for key, value in block.status.items() if key not in OWN}
    fields, status = compile_status(shown_status, workshop, scope)
    conditions = compile_conditions(block.status["conditions"], workshop) if block.status.get("conditions") is not None else ()
    needs = {one.block.id: _needs(one, parts[one.block.id], drafts, workshop) for one in drafts}
    sequence = _sequence(needs, drafts, workshop)
    issues += workshop.issues
    if issues:
        raise DefinitionError(_placed(issues, definition))
    layers = order.layers(needs)
    by_id = {one.block.id: one for one in drafts}
    return Graph(
        definition,
        tuple(_node(by_id[name], parts[name], needs[name], layers[name]) for name in sequence),
        crds.generated(block, spec, status),
        fields,
        Blueprint(shown_status, [field.path for field in fields]),
        conditions,
        (*definition.notes, *(_with_place(note, definition) for note in _notes(definition, drafts))),
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    """The compiled expressions of one resource."""

    fields: tuple[Field, ...]
    dimensions: tuple[Dimension, ...]
    include_when: tuple[Expression, ...]
    ready_when: tuple[Expression, ...]


def _seen_schema(one: Draft) -> Schema | None:
    """What other expressions see of a resource: its object, or a list of objects."""
    if one.kind is None:
        return None
    schema = one.kind.schema
    return build({"type": "array", "items": {"$ref": "item"}}, lambda _: schema) if one.role.is_list else schema


def _parts(one: Draft, workshop: Workshop, scope: Scope, instance_namespaced: bool) -> _Parts:
    dimensions = _dimensions(one, workshop, scope)
    iterators = dict.fromkeys((name for name, _ in one.block.for_each), _ANY) | {
        each.name: _iterator(each, scope) for each in dimensions
    }
    within = Scope(workshop.types, iterators) if iterators else scope
    fields = tuple(field for slot in one.survey.slots if (field := _field(slot, one, workshop, within)) is not None)
    _check_identity(one, fields, dimensions, workshop, instance_namespaced)
    include = [workshop.condition(text, path, scope, "includeWhen") for text, path in _conditions(one, "includeWhen")]
    return _Parts(fields, dimensions, tuple(each for each in include if each is not None), _ready_when(one, workshop, scope))


def _conditions(one: Draft, name: str) -> list[tuple[str, Path]]:
    """The texts of a resource's conditions, and where they stand."""
    texts = one.block.include_when if name == "includeWhen" else one.block.ready_when
    return [(text, (*one.block.path, name, index)) for index, text in enumerate(texts)]


def _dimensions(one: Draft, workshop: Workshop, scope: Scope) -> tuple[Dimension, ...]:
    names = [name for name, _ in one.block.for_each]
    # Other iterators are known here only to say that they cannot be used.
    scope = Scope(workshop.types, dict.fromkeys(names, _ANY)) if len(names) > 1 else scope
    found = []
    for index, (name, text) in enumerate(one.block.for_each):
        path = (*one.block.path, "forEach", index, name)
        expression = workshop.lone(text, path, scope, "forEach")
        if expression is None:
            continue
        result = expression.program.result
        if expression.names.intersection(names):
            workshop.wrong(path, "an iterator of forEach cannot refer to another one", text)
        elif result.kind != "list":
            workshop.wrong(path, f"forEach needs a list, and {name} is given {shown(result)}", text)
        else:
            found.append(Dimension(name, expression))
    return tuple(found)


def _iterator(dimension: Dimension, scope: Scope) -> tuple[CelType, Schema | None]:
    program = dimension.expression.program
    assert isinstance(program, Formula)
    schema = scope.schema_at(program)
    return program.result.element or DYN, schema.items if schema is not None else None


def _field(slot: Slot, one: Draft, workshop: Workshop, scope: Scope) -> Field | None:
    expression = workshop.value(slot.text, (*one.root, *slot.path), scope, _expected(slot, one, workshop))
    return Field(slot.path, expression) if expression is not None else None


def _expected(slot: Slot, one: Draft, workshop: Workshop) -> CelType:
    if one.role is Role.EXTERNAL_COLLECTION and slot.path[:2] == _SELECTOR:
        return _selector_type(slot.path[2:])
    schema = slot.schema
    if schema is None and one.kind is not None:
        schema = _schema_at(one.kind.schema, slot.path)
    return workshop.types.of(schema, one.block.id)


def _selector_type(path: Path) -> CelType:
    if not path:
        return CelType("map", DYN)
    if path[0] == "matchLabels":
        return STRING if len(path) > 1 else CelType("map", STRING)
    return CelType("list", DYN) if path == ("matchExpressions",) else DYN


def _schema_at(schema: Schema | None, path: Path) -> Schema | None:
    for step in path:
        if schema is None:
            return None
        schema = schema.items if isinstance(step, int) else schema.properties.get(step, schema.additional)
    return schema


def _check_identity(
    one: Draft, fields: tuple[Field, ...], dimensions: tuple[Dimension, ...], workshop: Workshop, instance_namespaced: bool
) -> None:
    """A collection's names must differ by every iterator, and no name may be omitted."""
    namespaced = one.kind is None or one.kind.namespaced
    identity = [field for field in fields if field.path == _NAME or (field.path == _NAMESPACE and namespaced)]
    used = {name for field in identity for name in field.expression.names}
    for each in dimensions:
        if each.name not in used:
            message = f"the iterator {each.name} must be part of metadata.name{' or metadata.namespace' if namespaced else ''}"
            workshop.wrong(each.expression.path, message, remedy="otherwise several objects would have the same name")
    for field in identity:
        needed = field.path == _NAME or not instance_namespaced
        if field.expression.program.omits and needed:
            message = f"omit() cannot be used for {'.'.join(map(str, field.path))}: every object needs it"
            workshop.wrong(field.expression.path, message, field.expression.written)


def _ready_when(one: Draft, workshop: Workshop, scope: Scope) -> tuple[Expression, ...]:
    allowed = EACH if one.role is Role.COLLECTION else one.block.id
    if one.role is Role.COLLECTION and one.block.ready_when:
        schema = one.kind.schema if one.kind is not None else None
        scope = Scope(workshop.types, {EACH: (workshop.types.of(schema, EACH), schema)})
    found = []
    for text, path in _conditions(one, "readyWhen"):
        expression = workshop.condition(text, path, scope, "readyWhen")
        if expression is None:
            continue
        others = sorted(expression.names - {allowed})
        if others:
            message = f"readyWhen may refer to {allowed} only, and this refers to {', '.join(others)}"
            workshop.wrong(path, message, text, f"write {allowed}.…" if allowed == EACH and others == [one.block.id] else "")
        else:
            found.append(expression)
    return tuple(found)


def _needs(one: Draft, parts: _Parts, drafts: list[Draft], workshop: Workshop) -> tuple[str, ...]:
    """The ids that a resource depends on, in the order of the definition."""
    ids = [each.block.id for each in drafts]
    own = [
        *(field.expression for field in parts.fields),
        *(dimension.expression for dimension in parts.dimensions),
        *parts.include_when,
    ]
    for expression in own:
        if one.block.id in expression.names:
            workshop.wrong(
                expression.path, f"{one.block.id} refers to itself", expression.written, "self references are not allowed"
            )
    for index, name in enumerate(one.block.depends_on):
        path = (*one.block.path, "dependsOn", index)
        if name == one.block.id:
            workshop.wrong(path, f"{name} depends on itself")
        elif name not in ids:
            workshop.wrong(path, f"dependsOn names {name}, which is no resource", remedy=closest(name, ids))
    named = {name for expression in own for name in expression.names} | set(one.block.depends_on)
    return tuple(name for name in dict.fromkeys(ids) if name in named and name != one.block.id)


def _sequence(needs: dict[str, tuple[str, ...]], drafts: list[Draft], workshop: Workshop) -> list[str]:
    try:
        return order.topological(needs)
    except order.CycleFound as error:
        first = next(each for each in drafts if each.block.id == error.cycle[0])
        workshop.wrong(first.block.path, str(error), remedy="break it by taking one of the references away")
        return []


def _node(one: Draft, parts: _Parts, needs: tuple[str, ...], layer: int) -> Node:
    assert one.kind is not None
    return Node(
        id=one.block.id,
        index=one.block.index,
        role=one.role,
        kind=one.kind,
        template=one.template,
        fields=parts.fields,
        blueprint=Blueprint(one.template, [field.path for field in parts.fields]),
        dependencies=needs,
        apply_order=layer,
        include_when=parts.include_when,
        ready_when=parts.ready_when,
        for_each=parts.dimensions,
        lifecycle=one.block.lifecycle,
    )


def _notes(definition: Definition, drafts: list[Draft]) -> list[Note]:
    found = [note for one in drafts for note in one.survey.notes]
    if "state" in definition.schema.status:
        found.append(Note((*ROOT, "state"), "status.state is the controller's own field; what is written here is not used"))
    return found


def _with_place(note: Note, definition: Definition) -> Note:
    return replace(note, place=definition.place(note.path))


def _placed(issues: list[Issue], definition: Definition) -> list[Issue]:
    """The issues with their places, in the order of the document."""
    placed = [replace(issue, place=definition.place(issue.path)) for issue in dict.fromkeys(issues)]
    return sorted(placed, key=lambda issue: int(issue.place.rpartition(":")[2] or 0)) if definition.places else placed
