"""Where requests from outside go, and which: to the gateway, or to the servers of each version by share. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.serving import front_objects, versions
from sliceworks.serving.front import ENGINES

if TYPE_CHECKING:
    from sliceworks.specs.serving import ModelService

LEADING = frozenset({"HTTPRoute", "VirtualService"})
"""The kinds that say where requests go."""
_SERVICE = "/inference.GRPCInferenceService"
_METHODS = (
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


class Target(NamedTuple):
    """A Service that requests go to, and its share of them."""

    name: str
    port: int
    share: int
    path: str
    grpc: int = 0


class Way(NamedTuple):
    """Some requests, by their paths; all of them where no path is named."""

    grpc: bool = False
    exact: tuple[str, ...] = ()
    under: tuple[str, ...] = ()


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


def ways(service: ModelService) -> list[Way]:
    """Which requests come in, those of gRPC first. The gateway judges them itself; a Triton that is asked directly would also load
    and unload models for whoever asks, so only what asks models is let through."""
    spec = service.spec
    if spec.engine != "triton":
        return [Way()]
    if spec.gateway:
        return [Way(grpc=True, under=(_SERVICE,)), Way()]
    return [
        Way(grpc=True, exact=tuple(f"{_SERVICE}/{method}" for method in _METHODS)),
        Way(exact=("/v2", "/v2/repository/index"), under=("/v2/health", "/v2/models")),
    ]


def led_to(obj: dict[str, Any]) -> set[str]:
    """The Services that one of the leading kinds has requests go to."""
    if obj["kind"] == "HTTPRoute":
        return {each["name"] for rule in obj["spec"]["rules"] for each in rule["backendRefs"]}
    return {each["destination"]["host"] for rule in obj["spec"]["http"] for each in rule["route"]}
