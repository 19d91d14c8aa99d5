"""x-kubernetes-validations: compiles the rules of a schema and evaluates them on objects, with ratcheting on updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.schemas import MISSING
from sliceworks.schemas.values import correlate_items

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from sliceworks.cel.rule_compilation import RulePrograms
    from sliceworks.schemas import Schema
    from sliceworks.schemas.field_errors import FieldError


class CorrelatedValue:
    """A value with its old value, or, if it cannot be correlated, the nearest correlated ancestor."""

    __slots__ = ("_equal", "_items", "_root", "above", "known", "old", "schema", "value")

    def __init__(
        self, schema: Schema | None, value: Any, old: Any, *, above: CorrelatedValue | None = None, root: bool = True
    ) -> None:
        self.schema, self.value, self.old, self.above = schema, value, old, above
        self.known = schema is not None and old is not MISSING
        self._root = root
        self._equal: bool | None = None
        self._items: list[Any] | None = None

    def unchanged(self) -> bool:
        """Whether the value is unchanged, so that ratcheting ignores its errors."""
        if not self.known:
            return self.above is not None and self.above.unchanged()
        if self._equal is None:
            self._equal = _equal(self.schema, self.value, self.old)
        return self._equal

    def key(self, name: str) -> CorrelatedValue:
        if self._root and name in ("apiVersion", "kind"):
            return CorrelatedValue(None, None, MISSING, root=False)
        if not self.known:
            return self
        assert self.schema is not None
        child = self.schema.properties.get(name, self.schema.additional)
        before = self.old.get(name, MISSING) if isinstance(self.old, dict) else MISSING
        return CorrelatedValue(child, self.value.get(name), before, above=self, root=False)

    def index(self, position: int) -> CorrelatedValue:
        if not self.known:
            return self
        assert self.schema is not None
        if self._items is None:
            self._items = correlate_items(self.schema, self.value, self.old)
        return CorrelatedValue(self.schema.items, self.value[position], self._items[position], above=self, root=False)


def _equal(schema: Schema | None, value: Any, old: Any) -> bool:
    """Deep equality; items of list type map are matched by their keys."""
    if schema is None or type(value) is not type(old):
        return bool(value == old) and type(value) is type(old)
    if isinstance(value, dict):
        known = schema.properties
        return value.keys() == old.keys() and all(
            _equal(known.get(name, schema.additional), item, old[name]) for name, item in value.items()
        )
    if isinstance(value, list) and schema.list_type == "map":
        return len(value) == len(old) and all(
            before is not MISSING and _equal(schema.items, item, before)
            for item, before in zip(value, correlate_items(schema, value, old), strict=True)
        )
    return bool(value == old)


_CACHE_KEY, _COMPILED_KEY = "cel", "cel compiled"


class _RuleNode:
    """A schema node with rules on it or below it."""

    __slots__ = ("_programs", "_resource", "fields", "items", "schema", "values")

    def __init__(self, schema: Schema, *, resource: bool) -> None:
        self.schema, self._resource = schema, resource
        self._programs: RulePrograms | None = None
        below = {name: _rule_node(child) for name, child in schema.properties.items()}
        self.fields = {name: child for name, child in below.items() if child is not None}
        self.values = _rule_node(schema.additional)
        self.items = _rule_node(schema.items)

    def __bool__(self) -> bool:
        return bool(self.schema.rules or self.fields or self.values or self.items)

    def programs(self) -> RulePrograms:
        """The rules of this node, compiled on first use."""
        for _ in self.compile_steps():
            pass
        assert self._programs is not None
        return self._programs

    def compile_steps(self) -> Iterator[None]:
        """Compile the rules of this node, one per step; no steps if they are compiled."""
        if self._programs is None:
            from sliceworks.cel.rule_compilation import RulePrograms

            programs = RulePrograms(self.schema.rules, self.schema, resource=self._resource)
            yield from programs.compile_steps()
            self._programs = programs

    def children(self) -> list[_RuleNode]:
        """The nodes directly below this one."""
        return [*self.fields.values(), *(child for child in (self.values, self.items) if child is not None)]


def _rule_node(schema: Schema | None) -> _RuleNode | None:
    return _RuleNode(schema, resource=schema.embedded_resource) or None if schema is not None else None


def _root(schema: Schema) -> _RuleNode | None:
    """The tree of nodes with rules, cached on the schema."""
    if _CACHE_KEY not in schema.planned:
        schema.planned[_CACHE_KEY] = _RuleNode(schema, resource=True) or None
    root: _RuleNode | None = schema.planned[_CACHE_KEY]
    return root


def compile_rules(schema: Schema, path: str) -> list[FieldError]:
    """Errors in the validation rules of a custom resource's schema; `path` is the schema's field path in the CRD."""
    root_node = _root(schema)
    if root_node is None:
        return []
    from sliceworks.cel.rule_compilation import find_rule_errors

    return find_rule_errors(schema, path, {id(node.schema): node.programs for node in _all_nodes(root_node)})


def _all_nodes(node: _RuleNode) -> list[_RuleNode]:
    return [node, *(descendant for child in node.children() for descendant in _all_nodes(child))]


def compile_steps(schema: Schema) -> Iterator[None]:
    """Compile the rules of a schema, one per step, so that `compile_rules` and `evaluate_rules` need not."""
    root = _root(schema)
    if root is not None and _COMPILED_KEY not in schema.planned:
        yield from _compile_below(root)
        schema.planned[_COMPILED_KEY] = True


def _compile_below(node: _RuleNode) -> Generator[None, None, bool]:
    """Compile the rules of a node and its children; returns whether all can be compiled. A parent of others is not compiled."""
    from sliceworks.cel.rule_compilation import has_valid_fields

    is_valid = True
    for child in node.children():
        is_valid &= yield from _compile_below(child)
    is_valid = is_valid and has_valid_fields(node.schema)
    if is_valid and node.schema.rules:
        yield from node.compile_steps()
    return is_valid


def evaluate_rules(schema: Schema, value: Any, old: Any = MISSING, path: str = "") -> list[FieldError]:
    """Errors of an object by its schema's validation rules. `old` is the previous object of an update."""
    root = _root(schema)
    if root is None:
        return []
    walk = _RuleEvaluation()
    walk.visit(root, value, old, path, CorrelatedValue(schema, value, MISSING if old is None else old))
    return walk.errors


class _RuleEvaluation:
    """One pass over an object that collects errors of rules."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []

    def visit(self, node: _RuleNode, value: Any, old: Any, path: str, correlation: CorrelatedValue) -> None:
        if value is None:
            return
        if node.schema.rules:
            self.errors += node.programs().evaluate(value, old, path, correlation)
        if isinstance(value, dict):
            self._visit_fields(node, value, old if isinstance(old, dict) else {}, path, correlation)
        elif isinstance(value, list) and node.items is not None:
            for index, item in enumerate(value):
                item_correlation = correlation.index(index)
                self.visit(
                    node.items,
                    item,
                    item_correlation.old if item_correlation.known else MISSING,
                    f"{path}[{index}]",
                    item_correlation,
                )

    def _visit_fields(
        self, node: _RuleNode, value: dict[str, Any], old: dict[str, Any], path: str, correlation: CorrelatedValue
    ) -> None:
        if node.values is not None:
            for key, item in value.items():
                self.visit(node.values, item, old.get(key, MISSING), f"{path}[{key}]", correlation.key(key))
        for name, child in node.fields.items():
            if name in value:
                self.visit(child, value[name], old.get(name, MISSING), f"{path}.{name}" if path else name, correlation.key(name))
