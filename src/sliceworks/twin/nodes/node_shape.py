"""Builds and creates nodes of one machine type with the labels and taints of GKE."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import AlreadyExists
from sliceworks.catalog.labels import NODE_RUNTIME, SIMULATED
from sliceworks.kube.resources import NODE
from sliceworks.twin.nodes.simulated_node import node_addresses, pod_cidr

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.kube.client import Client

Obj = dict[str, Any]
_PODS = "110"
_CONCURRENCY = 32


@dataclass(frozen=True, slots=True)
class NodeShape:
    """A machine type: resources, and the labels, annotations and taints of its nodes."""

    pool: str = "default-pool"
    machine: str = "e2-standard-4"
    cpu: str = "4"
    memory: str = "16Gi"
    resources: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    zone: str = "us-central1-a"
    spot: bool = False


def tpu_shape(pool: str, accelerator: str, topology: str, *, chips: int = 4, machine: str = "", **more: Any) -> NodeShape:
    """A TPU host of a slice, as GKE labels and taints it: `tpu_shape("slice-0", "tpu-v5-lite-podslice", "4x4")`."""
    labels = {"cloud.google.com/gke-tpu-accelerator": accelerator, "cloud.google.com/gke-tpu-topology": topology}
    labels["cloud.google.com/gke-accelerator-count"] = str(chips)
    return NodeShape(
        pool,
        machine or f"ct5lp-hightpu-{chips}t",
        cpu="112",
        memory="192Gi",
        resources={"google.com/tpu": str(chips)},
        labels={**labels, **more.pop("labels", {})},
        taints=({"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}, *more.pop("taints", ())),
        **more,
    )


def build_nodes(shape: NodeShape, count: int, *, prefix: str = "", first: int = 0) -> Iterator[Obj]:
    """Build nodes of a shape. `first` is the number of the first node in the cluster; numbers determine addresses."""
    prefix = prefix or f"gke-{shape.pool}"
    for index in range(count):
        yield _node(shape, f"{prefix}-{index}", first + index)


async def create_nodes(client: Client, shape: NodeShape, count: int, *, prefix: str = "", first: int = 0) -> list[str]:
    """Create nodes of a shape that do not exist; returns the names of all of them."""
    names: list[str] = []
    semaphore = asyncio.Semaphore(_CONCURRENCY)

    async def create(node: Obj) -> None:
        async with semaphore:
            with suppress(AlreadyExists):
                await client.create(node, resource=NODE)

    async with asyncio.TaskGroup() as group:
        for node in build_nodes(shape, count, prefix=prefix, first=first):
            names.append(node["metadata"]["name"])
            group.create_task(create(node))
    return names


def _node(shape: NodeShape, name: str, number: int) -> Obj:
    region = shape.zone.rpartition("-")[0]
    labels = {
        NODE_RUNTIME: SIMULATED,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": shape.machine,
        "topology.kubernetes.io/zone": shape.zone,
        "topology.kubernetes.io/region": region,
        "cloud.google.com/gke-nodepool": shape.pool,
        **({"cloud.google.com/gke-spot": "true"} if shape.spot else {}),
        **shape.labels,
    }
    metadata: Obj = {"name": name, "labels": labels}
    if shape.annotations:
        metadata["annotations"] = dict(shape.annotations)
    spec: Obj = {
        **pod_cidr(number),
        "providerID": f"gce://sliceworks/{shape.zone}/{name}",
    }
    if shape.taints:
        spec["taints"] = [dict(taint) for taint in shape.taints]
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": _status(shape, name, number)}


def _status(shape: NodeShape, name: str, number: int) -> Obj:
    resources = {"cpu": shape.cpu, "memory": shape.memory, "pods": _PODS, "ephemeral-storage": "100Gi", **shape.resources}
    return {"capacity": resources, "allocatable": dict(resources), "addresses": node_addresses(number, name)}
