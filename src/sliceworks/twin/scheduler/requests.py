"""How much of a node a pod takes: the sum over its containers, the widest moment of its init containers, and its overhead.

Amounts are integers: CPU in thousandths, everything else in whole units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Amounts = dict[str, int]

# What a container that asks for nothing counts for when nodes are compared.
_LEAST = {"cpu": 100, "memory": 200 * 1024 * 1024}
_POD_LEVEL = ("cpu", "memory")


def amounts(texts: Mapping[str, Any] | None) -> Amounts:
    """A resource list as integers."""
    return {name: quantity.milli(text) if name == "cpu" else quantity.whole(text) for name, text in (texts or {}).items()}


def pod_requests(spec: Mapping[str, Any], *, at_least: bool = False) -> Amounts:
    """What a pod asks for; `at_least` counts what scoring assumes of containers that ask for no CPU or memory."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, _of(container, at_least))
    _widen(total, _starting(total, spec.get("initContainers") or (), at_least))
    level = amounts((spec.get("resources") or {}).get("requests"))
    total.update({name: amount for name, amount in level.items() if name in _POD_LEVEL or name.startswith("hugepages-")})
    _add(total, amounts(spec.get("overhead")))
    return total


def _starting(total: Amounts, containers: Iterable[Mapping[str, Any]], at_least: bool) -> Amounts:
    """The widest moment while a pod starts; sidecars stay, so they are added to the total."""
    widest: Amounts = {}
    sidecars: Amounts = {}
    for container in containers:
        own = _of(container, at_least)
        if container.get("restartPolicy") == "Always":
            _add(total, own)
            _add(sidecars, own)
            _widen(widest, sidecars)
        else:
            _add(own, sidecars)
            _widen(widest, own)
    return widest


def _of(container: Mapping[str, Any], at_least: bool) -> Amounts:
    own = amounts((container.get("resources") or {}).get("requests"))
    return {**_LEAST, **own} if at_least else own


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _widen(total: Amounts, other: Amounts) -> None:
    for name, amount in other.items():
        if amount > total.get(name, 0):
            total[name] = amount
