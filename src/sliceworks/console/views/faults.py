"""Faults that the console can inject into a twin, each as a Scenario."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sliceworks.specs.common import API_VERSION
from sliceworks.specs.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FaultTarget:
    """The target of a fault: a host, a pod, or machines of a type; empty fields match any."""

    host: str = ""
    pod: str = ""
    namespace: str = ""
    machine: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault to inject. `target` is the kind of target, `seconds` the default duration."""

    name: str
    title: str
    icon: str
    about: str
    target: Literal["host", "pod", "cloud"]
    seconds: float
    event: Callable[[FaultTarget, float], Object]

    def scenario(self, target: FaultTarget, seconds: float) -> Scenario:
        """A Scenario that injects this fault now."""
        spec = {"duration": seconds + 1, "events": [{"at": 0, **self.event(target, seconds)}]}
        return Scenario.model_validate(
            {"apiVersion": API_VERSION, "kind": "Scenario", "metadata": {"name": self.name}, "spec": spec}
        )


def _host(reason: str) -> Callable[[FaultTarget, float], Object]:
    return lambda target, seconds: {"failNodes": {"nodes": {"names": [target.host]}, "for": seconds, "reason": reason}}


def _crash(target: FaultTarget, _: float) -> Object:
    return {"failPods": {"pods": {"names": [target.pod]}, "namespace": target.namespace, "exitCode": 137, "reason": "OOMKilled"}}


def _slow_images(target: FaultTarget, seconds: float) -> Object:
    return {"slowPulls": {"nodes": {"names": [target.host]}, "seconds": 300, "for": seconds}}


def _cloud(fault: str, **more: Any) -> Callable[[FaultTarget, float], Object]:
    def event(target: FaultTarget, seconds: float) -> Object:
        match = {"match": {"machineType": target.machine}} if target.machine else {}
        return {"cloudFault": {"fault": fault, "for": seconds, **match, **more}}

    return event


_MINUTE, _HOUR = 60.0, 3600.0
FAULTS = (
    Fault(
        "host-failure",
        "Host failure",
        "power_off",
        "The host becomes unreachable and its pods are lost.",
        "host",
        10 * _MINUTE,
        _host("Failure"),
    ),
    Fault(
        "preemption",
        "Spot preemption",
        "remove_circle_outline",
        "The VM is preempted and replaced.",
        "host",
        10 * _MINUTE,
        _host("SpotPreemption"),
    ),
    Fault(
        "maintenance",
        "Host maintenance",
        "build",
        "The host's pods are evicted until the maintenance ends.",
        "host",
        20 * _MINUTE,
        _host("Maintenance"),
    ),
    Fault("crash", "Worker out of memory", "memory", "The container is killed with exit code 137.", "pod", 1.0, _crash),
    Fault(
        "stockout",
        "Stockout",
        "production_quantity_limits",
        "The cloud rejects new slices for lack of capacity.",
        "cloud",
        30 * _MINUTE,
        _cloud("Stockout"),
    ),
    Fault(
        "slow-boot",
        "Slow boot",
        "hourglass_top",
        "New hosts take ten more minutes to start.",
        "cloud",
        _HOUR,
        _cloud("SlowBoot", seconds=600),
    ),
    Fault(
        "cloud-down",
        "Cloud API outage",
        "cloud_off",
        "All calls to Google Cloud APIs fail.",
        "cloud",
        10 * _MINUTE,
        _cloud("Unavailable"),
    ),
    Fault(
        "slow-images",
        "Slow image pulls",
        "downloading",
        "Each image pull on the host takes five minutes.",
        "host",
        30 * _MINUTE,
        _slow_images,
    ),
)


def find_fault(name: str) -> Fault:
    """The fault of a name."""
    return next(fault for fault in FAULTS if fault.name == name)
