"""The resource requests and host ports of a pod: containers, init containers, sidecars, pod level and overhead. Pure.

Amounts are integers, CPU in milli-units and everything else in whole units, unless a function returns exact fractions.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, TypeVar

from sliceworks.base import quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from fractions import Fraction

Amounts = dict[str, int]
T = TypeVar("T")
# What scoring assumes of a container without a request.
_NON_ZERO_DEFAULTS = {"cpu": 100, "memory": 200 * 1024 * 1024}


def parse_resources(quantities: Mapping[str, Any] | None) -> Amounts:
    """A resource list as integers."""
    return {name: parse_amount(name, value) for name, value in (quantities or {}).items()}


def parse_amount(name: str, value: Any) -> int:
    """The quantity of a resource as an integer."""
    return quantity.milli(value) if name == "cpu" else quantity.round_up(value)


def is_pod_level_resource(name: str) -> bool:
    """Whether `spec.resources` of a pod may set this resource."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def has_pod_level_requests(spec: Mapping[str, Any]) -> bool:
    return any(map(is_pod_level_resource, (spec.get("resources") or {}).get("requests") or {}))


def all_containers(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The init containers of a pod, then its containers."""
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Whether an init container is a sidecar, which runs as long as the pod."""
    return container.get("restartPolicy") == "Always"


def sidecars(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The sidecars of a pod."""
    return list(filter(is_sidecar, spec.get("initContainers") or ()))


def host_ports(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The ports of a pod's sidecars and containers that it occupies on its node; other init containers occupy none."""
    for container in (*sidecars(spec), *(spec.get("containers") or ())):
        yield from (port for port in container.get("ports") or () if port.get("hostPort"))


def pod_requests(spec: Mapping[str, Any], *, non_zero: bool = False) -> Amounts:
    """The requests of a pod; with `non_zero`, containers without CPU or memory requests count with scoring's defaults."""

    def container_requests(container: Mapping[str, Any]) -> Amounts:
        requests = parse_resources((container.get("resources") or {}).get("requests"))
        return {**_NON_ZERO_DEFAULTS, **requests} if non_zero else requests

    total = sum_containers(spec, container_requests, operator.add, max)
    pod_level = parse_resources((spec.get("resources") or {}).get("requests"))
    total.update({name: amount for name, amount in pod_level.items() if is_pod_level_resource(name)})
    for name, amount in parse_resources(spec.get("overhead")).items():
        total[name] = total.get(name, 0) + amount
    return total


def exact_requests(spec: Mapping[str, Any]) -> dict[str, Fraction]:
    """The requests of a pod or pod template as exact amounts; a limit counts where a container has no request."""

    def container_requests(container: Mapping[str, Any]) -> dict[str, Fraction]:
        resources = container.get("resources") or {}
        amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        return {name: quantity.parse(amount) for name, amount in amounts.items()}

    total = sum_containers(spec, container_requests, operator.add, max)
    for name, amount in (spec.get("overhead") or {}).items():
        total[name] = total.get(name, 0) + quantity.parse(amount)
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
    running: dict[str, T] = {}
    startup: dict[str, T] = {}
    for container in spec.get("containers") or ():
        _merge(total, amounts(container), add)
    for container in spec.get("initContainers") or ():
        own = amounts(container)
        step = running
        if is_sidecar(container):
            _merge(total, own, add)
        else:
            step = dict(running)
        _merge(step, own, add)
        _merge(startup, step, maximum)
    _merge(total, startup, maximum)
    return total


def _merge(total: dict[str, T], more: Mapping[str, T], combine: Callable[[T, T], T]) -> None:
    for name, amount in more.items():
        total[name] = combine(total[name], amount) if name in total else amount
