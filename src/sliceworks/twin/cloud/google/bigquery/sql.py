"""A subset of GoogleSQL over one table: parse and execute. Does no I/O."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.twin.cloud.google.bigquery import table_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
AGGREGATES = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX"})
SUPPORTED = (
    "the twin supports SELECT of columns, COUNT, SUM, AVG, MIN and MAX FROM one table, "
    "with WHERE … AND …, GROUP BY, ORDER BY and LIMIT"
)
_TOKEN = re.compile(
    r"""\s*(?:(?P<comment>--[^\n]*|/\*.*?\*/)
    |(?P<quoted>`[^`]+`)
    |(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |(?P<parameter>@[A-Za-z_]\w*)
    |(?P<word>[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*)
    |(?P<symbol><=|>=|!=|<>|[=<>(),*;?+/%|-]))""",
    re.VERBOSE | re.DOTALL,
)
_OPERATORS = frozenset({"=", "!=", "<>", "<", "<=", ">", ">="})
_KEYWORDS = frozenset({"FROM", "WHERE", "GROUP", "ORDER", "LIMIT", "HAVING", "JOIN", "UNION", "AS", "AND", "OR"})


class UnsupportedQuery(Exception):
    """The query has a syntax error or uses an unsupported feature."""


@dataclass(frozen=True, slots=True)
class SelectItem:
    """A column of the result: a column of the table or an aggregate of one; `*` is all columns."""

    column: str
    function: str = ""
    distinct: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a column with a literal or a named parameter, or `IS [NOT]` NULL."""

    column: str
    operator: str
    value: Any = None
    parameter: str = ""


@dataclass(slots=True)
class Query:
    """A parsed query."""

    items: list[SelectItem] = field(default_factory=list)
    table: str = ""
    where: list[Condition] = field(default_factory=list)
    group: list[str] = field(default_factory=list)
    order: list[tuple[str, bool]] = field(default_factory=list)
    limit: int | None = None


def parse(statement: str) -> Query:
    """Parse a query; raises UnsupportedQuery."""
    return _Parser(_tokenize(statement)).query()


def _tokenize(statement: str) -> list[tuple[str, str]]:
    tokens, position = [], 0
    while statement[position:].strip():
        match = _TOKEN.match(statement, position)
        if match is None:
            raise UnsupportedQuery(f"Syntax error: Unexpected {statement[position:].strip()[:20]!r}")
        position = match.end()
        if match.lastgroup and match.lastgroup != "comment":
            tokens.append((match.lastgroup, match[match.lastgroup]))
    while tokens and tokens[-1] == ("symbol", ";"):
        tokens.pop()
    return tokens


class _Parser:
    """A recursive descent parser."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._position = 0

    def query(self) -> Query:
        query = Query()
        self._expect("SELECT")
        query.items = self._list(self._item)
        self._expect("FROM")
        query.table = self._table()
        if self._accept("WHERE"):
            query.where = [self._condition()]
            while self._accept("AND"):
                query.where.append(self._condition())
        if self._accept("GROUP"):
            self._expect("BY")
            query.group = self._list(self._name)
        if self._accept("ORDER"):
            self._expect("BY")
            query.order = self._list(self._order_term)
        if self._accept("LIMIT"):
            query.limit = int(self._limit())
        if self._position < len(self._tokens):
            raise self._unexpected()
        return query

    def _item(self) -> SelectItem:
        if self._accept("*"):
            return SelectItem("*")
        name = self._name()
        item = SelectItem(name)
        if self._accept("("):
            item = self._aggregate(name.upper())
        alias = self._name() if self._accept("AS") else self._bare_alias()
        return SelectItem(item.column, item.function, item.distinct, alias) if alias else item

    def _bare_alias(self) -> str:
        kind, value = self._peek()
        return self._name() if kind in ("word", "quoted") and value.upper() not in _KEYWORDS else ""

    def _aggregate(self, function: str) -> SelectItem:
        if function not in AGGREGATES:
            raise UnsupportedQuery(f"Function not found: {function}")
        distinct = self._accept("DISTINCT")
        column = "*" if function == "COUNT" and self._accept("*") else self._name()
        self._expect(")")
        return SelectItem(column, function, distinct)

    def _table(self) -> str:
        kind, value = self._next()
        if kind not in ("word", "quoted"):
            raise self._unexpected(back=1)
        return value.strip("`")

    def _condition(self) -> Condition:
        column = self._name()
        if self._accept("IS"):
            operator = "IS NOT" if self._accept("NOT") else "IS"
            self._expect("NULL")
            return Condition(column, operator)
        kind, operator = self._next()
        if kind != "symbol" or operator not in _OPERATORS:
            raise self._unexpected(back=1)
        return self._comparison(column, "!=" if operator == "<>" else operator)

    def _comparison(self, column: str, operator: str) -> Condition:
        kind, value = self._next()
        if kind == "parameter":
            return Condition(column, operator, parameter=value[1:])
        if kind == "word" and value.upper() in ("TIMESTAMP", "DATE"):
            kind, value = self._next()
        if kind == "string":
            return Condition(column, operator, re.sub(r"\\(.)", r"\1", value[1:-1]))
        if kind == "number":
            return Condition(column, operator, float(value) if re.search(r"[.eE]", value) else int(value))
        if kind == "word" and value.upper() in ("TRUE", "FALSE"):
            return Condition(column, operator, value.upper() == "TRUE")
        raise self._unexpected(back=1)

    def _order_term(self) -> tuple[str, bool]:
        name, descending = self._name(), self._accept("DESC")
        if not descending:
            self._accept("ASC")
        return name, descending

    def _limit(self) -> str:
        kind, value = self._next()
        if kind != "number" or not value.isdigit():
            raise self._unexpected(back=1)
        return value

    def _name(self) -> str:
        kind, value = self._next()
        if kind not in ("word", "quoted") or value.upper() in _KEYWORDS:
            raise self._unexpected(back=1)
        return value.strip("`")

    def _list(self, read: Any) -> list[Any]:
        items = [read()]
        while self._accept(","):
            items.append(read())
        return items

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._position] if self._position < len(self._tokens) else ("end", "")

    def _next(self) -> tuple[str, str]:
        token = self._peek()
        self._position += 1
        return token

    def _accept(self, word: str) -> bool:
        kind, value = self._peek()
        if kind in ("word", "symbol") and value.upper() == word:
            self._position += 1
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise self._unexpected(f"Expected {word} but got")

    def _unexpected(self, message: str = "Unexpected", *, back: int = 0) -> UnsupportedQuery:
        self._position -= back
        _, value = self._peek()
        return UnsupportedQuery(f"Syntax error: {message} {value!r}" if value else f"Syntax error: {message} end of statement")


