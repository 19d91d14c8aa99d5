"""Label selectors: parsed as kube-apiserver parses them, matched against labels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from sliceworks.base import names
from sliceworks.base.errors import BadRequest
from sliceworks.schemas.field_errors import FieldError, invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LABEL_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
NODE_OPERATORS = {**LABEL_OPERATORS, "Gt": "gt", "Lt": "lt"}
_INFIX = {"in": " in ", "notin": " notin ", "gt": ">", "lt": "<"}
_NO_LABELS: Mapping[str, str] = {}
_MAX_LINEAR = 16
"""Requirements of a selector, and values of a requirement, that are tried one after another."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A requirement on one label. `operator` is one of `=`, `==`, `!=`, `in`, `notin`, `exists`, `!`, `gt`, `lt`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels meet the requirement."""
        value = labels.get(self.key)
        match self.operator:
            case "=" | "==" | "in":
                return value is not None and value in self.values
            case "!=" | "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "gt":
                return (number := parse_int(value)) is not None and number > int(self.values[0])
            case _:
                return (number := parse_int(value)) is not None and number < int(self.values[0])

    @property
    def is_exact(self) -> bool:
        """Whether the label must have one certain value."""
        return self.operator in ("=", "==", "in") and len(self.values) == 1

    def __str__(self) -> str:
        if self.operator == "exists":
            return self.key
        if self.operator == "!":
            return "!" + self.key
        values = ",".join(sorted(self.values))
        if self.operator in ("in", "notin"):
            values = f"({values})"
        return self.key + _INFIX.get(self.operator, self.operator) + values


class _ValueTest:
    """All requirements on the value of one label: the time of a match does not depend on their number."""

    __slots__ = ("_allowed", "_excluded", "_lower", "_upper")

    def __init__(self) -> None:
        self._allowed: set[str] | None = None
        self._excluded: set[str] = set()
        self._lower: int | None = None
        self._upper: int | None = None

    def add(self, requirement: Requirement) -> None:
        values = requirement.values
        match requirement.operator:
            case "=" | "==" | "in":
                self._allowed = set(values) if self._allowed is None else self._allowed.intersection(values)
            case "!=" | "notin":
                self._excluded.update(values)
            case "!":
                self._allowed = set()
            case "gt":
                self._lower = int(values[0]) if self._lower is None else max(self._lower, int(values[0]))
            case "lt":
                self._upper = int(values[0]) if self._upper is None else min(self._upper, int(values[0]))

    def matches(self, value: str) -> bool:
        if value in self._excluded or (self._allowed is not None and value not in self._allowed):
            return False
        if self._lower is None and self._upper is None:
            return True
        number = parse_int(value)
        if number is None:
            return False
        return (self._lower is None or number > self._lower) and (self._upper is None or number < self._upper)


class _Index:
    """Requirements by label. A match takes time per label of the object, not per requirement."""

    __slots__ = ("_required", "_tests")

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        self._required: set[str] = set()
        self._tests: dict[str, _ValueTest] = {}
        for requirement in requirements:
            self._tests.setdefault(requirement.key, _ValueTest()).add(requirement)
            if requirement.operator not in ("!", "!=", "notin"):
                self._required.add(requirement.key)

    def matches(self, labels: Mapping[str, str]) -> bool:
        if len(self._required) > len(labels) or not all(key in labels for key in self._required):
            return False
        tests = self._tests
        return all(tests[key].matches(value) for key, value in labels.items() if key in tests)


def _is_large(requirements: tuple[Requirement, ...]) -> bool:
    """Whether to match by an index, which takes longer to build."""
    return len(requirements) > _MAX_LINEAR or any(len(requirement.values) > _MAX_LINEAR for requirement in requirements)


class LabelSelector:
    """Matches labels that meet all requirements; without requirements it matches everything."""

    __slots__ = ("_equal", "_index", "_others", "matches_nothing", "requirements")

    def __init__(self, requirements: Iterable[Requirement] = (), *, nothing: bool = False) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        self.matches_nothing = nothing
        self._equal = tuple((item.key, item.values[0]) for item in self.requirements if item.is_exact)
        self._others = tuple(item for item in self.requirements if not item.is_exact)
        self._index = _Index(self.requirements) if _is_large(self.requirements) else None

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether the selector matches these labels."""
        if labels is None:
            labels = _NO_LABELS
        if self._index is not None:
            return self._index.matches(labels) and not self.matches_nothing
        for key, value in self._equal:
            if labels.get(key) != value:
                return False
        for requirement in self._others:
            if not requirement.matches(labels):
                return False
        return not self.matches_nothing

    @property
    def matches_everything(self) -> bool:
        """Whether all objects match, so that matching can be skipped."""
        return not self.requirements and not self.matches_nothing

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return "LabelSelector(nothing)" if self.matches_nothing else f"LabelSelector({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelSelector) and (self.requirements, self.matches_nothing) == (
            other.requirements,
            other.matches_nothing,
        )

    def __hash__(self) -> int:
        return hash((self.requirements, self.matches_nothing))


EVERYTHING = LabelSelector()
NOTHING = LabelSelector(nothing=True)


def parse_labels(text: str) -> LabelSelector:
    """Parse a selector such as `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1`."""
    if not text:
        return EVERYTHING
    return LabelSelector(parse_requirements(text))


def from_label_selector(selector: Mapping[str, Any] | None) -> LabelSelector:
    """The selector of a `metav1.LabelSelector`: None matches nothing, an empty one matches everything."""
    if selector is None:
        return NOTHING
    requirements = [new_requirement(key, "=", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    requirements += from_expressions(selector.get("matchExpressions") or ())
    return LabelSelector(requirements) if requirements else EVERYTHING


def from_expressions(expressions: Iterable[Mapping[str, Any]], operators: Mapping[str, str] = LABEL_OPERATORS) -> list[Requirement]:
    """The requirements of `matchExpressions`; BadRequest with kube-apiserver's message if one is invalid."""
    requirements = []
    for expression in expressions:
        name = expression.get("operator", "")
        if name not in operators:
            raise BadRequest(f'"{name}" is not a valid label selector operator')
        requirements.append(new_requirement(expression.get("key", ""), operators[name], tuple(expression.get("values") or ())))
    return requirements


