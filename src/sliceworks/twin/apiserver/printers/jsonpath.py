r"""Kubernetes' JSONPath dialect, for printer columns.

`.spec.x`, `['a.b']`, `.a\.b`, `[0]`, `[-1]`, `[1:3]`, `[*]`, `..x` and `[?(@.type=="Ready")]`. A path is parsed once into
steps; a missing field yields no values.
"""

from __future__ import annotations

import operator
import re
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Step = Callable[[Iterable[Any]], Iterator[Any]]

_NAME = re.compile(r"(?:[^.\[\]{}\s\\'\"$@?()=!<>,*]|\\.)+")
_SLICE = re.compile(r"(-?\d*)(?::(-?\d*))?(?::(\d*))?\Z")
_COMPARISON = re.compile(r"(==|!=|<=|>=|<|>)")
_OPERATORS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_LITERALS = {"true": True, "false": False}
_MAX_VALUES = 1000
"""Values that each step of a path sees: nested lists would otherwise multiply."""


class JsonPath:
    """A parsed path, to be evaluated on any number of objects."""

    __slots__ = ("_names", "_steps", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._steps = _parse(text)
        # Most paths are plain field names: they are evaluated without generators.
        names = [step.name for step in self._steps if isinstance(step, _Field)]
        self._names = names if len(names) == len(self._steps) else None

    def find(self, value: Any) -> list[Any]:
        """The first values at the path, at most _MAX_VALUES; ValueError for an index out of bounds."""
        if self._names is None:
            values: Iterable[Any] = (value,)
            for step in self._steps:
                values = islice(step(values), _MAX_VALUES)
            return list(values)
        for name in self._names:
            if not isinstance(value, dict) or name not in value:
                return []
            value = value[name]
        return [value]


def _parse(text: str) -> list[Step]:
    steps: list[Step] = []
    position = 1 if text[:1] in ("$", "@") else 0
    while position < len(text):
        letter = text[position]
        if text.startswith("..", position):
            steps.append(_descend)
            position += 1 if text[position + 2 : position + 3] != "[" else 2
        elif letter == ".":
            position, step = _dotted(text, position + 1)
            steps += step
        elif letter == "[":
            end = _closing(text, position)
            steps.append(_bracket(text[position + 1 : end].strip()))
            position = end + 1
        else:
            name = _NAME.match(text, position)
            if not name:
                raise ValueError(f"unrecognized character in action: {letter!r}")
            steps.append(_Field(_unescape(name[0])))
            position = name.end()
    return steps


def _dotted(text: str, position: int) -> tuple[int, list[Step]]:
    if text[position : position + 1] == "*":
        return position + 1, [_all_values]
    if text[position : position + 1] in ("", "["):
        return position, []
    name = _NAME.match(text, position)
    if not name:
        raise ValueError(f"unexpected path string, expected field name: {text[position:]}")
    return name.end(), [_Field(_unescape(name[0]))]


def _unescape(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _closing(text: str, start: int) -> int:
    """The index of the matching closing bracket; brackets inside quotes do not count."""
    depth, quote = 0, ""
    for position in range(start, len(text)):
        letter = text[position]
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "[]":
            depth += 1 if letter == "[" else -1
            if not depth:
                return position
    raise ValueError("unterminated array")


def _bracket(inner: str) -> Step:
    if inner == "*":
        return _all_values
    if inner.startswith("?(") and inner.endswith(")"):
        return _filter(inner[2:-1].strip())
    parts = _split(inner)
    if len(parts) > 1:
        return _union([_bracket(part) for part in parts])
    if len(inner) > 1 and inner[0] in "'\"" and inner[-1] == inner[0]:
        return _Field(_unescape(inner[1:-1]))
    numbers = _SLICE.match(inner)
    if not inner or not numbers:
        raise ValueError(f"invalid array index {inner}")
    first, last, step = numbers.groups()
    if last is None:
        return _item(int(first))
    return _slice(int(first) if first else 0, int(last) if last else None, int(step) if step else 1)


def _split(text: str) -> list[str]:
    """The parts of a union; commas inside quotes do not count."""
    return [part.strip() for part in re.findall(r"(?:'[^']*'|\"[^\"]*\"|[^,])+", text)]


class _Field:
    """The step to a field of an object."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, values: Iterable[Any]) -> Iterator[Any]:
        name = self.name
        return (value[name] for value in values if isinstance(value, dict) and name in value)


def _all_values(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, dict):
            yield from value.values()
        elif isinstance(value, list):
            yield from value


def _descend(values: Iterable[Any]) -> Iterator[Any]:
    """Every object and list, and all that they contain."""
    for value in values:
        if isinstance(value, dict | list):
            yield value
            yield from _descend(value.values() if isinstance(value, dict) else value)


def _item(index: int) -> Step:
    def step(values: Iterable[Any]) -> Iterator[Any]:
        for items in _lists(values):
            if not -len(items) <= index < len(items):
                raise ValueError(f"array index out of bounds: index {index}, length {len(items)}")
            yield items[index]

    return step


def _slice(first: int, last: int | None, width: int) -> Step:
    return lambda values: (item for items in _lists(values) for item in items[first:last:width])


def _lists(values: Iterable[Any]) -> Iterator[list[Any]]:
    for value in values:
        if isinstance(value, list):
            yield value
        elif value is not None:
            raise ValueError("not an array or slice")


def _union(steps: list[Step]) -> Step:
    def step(values: Iterable[Any]) -> Iterator[Any]:
        items = list(values)
        for part in steps:
            yield from part(items)

    return step


def _filter(text: str) -> Step:
    parts = _COMPARISON.split(text, maxsplit=1)
    left = _operand(parts[0].strip())
    if len(parts) == 1:
        return lambda values: (item for items in _lists(values) for item in items if left(item))
    compare, right = _OPERATORS[parts[1]], _operand(parts[2].strip())

    def matches(item: Any) -> bool:
        lefts, rights = left(item), right(item)
        try:
            return len(lefts) == len(rights) == 1 and bool(compare(lefts[0], rights[0]))
        except TypeError:
            return False

    return lambda values: (item for items in _lists(values) for item in items if matches(item))


def _operand(text: str) -> Callable[[Any], list[Any]]:
    """One side of a comparison: a path from the item, or a literal."""
    if text.startswith("@"):
        return JsonPath(text).find
    if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
        literal: Any = text[1:-1]
    elif text in _LITERALS:
        literal = _LITERALS[text]
    else:
        try:
            literal = float(text) if "." in text else int(text)
        except ValueError:
            raise ValueError(f"unrecognized filter operand {text}") from None
    return lambda item: [literal]
