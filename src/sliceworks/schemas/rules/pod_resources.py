"""What a whole pod asks for: the sum of its containers, and the defaults of `spec.resources` that follow from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import quantity

if TYPE_CHECKING:
    from sliceworks.schemas.rules.shape import Json

Amounts = dict[str, str]


def default_pod_resources(spec: Json) -> None:
    """Fill `spec.resources` where it is set in part: huge pages' limits, then requests from containers or limits."""
    resources = spec["resources"]
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if not limits and not requests:
        return
    for name, amount in total(spec, "limits").items():
        if name.startswith("hugepages-") and name not in requests:
            limits.setdefault(name, amount)
    if limits:
        resources["limits"] = limits
        for name, amount in total(spec, "requests").items():
            if name in ("cpu", "memory"):
                requests.setdefault(name, amount)
        for name, amount in limits.items():
            if is_pod_level(name):
                requests.setdefault(name, amount)
        if requests:
            resources["requests"] = requests


def total(spec: Json, which: str) -> Amounts:
    """What the containers add up to: those that run together are summed, each ordinary init container runs alone."""
    running: Amounts = {}
    for container in spec.get("containers") or ():
        _add(running, _amounts(container, which))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _amounts(container, which)
        if container.get("restartPolicy") == "Always":
            _add(running, own)
            _add(sidecars, own)
            own = dict(sidecars)
        else:
            own = dict(own)
            _add(own, sidecars)
        _raise(starting, own)
    _raise(running, starting)
    return running


def is_pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _amounts(container: Json, which: str) -> Amounts:
    found: Amounts = (container.get("resources") or {}).get(which) or {}
    return found


def _add(totals: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        totals[name] = quantity.add(totals[name], amount) if name in totals else amount


def _raise(totals: Amounts, floor: Amounts) -> None:
    for name, amount in floor.items():
        if name not in totals or quantity.compare(totals[name], amount) < 0:
            totals[name] = amount
