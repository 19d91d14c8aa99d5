"""Cluster objects of Sliceworks documents: queues, nodes and Kueue's settings of an Environment, the JobSet of a TrainingJob, the
servers of ModelServices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.base.errors import InvalidDocument
from sliceworks.base.yaml_documents import Document
from sliceworks.catalog.labels import RESERVATION_NAME
from sliceworks.infra.cluster.addon import kueue_configuration
from sliceworks.serving.compiler import manifests
from sliceworks.serving.ownership import OPTIONAL_KINDS
from sliceworks.serving.record import Reference, reference
from sliceworks.serving.validation import parse_valid
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment
from sliceworks.specs.model_service import ModelService
from sliceworks.specs.training import TrainingJob
from sliceworks.training import submission
from sliceworks.training.queues import build_manifests
from sliceworks.twin.cloud.google.container.resource_names import zones_of
from sliceworks.twin.nodes import node_shape
from sliceworks.twin.nodes.node_shape import NodeShape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from sliceworks.specs.environment.cluster import Pool

Object = dict[str, Any]
_DEFAULT = "default"


def compile_services(written: Iterable[Document]) -> list[Document]:
    """Objects of all model services in order. A shared gateway is compiled once."""
    objects: dict[tuple[str, Reference], Document] = {}
    before: list[ModelService] = []
    for document in written:
        service = _read_service(document)
        for service_object in _service_objects(service, before):
            place = service_object["metadata"].get("namespace", "")
            objects[place, reference(service_object)] = Document(service_object, document.file, document.line, {})
        before.append(service)
    return list(objects.values())


def _read_service(document: Document) -> ModelService:
    service = parse_valid(document)
    metadata = service.metadata.model_copy(update={"namespace": service.metadata.namespace or _DEFAULT})
    return service.model_copy(update={"metadata": metadata})


def _service_objects(service: ModelService, before: list[ModelService]) -> Iterator[Object]:
    gateway, namespace = service.spec.gateway, service.metadata.namespace
    sharing = [
        item
        for item in before
        if gateway and item.spec.gateway and (item.metadata.namespace, item.spec.gateway.name) == (namespace, gateway.name)
    ]
    if namespace != _DEFAULT:
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    for name in sorted({"default", *([service.spec.identity.service_account] if service.spec.identity else [])}):
        yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
    yield from (manifest for manifest in manifests(service, sharing) if manifest["kind"] not in OPTIONAL_KINDS)


def compile_document(document: Document, folder: Path) -> list[Document]:
    """Cluster objects of a Sliceworks document, each with the place of the document."""
    spec = documents.read(document)
    if isinstance(spec, TrainingJob):
        objects = [submission.from_document(document, folder).jobset()]
    elif isinstance(spec, Environment):
        objects = [*_kueue_settings(spec), *build_manifests(spec), *build_nodes(spec)]
    elif isinstance(spec, ModelService):
        return compile_services([document])
    else:
        kind = document.data["kind"]
        raise InvalidDocument(f"kind {kind} cannot be rehearsed", place=document.place("kind"))
    return [Document(item, document.file, document.line, {}) for item in objects]


def _kueue_settings(environment: Environment) -> list[Object]:
    """The settings that `env apply` gives the Kueue that it installs."""
    return kueue_configuration(environment.spec) if environment.spec.addons.kueue else []


def build_nodes(environment: Environment) -> list[Object]:
    """A node for each machine of each pool; each TPU slice is one node pool, as on GKE."""
    result: list[Object] = []
    for shape, count in _node_shapes(environment):
        result += node_shape.build_nodes(shape, count, first=len(result))
    return result


def _node_shapes(environment: Environment) -> Iterator[tuple[NodeShape, int]]:
    spec = environment.spec
    zone = spec.zones[0] if spec.zones else zones_of(spec.region)[0]
    for name, cpu in spec.pools.cpu.items():
        yield _node_shape(name, catalog.find_machine(cpu.machine_type), None, cpu, zone), cpu.max_nodes
    for name, tpu in spec.pools.tpu.items():
        accelerator = catalog.find(tpu.type, tpu.topology)
        for number in range(tpu.count):
            yield _node_shape(f"{name}-{number}", accelerator.machine, accelerator, tpu, zone), accelerator.hosts
    for name, gpu in spec.pools.gpu.items():
        machine = catalog.find_gpu(gpu.machine_type, gpu.accelerator, gpu.accelerator_count)
        yield _node_shape(name, machine.machine, machine, gpu, zone), gpu.max_nodes


def _node_shape(name: str, machine: catalog.Machine, accelerator: catalog.Accelerator | None, pool: Pool, zone: str) -> NodeShape:
    allocatable = machine.allocatable()
    taints = [taint.model_dump() for taint in pool.taints]
    return NodeShape(
        name,
        machine.name,
        cpu=allocatable["cpu"],
        memory=allocatable["memory"],
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
