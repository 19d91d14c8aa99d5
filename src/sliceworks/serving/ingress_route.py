"""Routes from outside the cluster to a model service: Gateway API or Istio. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.serving import gateway_objects, objects, workload
from sliceworks.serving.gateway_objects import ENGINES
from sliceworks.specs.gateway import Timeouts

if TYPE_CHECKING:
    from sliceworks.specs.model_service import ModelService, Route

Object = dict[str, Any]
ROUTE_KINDS = frozenset({"HTTPRoute", "VirtualService"})
"""The kinds that route requests to Services."""
_GRPC_SERVICE = "/inference.GRPCInferenceService"
_GRPC_METHODS = (
    "ServerLive",
    "ServerReady",
    "ServerMetadata",
    "ModelReady",
    "ModelMetadata",
    "ModelConfig",
    "ModelStatistics",
    "ModelInfer",
    "ModelStreamInfer",
    "RepositoryIndex",
)


class WeightedBackend(NamedTuple):
    """A Service, its ports and its share of the requests in percent."""

    name: str
    port: int
    weight: int
    health_path: str
    grpc_port: int = 0


class RouteMatch(NamedTuple):
    """Requests by their paths; all requests if no path is given."""

    grpc: bool = False
    exact: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()


def weighted_backends(service: ModelService) -> list[WeightedBackend]:
    """The backends of a route: the gateway, which balances versions itself, or each version."""
    spec, name = service.spec, service.metadata.name
    if spec.gateway:
        grpc_port = gateway_objects.GRPC_PORT if spec.engine == "triton" else 0
        return [WeightedBackend(spec.gateway.name, gateway_objects.PORTS["http"], 100, "/readyz", grpc_port)]
    engine = ENGINES[spec.engine]
    port, path = engine.PORTS[engine.PORT], "/v2/health/ready" if spec.engine == "triton" else "/health"
    grpc_port = engine.PORTS["grpc"] if spec.engine == "triton" else 0
    if spec.canary is None:
        return [WeightedBackend(name, port, 100, path, grpc_port)]
    weight = spec.canary.weight
    return [
        WeightedBackend(f"{name}-{workload.STABLE}", port, 100 - weight, path, grpc_port),
        WeightedBackend(f"{name}-{workload.CANARY}", port, weight, path, grpc_port),
    ]


def route_matches(service: ModelService) -> list[RouteMatch]:
    """The requests that a route admits, gRPC first.

    A gateway authorizes requests itself. Triton does not, and would let any client load and unload models, so a route to it
    admits only inference and reads.
    """
    spec = service.spec
    if spec.engine != "triton":
        return [RouteMatch()]
    if spec.gateway:
        return [RouteMatch(grpc=True, prefixes=(_GRPC_SERVICE,)), RouteMatch()]
    return [
        RouteMatch(grpc=True, exact=tuple(f"{_GRPC_SERVICE}/{method}" for method in _GRPC_METHODS)),
        RouteMatch(exact=("/v2", "/v2/repository/index"), prefixes=("/v2/health", "/v2/models")),
    ]


def referenced_services(obj: dict[str, Any]) -> set[str]:
    """The Services to which an HTTPRoute or a VirtualService sends requests."""
    if obj["kind"] == "HTTPRoute":
        return {backend["name"] for rule in obj["spec"]["rules"] for backend in rule["backendRefs"]}
    return {route["destination"]["host"] for rule in obj["spec"]["http"] for route in rule["route"]}


GATEWAY_CLASSES = {"internal": "gke-l7-rilb", "public": "gke-l7-global-external-managed"}
_GATEWAY_API, _GKE_API = "gateway.networking.k8s.io/v1", "networking.gke.io/v1"
_GKE_CLASS_PREFIX = "gke-l7-"
_INTERNAL = {"networking.gke.io/load-balancer-type": "Internal"}
_EXTRA_TIMEOUT = 10  # seconds, so that the gateway times out before the load balancer and can report the reason
_MAX_DRAIN_TIMEOUT = 3600


def manifests(service: ModelService) -> list[Object]:
    """The objects of the route, in apply order; none without a route."""
    route = service.spec.route
    if route is None:
        return []
    return _gateway_api_objects(service, route) if route.via == "gateway-api" else _istio_objects(service, route)


def _gateway_api_objects(service: ModelService, route: Route) -> list[Object]:
    name, backends = service.metadata.name, weighted_backends(service)
    rules = [_http_route_rule(match, backends) for match in route_matches(service)]
    http_route = {"parentRefs": [{"name": name}], "hostnames": route.hosts, "rules": rules}
    return [
        _route_object(service, _GATEWAY_API, "Gateway", name, _gateway_spec(route)),
        _route_object(service, _GATEWAY_API, "HTTPRoute", name, http_route),
        *(policy for backend in backends if _is_gke_class(route) for policy in _gke_policies(service, backend)),
    ]


def _gateway_class(route: Route) -> str:
    return route.class_name or GATEWAY_CLASSES[route.exposure]


def _is_gke_class(route: Route) -> bool:
    return _gateway_class(route).startswith(_GKE_CLASS_PREFIX)


def _route_object(service: ModelService, api_version: str, kind: str, name: str, spec: Object) -> Object:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": objects.metadata(service, name, objects.ROUTE_COMPONENT),
        "spec": spec,
    }


def _gateway_spec(route: Route) -> Object:
    """The Gateway. Classes other than GKE's create a Service of type LoadBalancer, which is public unless annotated."""
    listener: Object = {"name": "http", "protocol": "HTTP", "port": 80}
    if route.tls:
        certificate = {"mode": "Terminate", "certificateRefs": [{"name": route.tls}]}
        listener = {"name": "https", "protocol": "HTTPS", "port": 443, "tls": certificate}
    listener["allowedRoutes"] = {"namespaces": {"from": "Same"}}
    needs_annotation = route.exposure == "internal" and not _is_gke_class(route)
    return {
        "gatewayClassName": _gateway_class(route),
        "listeners": [listener],
        **({"infrastructure": {"annotations": dict(_INTERNAL)}} if needs_annotation else {}),
    }


