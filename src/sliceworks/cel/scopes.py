"""Typed scopes: what the expressions at one place of a resource graph may refer to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sliceworks.cel import descriptors, syntax
from sliceworks.cel.complaints import Complaint, Known, complaints
from sliceworks.cel.dialect import GRAPHS
from sliceworks.cel.environment import LONGEST, CompileError
from sliceworks.cel.environment import Variable as SchemaVariable
from sliceworks.cel.formulas import Formula
from sliceworks.cel.libraries.conditions import CONDITION, RUNTIME
from sliceworks.cel.libraries.standard import REVERSE
from sliceworks.cel.open_types import OpenDeclarations
from sliceworks.cel.ordering import settle
from sliceworks.cel.preparation import Preparation
from sliceworks.cel.reads import feeds, lone_path, reads
from sliceworks.cel.results import result_type
from sliceworks.cel.rewriting import NAMES_OF_TYPES, WrongCall, engine_name, graph_name, rewritten, with_names_of_types
from sliceworks.cel.types import DYN, CelType
from sliceworks.cel.values import converter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.schemas.structural import Schema

_OF_THE_ENGINE = """
all base64.decode base64.encode bool bytes cel.bind contains distinct double duration dyn endsWith exists existsOne exists_one
filter first flatten getDate getDayOfMonth getDayOfWeek getDayOfYear getFullYear getHours getMilliseconds getMinutes getMonth
getSeconds has hasValue int last lists.range map matches optional.none optional.of optional.ofNonZeroValue or orValue reverse
size slice sort sortBy startsWith timestamp transformList transformMap transformMapEntry type uint value
"""
_FUNCTIONS = (*{one.name: None for one in GRAPHS.checked if one.name[0].isalpha() and one.name != REVERSE}, *_OF_THE_ENGINE.split())
_MOST_OPENED = 64


class WrongExpression(CompileError):
    """An expression that cannot be used; `complaints` say why."""

    def __init__(self, found: list[Complaint]) -> None:
        super().__init__("; ".join(one.message for one in found))
        self.complaints = tuple(found)


class Types:
    """The types of one graph's variables, shared by all of its scopes."""

    def __init__(self, schemas: Mapping[str, Schema | None]) -> None:
        self.declarations = OpenDeclarations()
        self.schemas = dict(schemas)
        self.variables = {name: self.of(schema, name) for name, schema in schemas.items()}
        self._pool: Any = None

    def of(self, schema: Schema | None, shown: str) -> CelType:
        """The type of a schema; any type where there is none."""
        return self.declarations.declare(schema, shown) or DYN if schema is not None else DYN

    def pool(self) -> Any:
        """The engine's descriptors of all types that variables reach."""
        if self._pool is None:
            self._pool = descriptors.pool(self.declarations)
        return self._pool

    def open_up(self, found: list[Complaint]) -> bool:
        """Open objects that keep unknown fields for those that an expression asked for. Tells whether anything changed."""
        opened = [self.declarations.open_up(one.owner, one.field) for one in found if one.field]
        if any(opened):
            self._pool = None
        return any(opened)


