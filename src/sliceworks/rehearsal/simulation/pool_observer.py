"""Observes node pools: chips, states, owners, prices and failures to provision."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import SliceworksError
from sliceworks.catalog import labels, tpus
from sliceworks.catalog.labels import POOL_JOBSET_NAME, POOL_JOBSET_NAMESPACE
from sliceworks.catalog.prices import get_price
from sliceworks.rehearsal.record import SliceRecord, SpanBuilder
from sliceworks.twin.cloud.core.exceptions import GoogleError
from sliceworks.twin.cloud.google.container.node_template import resolve_shape

if TYPE_CHECKING:
    from sliceworks.twin.cloud.google.container.node_template import PoolShape
    from sliceworks.twin.store.watch_cache import Change

Object = dict[str, Any]
POOLS = "cloud.container/nodePools"
_MACHINE, _ZONE, _SPOT = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone", "cloud.google.com/gke-spot"
_STOCKOUT = "GCE_STOCKOUT"


def chip_type(node_labels: Object) -> str:
    """Chip type from node labels or a node selector; empty if there is none."""
    label = node_labels.get(labels.TPU_ACCELERATOR)
    if label:
        return next((generation.name for generation in tpus.GENERATIONS if generation.label == label), str(label))
    return str(node_labels.get(labels.GPU_ACCELERATOR) or "")


@dataclass(frozen=True, slots=True)
class ObservedPool:
    """Properties of a pool."""

    record: SliceRecord
    machine: str
    hourly: float | None
    """US dollars per machine and hour."""


@dataclass(frozen=True, slots=True)
class ProvisioningFailure:
    """A pool that could not be created."""

    at: float
    pool: str
    job: str
    zone: str
    capacity: str
    chip: str
    code: str


@dataclass(slots=True)
class _TrackedPool:
    pool: ObservedPool
    spans: SpanBuilder = field(default_factory=SpanBuilder)


class PoolObserver:
    """Collects slice records."""

    def __init__(self) -> None:
        self._pools: dict[str, _TrackedPool] = {}
        self._deleted: list[_TrackedPool] = []
        self._derived: dict[str, _TrackedPool] = {}
        self._nodes: dict[str, set[str]] = {}
        self.failures: list[ProvisioningFailure] = []

    def records(self, now: float) -> tuple[SliceRecord, ...]:
        """Records of pools with chips, ordered by request time."""
        pools = (*self._deleted, *self._pools.values(), *self._derived.values())
        collected = [replace(item.pool.record, spans=item.spans.until(now)) for item in pools]
        return tuple(sorted((record for record in collected if record.chip), key=lambda record: (record.created, record.name)))

    def find(self, name: str) -> ObservedPool | None:
        """An existing pool."""
        pool = self._pools.get(name) or self._derived.get(name)
        return pool.pool if pool else None

    @property
    def count(self) -> int:
        """Number of existing slices."""
        return sum(bool(pool.pool.record.chip) for pool in self._pools.values())

    def observe_node(self, at: float, pool: str, change: Change) -> None:
        """Process a change of a node; a pool that the cloud did not create is derived from its nodes."""
        nodes = self._nodes.setdefault(pool, set())
        if change.type == "DELETED":
            nodes.discard(change.name)
            if not nodes and (record := self._derived.pop(pool, None)) is not None:
                self._close(at, record)
        elif pool not in self._pools and change.name not in nodes:
            nodes.add(change.name)
            derived = pool_from_node(at, pool, change.obj)
            tracked = self._derived.setdefault(pool, _TrackedPool(derived))
            tracked.spans.enter(at, "running")
            hosts = max(len(nodes), tracked.pool.record.hosts)
            tracked.pool = replace(
                tracked.pool, record=replace(tracked.pool.record, hosts=hosts, chips=hosts * derived.record.chips)
            )

    def _close(self, at: float, tracked: _TrackedPool) -> None:
        tracked.spans.close(at)
        tracked.pool = replace(tracked.pool, record=replace(tracked.pool.record, deleted=at))
        self._deleted.append(tracked)

    def observe(self, at: float, change: Change) -> None:
        """Process a change of a pool in the cloud."""
        if change.type == "DELETED":
            tracked_pool = self._pools.pop(change.name, None)
            if tracked_pool is not None:
                self._close(at, tracked_pool)
            return
        body = change.obj["body"]
        tracked = self._pools.get(change.name)
        if tracked is None:
            tracked = self._pools[change.name] = _TrackedPool(_pool_from_request(at, change.name, body))
        status = str(body.get("status", "")).lower()
        code = next((str(condition["code"]) for condition in body.get("conditions") or () if condition.get("code")), "")
        if tracked.spans.enter(at, status, str(body.get("statusMessage") or "") if status == "error" else "") and status == "error":
            record = tracked.pool.record
            self.failures.append(ProvisioningFailure(at, record.name, record.job, record.zone, record.capacity, record.chip, code))


def pool_from_node(at: float, name: str, node: Object) -> ObservedPool:
    """The pool of a node that the cloud did not create, derived from its labels."""
    node_labels, allocatable = node["metadata"].get("labels") or {}, (node.get("status") or {}).get("allocatable") or {}
    config: Object = {"machineType": node_labels.get(_MACHINE, ""), "spot": node_labels.get(_SPOT) == "true"}
    if node_labels.get(labels.GPU_ACCELERATOR):
        config["accelerators"] = [
            {"acceleratorType": node_labels[labels.GPU_ACCELERATOR], "acceleratorCount": int(allocatable.get(labels.GPU) or 1)}
        ]
    pool = _pool_from_request(at, name, {"config": config, "locations": [node_labels.get(_ZONE, "")], "initialNodeCount": 1})
    return replace(pool, record=replace(pool.record, topology=str(node_labels.get(labels.TPU_TOPOLOGY) or "")))


def _pool_from_request(at: float, name: str, body: Object) -> ObservedPool:
    config, zones = body.get("config") or {}, body.get("locations") or [""]
    try:
        shape = resolve_shape(body)
    except GoogleError:
        return ObservedPool(SliceRecord(name, "", "", 0, 0, zones[0], "", at), str(config.get("machineType", "")), None)
    reservation = (config.get("reservationAffinity") or {}).get("values")
    capacity = "spot" if config.get("spot") or config.get("preemptible") else "reserved" if reservation else "on-demand"
    count = shape.slice_hosts or int(body.get("initialNodeCount") or 0) * len(zones)
    node_labels = config.get("labels") or {}
    job_namespace, job_name = node_labels.get(POOL_JOBSET_NAMESPACE), node_labels.get(POOL_JOBSET_NAME)
    job = f"{job_namespace}/{job_name}" if job_namespace and job_name else ""
    chip = shape.slice.generation.name if shape.slice else shape.gpu.accelerator if shape.gpu else ""
    chips = shape.machine.chips if shape.slice else shape.gpu.chips if shape.gpu else 0
    topology = shape.slice.topology if shape.slice else ""
    record = SliceRecord(name, chip, topology, count, chips * count, zones[0], capacity, at, job=job)
    return ObservedPool(record, shape.machine.name, _hourly_price(shape, zones[0], capacity))


def _hourly_price(shape: PoolShape, zone: str, capacity: str) -> float | None:
    """List price of one machine per hour, if known."""
    try:
        price = get_price(shape.gpu or shape.machine, zone, "reservation" if capacity == "reserved" else capacity)
    except SliceworksError:
        return None
    return price.usd if price else None


def is_stockout(failure: ProvisioningFailure) -> bool:
    """Whether the zone was out of machines."""
    return failure.code == _STOCKOUT