Obj = dict[str, Any]
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NUMERIC_TYPES = ("INTEGER", "FLOAT", "NUMERIC")


def execute(
    query: Query, columns: list[Obj], rows: Iterable[list[Any]], parameters: Mapping[str, Any]
) -> tuple[list[Obj], list[list[Any]]]:
    """Return the columns and rows of the result; raises UnsupportedQuery."""
    indexes = {str(column["name"]).lower(): index for index, column in enumerate(columns)}

    def index_of(name: str) -> int:
        if name.lower() not in indexes:
            raise UnsupportedQuery(f"Unrecognized name: {name}")
        return indexes[name.lower()]

    predicates = [
        _predicate(columns[index_of(condition.column)], index_of(condition.column), condition, parameters)
        for condition in query.where
    ]
    matching = [row for row in rows if all(predicate(row) for predicate in predicates)]
    items = [expanded for item in query.items for expanded in _expand(item, columns)]
    fields = [_field(item, columns[index_of(item.column)] if item.column != "*" else {}, index) for index, item in enumerate(items)]
    if query.group or any(item.function for item in items):
        result = _group(query, items, matching, index_of)
    else:
        result = [[row[index_of(item.column)] for item in items] for row in matching]
    result = _sort(query, fields, result)
    return fields, result if query.limit is None else result[: query.limit]


