"""Quotas, reservations and zone capacity, their use by node pools, and the durable settings of the container API."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import InvalidDocument
from sliceworks.catalog import availability
from sliceworks.twin.cloud.core.document_store import Document, Table
from sliceworks.twin.cloud.core.exceptions import refuse
from sliceworks.twin.cloud.google.container.node_template import is_spot, reservation_names
from sliceworks.twin.cloud.google.container.resource_names import region_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.twin.cloud.google.container.node_template import PoolShape
    from sliceworks.twin.store.store import Store
Obj = dict[str, Any]
SECONDS = {
    "createCluster": 240.0,
    "updateCluster": 30.0,
    "deleteCluster": 120.0,
    "createNodePool": 30.0,
    "deleteNodePool": 60.0,
    "resizeNodePool": 20.0,
    "updateNodePool": 5.0,
    "boot": 45.0,
    "giveUp": 2100.0,
    "register": 600.0,
    "repair": 120.0,
    "unhealthy": 660.0,
    "idle": 600.0,
}
"""Durations of the steps of operations. `createNodePool` ends when the instances exist, `boot` when their kubelets run. GKE retries
unavailable capacity for `giveUp` and waits for Nodes to register for `register`. Auto-repair recreates a deleted instance after
`repair` and repairs one that is not ready for `unhealthy`. The cluster autoscaler deletes Nodes that are unneeded for `idle`."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A quota, a reservation or the capacity of a zone. An empty selector matches anything."""

    amount: float
    name: str = ""
    project: str = ""
    location: str = ""
    machine: str = ""
    spot: bool | None = None


@dataclass(frozen=True, slots=True)
class SettingsValues:
    """The values of all settings."""

    operations: int = 5
    seconds: dict[str, float] = field(default_factory=lambda: dict(SECONDS))
    quotas: tuple[Limit, ...] = ()
    reservations: tuple[Limit, ...] = ()
    capacity: tuple[Limit, ...] = ()
    offers: tuple[tuple[str, str], ...] = ()
    """Patterns of zone and machine type that exist although the catalog does not know them."""


class ContainerSettings:
    """The durable settings."""

    def __init__(self, store: Store) -> None:
        self._table = Table(store, "settings", "CloudSettings")
        document = self._table.get("", "container")
        self._settings: Obj = document.body if document else {}
        self.values = _parse(self._settings)

    def change(self, change: Obj) -> None:
        """Merge a change into the settings: limits by their selectors, durations by name."""
        old = self._settings
        merged = {**old, **change, "seconds": {**old.get("seconds", {}), **(change.get("seconds") or {})}}
        for kind, keys in _KEYS.items():
            merged[kind] = _merge_limits(old.get(kind) or [], change.get(kind) or [], keys)
        self.values = _parse(merged)
        self._settings = merged
        self._table.put(Document("", "container", merged))

    def is_offered(self, zone: str, machine: str) -> bool:
        """Whether the settings say that a zone offers a machine type."""
        return any(fnmatchcase(zone, place) and fnmatchcase(machine, name) for place, name in self.values.offers)

    def seconds(self, step: str) -> float:
        """The duration of a step."""
        return self.values.seconds[step]


_KEYS = {
    "quotas": ("project", "region", "metric"),
    "reservations": ("project", "zone", "name"),
    "capacity": ("zone", "machineType", "spot"),
}


def _merge_limits(old: list[Obj], new: list[Obj], keys: tuple[str, ...]) -> list[Obj]:
    """Merge limits by key; newer ones win, and one without an amount removes the limit."""
    merged = {tuple(item.get(key) for key in keys): item for item in (*old, *new)}
    return [item for item in merged.values() if _limit_amount(item) is not None]


def _limit_amount(item: Obj) -> float | None:
    amount = item.get("nodes", item.get("limit"))
    return None if amount is None else float(amount)


