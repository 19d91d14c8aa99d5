"""Model server workloads: a Deployment per version (stable, canary) or a StatefulSet per multi-host slice. Pure."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.catalog.labels import NODE_POOL
from sliceworks.kube.pod_placement import KONNECTIVITY_AGENTS
from sliceworks.serving import objects, pod_spec
from sliceworks.serving.objects import SERVER_COMPONENT, SLICE_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sliceworks.serving.hardware import ReplicaHardware
    from sliceworks.specs.model_service import ModelService, Route

Object = dict[str, Any]
STABLE, CANARY = "stable", "canary"
_POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
_SLICE_NAME = "SLICE_NAME"


@dataclass(frozen=True, slots=True)
class Version:
    """What differs between the stable version and the canary."""

    track: str
    name: str
    replicas: int | None
    image: str | None
    args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)


def list_versions(service: ModelService) -> list[Version]:
    """The stable version, and the canary if configured."""
    spec, name = service.spec, service.metadata.name
    replicas = spec.replicas if spec.stopped or not spec.autoscaling else None
    versions = [Version(STABLE, name, replicas, spec.image, spec.args)]
    if canary := spec.canary:
        replicas = 0 if spec.stopped else canary.replicas
        args, env = [*spec.args, *canary.args], dict(canary.env)
        versions.append(Version(CANARY, f"{name}-{CANARY}", replicas, canary.image or spec.image, args, env))
    return versions


def deployments(
    service: ModelService, build: Callable[[Version], Object], annotations: Mapping[str, str] | None = None
) -> list[Object]:
    """A Deployment for each version."""
    surge = service.spec.accelerator is None or service.spec.surge
    result = []
    for version in list_versions(service):
        template = objects.pod_template(service, SERVER_COMPONENT, build(version), version.track, **dict(annotations or {}))
        options: Object = {"replicas": version.replicas, "track": version.track, "surge": surge}
        result.append(objects.deployment(service, version.name, SERVER_COMPONENT, template, **options))
    return result


def version_services(service: ModelService, ports: Mapping[str, int]) -> list[Object]:
    """One Service for all servers; with a canary also one for each version."""
    name = service.metadata.name
    services = [objects.service_object(service, name, SERVER_COMPONENT, ports)]
    if service.spec.canary:
        services.append(objects.service_object(service, f"{name}-{STABLE}", SERVER_COMPONENT, ports, STABLE))
        services.append(objects.service_object(service, f"{name}-{CANARY}", SERVER_COMPONENT, ports, CANARY))
    return services


def policies(service: ModelService, ports: Iterable[str], metrics: str = "", hosts: int = 1) -> list[Object]:
    """The disruption budget and the network policy, which admits only the gateway and the service's own pods."""
    name, route = service.metadata.name, service.spec.route
    # A policy cannot select external load balancers, so their ports are open.
    is_direct = route is not None and is_load_balanced(route) and not service.spec.gateway
    open_ports = [port for port in ports if port != "metrics"] if is_direct else []
    return [
        objects.network_policy(service, name, SERVER_COMPONENT, network_peers(service), metrics, open_ports=open_ports),
        objects.pod_disruption_budget(service, name, SERVER_COMPONENT, hosts),
    ]


def network_peers(service: ModelService) -> list[Object]:
    """The pods that may connect to the pods of a service."""
    own = {"podSelector": {"matchLabels": {objects.SERVICE_LABEL: service.metadata.name}}}
    if service.spec.gateway:
        return [own, {"podSelector": {"matchLabels": {objects.GATEWAY_LABEL: service.spec.gateway.name}}}, KONNECTIVITY_AGENTS]
    return [{"podSelector": {}}, *ingress_peers(service.spec.route), KONNECTIVITY_AGENTS]


def is_load_balanced(route: Route) -> bool:
    """Whether requests come from load balancers outside the cluster."""
    return route.via == "gateway-api"


def ingress_peers(route: Route | None) -> list[Object]:
    """The pods from which a route's requests come: those of Istio's gateway, in any namespace."""
    if route is None or is_load_balanced(route):
        return []
    return [{"namespaceSelector": {}, "podSelector": {"matchLabels": dict(route.selector)}}]


def headless_service_name(service: ModelService) -> str:
    """The headless Service that gives hosts their DNS names."""
    return f"{service.metadata.name}-hosts"


def slice_services(service: ModelService, ports: Mapping[str, int]) -> list[Object]:
    """A Service for the first host of each slice, and a headless one for all hosts."""
    first = objects.service_object(service, service.metadata.name, SERVER_COMPONENT, ports, extra_selector={_POD_INDEX_LABEL: "0"})
    return [first, objects.service_object(service, headless_service_name(service), SERVER_COMPONENT, ports, headless=True)]


def worker_env(service: ModelService, hardware: ReplicaHardware) -> dict[str, str | Object]:
    """Environment of a host in a multi-host slice."""
    if not hardware.shape.multi_host:
        return {}
    names = ",".join(f"$({_SLICE_NAME})-{number}.{headless_service_name(service)}" for number in range(hardware.shape.hosts))
    return {
        _SLICE_NAME: pod_spec.field_ref(f"metadata.labels['{SLICE_LABEL}']"),
        "TPU_WORKER_ID": pod_spec.field_ref(f"metadata.labels['{_POD_INDEX_LABEL}']"),
        "TPU_WORKER_HOSTNAMES": names,
    }


def stateful_sets(service: ModelService, hardware: ReplicaHardware, pod: Object) -> list[Object]:
    """A StatefulSet for each replica, with one pod per host."""
    return [_stateful_set(service, hardware, pod, number) for number in range(service.spec.replicas)]


def _stateful_set(service: ModelService, hardware: ReplicaHardware, pod: Object, number: int) -> Object:
    name = f"{service.metadata.name}-{number}"
    template = objects.pod_template(service, SERVER_COMPONENT, _add_slice_affinity(deepcopy(pod), name))
    template["metadata"]["labels"][SLICE_LABEL] = name
    match_labels = {**objects.selector(service, SERVER_COMPONENT), SLICE_LABEL: name}
    metadata = objects.metadata(service, name, SERVER_COMPONENT)
    metadata["labels"][SLICE_LABEL] = name
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata,
        "spec": {
            "replicas": hardware.shape.hosts,
            "serviceName": headless_service_name(service),
            # The hosts of a slice start together: none is ready before all run.
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": match_labels},
            "template": template,
        },
    }


def _add_slice_affinity(pod: Object, name: str) -> Object:
    """Schedule the hosts of a slice to one node pool, and no other slice to the same pool."""

    def in_node_pool(*expressions: Object) -> Object:
        term = {"labelSelector": {"matchExpressions": list(expressions)}, "namespaceSelector": {}, "topologyKey": NODE_POOL}
        return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}

    affinity = pod.setdefault("affinity", {})
    affinity["podAffinity"] = in_node_pool({"key": SLICE_LABEL, "operator": "In", "values": [name]})
    affinity["podAntiAffinity"] = in_node_pool(
        {"key": SLICE_LABEL, "operator": "Exists"}, {"key": SLICE_LABEL, "operator": "NotIn", "values": [name]}
    )
    return pod
