"""Compiles a ModelService into Kubernetes objects, in apply order, and computes its cost per hour. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.serving import gateway_objects, ingress_route
from sliceworks.serving.hardware import ReplicaHardware, resolve_hardware

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.catalog.prices import Price
    from sliceworks.specs.model_service import ModelService

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """Replicas, hardware and price of a model service."""

    hardware: ReplicaHardware | None
    min_replicas: int
    max_replicas: int

    @property
    def price(self) -> Price | None:
        """Price per hour of the accelerators of the minimum replicas; None if unknown."""
        price = self.hardware.price if self.hardware else None
        return price.times(self.min_replicas) if price else None

    @property
    def summary(self) -> str:
        """Replicas and hardware, such as `2–5 × l4-1`."""
        low, high = self.min_replicas, self.max_replicas
        count = str(low) if low == high else f"{low}–{high}"
        return f"{count} × {self.hardware.shape.type_name if self.hardware else 'CPU'}"


def plan(service: ModelService) -> Plan:
    """The replicas and the hardware that a document requires."""
    spec = service.spec
    canary = spec.canary.replicas if spec.canary and not spec.stopped else 0
    low = high = spec.replicas
    if spec.autoscaling and not spec.stopped:
        low, high = spec.autoscaling.min, spec.autoscaling.max
    return Plan(resolve_hardware(spec.accelerator) if spec.accelerator else None, low + canary, high + canary)


def manifests(service: ModelService, gateway_peers: Sequence[ModelService] = ()) -> list[Object]:
    """All objects of a service. `gateway_peers` are the other services that share its gateway."""
    gateway_objects.check_model_names(service, gateway_peers)
    spec = service.spec
    hardware = resolve_hardware(spec.accelerator) if spec.accelerator else None
    engine: list[Object] = gateway_objects.ENGINES[spec.engine].manifests(service, hardware)
    return [*engine, *gateway_objects.manifests([*gateway_peers, service]), *ingress_route.manifests(service)]
