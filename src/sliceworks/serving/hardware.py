"""What a replica runs on: accelerator, hosts, resources and price; and how much memory the weights of a model take. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.base import quantity
from sliceworks.catalog import prices
from sliceworks.kube import pod_placement
from sliceworks.serving.sax_classes import find_sax_class

if TYPE_CHECKING:
    from sliceworks.catalog.prices import Price
    from sliceworks.specs.model_service import Accelerator, Model, ModelServiceSpec

Object = dict[str, Any]
_HOST_SHARE = Fraction(3, 4)  # of a host's allocatable resources; DaemonSets need the rest
_GIB = 2**30
_BILLIONS = re.compile(r"(?<![A-Za-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)[bB](?![A-Za-z0-9])")
_BYTES = {"int8": 1.0, "fp8": 1.0, "w8a8": 1.0, "awq": 0.5, "gptq": 0.5, "int4": 0.5, "w4a16": 0.5, "float32": 4.0}
_DEFAULT_BYTES = 2.0


@dataclass(frozen=True, slots=True)
class ReplicaHardware:
    """The accelerator of a replica and its capacity type."""

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
        """Price per hour of one replica, in the region with the best price data; None if unknown."""
        return prices.get_price(self.shape, prices.region_for(self.shape), self.capacity)

    def nodes(self) -> Object:
        """The part of a pod spec that selects nodes."""
        result: Object = {
            "nodeSelector": pod_placement.node_selector(self.shape, self.capacity, self.reservation),
            "tolerations": pod_placement.tolerations(self.shape, self.capacity),
        }
        if affinity := pod_placement.affinity(self.capacity):
            result["affinity"] = affinity
        return result


def resolve_hardware(accelerator: Accelerator) -> ReplicaHardware:
    """The hardware that a document describes; raises UnknownAccelerator or InvalidShape with the closest match."""
    if accelerator.machine_type:
        shape: catalog.Accelerator = catalog.find_gpu(accelerator.machine_type, accelerator.accelerator, accelerator.count)
    elif accelerator.accelerator:
        shape = catalog.find_slice(accelerator.accelerator, accelerator.topology, accelerator.chips_per_host)
    else:
        shape = catalog.find(accelerator.type, accelerator.topology, accelerator.chips_per_host)
    return ReplicaHardware(shape, accelerator.capacity, accelerator.reservation)


def container_resources(spec: ModelServiceSpec, hardware: ReplicaHardware | None) -> Object:
    """Resources of a server: all chips of a host, and most of its CPU and memory unless the document sets them."""
    if hardware is None:
        return cpu_resources(spec.cpu or "1", spec.memory or "2Gi")
    allocatable = hardware.shape.machine.allocatable()
    cpu = spec.cpu or str(max(int(quantity.parse(allocatable["cpu"]) * _HOST_SHARE), 1))
    memory = spec.memory or f"{int(quantity.parse(allocatable['memory']) * _HOST_SHARE) // _GIB}Gi"
    chips = {hardware.shape.resource: str(hardware.chips_per_host)}
    return {"requests": {"cpu": cpu, "memory": memory, **chips}, "limits": {"memory": memory, **chips}}


def cpu_resources(cpu: str, memory: str) -> Object:
    """Resources of a container without accelerators."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}}


def weights_gib(spec: ModelServiceSpec, model: Model) -> float | None:
    """Accelerator memory of a model's weights in GiB; None if unknown."""
    if model.memory is not None:
        return float(quantity.parse(model.memory)) / _GIB
    if spec.saxml:
        sax_class = find_sax_class(getattr(model, "model_class", ""))
        return sax_class.billions * 1e9 * sax_class.bytes / _GIB if sax_class and sax_class.billions else None
    source = getattr(model, "source", None) or getattr(model, "maxtext_name", "") or ""
    name = str(source).rstrip("/").rpartition("/")[2]
    billions = _parse_billions(name)
    return billions * 1e9 * _bytes_per_parameter(spec, name) / _GIB if billions else None


def _parse_billions(name: str) -> float | None:
    match = _BILLIONS.search(name)
    return float(match[2]) * int(match[1] or 1) if match else None


def _bytes_per_parameter(spec: ModelServiceSpec, name: str) -> float:
    """From the document's quantization or dtype, else from the model's name."""
    if spec.vllm and (size := _BYTES.get(spec.vllm.quantization) or _BYTES.get(spec.vllm.dtype)):
        return size
    return next((size for dtype, size in _BYTES.items() if dtype in name.lower()), _DEFAULT_BYTES)
