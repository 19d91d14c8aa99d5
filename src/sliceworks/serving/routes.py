"""Ways in from outside the cluster: the Gateway API, or Istio. They lead to the gateway, or to the servers by share. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.serving import front_objects, naming, versions
from sliceworks.serving.front import ENGINES

if TYPE_CHECKING:
    from sliceworks.specs.serving import ModelService, Route

Object = dict[str, Any]
CLASSES = {"internal": "gke-l7-rilb", "public": "gke-l7-global-external-managed"}
_API = "gateway.networking.k8s.io/v1"
_ISTIO = "networking.istio.io/v1"
_ROUTE = "route"
_GRPC = "application/grpc"


class Target(NamedTuple):
    """A Service that requests go to, and its share of them."""

    name: str
    port: int
    share: int
    path: str
    grpc: int = 0


def manifests(service: ModelService) -> list[Object]:
    """In the order in which they are applied; nothing where no route is wanted."""
    route = service.spec.route
    if route is None:
        return []
    return _gateway_api(service, route) if route.via == "gateway-api" else _istio(service, route)


def targets(service: ModelService) -> list[Target]:
    """Where requests go: to the gateway, which knows about versions itself, or to each version."""
    spec, name = service.spec, service.metadata.name
    if spec.gateway:
        passed = front_objects.GRPC_PORT if spec.engine == "triton" else 0
        return [Target(spec.gateway.name, front_objects.PORTS["http"], 100, "/readyz", passed)]
    engine = ENGINES[spec.engine]
    port, path = engine.PORTS[engine.PORT], "/v2/health/ready" if spec.engine == "triton" else "/health"
    grpc = engine.PORTS["grpc"] if spec.engine == "triton" else 0
    if spec.canary is None:
        return [Target(name, port, 100, path, grpc)]
    weight = spec.canary.weight
    return [
        Target(f"{name}-{versions.STABLE}", port, 100 - weight, path, grpc),
        Target(f"{name}-{versions.CANARY}", port, weight, path, grpc),
    ]


def _object(service: ModelService, api_version: str, kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": naming.metadata(service, name, _ROUTE), "spec": spec}


def _gateway_api(service: ModelService, route: Route) -> list[Object]:
    name, found = service.metadata.name, targets(service)
    listener: Object = {"name": "http", "protocol": "HTTP", "port": 80}
    if route.tls:
        listener = {
            "name": "https",
            "protocol": "HTTPS",
            "port": 443,
            "tls": {"mode": "Terminate", "certificateRefs": [{"name": route.tls}]},
        }
    listener["allowedRoutes"] = {"namespaces": {"from": "Same"}}
    gateway = {"gatewayClassName": route.class_name or CLASSES[route.exposure], "listeners": [listener]}
    rules: list[Object] = [{"backendRefs": [{"name": each.name, "port": each.port, "weight": each.share} for each in found]}]
    if found[0].grpc:
        called = {"headers": [{"type": "Exact", "name": "content-type", "value": _GRPC}]}
        passed = [{"name": each.name, "port": each.grpc, "weight": each.share} for each in found]
        rules.insert(0, {"matches": [called], "backendRefs": passed})
    http = {"parentRefs": [{"name": name}], "hostnames": route.hosts, "rules": rules}
    return [
        _object(service, _API, "Gateway", name, gateway),
        _object(service, _API, "HTTPRoute", name, http),
        *(_health(service, each) for each in found),
    ]


def _shares(found: list[Target], *, grpc: bool) -> list[Object]:
    return [
        {"destination": {"host": each.name, "port": {"number": each.grpc if grpc else each.port}}, "weight": each.share}
        for each in found
        if each.share
    ]


def _health(service: ModelService, target: Target) -> Object:
    """Google's load balancers ask for `/` unless they are told."""
    config = {"type": "HTTP", "httpHealthCheck": {"requestPath": target.path}}
    spec = {"default": {"config": config}, "targetRef": {"group": "", "kind": "Service", "name": target.name}}
    return _object(service, "networking.gke.io/v1", "HealthCheckPolicy", target.name, spec)


def _istio(service: ModelService, route: Route) -> list[Object]:
    name, found = service.metadata.name, targets(service)
    server: Object = {"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": route.hosts}
    if route.tls:
        secure = {"number": 443, "name": "https", "protocol": "HTTPS"}
        server = {"port": secure, "hosts": route.hosts, "tls": {"mode": "SIMPLE", "credentialName": route.tls}}
    rules: list[Object] = [{"route": _shares(found, grpc=False)}]
    if found[0].grpc:
        called = {"headers": {"content-type": {"prefix": _GRPC}}}
        rules.insert(0, {"match": [called], "route": _shares(found, grpc=True)})
    virtual = {"hosts": route.hosts, "gateways": [name], "http": rules}
    policy = {
        "loadBalancer": {"simple": "LEAST_REQUEST"},
        "outlierDetection": {"consecutive5xxErrors": 5, "interval": "10s", "baseEjectionTime": "30s"},
    }
    return [
        _object(service, _ISTIO, "Gateway", name, {"selector": route.selector, "servers": [server]}),
        *(_object(service, _ISTIO, "DestinationRule", each.name, {"host": each.name, "trafficPolicy": policy}) for each in found),
        _object(service, _ISTIO, "VirtualService", name, virtual),
    ]
