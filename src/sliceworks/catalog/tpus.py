"""TPU generations, topologies and slices, derived from a few rules."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sliceworks.base.errors import InvalidShape
from sliceworks.catalog import labels
from sliceworks.catalog.machine_types import HYPERDISK, PD, PD_BALANCED, Machine

if TYPE_CHECKING:
    from collections.abc import Iterator

Axes = tuple[int, ...]
CUBE = 4
CHIPS_PER_CUBE = CUBE**3
MAX_AXIS = 256
SINGLE_CHIP: Axes = (1, 1, 1)
SMALL_CUBOIDS: tuple[Axes, ...] = ((2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4))


def parse_topology(text: str) -> Axes:
    """The axes of a topology such as `2x2x4`."""
    parts = text.split("x")
    if not (
        2 <= len(parts) <= 3 and all(part.isascii() and part.isdigit() and part[0] != "0" and len(part) <= 4 for part in parts)
    ):
        raise InvalidShape(f"{text!r} is not a topology", hint="use two or three numbers joined by x, such as 4x8 or 2x2x4")
    return tuple(int(part) for part in parts)


def format_topology(axes: Axes) -> str:
    """Axes as a topology string such as `2x2x4`."""
    return "x".join(map(str, axes))


@lru_cache(maxsize=8)
def flat_topologies(max_chips: int) -> tuple[Axes, ...]:
    """Every two-dimensional topology with at most `max_chips` chips, small ones first."""
    topologies: list[Axes] = [(1, 1)]
    side = 2
    while side * side <= max_chips:
        topologies += [axes for axes in ((side, side), (side, 2 * side)) if prod(axes) <= max_chips]
        side *= 2
    return tuple(topologies)


@lru_cache(maxsize=1024)
def cuboid_topologies(chips: int) -> tuple[Axes, ...]:
    """Every three-dimensional topology with `chips` chips and A ≤ B ≤ C (except 2x2x1), the most compact first."""
    small = tuple(axes for axes in SMALL_CUBOIDS if prod(axes) == chips)
    if small or chips % CHIPS_PER_CUBE or chips <= 0:
        return small
    cuboids = [(CUBE * a, CUBE * b, CUBE * c) for a, b, c in _factorizations(chips // CHIPS_PER_CUBE) if CUBE * c <= MAX_AXIS]
    return tuple(sorted(cuboids, key=lambda axes: (sum(axes), axes)))


def _factorizations(number: int) -> Iterator[tuple[int, int, int]]:
    """Every a ≤ b ≤ c with a·b·c = number."""
    for a in range(1, round(number ** (1 / 3)) + 1):
        if number % a:
            continue
        rest = number // a
        for b in range(a, int(rest**0.5) + 1):
            if rest % b == 0:
                yield a, b, rest // b


COMPACT = "COMPACT"
WORKLOAD_POLICY = "WORKLOAD_POLICY"
_MULTI_HOST_CHIPS = 4  # every multi-host slice has four chips per host


@dataclass(frozen=True, slots=True)
class Generation:
    """One TPU generation: its type names, topologies and machine types."""

    name: str
    title: str
    label: str  # the value of cloud.google.com/gke-tpu-accelerator
    prefix: str  # of type names
    dimensions: int
    cores: int  # counted per chip by type names
    pod: int  # chips of a full pod, which is always a valid slice
    largest: int  # most chips of any other slice
    memory: int  # GiB of HBM per chip
    machines: tuple[Machine, ...]
    any_order: bool = False  # whether axes may be given in any order
    placed_by: Literal["COMPACT", "WORKLOAD_POLICY"] = "COMPACT"
    spellings: tuple[str, ...] = ()  # accepted other prefixes

    def sizes(self) -> Iterator[int]:
        """Every number of chips with a topology, small ones first."""
        return (chips for chips in self._candidates() if self.topologies(chips))

    def topologies(self, chips: int) -> tuple[Axes, ...]:
        """The topologies with `chips` chips; the first is the type name's default."""
        if chips > self.largest and chips != self.pod:
            return ()
        if self.dimensions == 2:
            return tuple(axes for axes in flat_topologies(self.pod) if prod(axes) == chips)
        if chips == 1:
            return (SINGLE_CHIP,) if any(machine.chips == 1 for machine in self.machines) else ()
        return cuboid_topologies(chips)

    def has(self, axes: Axes) -> bool:
        """Whether these axes are a topology of this generation."""
        known = self.topologies(prod(axes))
        return axes in known or (self.any_order and min(axes) >= CUBE and tuple(sorted(axes)) in known)

    def machines_for(self, axes: Axes) -> tuple[Machine, ...]:
        """The machine types of such a slice, the default first: a single host where one suffices."""
        chips = prod(axes)
        whole = [machine for machine in self.machines if machine.chips == chips]
        parts = [machine for machine in self.machines if machine.chips == _MULTI_HOST_CHIPS < chips]
        return tuple(whole + parts)

    def slice(self, axes: Axes, machine: Machine | None = None) -> Slice:
        """The slice of these axes, which must be valid."""
        return Slice(self, format_topology(axes), machine or self.machines_for(axes)[0])

    def slices(self) -> Iterator[Slice]:
        """Every slice, small ones first, with its default machine type first."""
        for chips in self.sizes():
            for axes in self.topologies(chips):
                for machine in self.machines_for(axes):
                    yield Slice(self, format_topology(axes), machine)

    def _candidates(self) -> list[int]:
        small = [1, *(prod(axes) for axes in (flat_topologies(self.pod) if self.dimensions == 2 else SMALL_CUBOIDS))]
        cubes = range(CHIPS_PER_CUBE, self.largest + 1, CHIPS_PER_CUBE)
        return sorted({*small, *cubes, self.pod})


