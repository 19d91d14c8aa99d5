"""A ModelService turned into the objects of a cluster, in the order of applying; and what an hour of it costs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.serving import front, routes
from sliceworks.serving.machines import Machines, machines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.catalog.prices import Price
    from sliceworks.specs.serving import ModelService

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a model service takes."""

    machines: Machines | None
    least: int
    most: int

    @property
    def price(self) -> Price | None:
        """USD an hour of the accelerators at the least; None when no source tells."""
        found = self.machines.price if self.machines else None
        return found.times(self.least) if found else None

    @property
    def what(self) -> str:
        """Replicas and what each runs on."""
        count = str(self.least) if self.least == self.most else f"{self.least}–{self.most}"
        return f"{count} × {self.machines.shape.type_name if self.machines else 'CPU'}"


def plan(service: ModelService) -> Plan:
    """What the document asks for."""
    spec = service.spec
    more = spec.canary.replicas if spec.canary and not spec.stopped else 0
    least = most = spec.replicas
    if spec.autoscaling and not spec.stopped:
        least, most = spec.autoscaling.min, spec.autoscaling.max
    return Plan(machines(spec.accelerator) if spec.accelerator else None, least + more, most + more)


def manifests(service: ModelService, neighbours: Sequence[ModelService] = ()) -> list[Object]:
    """All objects. `neighbours` are the other services that share its gateway."""
    front.check_names(service, neighbours)
    spec = service.spec
    found = machines(spec.accelerator) if spec.accelerator else None
    engine: list[Object] = front.ENGINES[spec.engine].manifests(service, found)
    return [*engine, *front.manifests([*neighbours, service]), *routes.manifests(service)]
