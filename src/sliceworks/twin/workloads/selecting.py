"""Who selects an object by its labels, among very many that select."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.kube.selectors import LabelSelector

_Place = tuple[str, str, str]
"""Namespace, and a label with its value; an empty label for selectors that ask for no exact value."""


class Selecting:
    """Selectors by name. Each is filed under one label that it asks for, so that few are looked at for an object."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], _Place] = {}
        self._filed: dict[_Place, dict[str, LabelSelector]] = {}

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._places

    def get(self, namespace: str, name: str) -> LabelSelector | None:
        place = self._places.get((namespace, name))
        return self._filed[place][name] if place is not None else None

    def put(self, namespace: str, name: str, selector: LabelSelector) -> None:
        if self.get(namespace, name) == selector:
            return
        self.remove(namespace, name)
        exact = [
            (namespace, each.key, each.values[0])
            for each in selector.requirements
            if each.operator in ("=", "==", "in") and len(each.values) == 1
        ]
        place = min(exact, key=lambda each: len(self._filed.get(each, ())), default=(namespace, "", ""))
        self._places[namespace, name] = place
        self._filed.setdefault(place, {})[name] = selector

    def remove(self, namespace: str, name: str) -> None:
        place = self._places.pop((namespace, name), None)
        if place is not None:
            del self._filed[place][name]
            if not self._filed[place]:
                del self._filed[place]

    def matching(self, namespace: str, labels: Mapping[str, str]) -> list[str]:
        """The names of those that select these labels."""
        found: list[str] = []
        if not self._filed:
            return found
        for place in ((namespace, "", ""), *((namespace, key, value) for key, value in labels.items())):
            filed = self._filed.get(place)
            if filed:
                found += [name for name, selector in filed.items() if selector.matches(labels)]
        return found
