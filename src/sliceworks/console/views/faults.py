"""What can be made to go wrong on a twin, each as the Scenario that a document would say it with. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sliceworks.specs.model import API_VERSION
from sliceworks.specs.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """Whom a fault strikes: a host, a pod of a namespace, or machines of a type; what is empty is any."""

    host: str = ""
    pod: str = ""
    namespace: str = ""
    machine: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that can happen. `strikes` says what is to be chosen; `lasts` is how long, in seconds, unless a person says so."""

    name: str
    title: str
    icon: str
    about: str
    strikes: Literal["host", "pod", "cloud"]
    lasts: float
    event: Callable[[Target, float], Object]

    def scenario(self, target: Target, seconds: float) -> Scenario:
        """The scenario of this happening now, for so long."""
        spec = {"duration": seconds + 1, "events": [{"at": 0, **self.event(target, seconds)}]}
        return Scenario.model_validate(
            {"apiVersion": API_VERSION, "kind": "Scenario", "metadata": {"name": self.name}, "spec": spec}
        )


def _host(reason: str) -> Callable[[Target, float], Object]:
    return lambda target, seconds: {"failNodes": {"nodes": {"names": [target.host]}, "for": seconds, "reason": reason}}


def _crash(target: Target, _: float) -> Object:
    return {"failPods": {"pods": {"names": [target.pod]}, "namespace": target.namespace, "exitCode": 137, "reason": "OOMKilled"}}


def _slow_images(target: Target, seconds: float) -> Object:
    return {"slowPulls": {"nodes": {"names": [target.host]}, "seconds": 300, "for": seconds}}


def _cloud(fault: str, **more: Any) -> Callable[[Target, float], Object]:
    def event(target: Target, seconds: float) -> Object:
        match = {"match": {"machineType": target.machine}} if target.machine else {}
        return {"cloudFault": {"fault": fault, "for": seconds, **match, **more}}

    return event


_MINUTE, _HOUR = 60.0, 3600.0
FAULTS = (
    Fault(
        "host-failure",
        "A host fails",
        "power_off",
        "It stops answering, and its pods are lost.",
        "host",
        10 * _MINUTE,
        _host("Failure"),
    ),
    Fault(
        "preemption",
        "A spot machine is taken away",
        "remove_circle_outline",
        "It is shut down and gone; another comes in its place.",
        "host",
        10 * _MINUTE,
        _host("SpotPreemption"),
    ),
    Fault(
        "maintenance",
        "A host goes into maintenance",
        "build",
        "Its pods have to leave; it comes back by itself.",
        "host",
        20 * _MINUTE,
        _host("Maintenance"),
    ),
    Fault("crash", "A worker runs out of memory", "memory", "Its container is killed, with exit code 137.", "pod", 1.0, _crash),
    Fault(
        "stockout",
        "The cloud has no machines left",
        "production_quantity_limits",
        "New slices are refused, until there are machines again.",
        "cloud",
        30 * _MINUTE,
        _cloud("Stockout"),
    ),
    Fault(
        "slow-boot",
        "Machines boot slowly",
        "hourglass_top",
        "New hosts take ten minutes more.",
        "cloud",
        _HOUR,
        _cloud("SlowBoot", seconds=600),
    ),
    Fault(
        "cloud-down",
        "The cloud does not answer",
        "cloud_off",
        "Every call to Google's APIs fails.",
        "cloud",
        10 * _MINUTE,
        _cloud("Unavailable"),
    ),
    Fault(
        "slow-images",
        "Images are pulled slowly",
        "downloading",
        "Each takes five minutes on this host.",
        "host",
        30 * _MINUTE,
        _slow_images,
    ),
)


def fault(name: str) -> Fault:
    """A fault by its name."""
    return next(each for each in FAULTS if each.name == name)
