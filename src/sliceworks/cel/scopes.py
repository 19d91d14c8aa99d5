"""Typed scopes: the variables that expressions at one place of a resource graph may use."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sliceworks.cel import descriptors, syntax
from sliceworks.cel.ast_transform import AstTransformer, order_map_iteration
from sliceworks.cel.dialect import KRO
from sliceworks.cel.environment import MAX_LENGTH, CompileError
from sliceworks.cel.environment import Variable as SchemaVariable
from sliceworks.cel.expressions import CompiledExpression
from sliceworks.cel.issues import CompileIssue, IssueKind, KnownNames, parse_issues
from sliceworks.cel.libraries.kro import CONDITION, CONDITION_FIELDS, RUNTIME
from sliceworks.cel.libraries.standard import REVERSE
from sliceworks.cel.references import build_projections, find_references, find_single_reference
from sliceworks.cel.source_rewrite import TYPE_NAMES, InvalidCall, engine_name, graph_name, rename_type_variables, rewrite
from sliceworks.cel.types import DYN, STRING, CelType, Declarations, Message, result_type
from sliceworks.cel.values import converter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.cel.references import Reference
    from sliceworks.schemas import Schema


class GraphDeclarations(Declarations):
    """Message types of one graph."""

    def __init__(self) -> None:
        super().__init__()
        self.messages[CONDITION] = Message(CONDITION, "Condition", None, fields=dict.fromkeys(CONDITION_FIELDS, STRING))

    def declare(self, schema: Schema, shown: str, *, resource: bool = False) -> CelType | None:
        if schema.type == "object" and not schema.int_or_string and not schema.properties:
            if schema.additional_allowed:
                return CelType("map", DYN)
            if schema.additional is not None:
                return CelType("map", self._child(schema.additional, f"{shown}.@elem") or DYN)
        return super().declare(schema, shown, resource=False)

    def allow_unknown_field(self, message: str, name: str) -> bool:
        """Add a field of any type to a message; False if its schema does not preserve unknown fields."""
        declared = self.messages.get(message)
        if declared is None or declared.schema is None or not declared.schema.preserve_unknown or name in declared.fields:
            return False
        declared.fields[name] = DYN
        return True


_ENGINE_FUNCTIONS = """
all base64.decode base64.encode bool bytes cel.bind contains distinct double duration dyn endsWith exists existsOne exists_one
filter first flatten getDate getDayOfMonth getDayOfWeek getDayOfYear getFullYear getHours getMilliseconds getMinutes getMonth
getSeconds has hasValue int last lists.range map matches optional.none optional.of optional.ofNonZeroValue or orValue reverse
size slice sort sortBy startsWith timestamp transformList transformMap transformMapEntry type uint value
"""

_FUNCTIONS = (
    *{function.name: None for function in KRO.checked if function.name[0].isalpha() and function.name != REVERSE},
    *_ENGINE_FUNCTIONS.split(),
)
_MAX_OPENED_FIELDS = 64


class InvalidExpression(CompileError):
    """An invalid expression, with its `issues`."""

    def __init__(self, issues: list[CompileIssue]) -> None:
        super().__init__("; ".join(issue.message for issue in issues))
        self.issues = tuple(issues)


class Types:
    """Types of one graph's variables, shared by its scopes."""

    def __init__(self, schemas: Mapping[str, Schema | None]) -> None:
        self.declarations = GraphDeclarations()
        self.schemas = dict(schemas)
        self.variables = {name: self.type_of(schema, name) for name, schema in schemas.items()}
        self._pool: Any = None

    def type_of(self, schema: Schema | None, shown: str) -> CelType:
        """The type of a schema; `dyn` without a schema."""
        return self.declarations.declare(schema, shown) or DYN if schema is not None else DYN

    def pool(self) -> Any:
        """The engine's descriptors of all types of the variables."""
        if self._pool is None:
            self._pool = descriptors.build_pool(self.declarations)
        return self._pool

    def allow_unknown_fields(self, issues: list[CompileIssue]) -> bool:
        """Add unknown fields that expressions read to objects that preserve them; returns whether anything changed."""
        allowed = [
            self.declarations.allow_unknown_field(issue.owner, issue.name)
            for issue in issues
            if issue.kind is IssueKind.UNKNOWN_FIELD
        ]
        if any(allowed):
            self._pool = None
        return any(allowed)


