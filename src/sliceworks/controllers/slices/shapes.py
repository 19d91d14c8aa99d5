"""What an Ask comes to: machine type, number of nodes and placement, by the catalogue. Says what does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.base import quantity
from sliceworks.base.errors import SliceworksError, UnknownAccelerator, WrongShape
from sliceworks.catalog import gpus, tpus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.catalog import GpuShape, Placement
    from sliceworks.controllers.slices.asks import Ask
    from sliceworks.controllers.slices.views import Pool


@dataclass(frozen=True, slots=True)
class Shape:
    """So many nodes of one machine type."""

    machine: str
    nodes: int
    placement: Placement | None = None
    gpu: GpuShape | None = None
    name: str = ""  # as people call it: v5p-128, h100-80gb-8, n2-standard-8

    @property
    def topology(self) -> str:
        return self.placement.topology if self.placement is not None else ""

    def accelerators(self, driver: str) -> list[dict[str, Any]]:
        """The node pool's `accelerators`: TPUs come with their machine type."""
        return self.gpu.guest_accelerators(driver) if self.gpu is not None else []


@lru_cache(maxsize=4096)
def shape_of(ask: Ask) -> Shape:
    """The shape of an Ask; UnknownAccelerator or WrongShape in words where there is none."""
    if ask.kind == "tpu":
        return _tpu(ask)
    if ask.kind == "gpu":
        return _gpu(ask)
    return _cpu(ask)


def _tpu(ask: Ask) -> Shape:
    found = catalog.slice_for(ask.accelerator, ask.topology, ask.chips)
    if ask.machine and ask.machine != found.machine.name:
        raise WrongShape(f"{ask.accelerator} {ask.topology} is made of {found.machine.name}, not of {ask.machine}")
    if ask.pods > found.hosts:
        raise WrongShape(
            f"{ask.pods} pods of {ask.chips} chips do not fit {ask.accelerator} {ask.topology}, which has {found.chips} chips",
            hint=f"parallelism is {found.hosts} at most",
        )
    return Shape(found.machine.name, found.hosts, found.placement, name=found.type_name)


def _gpu(ask: Ask) -> Shape:
    count = ask.per_node or ask.chips
    if ask.machine:
        found = catalog.gpu_for(ask.machine, ask.accelerator, count)
    else:
        gpu = gpus.by_label(ask.accelerator)
        if gpu is None:
            catalog.gpu_for("", ask.accelerator)  # says which are known
            raise UnknownAccelerator(f"no GPU is called {ask.accelerator!r}")
        shape = gpus.by_type_name(f"{gpu.name}-{count}")
        if shape is None:
            offered = sorted({each.chips for each in gpus.shapes() if each.gpu is gpu})
            raise WrongShape(f"no machine has {count} × {ask.accelerator}", hint=f"there are machines with {_or(offered)}")
        found = shape
    together = found.chips // ask.chips if ask.chips else 0
    if not together:
        raise WrongShape(f"a pod asks for {ask.chips} GPUs, {found.machine.name} has {found.chips}")
    return Shape(found.machine.name, ceil(ask.pods / together), gpu=found, name=found.type_name)


def _cpu(ask: Ask) -> Shape:
    machine = catalog.machine(ask.machine)
    if machine.chips:
        raise WrongShape(f"{machine.name} has accelerators: select it by them", hint="see sliceworks accelerators list")
    free = {name: float(quantity.parse(amount)) for name, amount in machine.allocatable().items()}
    fits = [int(free[name] // amount) for name, amount in (("cpu", ask.cpu), ("memory", ask.memory)) if amount]
    together = min(fits, default=ask.pods)
    if not together:
        raise WrongShape(f"a pod that asks for {ask.cpu:g} CPUs and {ask.memory / 2**30:g} GiB does not fit {machine.name}")
    return Shape(machine.name, ceil(ask.pods / together), name=machine.name)


def shape_of_pool(raw: Mapping[str, Any], pool: Pool) -> catalog.Accelerator | catalog.Machine | None:
    """What the catalogue calls a pool of the cloud; None where it does not know the machine."""
    try:
        machine = catalog.machine(pool.machine)
        generation = next((each for each in tpus.GENERATIONS if machine in each.machines), None)
        if generation is not None:
            name = f"{generation.prefix}-{machine.chips * max(pool.nodes, 1) * generation.cores}"
            return catalog.find(name, pool.topology or None, machine.chips)
        attached: Mapping[str, Any] = next(iter((raw.get("config") or {}).get("accelerators") or ()), {})
        if attached or machine.chips:
            return catalog.gpu_for(machine.name, attached.get("acceleratorType", ""), int(attached.get("acceleratorCount") or 0))
    except SliceworksError:
        return None
    return machine


def _or(numbers: list[int]) -> str:
    *others, last = map(str, numbers)
    return f"{', '.join(others)} or {last}" if others else last
