"""What our own documents become in a rehearsal: an Environment its queues and its nodes, a TrainingJob its JobSet, a
ModelService its servers.

The nodes of an environment are simply there: how they come to be is a matter of `env apply`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.base.errors import InvalidDocument
from sliceworks.base.yamls import Document
from sliceworks.catalog.labels import RESERVATION_NAME
from sliceworks.rehearsal import models, submissions
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment
from sliceworks.specs.serving import ModelService
from sliceworks.specs.training import TrainingJob
from sliceworks.training.flavors import CPU_NODES, GPU_NODES, most
from sliceworks.training.queues import manifests
from sliceworks.twin.nodes.shapes import Shape, node_objects

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sliceworks.specs.environment.pools import Pool

Object = dict[str, Any]


def compiled(document: Document, folder: Path) -> list[Document]:
    """The objects of a cluster that a document of ours stands for, each with the place of the document."""
    found = documents.read(document)
    if isinstance(found, TrainingJob):
        objects = [submissions.take(document, folder).jobset()]
    elif isinstance(found, Environment):
        objects = [*manifests(found), *nodes(found)]
    elif isinstance(found, ModelService):
        return models.compiled([document])
    else:
        kind = document.data["kind"]
        raise InvalidDocument(f"a rehearsal does not know what to do with a {kind}", place=document.place("kind"))
    return [Document(each, document.file, document.line, {}) for each in objects]


def nodes(environment: Environment) -> list[Object]:
    """A node for each machine of each pool; each slice of a TPU pool is a pool of its own, as GKE has it."""
    found: list[Object] = []
    for shape, count in _shapes(environment):
        found += node_objects(shape, count, first=len(found))
    return found


def _shapes(environment: Environment) -> Iterator[tuple[Shape, int]]:
    spec = environment.spec
    zone = spec.zones[0] if spec.zones else f"{spec.region}-a"
    for name, cpu in spec.pools.cpu.items():
        yield _shape(name, catalog.machine(cpu.machine_type), None, cpu, zone), most(cpu.nodes, cpu.autoscaling, CPU_NODES)
    for name, tpu in spec.pools.tpu.items():
        accelerator = catalog.find(tpu.type, tpu.topology or None)
        for number in range(tpu.count):
            yield _shape(f"{name}-{number}", accelerator.machine, accelerator, tpu, zone), accelerator.hosts
    for name, gpu in spec.pools.gpu.items():
        machine = catalog.gpu_for(gpu.machine_type, gpu.accelerator, gpu.accelerator_count or 0)
        yield _shape(name, machine.machine, machine, gpu, zone), most(gpu.nodes, gpu.autoscaling, GPU_NODES)


def _shape(name: str, machine: catalog.Machine, accelerator: catalog.Accelerator | None, pool: Pool, zone: str) -> Shape:
    left = machine.allocatable()
    taints = [each.model_dump() for each in pool.taints]
    return Shape(
        name,
        machine.name,
        cpu=left["cpu"],
        memory=left["memory"],
        resources={accelerator.resource: str(accelerator.chips_per_host)} if accelerator else {},
        labels={
            **(accelerator.node_labels() if accelerator else {}),
            **({RESERVATION_NAME: pool.reservation.name} if pool.reservation else {}),
            **pool.labels,
        },
        taints=(*(accelerator.node_taints() if accelerator else ()), *taints),
        zone=pool.zones[0] if pool.zones else zone,
        spot=pool.spot,
    )
