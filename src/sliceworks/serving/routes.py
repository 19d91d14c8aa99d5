"""Ways in from outside the cluster: the Gateway API, which is here, or Istio. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.serving import naming, routes_istio
from sliceworks.serving.ways import Target, Way, targets, ways
from sliceworks.specs.gateway import Timeouts

if TYPE_CHECKING:
    from sliceworks.specs.serving import ModelService, Route

Object = dict[str, Any]
CLASSES = {"internal": "gke-l7-rilb", "public": "gke-l7-global-external-managed"}
_API, _GOOGLE = "gateway.networking.k8s.io/v1", "networking.gke.io/v1"
_OF_GOOGLE = "gke-l7-"
_INTERNAL = {"networking.gke.io/load-balancer-type": "Internal"}
_LATER = 10  # seconds; who serves ends an answer that takes too long, and says so, before a load balancer does
_LONGEST_DRAIN = 3600


def manifests(service: ModelService) -> list[Object]:
    """In the order in which they are applied; nothing where no route is wanted."""
    route = service.spec.route
    if route is None:
        return []
    return _gateway_api(service, route) if route.via == "gateway-api" else routes_istio.manifests(service, route)


def _gateway_api(service: ModelService, route: Route) -> list[Object]:
    name, found = service.metadata.name, targets(service)
    rules = [_rule(way, found) for way in ways(service)]
    http = {"parentRefs": [{"name": name}], "hostnames": route.hosts, "rules": rules}
    return [
        _object(service, _API, "Gateway", name, _gateway(route)),
        _object(service, _API, "HTTPRoute", name, http),
        *(each for target in found if _class(route).startswith(_OF_GOOGLE) for each in _policies(service, target)),
    ]


def _class(route: Route) -> str:
    return route.class_name or CLASSES[route.exposure]


def _object(service: ModelService, api_version: str, kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": naming.metadata(service, name, naming.ROUTE), "spec": spec}


def _gateway(route: Route) -> Object:
    """Others than Google's classes make a Service of type LoadBalancer, which is open to the world unless it is told."""
    listener: Object = {"name": "http", "protocol": "HTTP", "port": 80}
    if route.tls:
        certificate = {"mode": "Terminate", "certificateRefs": [{"name": route.tls}]}
        listener = {"name": "https", "protocol": "HTTPS", "port": 443, "tls": certificate}
    listener["allowedRoutes"] = {"namespaces": {"from": "Same"}}
    inside = route.exposure == "internal" and not _class(route).startswith(_OF_GOOGLE)
    return {
        "gatewayClassName": _class(route),
        "listeners": [listener],
        **({"infrastructure": {"annotations": dict(_INTERNAL)}} if inside else {}),
    }


def _rule(way: Way, found: list[Target]) -> Object:
    matches = [{"path": {"type": "Exact", "value": path}} for path in way.exact]
    matches += [{"path": {"type": "PathPrefix", "value": path}} for path in way.under]
    shares = [
        {"name": each.name, "port": each.grpc if way.grpc else each.port, "weight": each.share} for each in found if each.share
    ]
    return {**({"matches": matches} if matches else {}), "backendRefs": shares}


def _policies(service: ModelService, target: Target) -> list[Object]:
    """Google's load balancers ask for `/` unless they are told, and end every answer after half a minute."""
    spec = service.spec
    timeouts = (spec.gateway and spec.gateway.timeouts) or Timeouts()
    health = {"config": {"type": "HTTP", "httpHealthCheck": {"requestPath": target.path}}}
    patience = {
        "timeoutSec": int(timeouts.total) + _LATER,
        "connectionDraining": {"drainingTimeoutSec": min(int(spec.drain), _LONGEST_DRAIN)},
    }
    to = {"group": "", "kind": "Service", "name": target.name}
    return [
        _object(service, _GOOGLE, "HealthCheckPolicy", target.name, {"default": health, "targetRef": to}),
        _object(service, _GOOGLE, "GCPBackendPolicy", target.name, {"default": patience, "targetRef": dict(to)}),
    ]
