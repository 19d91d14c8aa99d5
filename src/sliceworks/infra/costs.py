"""What an environment costs an hour while everything in it runs: list prices where they are known, and what is not known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks import catalog
from sliceworks.catalog.prices import price
from sliceworks.infra.pools import ZONES_OF_A_REGION

if TYPE_CHECKING:
    from sliceworks.catalog.prices import Price
    from sliceworks.specs.environment import EnvironmentSpec
    from sliceworks.specs.environment.pools import CpuPool, GpuPool, Pool

HOURS_OF_A_MONTH = 730


@dataclass(frozen=True, slots=True)
class Cost:
    """One entry: how many machines or slices of what, and what one of them costs an hour."""

    name: str
    what: str
    count: int
    each: Price | None

    @property
    def hourly(self) -> float | None:
        """What all of them cost an hour; None when that is not known."""
        return self.each.usd * self.count if self.each else None


def costs(spec: EnvironmentSpec) -> list[Cost]:
    """The node pools; buckets, networks and the like depend on their use."""
    found = []
    for name, cpu in spec.pools.cpu.items():
        machine = catalog.machine(cpu.machine_type)
        found.append(Cost(name, machine.name, least_nodes(spec, cpu, 3), price(machine, spec.region, _capacity(cpu))))
    for name, tpu in spec.pools.tpu.items():
        accelerator = catalog.find(tpu.type, tpu.topology or None)
        count = 0 if tpu.autoscaling else tpu.count
        found.append(Cost(name, accelerator.type_name, count, price(accelerator, spec.region, _capacity(tpu))))
    for name, gpu in spec.pools.gpu.items():
        shape = catalog.gpu_for(gpu.machine_type, gpu.accelerator, gpu.accelerator_count or 0)
        what = f"{shape.machine.name} + {shape.type_name}" if gpu.accelerator else shape.machine.name
        found.append(Cost(name, what, least_nodes(spec, gpu, 1), price(shape, spec.region, _capacity(gpu))))
    return found


def _capacity(pool: Pool) -> str:
    return "spot" if pool.spot else "reservation" if pool.reservation else "on-demand"


def least_nodes(spec: EnvironmentSpec, pool: CpuPool | GpuPool, usual: int) -> int:
    """How many nodes there are at least."""
    if pool.autoscaling is not None:
        return pool.autoscaling.min
    if pool.nodes is not None:
        return pool.nodes
    spread = 1 if spec.cluster.zonal else len(pool.zones or spec.zones) or ZONES_OF_A_REGION
    return -(-usual // spread) * spread
