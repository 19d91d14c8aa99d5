"""Topological order and levels of a dependency graph; CycleError names the cycle."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class CycleError(ValueError):
    """A dependency cycle. `cycle` starts and ends with the same name."""

    def __init__(self, cycle: list[str]) -> None:
        super().__init__(f"graph contains a cycle: {' -> '.join(cycle)}")
        self.cycle = cycle


def topological_sort(dependencies: Mapping[str, Iterable[str]]) -> list[str]:
    """The names, each after its dependencies, otherwise in the given order. Raises CycleError."""
    index_of = {name: index for index, name in enumerate(dependencies)}
    waiting = {name: set(required) for name, required in dependencies.items()}
    dependents: dict[str, list[str]] = {name: [] for name in dependencies}
    for name, required in waiting.items():
        for dependency in required:
            dependents[dependency].append(name)
    ready = [(index_of[name], name) for name, required in waiting.items() if not required]
    heapq.heapify(ready)
    order = []
    while ready:
        _, name = heapq.heappop(ready)
        order.append(name)
        for dependent in dependents[name]:
            waiting[dependent].discard(name)
            if not waiting[dependent]:
                heapq.heappush(ready, (index_of[dependent], dependent))
    if len(order) < len(waiting):
        raise CycleError(_cycle({name: required for name, required in waiting.items() if required}))
    return order


def topological_levels(dependencies: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """The level of each name, from 1: below every name that depends on it, and as high as possible.

    Deletion from the highest level to the lowest therefore never deletes an object that another one still needs.
    """
    above = dict.fromkeys(dependencies, 0)
    for name in reversed(topological_sort(dependencies)):
        for dependency in dependencies[name]:
            above[dependency] = max(above[dependency], above[name] + 1)
    highest = max(above.values(), default=0) + 1
    return {name: highest - distance for name, distance in above.items()}


def _cycle(dependencies: Mapping[str, set[str]]) -> list[str]:
    """A cycle in a graph where every name has a dependency: follow dependencies until a name repeats."""
    path = [next(iter(dependencies))]
    while True:
        dependency = min(dependencies[path[-1]])
        if dependency in path:
            return [*path[path.index(dependency) :], dependency]
        path.append(dependency)
