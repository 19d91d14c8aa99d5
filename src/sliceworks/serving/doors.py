"""Where callers of a model service knock: its gateway, or its servers where it has none. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.base.errors import SliceworksError
from sliceworks.serving import front, front_objects

if TYPE_CHECKING:
    from sliceworks.serving.record import Record


@dataclass(frozen=True, slots=True)
class Door:
    """A Service and its port. `protocol` is the engine whose API is spoken there; a gateway speaks OpenAI's for every engine."""

    service: str
    namespace: str
    port: int
    tls: bool
    protocol: str

    @property
    def scheme(self) -> str:
        return "https" if self.tls else "http"

    @property
    def inside(self) -> str:
        """The address that pods of the cluster know."""
        return f"{self.scheme}://{self.service}.{self.namespace}.svc:{self.port}"


def door(record: Record) -> Door:
    """The door of a model service."""
    spec, place = record.service.spec, record.namespace
    if spec.gateway:
        return Door(spec.gateway.name, place, front_objects.PORTS["http"], bool(spec.gateway.tls), "vllm")
    if spec.saxml:
        raise SliceworksError("Sax is called through a gateway", hint="give the service one, or use saxutil in its shell")
    engine = front.ENGINES[spec.engine]
    return Door(record.service.metadata.name, place, engine.PORTS[engine.PORT], False, spec.engine)


def outside(record: Record) -> str:
    """The address that the service's route gives it outside the cluster; nothing where it has no route."""
    route = record.service.spec.route
    return f"{'https' if route.tls else 'http'}://{route.hosts[0]}" if route else ""
