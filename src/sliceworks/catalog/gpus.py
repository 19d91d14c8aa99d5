"""GPU machines: types that come with GPUs, and N1 machines to which GPUs are attached.

A type name is the GPU and the number of them: `l4-1`, `h100-80gb-8`. Where several machine types match, it means the first one
listed here; the machine type's own name selects another.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from sliceworks.base.errors import InvalidShape
from sliceworks.catalog import labels, machine_types
from sliceworks.catalog.machine_types import HYPERDISK, PD, PD_AND_HYPERDISK, PD_BALANCED, Machine

if TYPE_CHECKING:
    from collections.abc import Iterator

DRIVERS = {
    "default": "DEFAULT",
    "latest": "LATEST",
    "disabled": "INSTALLATION_DISABLED",
}
"""The driver that GKE installs: our value, and the container API's."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One model of GPU."""

    name: str
    label: str  # the value of cloud.google.com/gke-accelerator
    memory: int  # GiB per GPU
    attached: tuple[tuple[int, int, float], ...] = ()  # if attached to N1: (GPUs, max vCPUs, max GiB)


@dataclass(frozen=True, slots=True)
class Network:
    """The network between GPUs of different machines."""

    nics: int
    mtu: int
    direct: str  # GPUDirect variant
    strategy: str = ""


@dataclass(frozen=True, slots=True)
class GpuShape:
    """A machine with GPUs."""

    kind: ClassVar = "gpu"
    resource: ClassVar = labels.GPU
    topology: ClassVar = ""
    hosts: ClassVar = 1
    multi_host: ClassVar = False
    placement: ClassVar = None

    gpu: Gpu
    machine: Machine
    chips: int

    @property
    def type_name(self) -> str:
        return f"{self.gpu.name}-{self.chips}"

    @property
    def chips_per_host(self) -> int:
        return self.chips

    @property
    def attached(self) -> bool:
        """Whether the GPUs are attached to a machine type without built-in ones."""
        return self.machine.chips == 0

    @property
    def is_default(self) -> bool:
        """Whether the bare type name means this machine type."""
        return _defaults()[self.type_name] == self

    @property
    def memory(self) -> int:
        """GiB of all GPUs together."""
        return self.chips * self.gpu.memory

    @property
    def accelerator(self) -> str:
        return self.gpu.label

    @property
    def network(self) -> Network | None:
        """The additional network between machines, if any."""
        return NETWORKS.get(self.machine.name)

    def guest_accelerators(self, driver: str = "default") -> list[dict[str, object]]:
        """The node pool's `accelerators`, with the driver that GKE installs."""
        return [
            {
                "acceleratorCount": str(self.chips),
                "acceleratorType": self.gpu.label,
                "gpuDriverInstallationConfig": {"gpuDriverVersion": DRIVERS[driver]},
            }
        ]

    def node_labels(self) -> dict[str, str]:
        """The labels that GKE sets on the node and that pods select."""
        return {labels.GPU_ACCELERATOR: self.gpu.label, labels.ACCELERATOR_COUNT: str(self.chips)}

    def node_taints(self) -> list[dict[str, str]]:
        """The taints that GKE sets on the node."""
        return [labels.taint(labels.GPU)]


T4 = Gpu("t4", "nvidia-tesla-t4", 16, ((1, 48, 312), (2, 48, 312), (4, 96, 624)))
P4 = Gpu("p4", "nvidia-tesla-p4", 8, ((1, 24, 156), (2, 48, 312), (4, 96, 624)))
V100 = Gpu("v100", "nvidia-tesla-v100", 16, ((1, 12, 78), (2, 24, 156), (4, 48, 312), (8, 96, 624)))
# The Compute API allows 96 vCPUs with four, GKE only 64.
P100 = Gpu("p100", "nvidia-tesla-p100", 16, ((1, 16, 104), (2, 32, 208), (4, 64, 624)))
L4 = Gpu("l4", "nvidia-l4", 24)
RTX_PRO_6000 = Gpu("rtx-pro-6000", "nvidia-rtx-pro-6000", 96)
A100_40 = Gpu("a100-40gb", "nvidia-tesla-a100", 40)
A100_80 = Gpu("a100-80gb", "nvidia-a100-80gb", 80)
H100 = Gpu("h100-80gb", "nvidia-h100-80gb", 80)
H100_MEGA = Gpu("h100-mega-80gb", "nvidia-h100-mega-80gb", 80)
H200 = Gpu("h200-141gb", "nvidia-h200-141gb", 141)
B200 = Gpu("b200", "nvidia-b200", 180)
GB200 = Gpu("gb200", "nvidia-gb200", 186)

GPUS = (T4, P4, V100, P100, L4, RTX_PRO_6000, A100_40, A100_80, H100, H100_MEGA, H200, B200, GB200)
_ATTACHED_CPUS = 4  # default vCPUs per attached GPU

