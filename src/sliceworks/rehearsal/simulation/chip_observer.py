"""Observes chips: capacity, use by team, chip hours and their cost."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.catalog import labels
from sliceworks.catalog.labels import NODE_POOL
from sliceworks.kube.pod_requests import pod_requests
from sliceworks.rehearsal.record import Cost, Series
from sliceworks.rehearsal.simulation.pool_observer import chip_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.rehearsal.simulation.observer import Observer
    from sliceworks.rehearsal.simulation.pool_observer import ObservedPool
    from sliceworks.twin.store.watch_cache import Change

Object = dict[str, Any]
NODES, PODS = "/nodes", "/pods"
_CHIP_RESOURCES = (labels.TPU, labels.GPU)


class Level:
    """A value over time, with its points and its integral in hours."""

    def __init__(self) -> None:
        self.now = 0
        self.points: list[tuple[float, int]] = []
        self._since, self._hours = 0.0, 0.0

    def add(self, at: float, amount: int) -> None:
        """Change the value at a time."""
        self._hours += self.now * (at - self._since) / 3600
        self._since, self.now = at, self.now + amount
        if self.points and self.points[-1][0] == at:
            self.points.pop()
        if not self.points or self.points[-1][1] != self.now:
            self.points.append((at, self.now))

    def hours(self, at: float) -> float:
        """The integral until a time."""
        return self._hours + self.now * (at - self._since) / 3600


@dataclass(frozen=True, slots=True)
class _PodChips:
    """The chips of a running pod."""

    team: str
    chip: str
    pool: str
    count: int
    node: str


class ChipObserver:
    """Tracks chips by pool, team and type. `team_of` maps a namespace to its team."""

    def __init__(self, team_of: Callable[[str], str]) -> None:
        self._team_of = team_of
        self._nodes: dict[str, tuple[str, str, int]] = {}
        self._pods: dict[tuple[str, str], _PodChips] = {}
        self._capacity: dict[str, Level] = defaultdict(Level)
        self._used: dict[tuple[str, str], Level] = defaultdict(Level)
        self.machines: dict[str, Level] = defaultdict(Level)
        """Nodes of each pool."""
        self.by_pool: dict[str, Level] = defaultdict(Level)
        """Chips of each pool."""
        self.used_by_pool: dict[tuple[str, str], Level] = defaultdict(Level)
        """Chips by team and pool."""

    @property
    def used(self) -> int:
        """Chips in use now."""
        return sum(level.now for level in self._used.values())

    @property
    def total(self) -> int:
        """All chips now."""
        return sum(level.now for level in self._capacity.values())

    def capacity(self) -> tuple[Series, ...]:
        """Existing chips of each type over time."""
        return tuple(Series(chip, tuple(level.points)) for chip, level in sorted(self._capacity.items()))

    def usage(self) -> tuple[Series, ...]:
        """Chips in use by team and type over time."""
        return tuple(Series(chip, tuple(level.points), team) for (team, chip), level in sorted(self._used.items()))

    def observe_node(self, at: float, change: Change) -> None:
        """Process a change of a node."""
        before = self._nodes.pop(change.name, None)
        now = None if change.type == "DELETED" else _node_chips(change.obj)
        if now is not None:
            self._nodes[change.name] = now
        if before == now:
            return
        if now is None:
            # The pods of a deleted node have no chips.
            for key in [key for key, pod in self._pods.items() if pod.node == change.name]:
                self._update(at, key, None)
        for node, sign in ((before, -1), (now, 1)):
            if node is not None:
                chip, pool, count = node
                self.machines[pool].add(at, sign)
                if count:
                    self._capacity[chip].add(at, sign * count)
                    self.by_pool[pool].add(at, sign * count)

    def observe_pod(self, at: float, change: Change) -> None:
        """Process a change of a pod."""
        self._update(at, (change.namespace, change.name), None if change.type == "DELETED" else self._chips_of(change.obj))

    def _update(self, at: float, key: tuple[str, str], now: _PodChips | None) -> None:
        before = self._pods.pop(key, None)
        if now is not None:
            self._pods[key] = now
        if before == now:
            return
        for chips, sign in ((before, -1), (now, 1)):
            if chips is not None:
                self._used[chips.team, chips.chip].add(at, sign * chips.count)
                self.used_by_pool[chips.team, chips.pool].add(at, sign * chips.count)

    def _chips_of(self, pod: Object) -> _PodChips | None:
        node = pod["spec"].get("nodeName")
        if node not in self._nodes or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return None
        requests = pod_requests(pod["spec"])
        count = next((int(requests[kind]) for kind in _CHIP_RESOURCES if requests.get(kind)), 0)
        if not count:
            return None
        chip, pool, _ = self._nodes[node]
        return _PodChips(self._team_of(pod["metadata"]["namespace"]), chip, pool, count, node)


def _node_chips(node: Object) -> tuple[str, str, int]:
    labels, allocatable = node["metadata"].get("labels") or {}, (node.get("status") or {}).get("allocatable") or {}
    count = next((int(allocatable[kind]) for kind in _CHIP_RESOURCES if allocatable.get(kind)), 0)
    return chip_type(labels), str(labels.get(NODE_POOL) or ""), count


_EPSILON = 1e-6


def compute_costs(watch: Observer, now: float) -> tuple[Cost, ...]:
    """Cost by team and pool; idle chips have no team."""
    return tuple(cost for name in sorted(watch.pools) for cost in _pool_costs(watch, watch.pools[name], now))


def _pool_costs(watch: Observer, pool: ObservedPool, now: float) -> Iterator[Cost]:
    record, chips = pool.record, watch.chips
    machine_hours = chips.machines[record.name].hours(now)
    if machine_hours < _EPSILON:
        return
    usd = None if pool.hourly is None else pool.hourly * machine_hours
    total = chips.by_pool[record.name].hours(now)
    if total < _EPSILON:
        yield Cost("", record.name, pool.machine, record.capacity, 0.0, _cents(usd))
        return
    idle = total
    for (team, pool_name), level in sorted(chips.used_by_pool.items()):
        hours = level.hours(now) if pool_name == record.name else 0.0
        if hours > _EPSILON:
            idle -= hours
            yield Cost(team, record.name, record.chip, record.capacity, round(hours, 4), _cents(usd, hours / total))
    if idle > _EPSILON:
        yield Cost("", record.name, record.chip, record.capacity, round(idle, 4), _cents(usd, idle / total))


def _cents(usd: float | None, share: float = 1.0) -> float | None:
    return None if usd is None else round(usd * share, 2)