def from_labels(labels: Mapping[str, str]) -> LabelSelector:
    """A selector that requires all of these labels; they are not validated."""
    return LabelSelector(Requirement(key, "=", (value,)) for key, value in labels.items())


def parse_int(text: str | None) -> int | None:
    """A label value as Go's strconv.ParseInt parses it; None if it is not an int64."""
    if text is None:
        return None
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None


_TOKEN = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^=!(),<> \t\r\n]+))")
_SYMBOLS = frozenset(("==", "!=", "=", "!", "(", ")", ",", "<", ">"))
_OPERATORS = {"in": "in", "notin": "notin", "=": "=", "==": "==", "!=": "!=", ">": "gt", "<": "lt"}
_END = ""


def parse_requirements(text: str) -> list[Requirement]:
    """The requirements of a selector string in their order; BadRequest with kube-apiserver's message if it is invalid."""
    return _Parser(text).requirements()


def new_requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    """A validated requirement; BadRequest with kube-apiserver's message if it is invalid."""
    errors = [invalid("key", key, "; ".join(details))] if (details := names.qualified_name_errors(key)) else []
    errors += _count_errors(operator, values)
    for index, value in enumerate(values):
        if details := names.label_value_errors(value):
            errors.append(invalid(f"values[{index}][{key}]", value, "; ".join(details)))
    if errors:
        messages = list(dict.fromkeys(map(str, errors)))
        raise BadRequest(messages[0] if len(messages) == 1 else "[" + ", ".join(messages) + "]")
    return Requirement(key, operator, values)


def _count_errors(operator: str, values: tuple[str, ...]) -> list[FieldError]:
    if operator in ("in", "notin"):
        return [] if values else [invalid("values", [], "for 'in', 'notin' operators, values set can't be empty")]
    if operator in ("exists", "!"):
        return [invalid("values", list(values), "values set must be empty for exists and does not exist")] if values else []
    if operator in ("gt", "lt"):
        detail = "for 'Gt', 'Lt' operators, the value must be an integer"
        return [invalid(f"values[{i}]", value, detail) for i, value in enumerate(values) if parse_int(value) is None]
    return []


class _Parser:
    """A single pass over the tokens. Keywords such as `in` are identifiers where a value is expected."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [symbol or word for symbol, word in _TOKEN.findall(text.rstrip(" \t\r\n"))]
        self._tokens.append(_END)
        self._position = 0

    def requirements(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        while self._peek() != _END:
            if not self._is_start():
                _fail(self._peek(), ", expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self._requirement())
            except BadRequest as error:
                raise BadRequest(f"unable to parse requirement: {error}") from None
            after = self._take()
            if after == _END:
                break
            if after != ",":
                _fail(after, ", expected: ',' or 'end of string'")
            if not self._is_start():
                _fail(self._peek(), ", expected: identifier after ','")
        return requirements

    def _requirement(self) -> Requirement:
        absent = self._peek() == "!"
        if absent:
            self._take()
        key = self._take()
        if not _is_identifier(key):
            _fail(key, ", expected: identifier")
        if details := names.qualified_name_errors(key):
            raise BadRequest(str(invalid("", key, "; ".join(details))))
        # A key after "!" stands alone; the caller rejects what follows, as in "!a=b".
        if absent or self._peek() in (_END, ","):
            return new_requirement(key, "!" if absent else "exists", ())
        operator = _OPERATORS.get(self._peek())
        if operator is None:
            _fail(self._peek(), ", expected: in, notin, =, ==, !=, gt, lt")
        self._take()
        values = self._set() if operator in ("in", "notin") else self._exact()
        return new_requirement(key, operator, tuple(sorted(values)))

    def _exact(self) -> set[str]:
        if self._peek() in (_END, ","):
            return {""}
        value = self._take()
        if not _is_identifier(value):
            _fail(value, ", expected: identifier")
        return {value}

    def _set(self) -> set[str]:
        opening = self._take()
        if opening != "(":
            _fail(opening, " expected: '('")
        first = self._peek()
        if first not in (",", ")") and not _is_identifier(first):
            _fail(first, ", expected: ',', ')' or identifier")
        values: set[str] = set()
        blank = True
        while (token := self._take()) != ")":
            if token == ",":
                if blank:
                    values.add("")
                blank = True
                if self._peek() not in (",", ")") and not _is_identifier(self._peek()):
                    _fail(self._peek(), ", expected: ',', or identifier")
                continue
            values.add(token)
            blank = False
            if self._peek() not in (",", ")"):
                _fail(self._peek(), ", expected: ',' or ')'")
        return values | {""} if blank else values

    def _is_start(self) -> bool:
        return self._peek() == "!" or _is_identifier(self._peek())

    def _peek(self) -> str:
        return self._tokens[self._position]

    def _take(self) -> str:
        self._position += 1
        return self._tokens[self._position - 1]


def _is_identifier(token: str) -> bool:
    return token not in _SYMBOLS and token != _END


def _fail(token: str, expected: str) -> NoReturn:
    raise BadRequest(f"found '{token}'{expected}")
