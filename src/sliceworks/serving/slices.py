"""Replicas that are slices of several hosts: a StatefulSet for each slice. Pure.

A StatefulSet gives each host of a slice a name that stays, which is how the hosts find each other; it is part of every cluster,
and its pods are replaced when the document changes. Each slice has its node pool alone: its pods seek each other, and shun others.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from sliceworks.catalog.labels import NODE_POOL
from sliceworks.serving import naming, objects, pods
from sliceworks.serving.naming import SERVER, SLICE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.serving.machines import Machines
    from sliceworks.specs.serving import ModelService

Object = dict[str, Any]
_INDEX = "apps.kubernetes.io/pod-index"
_NAME = "SLICE_NAME"


def hosts_service(service: ModelService) -> str:
    """The Service under which the hosts have their names."""
    return f"{service.metadata.name}-hosts"


def services(service: ModelService, ports: Mapping[str, int]) -> list[Object]:
    """One that leads to the first host of each slice, and one that names all hosts."""
    first = objects.service_object(service, service.metadata.name, SERVER, ports, only={_INDEX: "0"})
    return [first, objects.service_object(service, hosts_service(service), SERVER, ports, headless=True)]


def worker(service: ModelService, found: Machines) -> dict[str, str | Object]:
    """What a host must know of its slice."""
    if not found.shape.multi_host:
        return {}
    names = ",".join(f"$({_NAME})-{number}.{hosts_service(service)}" for number in range(found.shape.hosts))
    return {
        _NAME: pods.from_field(f"metadata.labels['{SLICE}']"),
        "TPU_WORKER_ID": pods.from_field(f"metadata.labels['{_INDEX}']"),
        "TPU_WORKER_HOSTNAMES": names,
    }


def stateful_sets(service: ModelService, found: Machines, pod: Object) -> list[Object]:
    """One for each replica."""
    return [_stateful_set(service, found, pod, number) for number in range(service.spec.replicas)]


def _stateful_set(service: ModelService, found: Machines, pod: Object, number: int) -> Object:
    name = f"{service.metadata.name}-{number}"
    template = objects.template(service, SERVER, _alone(deepcopy(pod), name))
    template["metadata"]["labels"][SLICE] = name
    own = {**naming.selector(service, SERVER), SLICE: name}
    metadata = naming.metadata(service, name, SERVER)
    metadata["labels"][SLICE] = name
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata,
        "spec": {
            "replicas": found.shape.hosts,
            "serviceName": hosts_service(service),
            # The hosts of a slice start together: none is ready before all are there.
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": own},
            "template": template,
        },
    }


def _alone(pod: Object, name: str) -> Object:
    def near(*expressions: Object) -> Object:
        wanted = {"labelSelector": {"matchExpressions": list(expressions)}, "namespaceSelector": {}, "topologyKey": NODE_POOL}
        return {"requiredDuringSchedulingIgnoredDuringExecution": [wanted]}

    affinity = pod.setdefault("affinity", {})
    affinity["podAffinity"] = near({"key": SLICE, "operator": "In", "values": [name]})
    affinity["podAntiAffinity"] = near({"key": SLICE, "operator": "Exists"}, {"key": SLICE, "operator": "NotIn", "values": [name]})
    return pod
