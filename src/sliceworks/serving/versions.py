"""Servers on single hosts: the first version, a canary beside it, and the Services that lead to them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.kube.gke import API_AGENTS
from sliceworks.serving import naming, objects
from sliceworks.serving.naming import SERVER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sliceworks.specs.serving import ModelService, Route

Object = dict[str, Any]
STABLE, CANARY = "stable", "canary"


@dataclass(frozen=True, slots=True)
class Version:
    """What differs between versions."""

    track: str
    name: str
    replicas: int | None
    image: str | None
    args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)


def versions(service: ModelService) -> list[Version]:
    """The first one, and the canary if there is one."""
    spec, name = service.spec, service.metadata.name
    fixed = spec.replicas if spec.stopped or not spec.autoscaling else None
    found = [Version(STABLE, name, fixed, spec.image, spec.args)]
    if spec.canary:
        new = spec.canary
        found.append(
            Version(
                CANARY,
                f"{name}-{CANARY}",
                0 if spec.stopped else new.replicas,
                new.image or spec.image,
                [*spec.args, *new.args],
                dict(new.env),
            )
        )
    return found


def deployments(
    service: ModelService, build: Callable[[Version], Object], annotations: Mapping[str, str] | None = None
) -> list[Object]:
    """A Deployment for each version."""
    found = []
    for version in versions(service):
        pods = objects.template(service, SERVER, build(version), version.track, **dict(annotations or {}))
        surge = service.spec.accelerator is None or service.spec.spare
        found.append(
            objects.deployment(service, version.name, SERVER, pods, replicas=version.replicas, track=version.track, surge=surge)
        )
    return found


def services(service: ModelService, ports: Mapping[str, int]) -> list[Object]:
    """One Service for all servers; where there are two versions, one for each too."""
    name = service.metadata.name
    found = [objects.service_object(service, name, SERVER, ports)]
    if service.spec.canary:
        found.append(objects.service_object(service, f"{name}-{STABLE}", SERVER, ports, STABLE))
        found.append(objects.service_object(service, f"{name}-{CANARY}", SERVER, ports, CANARY))
    return found


def guards(service: ModelService, ports: Iterable[str], metrics: str = "", hosts: int = 1) -> list[Object]:
    """The budget, and the network policy: only the gateway and the service's own pods reach its servers."""
    name, route = service.metadata.name, service.spec.route
    # Load balancers are no pods that could be named.
    for_all = [port for port in ports if port != "metrics"] if route and balanced(route) and not service.spec.gateway else []
    return [
        objects.network_policy(service, name, SERVER, peers(service), metrics, for_all=for_all),
        objects.budget(service, name, SERVER, hosts),
    ]


def peers(service: ModelService) -> list[Object]:
    """Pods that may talk to the service's parts."""
    own = {"podSelector": {"matchLabels": {naming.SERVICE: service.metadata.name}}}
    if service.spec.gateway:
        return [own, {"podSelector": {"matchLabels": {naming.GATEWAY: service.spec.gateway.name}}}, API_AGENTS]
    return [{"podSelector": {}}, *ingress(service.spec.route), API_AGENTS]


def balanced(route: Route) -> bool:
    """Whether requests come from load balancers outside of the cluster."""
    return route.via == "gateway-api"


def ingress(route: Route | None) -> list[Object]:
    """The pods that a route's requests come from, where it has any: those of Istio's gateway, wherever they are."""
    if route is None or balanced(route):
        return []
    return [{"namespaceSelector": {}, "podSelector": {"matchLabels": dict(route.selector)}}]
