"""Node pools as slices: what the cloud says of a pool, what the cluster says of its nodes and its JobSet, put together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.base import clock
from sliceworks.base.conditions import is_true
from sliceworks.catalog import prices
from sliceworks.catalog.labels import NODE_POOL
from sliceworks.controllers.slices import bodies, reading, shapes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from sliceworks.controllers.slices.views import JobSetView, Pool, Ref

Object = dict[str, Any]
_STATES = {
    "PROVISIONING": "provisioning",
    "RECONCILING": "reconciling",
    "STOPPING": "deleting",
    "ERROR": "failed",
    "RUNNING_WITH_ERROR": "failed",
}


@dataclass(frozen=True, slots=True)
class SliceView:
    """One pool. `owner` is the JobSet it was made for; pools that others made have none."""

    pool: Pool
    type_name: str
    ready: int
    capacity: str
    state: str
    message: str
    created: datetime | None
    price: prices.Price | None
    accelerated: bool

    @property
    def name(self) -> str:
        return self.pool.name

    @property
    def owner(self) -> Ref | None:
        return self.pool.jobset if self.pool.ours else None


def views(pools: Iterable[Object], nodes: Iterable[Object], jobsets: Iterable[Object]) -> list[SliceView]:
    """Every pool, by owner and Job; those that others made come last."""
    ready, born = _nodes(nodes)
    known = {view.ref: view for view in map(reading.read_jobset, jobsets)}
    found = [_view(raw, ready, born, known) for raw in pools]
    return sorted(found, key=lambda view: (view.owner is None, view.owner or (), view.pool.job, view.name))


def _view(raw: Object, ready: Counter[str], born: Mapping[str, datetime], jobsets: Mapping[Ref, JobSetView]) -> SliceView:
    pool = bodies.read_pool(raw)
    capacity = _capacity(raw.get("config") or {})
    shape = shapes.shape_of_pool(raw, pool)
    kind = capacity.partition(" ")[0]
    amount = prices.price(shape, pool.zone, kind) if shape and pool.zone else None
    if amount is not None and not isinstance(shape, catalog.Slice):
        amount = amount.times(pool.nodes)
    state, message = _state(pool, ready[pool.name], jobsets.get(pool.jobset) if pool.ours else None)
    created = bodies.moment(pool.created) if pool.created else born.get(pool.name)
    return SliceView(
        pool=pool,
        type_name=shape.name if isinstance(shape, catalog.Machine) else shape.type_name if shape else pool.machine,
        ready=ready[pool.name],
        capacity=capacity,
        state=state,
        message=message,
        created=created,
        price=amount,
        accelerated=isinstance(shape, catalog.Slice | catalog.GpuShape),
    )


def _capacity(config: Object) -> str:
    affinity = config.get("reservationAffinity") or {}
    if affinity.get("consumeReservationType") == "SPECIFIC_RESERVATION":
        return f"reservation {','.join(affinity.get('values') or ())}"
    if config.get("spot") or config.get("preemptible"):
        return "spot"
    return "flex-start" if config.get("flexStart") else "on-demand"


def _state(pool: Pool, ready: int, jobset: JobSetView | None) -> tuple[str, str]:
    """One word for how it stands, and what else there is to say."""
    if pool.fault is not None:
        return _STATES.get(pool.status, "failed"), f"{pool.fault.code}: {pool.fault.message}"
    if pool.status != "RUNNING":
        return _STATES.get(pool.status, pool.status.lower()), ""
    if pool.ours and jobset is None:
        return "unowned", "its JobSet is gone"
    if jobset is not None and jobset.drained:
        return "draining", ""
    return ("ready", "") if ready >= pool.nodes else ("starting", f"{ready} of {pool.nodes} hosts are ready")


def _nodes(nodes: Iterable[Object]) -> tuple[Counter[str], dict[str, datetime]]:
    """How many nodes of each pool are ready, and since when the first is there."""
    ready: Counter[str] = Counter()
    born: dict[str, datetime] = {}
    for node in nodes:
        metadata = node["metadata"]
        pool = (metadata.get("labels") or {}).get(NODE_POOL)
        if not pool:
            continue
        if is_true(node, "Ready"):
            ready[pool] += 1
        moment = clock.parse(metadata.get("creationTimestamp"))
        if moment is not None and (pool not in born or moment < born[pool]):
            born[pool] = moment
    return ready, born


def data(view: SliceView) -> Object:
    """A slice as plain data."""
    pool, price = view.pool, view.price
    return {
        "name": pool.name,
        "type": view.type_name,
        "machineType": pool.machine,
        "topology": pool.topology or None,
        "hosts": pool.nodes,
        "hostsReady": view.ready,
        "zone": pool.zone,
        "capacity": view.capacity,
        "owner": {"kind": "JobSet", "namespace": view.owner.namespace, "name": view.owner.name} if view.owner else None,
        "job": pool.job.name or None,
        "state": view.state,
        "status": pool.status,
        "message": view.message or None,
        "created": view.created.isoformat() if view.created else None,
        "usdPerHour": round(price.usd, 4) if price else None,
        "priceSource": f"{price.source.title}, {price.source.date}" if price else None,
    }
