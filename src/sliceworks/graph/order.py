"""The order of things that need one another: what is needed comes first, and otherwise the order in which they were written."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class CycleFound(ValueError):
    """Things that need one another in a circle: `cycle` begins and ends with the same one."""

    def __init__(self, cycle: list[str]) -> None:
        super().__init__(f"graph contains a cycle: {' -> '.join(cycle)}")
        self.cycle = cycle


def topological(needs: Mapping[str, Iterable[str]]) -> list[str]:
    """Names such that each comes after all that it needs. CycleFound where there is no such order."""
    place = {name: index for index, name in enumerate(needs)}
    waiting = {name: set(needed) for name, needed in needs.items()}
    unlocks: dict[str, list[str]] = {name: [] for name in needs}
    for name, needed in waiting.items():
        for one in needed:
            unlocks[one].append(name)
    ready = [(place[name], name) for name, needed in waiting.items() if not needed]
    heapq.heapify(ready)
    found = []
    while ready:
        _, name = heapq.heappop(ready)
        found.append(name)
        for other in unlocks[name]:
            waiting[other].discard(name)
            if not waiting[other]:
                heapq.heappush(ready, (place[other], other))
    if len(found) < len(waiting):
        raise CycleFound(_cycle({name: needed for name, needed in waiting.items() if needed}))
    return found


def layers(needs: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """The layer of each name, from 1. What nothing else needs is in the highest; what is needed is below all that need it.

    Deleting from the highest to the lowest never takes away what something else still needs.
    """
    above = dict.fromkeys(needs, 0)
    for name in reversed(topological(needs)):
        for one in needs[name]:
            above[one] = max(above[one], above[name] + 1)
    highest = max(above.values(), default=0) + 1
    return {name: highest - distance for name, distance in above.items()}


def _cycle(needs: Mapping[str, set[str]]) -> list[str]:
    """A cycle among things of which each needs another one: follow any need until a name comes again."""
    path = [next(iter(needs))]
    while True:
        following = min(needs[path[-1]])
        if following in path:
            return [*path[path.index(following) :], following]
        path.append(following)