class Scope:
    """Variables of a graph plus `extra_variables` of this position, with types and known schemas."""

    def __init__(self, types: Types, extra_variables: Mapping[str, tuple[CelType, Schema | None]] | None = None) -> None:
        self._types = types
        self._variables = types.variables | {name: kind for name, (kind, _) in (extra_variables or {}).items()}
        self._schemas = types.schemas | {name: schema for name, (_, schema) in (extra_variables or {}).items()}
        self._checker: tuple[Any, Any] | None = None
        self._compiled: dict[str, CompiledExpression] = {}

    @property
    def names(self) -> frozenset[str]:
        """Names of the variables."""
        return frozenset(self._variables)

    def compile(self, text: str) -> CompiledExpression:
        """The compiled expression; InvalidExpression if its syntax or types are invalid."""
        if text not in self._compiled:
            self._compiled[text] = self._compile(text)
        return self._compiled[text]

    def schema_at(self, expression: CompiledExpression) -> Schema | None:
        """The schema of the result if the expression only reads a field."""
        return self._schema_at(expression.path) if expression.path is not None else None

    def tree(self, text: str) -> syntax.Tree:
        """The checked syntax tree of an expression."""
        return syntax.parse(self._checked(self._rewrite(text)))

    def _compile(self, text: str) -> CompiledExpression:
        if len(text) > MAX_LENGTH:
            raise InvalidExpression([CompileIssue(f"the expression has {len(text)} characters; the maximum is {MAX_LENGTH}")])
        if not text.strip():
            raise InvalidExpression([CompileIssue("the expression is empty")])
        if "\x00" in text:
            raise InvalidExpression([CompileIssue("the expression contains a NUL character")])
        try:
            written = self._rewrite(text)
        except InvalidCall as error:
            raise InvalidExpression([CompileIssue(str(error))]) from error
        return self._build(text, syntax.parse(self._checked(written)))

    def _rewrite(self, text: str) -> str:
        """The expression rewritten for the engine."""
        shadowed = TYPE_NAMES & self._variables.keys()
        return rename_type_variables(rewrite(text), shadowed) if shadowed else rewrite(text)

    def _checked(self, text: str) -> bytes:
        known = KnownNames(self._types.declarations, tuple(self._variables), _FUNCTIONS)
        for _ in range(_MAX_OPENED_FIELDS):
            try:
                return bytes(self._environment().compile(text).serialize())
            except RuntimeError as error:
                issues = parse_issues(str(error), text, known)
                if not self._types.allow_unknown_fields(issues):
                    raise InvalidExpression(issues) from error
        raise InvalidExpression([CompileIssue("the expression reads too many unknown fields")])

    def _environment(self) -> Any:
        pool = self._types.pool()
        if self._checker is None or self._checker[0] is not pool:
            variables = {engine_name(name): kind for name, kind in self._variables.items()}
            self._checker = (pool, KRO.checker(pool, variables, {}))
        return self._checker[1]

    def _build(self, text: str, tree: syntax.Tree) -> CompiledExpression:
        root = tree.checked.expr
        result = result_type(tree.types.get(root.id))
        functions = {node.call.function for node in syntax.walk(root) if syntax.kind(node) == "call"}
        for node in syntax.walk(root) if REVERSE in functions else ():
            if syntax.kind(node) == "call" and node.call.function == REVERSE:
                tree.rename(node, "reverse")
        variables = {engine_name(name): SchemaVariable(schema) for name, schema in self._schemas.items() if schema is not None}
        AstTransformer(tree, self._types.declarations, variables).run()
        order_map_iteration(tree)
        tree.unwrap_result(or_null=True)
        names = {engine_name(name) for name in self._variables}
        references = [replace(reference, root=graph_name(reference.root)) for reference in find_references(root, names)]
        single = find_single_reference(root, names)
        path = replace(single, root=graph_name(single.root)) if single is not None else None
        schema = self._schema_at(path) if path is not None else None
        if schema is not None:
            # The engine loses the element type of nested lists; the schema has it.
            result = self._types.type_of(schema, text)
            path = path if converter(schema) is None else None
        return CompiledExpression(
            text,
            result,
            frozenset(reference.root for reference in references),
            tuple(references),
            path,
            "omit" in functions,
            build_projections(references, self._schemas),
            KRO.runtime.deserialize(syntax.serialize(tree)),
            tree.has_optionals,
        )

    def _schema_at(self, path: Reference) -> Schema | None:
        root = self._schemas.get(path.root)
        return root.at(path.steps) if root is not None else None


RUNTIME_TYPE = CelType(RUNTIME)
"""The type of the `runtime` variable."""

CONDITION_TYPE = CelType("message", message=CONDITION)
"""The result type of `runtime.newCondition`."""