@dataclass(frozen=True, slots=True)
class Placement:
    """The placement of a multi-host node pool."""

    kind: Literal["COMPACT", "WORKLOAD_POLICY"]
    topology: str

    def policy(self, name: str = "") -> dict[str, str]:
        """The node pool's `placementPolicy`; `name` is the workload policy's, which is a separate resource."""
        if self.kind == WORKLOAD_POLICY:
            return {"policyName": name}
        return {"type": COMPACT, "tpuTopology": self.topology}

    def resource(self) -> dict[str, Any] | None:
        """The workload policy (`resourcePolicies` of the Compute API), or None if the placement needs none."""
        if self.kind == COMPACT:
            return None
        return {"workloadPolicy": {"type": "HIGH_THROUGHPUT", "acceleratorTopology": self.topology}}


@dataclass(frozen=True, slots=True)
class Slice:
    """A TPU slice: hosts of one machine type whose chips form one topology."""

    kind: ClassVar = "tpu"
    resource: ClassVar = labels.TPU

    generation: Generation
    topology: str
    machine: Machine

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
        """Whether this slice is the default of its type name."""
        generation = self.generation
        return self.axes == generation.topologies(self.chips)[0] and self.machine is generation.machines_for(self.axes)[0]

    @property
    def torus(self) -> bool:
        """Whether every axis has wraparound links: cuboids of 4x4x4 cubes do, and full two-dimensional pods."""
        return self.chips >= CHIPS_PER_CUBE if self.generation.dimensions == 3 else self.chips == self.generation.pod

    @property
    def memory(self) -> int:
        """GiB of HBM of all chips together."""
        return self.chips * self.generation.memory

    @property
    def accelerator(self) -> str:
        return self.generation.label

    @property
    def placement(self) -> Placement | None:
        """The placement of its node pool; None for a single host."""
        return Placement(self.generation.placed_by, self.topology) if self.multi_host else None

    def node_labels(self) -> dict[str, str]:
        """The labels that GKE sets on its nodes and that pods select."""
        return {
            labels.TPU_ACCELERATOR: self.generation.label,
            labels.TPU_TOPOLOGY: self.topology,
            labels.ACCELERATOR_COUNT: str(self.machine.chips),
        }

    def node_taints(self) -> list[dict[str, str]]:
        """The taints that GKE sets on its nodes."""
        return [labels.taint(labels.TPU)]


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
    machines=(Machine("ct4p-hightpu-4t", 240, 407, 4, (*PD, *HYPERDISK)),),
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
        Machine("ct5lp-hightpu-1t", 24, 48, 1, PD_BALANCED),
        Machine("ct5lp-hightpu-4t", 112, 192, 4, PD_BALANCED),
        Machine("ct5lp-hightpu-8t", 224, 384, 8, PD_BALANCED),
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
    machines=(Machine("ct5p-hightpu-4t", 208, 448, 4, PD_BALANCED, nics=1, bandwidth=200, numa=2),),
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
        Machine("ct6e-standard-1t", 44, 176, 1, HYPERDISK, nics=1, bandwidth=50, numa=1),
        Machine("ct6e-standard-4t", 180, 720, 4, HYPERDISK, nics=2, bandwidth=400, numa=1),
        # The Compute API counts threads; a node counts one per core.
        Machine("ct6e-standard-8t", 180, 1440, 8, HYPERDISK, nics=1, bandwidth=200, numa=2, listed_cpu=360),
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
        Machine("tpu7x-standard-1t", 56, 240, 1, HYPERDISK),
        Machine("tpu7x-standard-4t", 224, 960, 4, HYPERDISK, nics=2, bandwidth=400, numa=2),
    ),
    placed_by="WORKLOAD_POLICY",
    spellings=("7x", "v7x"),
)

GENERATIONS = (V4, V5E, V5P, V6E, TPU7X)
