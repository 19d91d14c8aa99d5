"""Chips, watched: how many there are, who has how many of them, and the hours of both, by pool."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.catalog import labels
from sliceworks.catalog.labels import NODE_POOL
from sliceworks.rehearsal.course.machines import chip_named
from sliceworks.rehearsal.day.record import Series
from sliceworks.twin.scheduler.requests import pod_requests

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.store.entries import Change

Object = dict[str, Any]
NODES, PODS = "/nodes", "/pods"
_KINDS = (labels.TPU, labels.GPU)


class Level:
    """An amount that changes: its course, and how much there was of it over time, in hours."""

    def __init__(self) -> None:
        self.now = 0
        self.points: list[tuple[float, int]] = []
        self._since, self._hours = 0.0, 0.0

    def add(self, at: float, amount: int) -> None:
        """More or less of it from now on."""
        self._hours += self.now * (at - self._since) / 3600
        self._since, self.now = at, self.now + amount
        if self.points and self.points[-1][0] == at:
            self.points.pop()
        if not self.points or self.points[-1][1] != self.now:
            self.points.append((at, self.now))

    def hours(self, at: float) -> float:
        """Until then."""
        return self._hours + self.now * (at - self._since) / 3600


@dataclass(frozen=True, slots=True)
class _Holding:
    """What a pod has."""

    team: str
    chip: str
    pool: str
    count: int
    node: str


class Chips:
    """Counts them. `team_of` knows whose a namespace is."""

    def __init__(self, team_of: Callable[[str], str]) -> None:
        self._team_of = team_of
        self._nodes: dict[str, tuple[str, str, int]] = {}
        self._pods: dict[tuple[str, str], _Holding] = {}
        self._there: dict[str, Level] = defaultdict(Level)
        self._used: dict[tuple[str, str], Level] = defaultdict(Level)
        self.machines: dict[str, Level] = defaultdict(Level)
        """Machines of each pool."""
        self.of_pool: dict[str, Level] = defaultdict(Level)
        """Chips of each pool."""
        self.used_of_pool: dict[tuple[str, str], Level] = defaultdict(Level)
        """Chips by team and pool."""

    @property
    def used(self) -> int:
        """In use now."""
        return sum(level.now for level in self._used.values())

    @property
    def there(self) -> int:
        """In all now."""
        return sum(level.now for level in self._there.values())

    def capacity(self) -> tuple[Series, ...]:
        """What there is of each chip."""
        return tuple(Series(chip, tuple(level.points)) for chip, level in sorted(self._there.items()))

    def usage(self) -> tuple[Series, ...]:
        """What each team has of each chip."""
        return tuple(Series(chip, tuple(level.points), team) for (team, chip), level in sorted(self._used.items()))

    def see_node(self, at: float, change: Change) -> None:
        """A machine has come or gone."""
        before = self._nodes.pop(change.name, None)
        now = None if change.type == "DELETED" else _machine(change.obj)
        if now is not None:
            self._nodes[change.name] = now
        if before == now:
            return
        if now is None:
            # What is left of its pods has nothing any more.
            for key in [key for key, pod in self._pods.items() if pod.node == change.name]:
                self._hold(at, key, None)
        for found, sign in ((before, -1), (now, 1)):
            if found is not None:
                chip, pool, count = found
                self.machines[pool].add(at, sign)
                if count:
                    self._there[chip].add(at, sign * count)
                    self.of_pool[pool].add(at, sign * count)

    def see_pod(self, at: float, change: Change) -> None:
        """A pod has begun or ceased to have chips."""
        self._hold(at, (change.namespace, change.name), None if change.type == "DELETED" else self._holding(change.obj))

    def _hold(self, at: float, key: tuple[str, str], now: _Holding | None) -> None:
        before = self._pods.pop(key, None)
        if now is not None:
            self._pods[key] = now
        if before == now:
            return
        for found, sign in ((before, -1), (now, 1)):
            if found is not None:
                self._used[found.team, found.chip].add(at, sign * found.count)
                self.used_of_pool[found.team, found.pool].add(at, sign * found.count)

    def _holding(self, pod: Object) -> _Holding | None:
        node = pod["spec"].get("nodeName")
        if node not in self._nodes or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return None
        asked = pod_requests(pod["spec"])
        count = next((int(asked[kind]) for kind in _KINDS if asked.get(kind)), 0)
        if not count:
            return None
        chip, pool, _ = self._nodes[node]
        return _Holding(self._team_of(pod["metadata"]["namespace"]), chip, pool, count, node)


def _machine(node: Object) -> tuple[str, str, int]:
    has, allocatable = node["metadata"].get("labels") or {}, (node.get("status") or {}).get("allocatable") or {}
    count = next((int(allocatable[kind]) for kind in _KINDS if allocatable.get(kind)), 0)
    return chip_named(has), str(has.get(NODE_POOL) or ""), count
