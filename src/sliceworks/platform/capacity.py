"""Whether the pools of an environment have machines for all servers of its model services, and disks for their conversions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks import catalog
from sliceworks.base import quantity
from sliceworks.base.errors import InvalidDocument, SliceworksError
from sliceworks.catalog.machine_types import allocatable_disk
from sliceworks.serving.hardware import resolve_hardware

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.base.yaml_documents import Document
    from sliceworks.specs.environment import Environment
    from sliceworks.specs.model_service import ModelService


def check_capacity(environment: Environment, services: Iterable[tuple[Document, ModelService]]) -> Iterator[InvalidDocument]:
    """An error for each service that can grow beyond the GPU machines of its pools, or whose conversion needs larger disks."""
    if environment.spec.cluster.mode == "autopilot":
        return
    services = list(services)
    for document, service in services:
        yield from _check_disks(environment, document, service)
    machines: dict[catalog.Accelerator, tuple[int, list[str]]] = {}
    for name, pool in environment.spec.pools.gpu.items():
        try:
            shape: catalog.Accelerator = catalog.find_gpu(pool.machine_type, pool.accelerator, pool.accelerator_count)
        except SliceworksError:
            continue  # reported by the checks of the environment
        before, names = machines.get(shape, (0, []))
        machines[shape] = before + pool.max_nodes, [*names, name]
    used: dict[catalog.Accelerator, int] = {}
    for document, service in services:
        spec = service.spec
        hardware = resolve_hardware(spec.accelerator) if spec.accelerator else None
        if hardware is None or hardware.shape not in machines:
            continue
        size, pools = machines[hardware.shape]
        servers = spec.autoscaling.max if spec.autoscaling else spec.replicas
        used[hardware.shape] = used.get(hardware.shape, 0) + servers
        if used[hardware.shape] > size:
            path = ("autoscaling", "max") if spec.autoscaling else ("replicas",)
            yield InvalidDocument(
                f"spec.{'.'.join(path)}: must be at most {max(size - used[hardware.shape] + servers, 0)}, got {servers}: "
                f"node pool {' and '.join(pools)} can have {size} machines",
                place=document.place("spec", *path),
                hint=f"raise pools.gpu.{pools[0]}.autoscaling.max in the environment, or lower the number of servers",
            )


def _check_disks(environment: Environment, document: Document, service: ModelService) -> Iterator[InvalidDocument]:
    """An error for each conversion whose node pool, by name or labels, has smaller disks than its checkpoints need."""
    for number, model in enumerate(service.spec.saxml.models if service.spec.saxml else ()):
        conversion = model.convert
        if conversion is None or not (conversion.pool.name or conversion.pool.labels):
            continue
        pools = {
            name: allocatable_disk(pool.disk.gib)
            for name, pool in environment.spec.pools.cpu.items()
            if conversion.pool.name in ("", name) and conversion.pool.labels.items() <= pool.labels.items()
        }
        needed = float(quantity.parse(conversion.disk))
        if pools and max(pools.values()) < needed:
            name = max(pools, key=lambda name: pools[name])
            path = ("saxml", "models", number, "convert", "disk")
            yield InvalidDocument(
                f"spec.saxml.models[{number}].convert.disk: must be at most {pools[name] / 2**30:.0f}Gi, got {conversion.disk}: "
                f"pods of node pool {name} can use that much of its disks of {environment.spec.pools.cpu[name].disk.gib} GiB",
                place=document.place("spec", *path),
                hint=f"raise pools.cpu.{name}.disk.gib in the environment",
            )
