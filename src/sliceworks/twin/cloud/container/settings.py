"""How the container API behaves: how much it does at once, how long things take, and what there is to be had. Durable."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import InvalidDocument
from sliceworks.twin.cloud.state import Document, Table

if TYPE_CHECKING:
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
    "giveUp": 60.0,
    "register": 600.0,
    "repair": 120.0,
    "unhealthy": 660.0,
    "idle": 600.0,
}
"""How long each part of the work takes. `createNodePool` is until the machines exist, `boot` until their kubelets are up; `giveUp`
is how long machines that are not to be had are asked for, `register` how long kubelets are waited for; a machine that is gone is
made anew after `repair`, and one that is not ready for `unhealthy` is repaired; a node of an autoscaled
pool goes when nobody has needed it for `idle`."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Of something there is only so much: in a place, of a machine type, for spot machines or others. Empty means any."""

    amount: float
    name: str = ""
    project: str = ""
    place: str = ""
    machine: str = ""
    spot: bool | None = None


@dataclass(frozen=True, slots=True)
class Values:
    """All settings."""

    operations: int = 30
    seconds: dict[str, float] = field(default_factory=lambda: dict(SECONDS))
    quotas: tuple[Limit, ...] = ()
    reservations: tuple[Limit, ...] = ()
    capacity: tuple[Limit, ...] = ()


class Settings:
    """The settings in force."""

    def __init__(self, store: Store) -> None:
        self._table = Table(store, "settings", "CloudSettings")
        found = self._table.get("", "container")
        self._given: Obj = found.body if found else {}
        self.values = _read(self._given)

    def change(self, given: Obj) -> None:
        """Take in what is given and leave the rest as it is: limits by what they limit, times by name."""
        merged = {**self._given, **given, "seconds": {**self._given.get("seconds", {}), **(given.get("seconds") or {})}}
        for kind, keys in _KEYS.items():
            merged[kind] = _merged(self._given.get(kind) or [], given.get(kind) or [], keys)
        self.values = _read(merged)
        self._given = merged
        self._table.put(Document("", "container", merged))

    def seconds(self, what: str) -> float:
        """How long something takes."""
        return self.values.seconds[what]


_KEYS = {
    "quotas": ("project", "region", "metric"),
    "reservations": ("project", "zone", "name"),
    "capacity": ("zone", "machineType", "spot"),
}


def _merged(old: list[Obj], new: list[Obj], keys: tuple[str, ...]) -> list[Obj]:
    """Both lists; of two that limit the same the newer counts, and one without a number lifts the limit."""
    found = {tuple(item.get(key) for key in keys): item for item in (*old, *new)}
    return [item for item in found.values() if _amount(item) is not None]


def _amount(item: Obj) -> float | None:
    amount = item.get("nodes", item.get("limit"))
    return None if amount is None else float(amount)


def _read(given: Obj) -> Values:
    seconds = given.get("seconds") or {}
    if unknown := sorted(set(seconds) - set(SECONDS)):
        raise InvalidDocument(f"nothing of the cloud takes the time {unknown[0]!r}: there are {', '.join(SECONDS)}")
    return Values(
        int(given.get("operations") or Values().operations),
        {**SECONDS, **{name: float(value) for name, value in seconds.items()}},
        tuple(_limit(item, "metric", "region") for item in given.get("quotas") or ()),
        tuple(_limit(item, "name", "zone") for item in given.get("reservations") or ()),
        tuple(_limit(item, "", "zone") for item in given.get("capacity") or ()),
    )


def _limit(item: Obj, name: str, place: str) -> Limit:
    return Limit(
        _amount(item) or 0.0,
        item.get(name, "") if name else "",
        item.get("project") or "",
        item.get(place) or "",
        item.get("machineType") or "",
        item.get("spot"),
    )
