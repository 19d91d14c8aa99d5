"""TPU slices: five generations, their machines, and every slice that follows from the rules of topologies.

A slice is a generation, a topology and a machine type; all else is derived. The type name counts chips (v5e, v6e) or TensorCores,
two to a chip (v4, v5p, 7x).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Literal

from sliceworks.catalog import labels, topologies
from sliceworks.catalog.machines import Machine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.catalog.topologies import Axes

COMPACT = "COMPACT"
WORKLOAD_POLICY = "WORKLOAD_POLICY"
_CHIPS_OF_LARGE_SLICES = 4  # every slice of several hosts is made of four-chip machines


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of TPU: how its slices are named and what they may look like."""

    name: str
    title: str
    label: str  # the value of cloud.google.com/gke-tpu-accelerator
    prefix: str  # of type names
    dimensions: int
    cores: int  # counted by a type name for each chip
    pod: int  # chips in a whole pod, always a slice of its own
    largest: int  # chips in any other slice at most
    memory: int  # GiB of HBM in a chip
    machines: tuple[Machine, ...]
    any_order: bool = False  # whether the axes of a box may come in any order
    placed_by: Literal["COMPACT", "WORKLOAD_POLICY"] = "COMPACT"
    spellings: tuple[str, ...] = ()  # other prefixes that people write

    def sizes(self) -> Iterator[int]:
        """Every number of chips that has a topology, small ones first."""
        return (chips for chips in self._candidates() if self.topologies(chips))

    def topologies(self, chips: int) -> tuple[Axes, ...]:
        """The topologies of so many chips; the first is what the bare type name means."""
        if chips > self.largest and chips != self.pod:
            return ()
        if self.dimensions == 2:
            return tuple(axes for axes in topologies.flat(self.pod) if prod(axes) == chips)
        if chips == 1:
            return (topologies.SINGLE_CHIP,) if any(machine.chips == 1 for machine in self.machines) else ()
        return topologies.boxes(chips)

    def has(self, axes: Axes) -> bool:
        """Whether these axes are a topology of this generation."""
        known = self.topologies(prod(axes))
        return axes in known or (self.any_order and min(axes) >= topologies.CUBE and tuple(sorted(axes)) in known)

    def machines_for(self, axes: Axes) -> tuple[Machine, ...]:
        """The machine types that such a slice can be made of, the usual one first: one machine where one is enough."""
        chips = prod(axes)
        whole = [machine for machine in self.machines if machine.chips == chips]
        parts = [machine for machine in self.machines if machine.chips == _CHIPS_OF_LARGE_SLICES < chips]
        return tuple(whole + parts)

    def slice(self, axes: Axes, machine: Machine | None = None) -> Slice:
        """The slice of these axes, which must be valid."""
        return Slice(self, topologies.render(axes), machine or self.machines_for(axes)[0])

    def slices(self) -> Iterator[Slice]:
        """Every slice there is, small ones first; the usual machine type before others."""
        for chips in self.sizes():
            for axes in self.topologies(chips):
                for machine in self.machines_for(axes):
                    yield Slice(self, topologies.render(axes), machine)

    def _candidates(self) -> list[int]:
        small = [1, *(prod(axes) for axes in (topologies.flat(self.pod) if self.dimensions == 2 else topologies.SMALL_BOXES))]
        cubes = range(topologies.CHIPS_OF_CUBE, self.largest + 1, topologies.CHIPS_OF_CUBE)
        return sorted({*small, *cubes, self.pod})


@dataclass(frozen=True, slots=True)
class Placement:
    """How a pool of several hosts is kept together."""

    kind: Literal["COMPACT", "WORKLOAD_POLICY"]
    topology: str

    def policy(self, name: str = "") -> dict[str, str]:
        """The node pool's `placementPolicy`; a workload policy is a resource of its own, so its name is needed."""
        if self.kind == WORKLOAD_POLICY:
            return {"policyName": name}
        return {"type": COMPACT, "tpuTopology": self.topology}

    def resource(self) -> dict[str, Any] | None:
        """What the named workload policy must say (`resourcePolicies` of the Compute API); None where none is needed."""
        if self.kind == COMPACT:
            return None
        return {"workloadPolicy": {"type": "HIGH_THROUGHPUT", "acceleratorTopology": self.topology}}