def _expand(item: SelectItem, columns: list[Obj]) -> list[SelectItem]:
    if item.column != "*" or item.function:
        return [item]
    return [type(item)(str(column["name"])) for column in columns]


def _field(item: SelectItem, column: Obj, index: int) -> Obj:
    """A column of the result; aggregates without an alias are numbered, as in BigQuery."""
    kind = table_data.column_type(column) if column else "INTEGER"
    if item.function in ("SUM", "AVG") and kind not in _NUMERIC_TYPES:
        raise UnsupportedQuery(f"No matching signature for aggregate function {item.function} for argument types: {kind}")
    if item.function == "COUNT":
        kind = "INTEGER"
    elif item.function == "AVG":
        kind = "FLOAT"
    name = item.name or (f"f{index}_" if item.function else str(column["name"]))
    return {"name": name, "type": kind, "mode": "NULLABLE" if item.function else column.get("mode", "NULLABLE")}


def _predicate(column: Obj, index: int, condition: Condition, parameters: Mapping[str, Any]) -> Callable[[list[Any]], bool]:
    if condition.operator in ("IS", "IS NOT"):
        is_null = condition.operator == "IS"
        return lambda row: (row[index] is None) == is_null
    value = condition.value
    if condition.parameter:
        if condition.parameter not in parameters:
            raise UnsupportedQuery(f"Query parameter '{condition.parameter}' not found")
        value = parameters[condition.parameter]
    try:
        operand = table_data.parse_value({**column, "mode": "NULLABLE"}, value)
    except table_data.InvalidValue as error:
        raise UnsupportedQuery(f"No matching signature for operator {condition.operator}: {error}") from error
    compare = _COMPARE[condition.operator]
    return lambda row: row[index] is not None and operand is not None and compare(row[index], operand)


def _group(query: Query, items: list[SelectItem], rows: list[list[Any]], index_of: Callable[[str], int]) -> list[list[Any]]:
    for item in items:
        if not item.function and item.column.lower() not in [name.lower() for name in query.group]:
            raise UnsupportedQuery(
                f"SELECT list expression references column {item.column} which is neither grouped nor aggregated"
            )
    keys = [index_of(name) for name in query.group]
    groups: dict[tuple[Any, ...], list[list[Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    if not keys:
        groups = {(): rows}
    return [[_aggregate(item, members, index_of) for item in items] for members in groups.values()]


def _aggregate(item: SelectItem, rows: list[list[Any]], index_of: Callable[[str], int]) -> Any:
    if item.column == "*":
        return len(rows)
    values = [row[index_of(item.column)] for row in rows if row[index_of(item.column)] is not None]
    if not item.function:
        return rows[0][index_of(item.column)]
    if item.distinct:
        values = list(dict.fromkeys(values))
    if item.function == "COUNT":
        return len(values)
    if not values:
        return None
    if item.function in ("MIN", "MAX"):
        return min(values) if item.function == "MIN" else max(values)
    total = sum(float(value) if isinstance(value, str) else value for value in values)
    return total / len(values) if item.function == "AVG" else total


def _sort(query: Query, fields: list[Obj], rows: list[list[Any]]) -> list[list[Any]]:
    names = [str(column["name"]).lower() for column in fields]
    for name, descending in reversed(query.order):
        if name.lower() not in names:
            raise UnsupportedQuery(f"Unrecognized name: {name}; the twin orders by columns of the result")
        index = names.index(name.lower())
        # NULL sorts first, and last in descending order.
        rows = sorted(rows, key=lambda row: (row[index] is not None, 0 if row[index] is None else row[index]), reverse=descending)
    return rows
