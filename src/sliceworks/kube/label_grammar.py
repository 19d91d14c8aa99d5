"""The grammar of label selectors, as kube-apiserver reads and refuses it."""

from __future__ import annotations

import re
from typing import NoReturn

from sliceworks.base import names
from sliceworks.base.errors import BadRequest
from sliceworks.kube.selectors import Requirement, whole_number
from sliceworks.schemas.field_errors import FieldError, invalid

_TOKEN = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^=!(),<> \t\r\n]+))")
_SYMBOLS = frozenset(("==", "!=", "=", "!", "(", ")", ",", "<", ">"))
_OPERATORS = {"in": "in", "notin": "notin", "=": "=", "==": "==", "!=": "!=", ">": "gt", "<": "lt"}
_END = ""


def parse(text: str) -> list[Requirement]:
    """The requirements in the order they are written; BadRequest says what was found where something else belongs."""
    return _Parser(text).requirements()


def requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    """A requirement whose key, operator and values go together."""
    errors = [invalid("key", key, "; ".join(found))] if (found := names.qualified_name_errors(key)) else []
    errors += _count_errors(operator, values)
    for index, value in enumerate(values):
        if found := names.label_value_errors(value):
            errors.append(invalid(f"values[{index}][{key}]", value, "; ".join(found)))
    if errors:
        texts = list(dict.fromkeys(map(str, errors)))
        raise BadRequest(texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]")
    return Requirement(key, operator, values)


def _count_errors(operator: str, values: tuple[str, ...]) -> list[FieldError]:
    if operator in ("in", "notin"):
        return [] if values else [invalid("values", [], "for 'in', 'notin' operators, values set can't be empty")]
    if operator in ("exists", "!"):
        return [invalid("values", list(values), "values set must be empty for exists and does not exist")] if values else []
    if operator in ("gt", "lt"):
        detail = "for 'Gt', 'Lt' operators, the value must be an integer"
        return [invalid(f"values[{i}]", value, detail) for i, value in enumerate(values) if whole_number(value) is None]
    return []


class _Parser:
    """One pass over the tokens; a symbol is never taken for an identifier, a keyword is one wherever a value may stand."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [symbol or word for symbol, word in _TOKEN.findall(text)]
        self._tokens.append(_END)
        self._at = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while self._peek() != _END:
            if not self._is_start():
                _refuse(self._peek(), ", expected: !, identifier, or 'end of string'")
            try:
                found.append(self._requirement())
            except BadRequest as refusal:
                raise BadRequest(f"unable to parse requirement: {refusal}") from None
            after = self._take()
            if after == _END:
                break
            if after != ",":
                _refuse(after, ", expected: ',' or 'end of string'")
            if not self._is_start():
                _refuse(self._peek(), ", expected: identifier after ','")
        return found

    def _requirement(self) -> Requirement:
        absent = self._peek() == "!"
        if absent:
            self._take()
        key = self._take()
        if not _is_word(key):
            _refuse(key, ", expected: identifier")
        if found := names.qualified_name_errors(key):
            raise BadRequest(str(invalid("", key, "; ".join(found))))
        # A key after "!" is only read alone; what follows is refused by the caller, as "!a=b" is.
        if absent or self._peek() in (_END, ","):
            return requirement(key, "!" if absent else "exists", ())
        operator = _OPERATORS.get(self._peek())
        if operator is None:
            _refuse(self._peek(), ", expected: in, notin, =, ==, !=, gt, lt")
        self._take()
        values = self._set() if operator in ("in", "notin") else self._exact()
        return requirement(key, operator, tuple(sorted(values)))

    def _exact(self) -> set[str]:
        if self._peek() in (_END, ","):
            return {""}
        value = self._take()
        if not _is_word(value):
            _refuse(value, ", expected: identifier")
        return {value}

    def _set(self) -> set[str]:
        opening = self._take()
        if opening != "(":
            _refuse(opening, " expected: '('")
        first = self._peek()
        if first not in (",", ")") and not _is_word(first):
            _refuse(first, ", expected: ',', ')' or identifier")
        values: set[str] = set()
        blank = True
        while (token := self._take()) != ")":
            if token == ",":
                if blank:
                    values.add("")
                blank = True
                if self._peek() not in (",", ")") and not _is_word(self._peek()):
                    _refuse(self._peek(), ", expected: ',', or identifier")
                continue
            values.add(token)
            blank = False
            if self._peek() not in (",", ")"):
                _refuse(self._peek(), ", expected: ',' or ')'")
        return values | {""} if blank else values

    def _is_start(self) -> bool:
        return self._peek() == "!" or _is_word(self._peek())

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]


def _is_word(token: str) -> bool:
    return token not in _SYMBOLS and token != _END


def _refuse(found: str, expected: str) -> NoReturn:
    raise BadRequest(f"found '{found}'{expected}")