def _http_route_rule(match: RouteMatch, backends: list[WeightedBackend]) -> Object:
    matches = [{"path": {"type": "Exact", "value": path}} for path in match.exact]
    matches += [{"path": {"type": "PathPrefix", "value": path}} for path in match.prefixes]
    references = [
        {"name": backend.name, "port": backend.grpc_port if match.grpc else backend.port, "weight": backend.weight}
        for backend in backends
        if backend.weight
    ]
    return {**({"matches": matches} if matches else {}), "backendRefs": references}


def _gke_policies(service: ModelService, backend: WeightedBackend) -> list[Object]:
    """Health check and timeout policies. By default, GKE's load balancers check `/` and time out after 30 seconds."""
    spec = service.spec
    timeouts = (spec.gateway and spec.gateway.timeouts) or Timeouts()
    health = {"config": {"type": "HTTP", "httpHealthCheck": {"requestPath": backend.health_path}}}
    timeout = {
        "timeoutSec": int(timeouts.total) + _EXTRA_TIMEOUT,
        "connectionDraining": {"drainingTimeoutSec": min(int(spec.drain_timeout), _MAX_DRAIN_TIMEOUT)},
    }
    target = {"group": "", "kind": "Service", "name": backend.name}
    return [
        _route_object(service, _GKE_API, "HealthCheckPolicy", backend.name, {"default": health, "targetRef": target}),
        _route_object(service, _GKE_API, "GCPBackendPolicy", backend.name, {"default": timeout, "targetRef": dict(target)}),
    ]


_ISTIO_API = "networking.istio.io/v1"
# Retry only requests to which no server has responded: by default, Istio also retries cancelled ones.
_RETRIES = {"attempts": 2, "retryOn": "connect-failure,refused-stream,unavailable"}
# By default, Istio ejects at most a tenth of the servers, which is none of fewer than ten. Here it is half, and never the only one.
_EJECTION = {"interval": "10s", "baseEjectionTime": "30s", "maxEjectionPercent": 50, "minHealthPercent": 50}
_SERVER_FAILURES = {"consecutive5xxErrors": 5}
# Errors of a gateway come from the models behind it: only connection failures count against it.
_GATEWAY_FAILURES = {"splitExternalLocalOriginErrors": True, "consecutiveLocalOriginFailures": 5, "consecutive5xxErrors": 0}


def _istio_objects(service: ModelService, route: Route) -> list[Object]:
    name, backends = service.metadata.name, weighted_backends(service)
    rules = [_istio_rule(match, backends) for match in route_matches(service)]
    virtual_service = {"hosts": route.hosts, "gateways": [name], "http": rules}
    failures = _GATEWAY_FAILURES if service.spec.gateway else _SERVER_FAILURES
    policy = {"loadBalancer": {"simple": "LEAST_REQUEST"}, "outlierDetection": {**failures, **_EJECTION}}
    return [
        _route_object(service, _ISTIO_API, "Gateway", name, {"selector": route.selector, "servers": [_istio_server(route)]}),
        *(
            _route_object(service, _ISTIO_API, "DestinationRule", backend.name, {"host": backend.name, "trafficPolicy": policy})
            for backend in backends
        ),
        _route_object(service, _ISTIO_API, "VirtualService", name, virtual_service),
    ]


def _istio_server(route: Route) -> Object:
    if not route.tls:
        return {"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": route.hosts}
    https = {"number": 443, "name": "https", "protocol": "HTTPS"}
    return {"port": https, "hosts": route.hosts, "tls": {"mode": "SIMPLE", "credentialName": route.tls}}


def _istio_rule(match: RouteMatch, backends: list[WeightedBackend]) -> Object:
    matches = [{"uri": {"exact": path}} for path in match.exact] + [{"uri": {"prefix": f"{path}/"}} for path in match.prefixes]
    destinations = []
    for backend in backends:
        if backend.weight:
            port = {"number": backend.grpc_port if match.grpc else backend.port}
            destinations.append({"destination": {"host": backend.name, "port": port}, "weight": backend.weight})
    return {**({"match": matches} if matches else {}), "route": destinations, "retries": dict(_RETRIES)}