def _parse(settings: Obj) -> SettingsValues:
    seconds = settings.get("seconds") or {}
    if unknown := sorted(set(seconds) - set(SECONDS)):
        raise InvalidDocument(f"container.seconds.{unknown[0]}: unknown duration (known: {', '.join(SECONDS)})")
    return SettingsValues(
        int(settings.get("operations") or SettingsValues().operations),
        {**SECONDS, **{name: float(value) for name, value in seconds.items()}},
        tuple(_limit(item, "metric", "region") for item in settings.get("quotas") or ()),
        tuple(_limit(item, "name", "zone") for item in settings.get("reservations") or ()),
        tuple(_limit(item, "", "zone") for item in settings.get("capacity") or ()),
        tuple((item.get("zone") or "*", item.get("machineType") or "*") for item in settings.get("offers") or ()),
    )


def _limit(item: Obj, name: str, location: str) -> Limit:
    return Limit(
        _limit_amount(item) or 0.0,
        item.get(name, "") if name else "",
        item.get("project") or "",
        item.get(location) or "",
        item.get("machineType") or "",
        item.get("spot"),
    )


@dataclass(frozen=True, slots=True)
class PoolUsage:
    """The instances of one node pool."""

    project: str
    machine: str
    spot: bool
    zones: tuple[tuple[str, int], ...]
    reserved: tuple[str, ...]
    amounts: tuple[tuple[str, float], ...]
    """The quota usage of one instance, by quota metric."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """Unavailable capacity: `missing` instances in a zone, with the fault kind that reports it and its attributes."""

    fault: str
    zone: str
    missing: int
    attributes: dict[str, str]


class Capacity:
    """The usage of all node pools against quotas, reservations and zone capacity."""

    def __init__(self, settings: ContainerSettings) -> None:
        self._settings = settings
        self._usage: dict[str, PoolUsage] = {}

    def put(self, path: str, usage: PoolUsage) -> None:
        """Set the usage of a node pool."""
        self._usage[path] = usage

    def delete(self, path: str) -> None:
        """Release the usage of a node pool."""
        self._usage.pop(path, None)

    def check(self, path: str, requested: PoolUsage) -> None:
        """Raise GoogleError for a node pool that exceeds a regional quota or a reservation, as GKE does on create."""
        others = [usage for key, usage in self._usage.items() if key != path]
        self._check_reservations(path.rpartition("/")[2], requested, others)
        for limit in self._settings.values.quotas:
            if not limit.name.startswith("TPU"):
                self._check_quota(limit, requested, others)

    def find_shortage(self, path: str, requested: PoolUsage) -> Shortage | None:
        """Return what Compute Engine cannot provide when it creates the instances, if anything."""
        others = [usage for key, usage in self._usage.items() if key != path]
        for limit in self._settings.values.quotas:
            if limit.name.startswith("TPU") and (short := _excess(limit, requested, others)) > 0:
                attributes = {"metric": limit.name, "limit": f"{limit.amount:.1f}", "region": limit.location}
                return Shortage(
                    "MachineQuotaExceeded", requested.zones[0][0], _missing_instances(short, limit, requested), attributes
                )
        for limit in self._settings.values.capacity:
            for zone, count in requested.zones:
                if not _applies(limit, requested, zone):
                    continue
                used = sum(n for usage in others for at, n in usage.zones if at == zone and _applies(limit, usage, zone))
                if used + count > limit.amount:
                    return Shortage("Stockout", zone, min(count, int(used + count - limit.amount)), {})
        return None

    def quotas(self, project: str, region: str) -> list[Obj]:
        """The limited quotas of a project in a region, as Compute Engine returns them."""
        quotas: dict[str, Obj] = {}
        for limit in self._settings.values.quotas:
            if limit.project in ("", project) and limit.location in ("", region):
                own = Limit(limit.amount, limit.name, project, region)
                quota = {"metric": limit.name, "limit": limit.amount, "usage": _quota_usage(own, self._usage.values())}
                lowest = quotas.setdefault(limit.name, quota)
                if quota["limit"] < lowest["limit"]:
                    quotas[limit.name] = quota
        return list(quotas.values())

    def _check_reservations(self, pool: str, requested: PoolUsage, others: list[PoolUsage]) -> None:
        for name in requested.reserved:
            for zone, count in requested.zones:
                reservations = self._settings.values.reservations
                limit = next((limit for limit in reservations if _is_reservation(limit, name, zone)), None)
                if limit is None:
                    raise refuse("reservation-missing", reservation=name, pool=pool, zone=zone)
                used = sum(n for usage in others if name in usage.reserved for at, n in usage.zones if at == zone)
                short = int(used + count - limit.amount)
                if short > 0 or (limit.machine and limit.machine != requested.machine):
                    raise refuse(
                        "reservation-exhausted",
                        reservation=name,
                        pool=pool,
                        zone=zone,
                        count=count,
                        short=short if short > 0 else count,
                        machine=requested.machine,
                    )

    def _check_quota(self, limit: Limit, requested: PoolUsage, others: list[PoolUsage]) -> None:
        short = _excess(limit, requested, others)
        if short <= 0:
            return
        needed, free = _quota_usage(limit, [requested]), limit.amount - _quota_usage(limit, others)
        raise refuse(
            "regional-quota",
            metric=limit.name,
            needed=f"{needed:.1f}",
            short=f"{short:.1f}",
            limit=f"{limit.amount:.1f}",
            free=f"{max(0.0, free):.1f}",
            project=requested.project,
        )


def pool_usage(project: str, pool: Document, shape: PoolShape, zones: Iterable[str]) -> PoolUsage:
    """The usage of a node pool; `zones` has one item for each instance."""
    config, machine = pool.body.get("config") or {}, shape.machine
    gpu = shape.gpu
    amounts = availability.quota_usage(machine, gpu.gpu if gpu else None, gpu.chips if gpu else 0, spot=is_spot(config))
    disk, size = config.get("diskType") or availability.DEFAULT_DISK, int(config.get("diskSizeGb") or availability.DEFAULT_DISK_GIB)
    amounts |= availability.node_quota_usage(disk, size, public_address=not pool.inner.get("private"))
    counted = tuple(sorted(Counter(zones).items()))
    return PoolUsage(project, machine.name, is_spot(config), counted, tuple(reservation_names(config)), tuple(amounts.items()))


def _excess(limit: Limit, requested: PoolUsage, others: list[PoolUsage]) -> float:
    """The amount by which a node pool exceeds a quota."""
    needed = _quota_usage(limit, [requested])
    return needed + _quota_usage(limit, others) - limit.amount if needed else 0.0


def _quota_usage(limit: Limit, pools: Iterable[PoolUsage]) -> float:
    """The usage of a quota by node pools."""
    return sum(
        amount * count
        for pool in pools
        if not limit.project or pool.project == limit.project
        for name, amount in pool.amounts
        if name == limit.name
        for zone, count in pool.zones
        if region_of(zone) == limit.location or not limit.location
    )


def _missing_instances(short: float, limit: Limit, requested: PoolUsage) -> int:
    per_instance = dict(requested.amounts)[limit.name]
    return min(sum(count for _, count in requested.zones), int(-(-short // per_instance)))


def _applies(limit: Limit, pool: PoolUsage, zone: str) -> bool:
    """Whether a zone capacity applies to the instances of a node pool; reserved instances do not use it."""
    return (
        not pool.reserved
        and (not limit.location or fnmatchcase(zone, limit.location))
        and (not limit.machine or fnmatchcase(pool.machine, limit.machine))
        and limit.spot in (None, pool.spot)
    )


def _is_reservation(limit: Limit, name: str, zone: str) -> bool:
    """Whether a limit is the reservation of this name, which may be qualified with its project."""
    short = name.rpartition("/reservations/")[2].partition("/")[0]
    return limit.name in (name, short) and limit.location in ("", zone)