@dataclass(frozen=True, slots=True)
class Slice:
    """A TPU slice: hosts of one machine type whose chips form one topology."""

    generation: Generation
    topology: str
    machine: Machine

    @property
    def kind(self) -> str:
        return "tpu"

    @property
    def axes(self) -> Axes:
        return tuple(map(int, self.topology.split("x")))

    @property
    def chips(self) -> int:
        return prod(self.axes)

    @property
    def chips_per_host(self) -> int:
        return self.machine.chips

    @property
    def hosts(self) -> int:
        return self.chips // self.machine.chips

    @property
    def multi_host(self) -> bool:
        return self.chips != self.machine.chips

    @property
    def type_name(self) -> str:
        return f"{self.generation.prefix}-{self.chips * self.generation.cores}"

    @property
    def is_default(self) -> bool:
        """Whether the bare type name means this slice."""
        generation = self.generation
        return self.axes == generation.topologies(self.chips)[0] and self.machine is generation.machines_for(self.axes)[0]

    @property
    def torus(self) -> bool:
        """Whether links join the two ends of every axis: so it is with boxes of cubes, and with a whole flat pod."""
        return self.chips >= topologies.CHIPS_OF_CUBE if self.generation.dimensions == 3 else self.chips == self.generation.pod

    @property
    def memory(self) -> int:
        """GiB of HBM in all its chips."""
        return self.chips * self.generation.memory

    @property
    def accelerator(self) -> str:
        return self.generation.label

    @property
    def resource(self) -> str:
        return labels.TPU

    @property
    def placement(self) -> Placement | None:
        """How its node pool is placed; a single host needs no placing."""
        return Placement(self.generation.placed_by, self.topology) if self.multi_host else None

    def node_labels(self) -> dict[str, str]:
        """What GKE writes on each of its nodes, and a pod selects it by."""
        return {
            labels.TPU_ACCELERATOR: self.generation.label,
            labels.TPU_TOPOLOGY: self.topology,
            labels.ACCELERATOR_COUNT: str(self.machine.chips),
        }

    def node_taints(self) -> list[dict[str, str]]:
        """What GKE keeps other pods away with."""
        return [labels.taint(labels.TPU)]


_PD = ("pd-balanced", "pd-ssd")
_HYPERDISK = ("hyperdisk-balanced",)

V4 = Generation(
    name="v4",
    title="TPU v4",
    label="tpu-v4-podslice",
    prefix="v4",
    dimensions=3,
    cores=2,
    pod=4096,
    largest=4096,
    memory=32,
    machines=(Machine("ct4p-hightpu-4t", 240, 407, 4, ("pd-standard", *_PD, *_HYPERDISK)),),
    any_order=True,
)
V5E = Generation(
    name="v5e",
    title="TPU v5e",
    label="tpu-v5-lite-podslice",
    prefix="v5litepod",
    dimensions=2,
    cores=1,
    pod=256,
    largest=256,
    memory=16,
    machines=(
        Machine("ct5lp-hightpu-1t", 24, 48, 1, _PD),
        Machine("ct5lp-hightpu-4t", 112, 192, 4, _PD),
        Machine("ct5lp-hightpu-8t", 224, 384, 8, _PD),
    ),
    spellings=("v5e",),
)
V5P = Generation(
    name="v5p",
    title="TPU v5p",
    label="tpu-v5p-slice",
    prefix="v5p",
    dimensions=3,
    cores=2,
    pod=8960,
    largest=6144,
    memory=95,
    machines=(Machine("ct5p-hightpu-4t", 208, 448, 4, _PD, nics=1, bandwidth=200, numa=2),),
)
V6E = Generation(
    name="v6e",
    title="Trillium",
    label="tpu-v6e-slice",
    prefix="v6e",
    dimensions=2,
    cores=1,
    pod=256,
    largest=256,
    memory=32,
    machines=(
        Machine("ct6e-standard-1t", 44, 176, 1, _HYPERDISK, nics=1, bandwidth=50, numa=1),
        Machine("ct6e-standard-4t", 180, 720, 4, _HYPERDISK, nics=2, bandwidth=400, numa=1),
        # The Compute API counts threads, a node has one to a core.
        Machine("ct6e-standard-8t", 180, 1440, 8, _HYPERDISK, nics=1, bandwidth=200, numa=2, listed_cpu=360),
    ),
)
TPU7X = Generation(
    name="7x",
    title="Ironwood",
    label="tpu7x",
    prefix="tpu7x",
    dimensions=3,
    cores=2,
    pod=9216,
    largest=9216,
    memory=192,
    machines=(
        Machine("tpu7x-standard-1t", 56, 240, 1, _HYPERDISK),
        Machine("tpu7x-standard-4t", 224, 960, 4, _HYPERDISK, nics=2, bandwidth=400, numa=2),
    ),
    placed_by="WORKLOAD_POLICY",
    spellings=("7x", "v7x"),
)

GENERATIONS = (V4, V5E, V5P, V6E, TPU7X)
