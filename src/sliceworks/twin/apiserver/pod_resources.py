"""Requests and limits of a whole pod: the sum over its containers, the defaults of `spec.resources`, and the QoS class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.kube.pod_requests import is_pod_level_resource
from sliceworks.kube.pod_requests import sum_containers as sum_amounts

if TYPE_CHECKING:
    from collections.abc import Mapping


Amounts = dict[str, str]
_POD_LEVEL = {"cpu", "memory"}


def default_pod_resources(spec: dict[str, Any]) -> None:
    """Complete `spec.resources`: limits of huge pages from containers, then requests from containers or limits."""
    resources = spec["resources"]
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if not limits and not requests:
        return
    for name, amount in sum_containers(spec, "limits").items():
        if name.startswith("hugepages-") and name not in requests:
            limits.setdefault(name, amount)
    if limits:
        resources["limits"] = limits
        for name, amount in sum_containers(spec, "requests").items():
            if name in _POD_LEVEL:
                requests.setdefault(name, amount)
        for name, amount in limits.items():
            if is_pod_level_resource(name):
                requests.setdefault(name, amount)
        if requests:
            resources["requests"] = requests


def sum_containers(spec: Mapping[str, Any], side: str) -> Amounts:
    """The requests or limits that all containers need together."""
    return sum_amounts(spec, lambda container: _amounts(container, side), quantity.add, _maximum)


def _maximum(amount: str, other: str) -> str:
    return other if quantity.compare(amount, other) < 0 else amount


def _amounts(part: Mapping[str, Any], side: str) -> Amounts:
    amounts: Amounts = (part.get("resources") or {}).get(side) or {}
    return amounts


def pod_requests(spec: Mapping[str, Any], *, overhead: bool = True) -> Amounts:
    """The requests of a pod, with its overhead."""
    total = _total(spec, "requests")
    if overhead:
        add(total, spec.get("overhead") or {})
    return total


def pod_limits(spec: Mapping[str, Any], *, overhead: bool = True) -> Amounts:
    """The limits of a pod; overhead is added to existing limits only."""
    total = _total(spec, "limits")
    if overhead:
        add(total, {name: amount for name, amount in (spec.get("overhead") or {}).items() if name in total})
    return total


def add(total: Amounts, more: Mapping[str, Any]) -> None:
    for name, amount in more.items():
        total[name] = quantity.add(total[name], amount) if name in total else quantity.canonical(amount)


def qos_class(spec: Mapping[str, Any]) -> str:
    """Guaranteed, Burstable or BestEffort: from the CPU and memory of the pod, or of all containers if it sets none."""
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    parts = containers if spec.get("resources") is None else (spec,)
    amounts = [(_qos_amounts(part, "requests"), _qos_amounts(part, "limits")) for part in parts]
    if not any(requests or limits for requests, limits in amounts):
        return "BestEffort"
    guaranteed = all(limits.keys() == _POD_LEVEL and requests in ({}, limits) for requests, limits in amounts)
    return "Guaranteed" if guaranteed else "Burstable"


def _qos_amounts(part: Mapping[str, Any], side: str) -> dict[str, int]:
    """The CPU and memory of one side in nanos, without zeros."""
    return {
        name: nanos for name, amount in _amounts(part, side).items() if name in _POD_LEVEL and (nanos := quantity.nanos(amount))
    }


def _total(spec: Mapping[str, Any], side: str) -> Amounts:
    total = {name: quantity.canonical(amount) for name, amount in sum_containers(spec, side).items()}
    for name, amount in _amounts(spec, side).items():
        if name in _POD_LEVEL:
            total[name] = quantity.canonical(amount)
    return total
