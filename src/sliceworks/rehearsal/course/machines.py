"""Pools of machines, watched: which chips they have, from when to when, in which state, and for whom."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import SliceworksError
from sliceworks.catalog import labels, tpus
from sliceworks.catalog.labels import POOL_JOBSET_NAME, POOL_JOBSET_NAMESPACE
from sliceworks.catalog.prices import price
from sliceworks.rehearsal.course.spans import Spans
from sliceworks.rehearsal.day.record import SliceLife
from sliceworks.twin.cloud.container.machines import formation
from sliceworks.twin.cloud.errors import GoogleError

if TYPE_CHECKING:
    from sliceworks.twin.cloud.container.machines import Formation
    from sliceworks.twin.store.entries import Change

Object = dict[str, Any]
POOLS = "cloud.container/nodePools"
_MACHINE, _ZONE, _SPOT = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone", "cloud.google.com/gke-spot"
_STOCKOUT = "GCE_STOCKOUT"


def chip_named(has: Object) -> str:
    """What the labels of a node, or what selects one, say of its chips; empty where it has none."""
    label = has.get(labels.TPU_ACCELERATOR)
    if label:
        return next((each.name for each in tpus.GENERATIONS if each.label == label), str(label))
    return str(has.get(labels.GPU_ACCELERATOR) or "")


@dataclass(frozen=True, slots=True)
class Pool:
    """What is known of a pool for as long as it is there."""

    life: SliceLife
    machine: str
    hourly: float | None
    """US dollars for each machine."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A pool that could not be made."""

    at: float
    pool: str
    job: str
    zone: str
    capacity: str
    chip: str
    code: str


@dataclass(slots=True)
class _Watched:
    pool: Pool
    spans: Spans = field(default_factory=Spans)


class Machines:
    """Collects their lives."""

    def __init__(self) -> None:
        self._pools: dict[str, _Watched] = {}
        self._gone: list[_Watched] = []
        self._given: dict[str, _Watched] = {}
        self._nodes: dict[str, set[str]] = {}
        self.troubles: list[Trouble] = []

    def lives(self, now: float) -> tuple[SliceLife, ...]:
        """Those with chips, in the order in which they were asked for."""
        there = (*self._gone, *self._pools.values(), *self._given.values())
        found = [replace(each.pool.life, spans=each.spans.until(now)) for each in there]
        return tuple(sorted((life for life in found if life.chip), key=lambda life: (life.born, life.name)))

    def find(self, name: str) -> Pool | None:
        """A pool that is there."""
        found = self._pools.get(name) or self._given.get(name)
        return found.pool if found else None

    @property
    def count(self) -> int:
        """How many slices there are."""
        return sum(bool(each.pool.life.chip) for each in self._pools.values())

    def see_node(self, at: float, pool: str, change: Change) -> None:
        """A node has changed. A pool of which the cloud knows nothing was given: it is what its nodes are."""
        nodes = self._nodes.setdefault(pool, set())
        if change.type == "DELETED":
            nodes.discard(change.name)
            if not nodes and (gone := self._given.pop(pool, None)) is not None:
                self._bury(at, gone)
        elif pool not in self._pools and change.name not in nodes:
            nodes.add(change.name)
            one = pool_of(at, pool, change.obj)
            watched = self._given.setdefault(pool, _Watched(one))
            watched.spans.enter(at, "running")
            hosts = max(len(nodes), watched.pool.life.hosts)
            watched.pool = replace(watched.pool, life=replace(watched.pool.life, hosts=hosts, chips=hosts * one.life.chips))

    def _bury(self, at: float, gone: _Watched) -> None:
        gone.spans.close(at)
        gone.pool = replace(gone.pool, life=replace(gone.pool.life, gone=at))
        self._gone.append(gone)

    def see(self, at: float, change: Change) -> None:
        """A pool has changed in the cloud."""
        if change.type == "DELETED":
            gone = self._pools.pop(change.name, None)
            if gone is not None:
                self._bury(at, gone)
            return
        body = change.obj["body"]
        watched = self._pools.get(change.name)
        if watched is None:
            watched = self._pools[change.name] = _Watched(_born(at, change.name, body))
        status = str(body.get("status", "")).lower()
        code = next((str(each["code"]) for each in body.get("conditions") or () if each.get("code")), "")
        if watched.spans.enter(at, status, str(body.get("statusMessage") or "") if status == "error" else "") and status == "error":
            life = watched.pool.life
            self.troubles.append(Trouble(at, life.name, life.job, life.zone, life.capacity, life.chip, code))


def pool_of(at: float, name: str, node: Object) -> Pool:
    """The pool that a node stands for which nobody made in the cloud: as far as its labels tell."""
    has, allocatable = node["metadata"].get("labels") or {}, (node.get("status") or {}).get("allocatable") or {}
    config: Object = {"machineType": has.get(_MACHINE, ""), "spot": has.get(_SPOT) == "true"}
    if has.get(labels.GPU_ACCELERATOR):
        config["accelerators"] = [
            {"acceleratorType": has[labels.GPU_ACCELERATOR], "acceleratorCount": int(allocatable.get(labels.GPU) or 1)}
        ]
    found = _born(at, name, {"config": config, "locations": [has.get(_ZONE, "")], "initialNodeCount": 1})
    return replace(found, life=replace(found.life, topology=str(has.get(labels.TPU_TOPOLOGY) or "")))


def _born(at: float, name: str, body: Object) -> Pool:
    config, zones = body.get("config") or {}, body.get("locations") or [""]
    try:
        what = formation(body)
    except GoogleError:
        return Pool(SliceLife(name, "", "", 0, 0, zones[0], "", at), str(config.get("machineType", "")), None)
    held = (config.get("reservationAffinity") or {}).get("values")
    capacity = "spot" if config.get("spot") or config.get("preemptible") else "reserved" if held else "on-demand"
    count = what.gang or int(body.get("initialNodeCount") or 0) * len(zones)
    has = config.get("labels") or {}
    place, of = has.get(POOL_JOBSET_NAMESPACE), has.get(POOL_JOBSET_NAME)
    job = f"{place}/{of}" if place and of else ""
    chip = what.slice.generation.name if what.slice else what.gpu.accelerator if what.gpu else ""
    chips = what.machine.chips if what.slice else what.gpu.chips if what.gpu else 0
    topology = what.slice.topology if what.slice else ""
    life = SliceLife(name, chip, topology, count, chips * count, zones[0], capacity, at, job=job)
    return Pool(life, what.machine.name, _hourly(what, zones[0], capacity))


def _hourly(what: Formation, zone: str, capacity: str) -> float | None:
    """What one machine costs an hour, if there is a list price."""
    try:
        found = price(what.gpu or what.machine, zone, "reservation" if capacity == "reserved" else capacity)
    except SliceworksError:
        return None
    return found.usd if found else None


def is_stockout(trouble: Trouble) -> bool:
    """Whether there were no machines to be had."""
    return trouble.code == _STOCKOUT
