"""Node pools as slices: state, owner and price, as data and as a description."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.base import clock, duration, tables
from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.catalog import prices
from sliceworks.catalog.labels import NODE_POOL
from sliceworks.controllers.slices import node_pool, object_views, well_known

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from sliceworks.cli.slice_inventory import SliceMatch
    from sliceworks.controllers.slices.model import JobSetView, NodePool
    from sliceworks.kube.resources import Key

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
    """One node pool. `owner` is the JobSet it was created for, if any."""

    pool: NodePool
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
    def owner(self) -> Key | None:
        return self.pool.jobset if self.pool.is_managed else None


def build_views(pools: Iterable[Object], nodes: Iterable[Object], jobsets: Iterable[Object]) -> list[SliceView]:
    """Return every pool, sorted by owner and Job; pools without owner come last."""
    ready, created_at = _nodes(nodes)
    known = {view.ref: view for view in map(object_views.read_jobset, jobsets)}
    views = [_view(raw, ready, created_at, known) for raw in pools]
    return sorted(views, key=lambda view: (view.owner is None, view.owner or (), view.pool.job, view.name))


def _view(raw: Object, ready: Counter[str], created_at: Mapping[str, datetime], jobsets: Mapping[Key, JobSetView]) -> SliceView:
    pool = node_pool.read_pool(raw)
    capacity = _capacity(raw.get("config") or {})
    shape = node_pool.shape_of_pool(raw, pool)
    kind = capacity.partition(" ")[0]
    amount = prices.get_price(shape, pool.zone, kind) if shape and pool.zone else None
    if amount is not None and not isinstance(shape, catalog.Slice):
        amount = amount.times(pool.nodes)
    state, message = _state(pool, ready[pool.name], jobsets.get(pool.jobset) if pool.is_managed else None)
    created = node_pool.from_timestamp(pool.created) if pool.created else created_at.get(pool.name)
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


def _state(pool: NodePool, ready: int, jobset: JobSetView | None) -> tuple[str, str]:
    """Return the state in one word, and a message."""
    if pool.fault is not None:
        return _STATES.get(pool.status, "failed"), f"{pool.fault.code}: {pool.fault.message}"
    if pool.status != "RUNNING":
        return _STATES.get(pool.status, pool.status.lower()), ""
    if pool.is_managed and jobset is None:
        return "unowned", "its JobSet was deleted"
    if jobset is not None and jobset.drained:
        return "draining", ""
    return ("ready", "") if ready >= pool.nodes else ("starting", f"{ready} of {pool.nodes} hosts are ready")


def _nodes(nodes: Iterable[Object]) -> tuple[Counter[str], dict[str, datetime]]:
    """Return the number of ready nodes of each pool, and the creation time of the first."""
    ready: Counter[str] = Counter()
    created_at: dict[str, datetime] = {}
    for node in nodes:
        metadata = node["metadata"]
        pool = (metadata.get("labels") or {}).get(NODE_POOL)
        if not pool:
            continue
        if is_condition_true(node, "Ready"):
            ready[pool] += 1
        created = clock.parse(metadata.get("creationTimestamp"))
        if created is not None and (pool not in created_at or created < created_at[pool]):
            created_at[pool] = created
    return ready, created_at


def slice_data(view: SliceView) -> Object:
    """Return a slice as data."""
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


def describe(match: SliceMatch) -> str:
    """Describe a slice or a JobSet with its slices."""
    if match.slices and match.slices[0].name == match.name:
        return _slice(match)
    return _jobset(match)


def _slice(match: SliceMatch) -> str:
    view = match.slices[0]
    facts = [(label, text) for label, text in _facts(view, match.jobset) if text]
    width = max(len(label) for label, _ in facts) + 2
    lines = [f"{label:<{width}}{text}" for label, text in facts]
    if match.nodes:
        rows = [_node(node) for node in match.nodes]
        lines += ["", tables.render(("node", "ready", "zone", "age"), rows).rstrip("\n")]
    return "\n".join(lines)


def _facts(view: SliceView, jobset: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    pool, price = view.pool, view.price
    yield "Slice", view.name
    yield "Type", f"{view.type_name}, topology {pool.topology}" if pool.topology else view.type_name
    yield "Hosts", f"{view.ready} of {pool.nodes} ready, {pool.machine}"
    yield "Zone", pool.zone
    yield "Capacity", view.capacity
    yield "State", f"{view.state} ({pool.status})"
    yield "Message", view.message
    yield "Owner", f"JobSet {view.owner}, Job {pool.job.name}" if view.owner else "none (not created for a JobSet)"
    yield "Slices", _condition(jobset)
    yield "Attempt", str(pool.attempt + 1) if pool.attempt else ""
    yield "Age", _age(view)
    yield "USD per hour", f"{price} ({price.source.title}, {price.source.date})" if price else "unknown"


def _jobset(match: SliceMatch) -> str:
    ended = object_views.read_jobset(match.jobset).ended if match.jobset is not None else "deleted"
    lines = [f"JobSet {match.name}"]
    if ended:
        lines.append(f"The JobSet has {ended}." if ended != "deleted" else "The JobSet was deleted.")
    elif text := _condition(match.jobset):
        lines.append(text)
    if not match.slices:
        return "\n".join([*lines, "The JobSet has no slices."])
    rows = [
        (
            view.name,
            view.type_name,
            f"{view.ready}/{view.pool.nodes}",
            view.pool.zone,
            view.capacity,
            view.state,
            view.price or "unknown",
        )
        for view in match.slices
    ]
    columns = ("slice", "type", "hosts", "zone", "capacity", "state", "usd/hour")
    lines += ["", tables.render(columns, rows).rstrip("\n")]
    lines += [f"{view.name}: {view.message}" for view in match.slices if view.message]
    return "\n".join(lines)


def _condition(jobset: dict[str, Any] | None) -> str:
    """Return the slices condition of the JobSet."""
    condition = find_condition(jobset, well_known.JOBSET_CONDITION)
    return f"{condition.get('reason')}: {condition.get('message')}" if condition else ""


def _node(node: dict[str, Any]) -> tuple[object, ...]:
    metadata = node["metadata"]
    ready = find_condition(node, "Ready").get("status", "Unknown")
    created = clock.parse(metadata.get("creationTimestamp"))
    age = duration.human(clock.since(created).total_seconds()) if created else "unknown"
    return (metadata["name"], ready, (metadata.get("labels") or {}).get(well_known.ZONE), age)


def _age(view: SliceView) -> str:
    return duration.human(clock.since(view.created).total_seconds()) if view.created else ""