_TCPX = Network(4, 8244, "TCPX")
_ROCE = Network(9, 8896, "RDMA", "RDMA")
NETWORKS = {
    "a3-highgpu-8g": _TCPX,
    "a3-edgegpu-8g": Network(4, 8244, "unknown"),
    "a3-megagpu-8g": Network(8, 8244, "TCPXO"),
    "a3-ultragpu-8g": _ROCE,
    "a4-highgpu-8g": _ROCE,
    "a4x-highgpu-4g": Network(5, 8896, "RDMA", "RDMA"),
}


def _builtin_shapes() -> Iterator[GpuShape]:
    """Machine types with built-in GPUs; of several with the same GPUs, the default one first."""
    for cpu in (4, 8, 12, 16, 32):
        yield _shape(L4, Machine(f"g2-standard-{cpu}", cpu, 4 * cpu, 1, PD_BALANCED))
    for count in (2, 4, 8):
        yield _shape(L4, Machine(f"g2-standard-{12 * count}", 12 * count, 48 * count, count, PD_BALANCED))
    for count in (1, 2, 4, 8):
        yield _shape(RTX_PRO_6000, Machine(f"g4-standard-{48 * count}", 48 * count, 180 * count, count, HYPERDISK))
    for count in (1, 2, 4, 8):
        yield _shape(A100_40, Machine(f"a2-highgpu-{count}g", 12 * count, 85 * count, count, PD))
    yield _shape(A100_40, Machine("a2-megagpu-16g", 96, 1360, 16, PD))
    for count in (1, 2, 4, 8):
        yield _shape(A100_80, Machine(f"a2-ultragpu-{count}g", 12 * count, 170 * count, count, PD, local_ssds=count))
    for count in (1, 2, 4, 8):
        yield _shape(H100, Machine(f"a3-highgpu-{count}g", 26 * count, 234 * count, count, PD_AND_HYPERDISK, local_ssds=2 * count))
    yield _shape(H100, Machine("a3-edgegpu-8g", 208, 1872, 8, PD_AND_HYPERDISK, local_ssds=16))
    yield _shape(H100_MEGA, Machine("a3-megagpu-8g", 208, 1872, 8, PD_AND_HYPERDISK, local_ssds=16))
    yield _shape(H200, Machine("a3-ultragpu-8g", 224, 2952, 8, HYPERDISK, local_ssds=32))
    yield _shape(B200, Machine("a4-highgpu-8g", 224, 3968, 8, HYPERDISK, local_ssds=32))
    yield _shape(GB200, Machine("a4x-highgpu-4g", 140, 884, 4, HYPERDISK, local_ssds=4, arm=True))


def _shape(gpu: Gpu, machine: Machine) -> GpuShape:
    return GpuShape(gpu, machine, machine.chips)


@lru_cache(maxsize=1)
def gpu_machines() -> dict[str, GpuShape]:
    """Every machine type with built-in GPUs, by name."""
    return {shape.machine.name: shape for shape in _builtin_shapes()}


def shapes() -> Iterator[GpuShape]:
    """Every shape: attached GPUs on their default N1 type, then machine types with built-in GPUs."""
    for gpu in GPUS:
        for count, _, _ in gpu.attached:
            yield attach_gpus(gpu, count)
    yield from gpu_machines().values()


def attach_gpus(gpu: Gpu, count: int, machine_name: str = "") -> GpuShape:
    """GPUs attached to an N1 machine type; raises InvalidShape if that is not offered."""
    limits = {number: (cpu, memory) for number, cpu, memory in gpu.attached}
    if count not in limits:
        offered = ", ".join(map(str, limits)) or "none; this GPU is built into its own machine types"
        raise InvalidShape(f"{count} × {gpu.label} cannot be attached", hint=f"offered: {offered}")
    name = machine_name or f"n1-standard-{_ATTACHED_CPUS * count}"
    machine = machine_types.cpu_machines().get(name)
    if machine is None or machine.family != "n1":
        raise InvalidShape(f"{gpu.label} cannot be attached to {name}", hint="use an N1 machine type, such as n1-standard-4")
    cpu, memory = limits[count]
    if machine.cpu > cpu or machine.memory > memory:
        raise InvalidShape(f"{count} × {gpu.label} cannot be attached to {name}", hint=f"at most {cpu} vCPUs and {memory:g} GiB")
    return GpuShape(gpu, machine, count)


def find_by_label(label: str) -> Gpu | None:
    """The GPU with this name or node label."""
    return next((gpu for gpu in GPUS if label in (gpu.label, gpu.name)), None)


@lru_cache(maxsize=1)
def _defaults() -> dict[str, GpuShape]:
    defaults: dict[str, GpuShape] = {}
    for shape in shapes():
        defaults.setdefault(shape.type_name, shape)
    return defaults


def find_by_type_name(name: str) -> GpuShape | None:
    """The default shape of a type name such as `l4-1`."""
    return _defaults().get(name)
