"""What all pools together have taken, against what there is: quotas, reservations, and the machines of a zone.

Each question is answered with what is short, in Google's words; nothing is short where no limit was set.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from sliceworks.catalog import quotas
from sliceworks.twin.cloud.container.nodes import is_spot, reservations
from sliceworks.twin.cloud.container.places import region_of
from sliceworks.twin.cloud.container.settings import Limit
from sliceworks.twin.cloud.errors import GoogleError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.twin.cloud.container.machines import Formation
    from sliceworks.twin.cloud.container.settings import Settings

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Taken:
    """The machines of one pool."""

    project: str
    machine: str
    spot: bool
    zones: tuple[tuple[str, int], ...]
    reserved: tuple[str, ...]
    amounts: tuple[tuple[str, float], ...]
    """What one machine counts, by the name of a quota."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """Machines that are not to be had: `missing` in a zone, with the kind of fault that says why and what it says."""

    fault: str
    zone: str
    missing: int
    facts: dict[str, str]


class Stock:
    """The pools that have machines, or are about to."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._taken: dict[str, Taken] = {}

    def put(self, path: str, taken: Taken) -> None:
        """A pool has these machines now."""
        self._taken[path] = taken

    def drop(self, path: str) -> None:
        """A pool has none any more."""
        self._taken.pop(path, None)

    def check(self, path: str, wanted: Taken) -> None:
        """Refuse a pool that exceeds a regional quota or a reservation, as GKE does before it begins."""
        others = [taken for key, taken in self._taken.items() if key != path]
        self._check_reservations(path.rpartition("/")[2], wanted, others)
        for limit in self._settings.values.quotas:
            if not limit.name.startswith("TPU"):
                self._check_quota(limit, wanted, others)

    def shortage(self, path: str, wanted: Taken) -> Shortage | None:
        """What is found to be missing once the machines are asked for."""
        others = [taken for key, taken in self._taken.items() if key != path]
        for limit in self._settings.values.quotas:
            if limit.name.startswith("TPU") and (short := _over(limit, wanted, others)) > 0:
                facts = {"metric": limit.name, "limit": f"{limit.amount:.1f}", "region": limit.place}
                return Shortage("MachineQuotaExceeded", wanted.zones[0][0], _machines(short, limit, wanted), facts)
        for limit in self._settings.values.capacity:
            for zone, count in wanted.zones:
                if not _limits(limit, wanted, zone):
                    continue
                used = sum(n for taken in others for at, n in taken.zones if at == zone and _limits(limit, taken, zone))
                if used + count > limit.amount:
                    return Shortage("Stockout", zone, min(count, int(used + count - limit.amount)), {})
        return None

    def quotas(self, project: str, region: str) -> list[Obj]:
        """The limits that hold for a project in a region, as Compute Engine tells them."""
        found: dict[str, Obj] = {}
        for limit in self._settings.values.quotas:
            if limit.project in ("", project) and limit.place in ("", region):
                own = Limit(limit.amount, limit.name, project, region)
                told = {"metric": limit.name, "limit": limit.amount, "usage": _amount(own, self._taken.values())}
                kept = found.setdefault(limit.name, told)
                if told["limit"] < kept["limit"]:
                    found[limit.name] = told
        return list(found.values())

    def _check_reservations(self, pool: str, wanted: Taken, others: list[Taken]) -> None:
        for name in wanted.reserved:
            for zone, count in wanted.zones:
                limit = next((each for each in self._settings.values.reservations if _is(each, name, zone)), None)
                if limit is None:
                    words = f'Google Compute Engine: reservation "{name}" not found for node pool "{pool}" at zone "{zone}".'
                    raise GoogleError("NOT_FOUND", words)
                used = sum(n for taken in others if name in taken.reserved for at, n in taken.zones if at == zone)
                short = int(used + count - limit.amount)
                if short > 0 or (limit.machine and limit.machine != wanted.machine):
                    raise GoogleError(
                        "RESOURCE_EXHAUSTED",
                        "Reservation does not have enough resources for the request: specific reservation "
                        f'"{name}" is insufficient for node pool "{pool}" at zone "{zone}": required {count} and short of '
                        f"{short if short > 0 else count} VM count of machine type {wanted.machine}.",
                    )

    def _check_quota(self, limit: Limit, wanted: Taken, others: list[Taken]) -> None:
        short = _over(limit, wanted, others)
        if short <= 0:
            return
        needed, free = _amount(limit, [wanted]), limit.amount - _amount(limit, others)
        project = wanted.project
        raise GoogleError(
            "PERMISSION_DENIED",
            f'Insufficient regional quota to satisfy request: resource "{limit.name}": '
            f"request requires '{needed:.1f}' and is short '{short:.1f}'. "
            f"project has a quota of '{limit.amount:.1f}' with '{max(0.0, free):.1f}' available. View and manage quotas at https://console.cloud.google.com/iam-admin/quotas?usage=USED&project={project}.",
        )


def taken(project: str, pool: Obj, formation: Formation, zones: Iterable[str]) -> Taken:
    """What a pool with these machines takes; `zones` has one for each machine."""
    config, machine = pool.get("config") or {}, formation.machine
    gpu = formation.gpu
    amounts = quotas.amounts(machine, gpu.gpu if gpu else None, gpu.chips if gpu else 0, spot=is_spot(config))
    counted = tuple(sorted(Counter(zones).items()))
    return Taken(project, machine.name, is_spot(config), counted, tuple(reservations(config)), tuple(amounts.items()))


def _over(limit: Limit, wanted: Taken, others: list[Taken]) -> float:
    """By how much a pool exceeds a quota."""
    needed = _amount(limit, [wanted])
    return needed + _amount(limit, others) - limit.amount if needed else 0.0


def _amount(limit: Limit, pools: Iterable[Taken]) -> float:
    """What pools count against a quota."""
    return sum(
        each * count
        for pool in pools
        if not limit.project or pool.project == limit.project
        for name, each in pool.amounts
        if name == limit.name
        for zone, count in pool.zones
        if region_of(zone) == limit.place or not limit.place
    )


def _machines(short: float, limit: Limit, wanted: Taken) -> int:
    each = dict(wanted.amounts)[limit.name]
    return min(sum(count for _, count in wanted.zones), int(-(-short // each)))


def _limits(limit: Limit, pool: Taken, zone: str) -> bool:
    """Whether a limit of machines is about this pool's machines in a zone. Reserved machines are set aside already."""
    return (
        not pool.reserved
        and (not limit.place or fnmatchcase(zone, limit.place))
        and (not limit.machine or fnmatchcase(pool.machine, limit.machine))
        and limit.spot in (None, pool.spot)
    )


def _is(limit: Limit, name: str, zone: str) -> bool:
    """Whether this is the reservation that a pool names, by itself or with its project."""
    short = name.rpartition("/reservations/")[2].partition("/")[0]
    return limit.name in (name, short) and limit.place in ("", zone)
