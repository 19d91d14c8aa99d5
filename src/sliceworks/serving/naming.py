"""How the objects of a model service are called and labelled. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sliceworks.specs.serving import ModelService

Object = dict[str, Any]
SERVICE = "sliceworks.dev/model-service"
ENGINE = "sliceworks.dev/engine"
GATEWAY = "sliceworks.dev/gateway"
COMPONENT = "app.kubernetes.io/component"
TRACK = "sliceworks.dev/track"
SLICE = "sliceworks.dev/slice"
MANAGED_BY = {"app.kubernetes.io/managed-by": "sliceworks"}
SERVER = "server"
ROUTE = "route"


def labels(service: ModelService, component: str, track: str = "") -> dict[str, str]:
    """On every object and pod."""
    return {
        **service.metadata.labels,
        "app.kubernetes.io/name": service.metadata.name,
        **selector(service, component, track),
        **MANAGED_BY,
        ENGINE: service.spec.engine,
    }


def selector(service: ModelService, component: str, track: str = "") -> dict[str, str]:
    """What finds the pods of one part."""
    return {SERVICE: service.metadata.name, COMPONENT: component, **({TRACK: track} if track else {})}


def metadata(service: ModelService, name: str, component: str, track: str = "") -> Object:
    """Name, namespace and labels of an object."""
    place = {"namespace": service.metadata.namespace} if service.metadata.namespace else {}
    return {"name": name, **place, "labels": labels(service, component, track)}
