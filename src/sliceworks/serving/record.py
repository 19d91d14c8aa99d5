"""The record of a model service in its namespace: a ConfigMap with the document and the list of what was made of it. Pure.

It owns everything else: who deletes it, with whatever tool, deletes the service. Nothing of ours is needed in the cluster for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import yamls
from sliceworks.base.errors import InvalidDocument
from sliceworks.serving import naming
from sliceworks.specs.serving import ModelService

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Object = dict[str, Any]
LABEL = "sliceworks.dev/record"
KIND = "model-service"
SELECTOR = f"{LABEL}={KIND}"
_DOCUMENT, _OBJECTS, _LEFT = "document.yaml", "objects", "left"
# What leads requests to servers, what changes their number, the servers, and what these use until they end.
_REMOVED = (
    *("HTTPRoute", "VirtualService", "GCPBackendPolicy", "HealthCheckPolicy", "DestinationRule", "Gateway", "Service"),
    *("PodMonitoring", "HorizontalPodAutoscaler", "PodDisruptionBudget"),
    *("Job", "Deployment", "StatefulSet"),
    *("NetworkPolicy", "ConfigMap", "RoleBinding", "Role", "ServiceAccount"),
)


class Reference(NamedTuple):
    """An object of the service's namespace."""

    api_version: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name}"


@dataclass(frozen=True, slots=True)
class Record:
    """What was deployed."""

    service: ModelService
    document: Object
    objects: frozenset[Reference]
    uid: str
    created: str
    namespace: str = ""
    left: tuple[str, ...] = ()
    """What the last deployment has not done: nobody waited for what must come before, it broke off, or it goes on."""
    going: bool = False
    """Whether it is being deleted."""

    @property
    def owner(self) -> Object:
        """The reference that makes an object part of the service."""
        name = record_name(self.service.metadata.name)
        return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": self.uid, "blockOwnerDeletion": True}


def record_name(name: str) -> str:
    """The ConfigMap of a model service."""
    return f"{name}-model-service"


def reference(obj: Object) -> Reference:
    """Which object this is."""
    return Reference(obj["apiVersion"], obj["kind"], obj["metadata"]["name"])


def in_order_of_removal(references: Iterable[Reference]) -> list[Reference]:
    """What leads to others first, then the servers, then what they use. A kind that nobody here knows comes last."""
    return sorted(references, key=lambda each: (_REMOVED.index(each.kind) if each.kind in _REMOVED else len(_REMOVED), each))


def write(service: ModelService, document: Mapping[str, Any], objects: Iterable[Reference], left: Iterable[str] = ()) -> Object:
    """The ConfigMap."""
    metadata = naming.metadata(service, record_name(service.metadata.name), "record")
    metadata["labels"][LABEL] = KIND
    data = {_DOCUMENT: yamls.dump(dict(document)), _OBJECTS: _lines(objects)}
    if undone := "".join(f"{each}\n" for each in left):
        data[_LEFT] = undone
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def read(found: Object) -> Record:
    """What a ConfigMap records; raises InvalidDocument where somebody has changed it beyond use."""
    from sliceworks.specs import documents

    metadata, data = found["metadata"], found.get("data") or {}
    place = f"configmap/{metadata['name']}"
    loaded = yamls.load_all(data.get(_DOCUMENT, ""), place)
    if len(loaded) != 1:
        raise InvalidDocument(f"{_DOCUMENT} is missing", place=place)
    [document] = loaded
    service = documents.read_as(document, ModelService)
    return Record(
        service,
        document.data,
        _objects(found),
        metadata.get("uid", ""),
        metadata.get("creationTimestamp", ""),
        metadata.get("namespace", ""),
        tuple(data.get(_LEFT, "").splitlines()),
        "deletionTimestamp" in metadata,
    )


def with_objects(found: Object, more: Iterable[Reference]) -> Object:
    """A ConfigMap that lists these objects too."""
    named = _objects(found)
    return {**found, "data": {**found["data"], _OBJECTS: _lines(named | set(more))}} if set(more) - named else found


def _lines(objects: Iterable[Reference]) -> str:
    return "".join(f"{each.api_version} {each.kind} {each.name}\n" for each in sorted(set(objects)))


def _objects(found: Object) -> frozenset[Reference]:
    lines = (found.get("data") or {}).get(_OBJECTS, "").splitlines()
    return frozenset(Reference(*line.split()) for line in lines if len(line.split()) == 3)
