"""A way in through Istio: Gateway, DestinationRules, VirtualService; tests/heavy sees a real istiod and Envoy act on them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.serving import naming
from sliceworks.serving.ways import Way, targets, ways

if TYPE_CHECKING:
    from sliceworks.serving.ways import Target
    from sliceworks.specs.serving import ModelService, Route

Object = dict[str, Any]
_API = "networking.istio.io/v1"
# Only what no server has begun to answer is tried again: left to itself, Istio would also repeat what a server has cancelled.
_RETRIES = {"attempts": 2, "retryOn": "connect-failure,refused-stream,unavailable"}
# Istio lets go of a tenth of the servers at most, which of fewer than ten is none. Here it is half of them, and never the only one.
_EJECTION = {"interval": "10s", "baseEjectionTime": "30s", "maxEjectionPercent": 50, "minHealthPercent": 50}
_SERVERS_FAIL = {"consecutive5xxErrors": 5}
# A gateway's errors tell of the models behind it: it fails itself when it cannot be reached.
_GATEWAY_FAILS = {"splitExternalLocalOriginErrors": True, "consecutiveLocalOriginFailures": 5, "consecutive5xxErrors": 0}


def manifests(service: ModelService, route: Route) -> list[Object]:
    """In the order in which they are applied."""
    name, found = service.metadata.name, targets(service)
    virtual = {"hosts": route.hosts, "gateways": [name], "http": [_rule(way, found) for way in ways(service)]}
    fails = _GATEWAY_FAILS if service.spec.gateway else _SERVERS_FAIL
    policy = {"loadBalancer": {"simple": "LEAST_REQUEST"}, "outlierDetection": {**fails, **_EJECTION}}
    return [
        _object(service, "Gateway", name, {"selector": route.selector, "servers": [_server(route)]}),
        *(_object(service, "DestinationRule", each.name, {"host": each.name, "trafficPolicy": policy}) for each in found),
        _object(service, "VirtualService", name, virtual),
    ]


def _object(service: ModelService, kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": _API, "kind": kind, "metadata": naming.metadata(service, name, naming.ROUTE), "spec": spec}


def _server(route: Route) -> Object:
    if not route.tls:
        return {"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": route.hosts}
    secure = {"number": 443, "name": "https", "protocol": "HTTPS"}
    return {"port": secure, "hosts": route.hosts, "tls": {"mode": "SIMPLE", "credentialName": route.tls}}


def _rule(way: Way, found: list[Target]) -> Object:
    matches = [{"uri": {"exact": path}} for path in way.exact] + [{"uri": {"prefix": f"{path}/"}} for path in way.under]
    shares = [
        {"destination": {"host": each.name, "port": {"number": each.grpc if way.grpc else each.port}}, "weight": each.share}
        for each in found
        if each.share
    ]
    return {**({"match": matches} if matches else {}), "route": shares, "retries": dict(_RETRIES)}
