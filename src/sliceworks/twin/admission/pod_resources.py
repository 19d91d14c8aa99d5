"""What a pod asks for as a whole: the sum over its containers, or its largest start-up step, or what it says itself. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

Amounts = dict[str, str]
_POD_LEVEL = {"cpu", "memory"}


def requests(spec: Mapping[str, Any], *, overhead: bool = True) -> Amounts:
    """The pod's requests."""
    total = _total(spec, "requests")
    if overhead:
        add(total, spec.get("overhead") or {})
    return total


def limits(spec: Mapping[str, Any], *, overhead: bool = True) -> Amounts:
    """The pod's limits; overhead counts only where there is a limit to raise."""
    total = _total(spec, "limits")
    if overhead:
        add(total, {name: amount for name, amount in (spec.get("overhead") or {}).items() if name in total})
    return total


def add(total: Amounts, more: Mapping[str, Any]) -> None:
    for name, amount in more.items():
        total[name] = quantity.add(total[name], amount) if name in total else quantity.canonical(amount)


def best_effort(spec: Mapping[str, Any]) -> bool:
    """Whether nothing in the pod asks for CPU or memory: its quality of service is BestEffort."""
    parts = (spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    asked = [amounts for part in parts for amounts in (part.get("resources") or {}).values() if isinstance(amounts, dict)]
    return not any(quantity.nanos(amount) > 0 for amounts in asked for name, amount in amounts.items() if name in _POD_LEVEL)


def _total(spec: Mapping[str, Any], side: str) -> Amounts:
    total: Amounts = {}
    for container in spec.get("containers") or ():
        add(total, _of(container, side))
    sidecars: Amounts = {}
    start: Amounts = {}
    for container in spec.get("initContainers") or ():
        # Sidecars run on beside all that follows; the others run one by one, with the sidecars before them.
        if container.get("restartPolicy") == "Always":
            add(total, _of(container, side))
            add(sidecars, _of(container, side))
            step = sidecars
        else:
            step = dict(sidecars)
            add(step, _of(container, side))
        _raise(start, step)
    _raise(total, start)
    for name, amount in _of(spec, side).items():
        if name in _POD_LEVEL:
            total[name] = quantity.canonical(amount)
    return total


def _raise(total: Amounts, other: Mapping[str, str]) -> None:
    for name, amount in other.items():
        if name not in total or quantity.compare(amount, total[name]) > 0:
            total[name] = amount


def _of(part: Mapping[str, Any], side: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (part.get("resources") or {}).get(side) or {}
    return found
