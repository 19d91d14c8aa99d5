"""Templates prepared for filling in: a new object is made in one walk, with the values of its fields in their places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.cel.formulas import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sliceworks.graph.model import Path


class _Hole:
    """The place of a field's value: its number among the fields."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Blueprint:
    """A template whose fields are holes."""

    __slots__ = ("_root",)

    def __init__(self, template: Any, paths: Iterable[Path]) -> None:
        holes = {path: _Hole(number) for number, path in enumerate(paths)}
        self._root = _with_holes(template, (), holes)

    def fill(self, values: Sequence[Any]) -> Any:
        """A new object; fields and items whose value is ABSENT are left out."""
        return _filled(self._root, values)

    def fill_known(self, values: Sequence[Any]) -> Any:
        """The same, and objects and lists that end up with nothing in them are left out too."""
        return _pruned(_filled(self._root, values))


def _with_holes(part: Any, path: Path, holes: dict[Path, _Hole]) -> Any:
    if path in holes:
        return holes[path]
    if isinstance(part, dict):
        return {name: _with_holes(child, (*path, name), holes) for name, child in part.items()}
    if isinstance(part, list):
        return [_with_holes(child, (*path, index), holes) for index, child in enumerate(part)]
    return part


def _filled(part: Any, values: Sequence[Any]) -> Any:
    kind = type(part)
    if kind is dict:
        made = {}
        for name, child in part.items():
            value = _filled(child, values)
            if value is not ABSENT:
                made[name] = value
        return made
    if kind is list:
        return [value for child in part if (value := _filled(child, values)) is not ABSENT]
    return values[part.number] if kind is _Hole else part


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: child for name, child in ((name, _pruned(child)) for name, child in value.items()) if child not in ({}, [])}
    return value
