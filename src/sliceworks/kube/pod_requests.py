"""The resource requests of a pod: containers, init containers, sidecars, pod level and overhead. Pure.

Amounts are integers: CPU in milli-units, everything else in whole units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from sliceworks.base import quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Amounts = dict[str, int]
T = TypeVar("T")
# What scoring assumes of a container without a request.
_NON_ZERO_DEFAULTS = {"cpu": 100, "memory": 200 * 1024 * 1024}


def parse_resources(quantities: Mapping[str, Any] | None) -> Amounts:
    """A resource list as integers."""
    return {
        name: quantity.milli(value) if name == "cpu" else quantity.round_up(value) for name, value in (quantities or {}).items()
    }


def is_pod_level_resource(name: str) -> bool:
    """Whether `spec.resources` of a pod may set this resource."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def has_pod_level_requests(spec: Mapping[str, Any]) -> bool:
    return any(map(is_pod_level_resource, (spec.get("resources") or {}).get("requests") or {}))


def pod_requests(spec: Mapping[str, Any], *, non_zero: bool = False) -> Amounts:
    """The requests of a pod; with `non_zero`, containers without CPU or memory requests count with scoring's defaults."""

    def container_requests(container: Mapping[str, Any]) -> Amounts:
        requests = parse_resources((container.get("resources") or {}).get("requests"))
        return {**_NON_ZERO_DEFAULTS, **requests} if non_zero else requests

    total = sum_containers(spec, container_requests, lambda amount, other: amount + other, max)
    pod_level = parse_resources((spec.get("resources") or {}).get("requests"))
    total.update({name: amount for name, amount in pod_level.items() if is_pod_level_resource(name)})
    for name, amount in parse_resources(spec.get("overhead")).items():
        total[name] = total.get(name, 0) + amount
    return total


def sum_containers(
    spec: Mapping[str, Any],
    amounts: Callable[[Mapping[str, Any]], Mapping[str, T]],
    add: Callable[[T, T], T],
    maximum: Callable[[T, T], T],
) -> dict[str, T]:
    """The amounts that a pod's containers need together.

    Containers and sidecars run together; every other init container runs alone beside the sidecars started before it.
    """
    total: dict[str, T] = {}
    sidecars: dict[str, T] = {}
    startup: dict[str, T] = {}
    for container in spec.get("containers") or ():
        _merge(total, amounts(container), add)
    for container in spec.get("initContainers") or ():
        own = amounts(container)
        step = sidecars
        if container.get("restartPolicy") == "Always":
            _merge(total, own, add)
        else:
            step = dict(sidecars)
        _merge(step, own, add)
        _merge(startup, step, maximum)
    _merge(total, startup, maximum)
    return total


def _merge(total: dict[str, T], more: Mapping[str, T], combine: Callable[[T, T], T]) -> None:
    for name, amount in more.items():
        total[name] = combine(total[name], amount) if name in total else amount