class Scope:
    """All variables of a graph, and `more` of this place alone: their types, and their schemas where those are known."""

    def __init__(self, types: Types, more: Mapping[str, tuple[CelType, Schema | None]] | None = None) -> None:
        self._types = types
        self._variables = types.variables | {name: kind for name, (kind, _) in (more or {}).items()}
        self._schemas = types.schemas | {name: schema for name, (_, schema) in (more or {}).items()}
        self._checker: tuple[Any, Any] | None = None
        self._compiled: dict[str, Formula] = {}

    @property
    def names(self) -> frozenset[str]:
        """The variables that expressions may use."""
        return frozenset(self._variables)

    def compile(self, text: str) -> Formula:
        """The formula of an expression; WrongExpression where it breaks the language or the types."""
        if text not in self._compiled:
            self._compiled[text] = self._compile(text)
        return self._compiled[text]

    def schema_at(self, formula: Formula) -> Schema | None:
        """The schema of what a formula gives, where it only reads a field."""
        return self._schema_at(formula.path.root, formula.path.steps) if formula.path is not None else None

    def tree(self, text: str) -> syntax.Tree:
        """The checked tree of an expression, to look into."""
        return syntax.parse(self._checked(self._written(text)))

    def _compile(self, text: str) -> Formula:
        if len(text) > LONGEST:
            raise WrongExpression([Complaint(f"the expression has {len(text)} characters; {LONGEST} is the most")])
        if not text.strip():
            raise WrongExpression([Complaint("the expression is empty")])
        if "\x00" in text:
            raise WrongExpression([Complaint("the expression has a NUL character")])
        try:
            written = self._written(text)
        except WrongCall as error:
            raise WrongExpression([Complaint(str(error))]) from error
        return self._formula(text, syntax.parse(self._checked(written)))

    def _written(self, text: str) -> str:
        """The expression as the engine takes it."""
        hiding = NAMES_OF_TYPES & self._variables.keys()
        return with_names_of_types(rewritten(text), hiding) if hiding else rewritten(text)

    def _checked(self, text: str) -> bytes:
        known = Known(self._types.declarations, tuple(self._variables), _FUNCTIONS)
        for _ in range(_MOST_OPENED):
            try:
                return bytes(self._environment().compile(text).serialize())
            except RuntimeError as error:
                found = complaints(str(error), text, known)
                if not self._types.open_up(found):
                    raise WrongExpression(found) from error
        raise WrongExpression([Complaint("the expression asks for too many unknown fields")])

    def _environment(self) -> Any:
        pool = self._types.pool()
        if self._checker is None or self._checker[0] is not pool:
            variables = {engine_name(name): kind for name, kind in self._variables.items()}
            self._checker = (pool, GRAPHS.checker(pool, variables, {}))
        return self._checker[1]

    def _formula(self, text: str, tree: syntax.Tree) -> Formula:
        root = tree.checked.expr
        result = result_type(tree.types.get(root.id))
        functions = {node.call.function for node in syntax.walk(root) if syntax.kind(node) == "call"}
        for node in syntax.walk(root) if REVERSE in functions else ():
            if syntax.kind(node) == "call" and node.call.function == REVERSE:
                tree.rename(node, "reverse")
        variables = {engine_name(name): SchemaVariable(schema) for name, schema in self._schemas.items() if schema is not None}
        Preparation(tree, self._types.declarations, variables).run()
        settle(tree)
        if result.kind == "optional":
            tree.wrap_member(root, "orValue", "optional_orValue_value")
        names = {engine_name(name) for name in self._variables}
        found = [replace(read, root=graph_name(read.root)) for read in reads(root, names)]
        lone = lone_path(root, names)
        path = replace(lone, root=graph_name(lone.root)) if lone is not None else None
        schema = self._schema_at(path.root, path.steps) if path is not None else None
        if schema is not None:
            # The engine does not know what lists in lists hold; the schema does.
            result = self._types.of(schema, text)
            path = path if converter(schema) is None else None
        return Formula(
            text,
            result,
            frozenset(read.root for read in found),
            tuple(found),
            path,
            "omit" in functions,
            feeds(found, self._schemas),
            GRAPHS.runtime.deserialize(syntax.serialize(tree)),
        )

    def _schema_at(self, name: str, steps: tuple[str | int, ...]) -> Schema | None:
        schema = self._schemas.get(name)
        for step in steps:
            if schema is None:
                return None
            schema = schema.items if isinstance(step, int) else schema.properties.get(step, schema.additional)
        return schema


RUNTIME_TYPE = CelType(RUNTIME)
"""The type of the `runtime` variable."""
CONDITION_TYPE = CelType("message", message=CONDITION)
"""What `runtime.newCondition` gives."""
