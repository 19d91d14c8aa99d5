"""What a node pool asks for, in the catalogue's words: which machine, with which accelerators, in what formation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.base.errors import SliceworksError
from sliceworks.catalog import labels, tpus
from sliceworks.twin.cloud.errors import GoogleError, invalid

if TYPE_CHECKING:
    from sliceworks.catalog import GpuShape, Machine, Slice

Obj = dict[str, Any]
DEFAULT_MACHINE = "e2-medium"
_SINGLE_HOST_TOPOLOGY = (
    "TPU topology can't be specified with single-host TPU slice pool; please remove the tpu_topology from the node pool creation "
    "request if the node pool is intented to run with single-host TPU slice nodes."
)


@dataclass(frozen=True, slots=True)
class Formation:
    """The machines of a pool: one type, alone or all together as one slice (`gang` machines, all of them or none)."""

    machine: Machine
    slice: Slice | None = None
    gpu: GpuShape | None = None
    gang: int = 0

    def labels(self) -> dict[str, str]:
        """What its nodes are labelled with for their accelerators."""
        if self.slice is not None:
            return self.slice.node_labels()
        return self.gpu.node_labels() if self.gpu is not None else {}

    def taints(self) -> list[dict[str, str]]:
        """What keeps other pods away."""
        if self.slice is not None:
            return self.slice.node_taints()
        return self.gpu.node_taints() if self.gpu is not None else []

    def devices(self) -> dict[str, str]:
        """The accelerators of one node, as a resource."""
        if self.slice is not None:
            return {labels.TPU: str(self.machine.chips)}
        return {labels.GPU: str(self.gpu.chips)} if self.gpu is not None else {}


def formation(pool: Obj) -> Formation:
    """What a pool asks for; GoogleError says why there is no such thing."""
    config = pool.get("config") or {}
    name = config.get("machineType") or DEFAULT_MACHINE
    try:
        machine = catalog.machine(name)
    except SliceworksError as error:
        raise invalid(f'Machine type with name "{name}" does not exist.') from error
    generation = next((each for each in tpus.GENERATIONS if machine in each.machines), None)
    if generation is not None:
        return _tpu(pool, machine, generation)
    accelerators = config.get("accelerators") or []
    if accelerators or machine.chips:
        given = accelerators[0] if accelerators else {}
        try:
            count = int(given.get("acceleratorCount") or 0)
            return Formation(machine, gpu=catalog.gpu_for(name, given.get("acceleratorType") or "", count))
        except SliceworksError as error:
            raise invalid(f"Accelerator type {given.get('acceleratorType', '')!r} cannot be used: {error.message}.") from error
    return Formation(machine)


def _tpu(pool: Obj, machine: Machine, generation: tpus.Generation) -> Formation:
    policy = pool.get("placementPolicy") or {}
    topology, count = policy.get("tpuTopology") or "", int(pool.get("initialNodeCount") or 0)
    if not topology and policy.get("policyName"):
        # The named policy says which; what fits so many machines is the one it must say.
        known = generation.topologies(count * machine.chips)
        return _gang(generation.slice(known[0], machine), count) if known and count > 1 else _alone(generation, machine)
    if not topology:
        return _alone(generation, machine)
    try:
        wanted = catalog.slice_for(generation.label, topology, machine.chips)
    except SliceworksError as error:
        raise invalid(f"Invalid TPU topology {topology!r} for machine type {machine.name!r}: {error.message}.") from error
    if not wanted.multi_host:
        raise invalid(_SINGLE_HOST_TOPOLOGY)
    if generation.placed_by != tpus.COMPACT and not policy.get("policyName"):
        raise GoogleError(
            "INVALID_ARGUMENT",
            f"Creation of a managed instance group with {machine.name} machine type with placement policy is not supported. "
            "Use workload policy instead.",
        )
    return _gang(wanted, count)


def _gang(wanted: Slice, count: int) -> Formation:
    if count not in (0, wanted.hosts):
        raise invalid(f"Initial node count {count} is not a valid size of TPU pod slice with topology {wanted.topology}.")
    return Formation(wanted.machine, slice=wanted, gang=wanted.hosts)


def _alone(generation: tpus.Generation, machine: Machine) -> Formation:
    axes = generation.topologies(machine.chips)[0]
    return Formation(machine, slice=generation.slice(axes, machine))
