"""The record of a deployed model service: a ConfigMap with its document and the objects that it owns.

Writes use optimistic concurrency.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import yaml_documents
from sliceworks.base.errors import AlreadyExists, Conflict, InvalidDocument, NotFound, SliceworksError
from sliceworks.kube.resources import CONFIG_MAP
from sliceworks.serving import objects as serving_objects
from sliceworks.specs.model_service import ModelService

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.kube import Client

Object = dict[str, Any]
LABEL = "sliceworks.dev/record"
KIND = "model-service"
SELECTOR = f"{LABEL}={KIND}"
_DOCUMENT_KEY, _OBJECTS_KEY, _PENDING_STEPS_KEY = "document.yaml", "objects", "left"
# Deletion order: routes, autoscalers, servers, and finally what servers use until they exit.
_DELETION_ORDER = (
    *("HTTPRoute", "VirtualService", "GCPBackendPolicy", "HealthCheckPolicy", "DestinationRule", "Gateway", "Service"),
    *("PodMonitoring", "HorizontalPodAutoscaler", "PodDisruptionBudget"),
    *("Job", "Deployment", "StatefulSet"),
    *("NetworkPolicy", "ConfigMap", "RoleBinding", "Role", "ServiceAccount"),
)


class Reference(NamedTuple):
    """An object in the service's namespace."""

    api_version: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name}"


@dataclass(frozen=True, slots=True)
class Record:
    """A deployed model service."""

    service: ModelService
    document: Object
    objects: frozenset[Reference]
    uid: str
    created: str
    namespace: str = ""
    pending_steps: tuple[str, ...] = ()
    """Steps that the last deployment has not completed: it did not wait, was interrupted, or is still running."""
    is_deleting: bool = False

    @property
    def owner(self) -> Object:
        """The owner reference of the service's objects."""
        name = record_name(self.service.metadata.name)
        return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": self.uid, "blockOwnerDeletion": True}


def record_name(name: str) -> str:
    """The name of a model service's ConfigMap."""
    return f"{name}-model-service"


def reference(obj: Object) -> Reference:
    """The reference to an object."""
    return Reference(obj["apiVersion"], obj["kind"], obj["metadata"]["name"])


def deletion_order(references: Iterable[Reference]) -> list[Reference]:
    """References in the order in which the objects are deleted; unknown kinds last."""

    def position(ref: Reference) -> tuple[int, Reference]:
        return _DELETION_ORDER.index(ref.kind) if ref.kind in _DELETION_ORDER else len(_DELETION_ORDER), ref

    return sorted(references, key=position)


def to_config_map(
    service: ModelService, document: Mapping[str, Any], objects: Iterable[Reference], pending_steps: Iterable[str] = ()
) -> Object:
    """The ConfigMap of a record."""
    metadata = serving_objects.metadata(service, record_name(service.metadata.name), "record")
    metadata["labels"][LABEL] = KIND
    data = {_DOCUMENT_KEY: yaml_documents.dump(dict(document)), _OBJECTS_KEY: _format_references(objects)}
    if steps := "".join(f"{step}\n" for step in pending_steps):
        data[_PENDING_STEPS_KEY] = steps
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def from_config_map(config_map: Object) -> Record:
    """The record in a ConfigMap; raises InvalidDocument if it was edited and is no longer valid."""
    from sliceworks.specs import documents

    metadata, data = config_map["metadata"], config_map.get("data") or {}
    place = f"configmap/{metadata['name']}"
    loaded = yaml_documents.load_all(data.get(_DOCUMENT_KEY, ""), place)
    if len(loaded) != 1:
        raise InvalidDocument(f"{_DOCUMENT_KEY} is missing", place=place)
    [document] = loaded
    return Record(
        documents.read_as(document, ModelService),
        document.data,
        _parse_references(config_map),
        metadata.get("uid", ""),
        metadata.get("creationTimestamp", ""),
        metadata.get("namespace", ""),
        tuple(data.get(_PENDING_STEPS_KEY, "").splitlines()),
        "deletionTimestamp" in metadata,
    )


def add_references(config_map: Object, references: Iterable[Reference]) -> Object:
    """The ConfigMap with additional references."""
    known, added = _parse_references(config_map), set(references)
    if added <= known:
        return config_map
    return {**config_map, "data": {**config_map["data"], _OBJECTS_KEY: _format_references(known | added)}}


def _format_references(references: Iterable[Reference]) -> str:
    return "".join(f"{ref.api_version} {ref.kind} {ref.name}\n" for ref in sorted(set(references)))


def _parse_references(config_map: Object) -> frozenset[Reference]:
    lines = (config_map.get("data") or {}).get(_OBJECTS_KEY, "").splitlines()
    return frozenset(Reference(*line.split()) for line in lines if len(line.split()) == 3)


class RecordConflict(SliceworksError):
    """Another client deploys, changes or deletes the same service."""

    def __init__(self, name: str, change: str = "changed") -> None:
        super().__init__(f"model service {name} was {change} by another client in the meantime", hint="run the command again")


async def save(client: Client, name: str, body: Object, live: Object | None, namespace: str) -> Object:
    """Create a record, or replace the one that was read; raises RecordConflict if it changed since."""
    manager = f"sliceworks-{name}"
    try:
        if live is None:
            return await client.create(body, namespace, resource=CONFIG_MAP, field_manager=manager)
        old = live["metadata"]
        metadata = {**old, "labels": {**(old.get("labels") or {}), **body["metadata"]["labels"]}}
        return await client.replace({**body, "metadata": metadata}, namespace, resource=CONFIG_MAP, field_manager=manager)
    except (AlreadyExists, Conflict) as error:
        raise RecordConflict(name) from error
    except NotFound as error:
        raise RecordConflict(name, "deleted") from error


async def verify_unchanged(client: Client, name: str, live: Object, namespace: str) -> None:
    """Raise RecordConflict if a record is not as it was written."""
    current = await client.find(CONFIG_MAP, record_name(name), namespace)
    if current is None or "deletionTimestamp" in current["metadata"]:
        raise RecordConflict(name, "deleted")
    if (current["metadata"]["uid"], current.get("data")) != (live["metadata"]["uid"], live.get("data")):
        raise RecordConflict(name)


async def append_references(client: Client, record: Record, references: Iterable[Reference], namespace: str) -> None:
    """Add objects that this deployment applied to the record that another client wrote meanwhile, so that its next deployment
    deletes them. If the record was replaced by one with another UID, the garbage collector deletes them.
    """
    name = record.service.metadata.name
    while live := await client.find(CONFIG_MAP, record_name(name), namespace):
        updated = add_references(live, references)
        if updated == live or live["metadata"]["uid"] != record.uid:
            return
        try:
            await client.replace(updated, namespace, resource=CONFIG_MAP, field_manager=f"sliceworks-{name}")
        except Conflict:
            continue
        except NotFound:
            return
