"""A small part of GoogleSQL: counting and picking the rows of one table. What is beyond it is refused by its words. Pure.

SELECT model_name, COUNT(*) AS n, AVG(response_time) FROM `p.load.records`
WHERE test_id = @test AND exception IS NULL GROUP BY model_name ORDER BY n DESC LIMIT 10
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

AGGREGATES = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX"})
SUPPORTED = (
    "the twin answers SELECT of columns, COUNT, SUM, AVG, MIN and MAX FROM one table, "
    "with WHERE … AND …, GROUP BY, ORDER BY and LIMIT"
)
_TOKEN = re.compile(
    r"""\s*(?:(?P<comment>--[^\n]*|/\*.*?\*/)
    |(?P<quoted>`[^`]+`)
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |(?P<parameter>@[A-Za-z_]\w*)
    |(?P<word>[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*)
    |(?P<mark><=|>=|!=|<>|[=<>(),*;?+/%|-]))""",
    re.VERBOSE | re.DOTALL,
)
_OPERATORS = frozenset({"=", "!=", "<>", "<", "<=", ">", ">="})
_ENDS = frozenset({"FROM", "WHERE", "GROUP", "ORDER", "LIMIT", "HAVING", "JOIN", "UNION", "AS", "AND", "OR"})


class Unsupported(Exception):
    """A query that is not understood, and where."""


@dataclass(frozen=True, slots=True)
class Item:
    """One column of the answer: a column of the table, or an aggregate of one. `*` stands for all."""

    column: str
    function: str = ""
    distinct: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True)
class Condition:
    """A column held against a value. `IS` and `IS NOT` are about NULL. A parameter is a text that begins with `@`."""

    column: str
    operator: str
    value: Any = None
    parameter: str = ""


@dataclass(slots=True)
class Query:
    """What a query asks for."""

    items: list[Item] = field(default_factory=list)
    table: str = ""
    where: list[Condition] = field(default_factory=list)
    group: list[str] = field(default_factory=list)
    order: list[tuple[str, bool]] = field(default_factory=list)
    limit: int | None = None


def parse(text: str) -> Query:
    """Read a query; raises Unsupported."""
    return _Parser(_tokens(text)).query()


def _tokens(text: str) -> list[tuple[str, str]]:
    found, place = [], 0
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None:
            raise Unsupported(f"Syntax error: Unexpected {text[place:].strip()[:20]!r}")
        place = match.end()
        if match.lastgroup and match.lastgroup != "comment":
            found.append((match.lastgroup, match[match.lastgroup]))
    while found and found[-1] == ("mark", ";"):
        found.pop()
    return found


class _Parser:
    """Reads tokens from left to right."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0

    def query(self) -> Query:
        found = Query()
        self._must("SELECT")
        found.items = self._several(self._item)
        self._must("FROM")
        found.table = self._table()
        if self._may("WHERE"):
            found.where = [self._condition()]
            while self._may("AND"):
                found.where.append(self._condition())
        if self._may("GROUP"):
            self._must("BY")
            found.group = self._several(self._name)
        if self._may("ORDER"):
            self._must("BY")
            found.order = self._several(self._ordered)
        if self._may("LIMIT"):
            found.limit = int(self._literal_number())
        if self._at < len(self._tokens):
            raise self._unexpected()
        return found

    def _item(self) -> Item:
        if self._may("*"):
            return Item("*")
        name = self._name()
        item = Item(name)
        if self._may("("):
            item = self._aggregate(name.upper())
        alias = self._name() if self._may("AS") else self._bare_alias()
        return Item(item.column, item.function, item.distinct, alias) if alias else item

    def _bare_alias(self) -> str:
        kind, text = self._peek()
        return self._name() if kind in ("word", "quoted") and text.upper() not in _ENDS else ""

    def _aggregate(self, function: str) -> Item:
        if function not in AGGREGATES:
            raise Unsupported(f"Function not found: {function}")
        distinct = self._may("DISTINCT")
        column = "*" if function == "COUNT" and self._may("*") else self._name()
        self._must(")")
        return Item(column, function, distinct)

    def _table(self) -> str:
        kind, text = self._next()
        if kind not in ("word", "quoted"):
            raise self._unexpected(back=1)
        return text.strip("`")

    def _condition(self) -> Condition:
        column = self._name()
        if self._may("IS"):
            operator = "IS NOT" if self._may("NOT") else "IS"
            self._must("NULL")
            return Condition(column, operator)
        kind, operator = self._next()
        if kind != "mark" or operator not in _OPERATORS:
            raise self._unexpected(back=1)
        return self._held_against(column, "!=" if operator == "<>" else operator)

    def _held_against(self, column: str, operator: str) -> Condition:
        kind, text = self._next()
        if kind == "parameter":
            return Condition(column, operator, parameter=text[1:])
        if kind == "word" and text.upper() in ("TIMESTAMP", "DATE"):
            kind, text = self._next()
        if kind == "text":
            return Condition(column, operator, re.sub(r"\\(.)", r"\1", text[1:-1]))
        if kind == "number":
            return Condition(column, operator, float(text) if re.search(r"[.eE]", text) else int(text))
        if kind == "word" and text.upper() in ("TRUE", "FALSE"):
            return Condition(column, operator, text.upper() == "TRUE")
        raise self._unexpected(back=1)

    def _ordered(self) -> tuple[str, bool]:
        name, descending = self._name(), self._may("DESC")
        if not descending:
            self._may("ASC")
        return name, descending

    def _literal_number(self) -> str:
        kind, text = self._next()
        if kind != "number" or not text.isdigit():
            raise self._unexpected(back=1)
        return text

    def _name(self) -> str:
        kind, text = self._next()
        if kind not in ("word", "quoted") or text.upper() in _ENDS:
            raise self._unexpected(back=1)
        return text.strip("`")

    def _several(self, read: Any) -> list[Any]:
        found = [read()]
        while self._may(","):
            found.append(read())
        return found

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")

    def _next(self) -> tuple[str, str]:
        found = self._peek()
        self._at += 1
        return found

    def _may(self, word: str) -> bool:
        kind, text = self._peek()
        if kind in ("word", "mark") and text.upper() == word:
            self._at += 1
            return True
        return False

    def _must(self, word: str) -> None:
        if not self._may(word):
            raise self._unexpected(f"Expected {word} but got")

    def _unexpected(self, words: str = "Unexpected", *, back: int = 0) -> Unsupported:
        self._at -= back
        _, text = self._peek()
        return Unsupported(f"Syntax error: {words} {text!r}" if text else f"Syntax error: {words} end of statement")
