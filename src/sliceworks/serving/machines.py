"""What one replica runs on, by the catalogue: hosts and chips, the nodes that have them, and what an hour costs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.base import quantity
from sliceworks.catalog import placing, prices

if TYPE_CHECKING:
    from sliceworks.catalog.prices import Price
    from sliceworks.specs.serving import Accelerator, ModelServiceSpec

Object = dict[str, Any]
_SHARE = Fraction(3, 4)  # of what a host leaves to pods: agents of the node need the rest


@dataclass(frozen=True, slots=True)
class Machines:
    """One accelerator, with one kind of capacity."""

    shape: catalog.Accelerator
    capacity: str
    reservation: str = ""

    @property
    def is_tpu(self) -> bool:
        return self.shape.kind == "tpu"

    @property
    def chips_per_host(self) -> int:
        return self.shape.chips_per_host

    @property
    def price(self) -> Price | None:
        """USD an hour for one replica, in the region where prices are known best; None when no source tells."""
        return prices.price(self.shape, prices.region_for(self.shape), self.capacity)

    def nodes(self) -> Object:
        """The part of a pod that leads it to its nodes."""
        found: Object = {
            "nodeSelector": placing.node_selector(self.shape, self.capacity, self.reservation),
            "tolerations": placing.tolerations(self.shape, self.capacity),
        }
        if away := placing.affinity(self.capacity):
            found["affinity"] = away
        return found


def machines(accelerator: Accelerator) -> Machines:
    """What the document asks for; raises UnknownAccelerator or WrongShape with the closest that there is."""
    if accelerator.machine_type:
        shape: catalog.Accelerator = catalog.gpu_for(accelerator.machine_type, accelerator.accelerator, accelerator.count or 0)
    elif accelerator.accelerator:
        shape = catalog.slice_for(accelerator.accelerator, accelerator.topology, accelerator.chips_per_host)
    else:
        shape = catalog.find(accelerator.type, accelerator.topology or None, accelerator.chips_per_host)
    return Machines(shape, accelerator.capacity, accelerator.reservation)


def resources(spec: ModelServiceSpec, found: Machines | None) -> Object:
    """All chips of a host, and most of its CPU and memory; a server without accelerator has what the document says."""
    if found is None:
        return small(spec.cpu or "1", spec.memory or "2Gi")
    left = found.shape.machine.allocatable()
    cpu = spec.cpu or str(max(int(quantity.parse(left["cpu"]) * _SHARE), 1))
    memory = spec.memory or f"{int(quantity.parse(left['memory']) * _SHARE) // 2**30}Gi"
    chips = {found.shape.resource: str(found.chips_per_host)}
    return {"requests": {"cpu": cpu, "memory": memory, **chips}, "limits": {"memory": memory, **chips}}


def small(cpu: str, memory: str) -> Object:
    """What a container without accelerator asks for."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}}
