"""Steps of objects as data, results per object, and the inventory ConfigMap that records what was applied."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sliceworks.base import names
from sliceworks.base.errors import InvalidDocument, SliceworksError
from sliceworks.kube.resources import CONFIG_MAP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.kube.client import Client
    from sliceworks.kube.requests import FieldValidation

Object = dict[str, Any]
SYSTEM = "sliceworks-system"
"""The namespace of the inventories."""

OWNER = "sliceworks.dev/environment"
"""The label of every object that an environment applied."""


class ObjectReference(NamedTuple):
    """Identifies an object; `namespace` is empty for cluster-scoped objects."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def reference_to(obj: Mapping[str, Any]) -> ObjectReference:
    """The reference to an object."""
    metadata = obj["metadata"]
    return ObjectReference(obj["apiVersion"], obj["kind"], metadata.get("namespace", ""), metadata["name"])


def build_namespace(name: str, *, labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None) -> Object:
    """A Namespace object."""
    metadata: Object = {"name": name}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def owner_label(environment: str) -> str:
    """The name of an environment as a label value."""
    return names.shorten(environment)


def add_owner_label(obj: Object, environment: str) -> Object:
    """The object with the label of its environment."""
    metadata = obj["metadata"]
    labels = {**(metadata.get("labels") or {}), OWNER: owner_label(environment)}
    return {**obj, "metadata": {**metadata, "labels": labels}}


def is_owned(obj: Mapping[str, Any], environment: str) -> bool:
    """Whether an object carries the label of the environment."""
    return (obj["metadata"].get("labels") or {}).get(OWNER) == owner_label(environment)


def require_owner(reference: ObjectReference, existing: Mapping[str, Any] | None, environment: str) -> None:
    """Raise if an existing object belongs to another environment."""
    other = (existing["metadata"].get("labels") or {}).get(OWNER) if existing else None
    if other and other != owner_label(environment):
        raise SliceworksError(
            f"{reference} belongs to environment {other}",
            hint="both environments use this cluster: choose another name, or destroy the other environment",
        )


def strip_server_fields(obj: Mapping[str, Any]) -> Object:
    """The object without status and server-managed metadata."""
    metadata = {key: obj["metadata"].get(key) or {} for key in ("labels", "annotations")}
    return {**obj, "metadata": metadata, "status": None}


def merge_objects(objects: Iterable[Object]) -> list[Object]:
    """Merge duplicates into their first position. Parts may share a namespace or account but must not conflict."""
    merged: dict[ObjectReference, Object] = {}
    for obj in objects:
        reference = reference_to(obj)
        merged[reference] = _merge_values(merged[reference], obj, str(reference)) if reference in merged else obj
    return list(merged.values())


def _merge_values(left: Any, right: Any, place: str) -> Any:
    if isinstance(left, dict) and isinstance(right, dict):
        shared = {key: _merge_values(left[key], right[key], f"{place}, {key}") for key in left if key in right}
        return {**left, **right, **shared}
    if left != right:
        raise InvalidDocument(f"{place}: conflicting values {left!r} and {right!r}", hint="give one of them another name")
    return left


class ApplyResult(NamedTuple):
    """The result for one object: create, update, noop, delete, refused or keep; the last two with a reason."""

    step: str
    reference: ObjectReference
    action: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class KindsServed:
    """The cluster serves these kinds, each an `apiVersion` and a kind."""

    kinds: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Available:
    """The pods of a Deployment or a StatefulSet are ready."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class WebhookReady:
    """Webhooks are up: a dry-run creation of the probe reaches them."""

    component: str
    probe: Object


@dataclass(frozen=True, slots=True)
class ConditionTrue:
    """A condition of an object is true or, if `field` is given, that field of its status."""

    api_version: str
    kind: str
    namespace: str
    name: str
    condition: str = "Ready"
    field: str = ""


Wait = KindsServed | Available | WebhookReady | ConditionTrue


@dataclass(frozen=True, slots=True)
class Step:
    """Objects that are applied together, then waited for. Releases of others use `Warn`, since they may have unknown fields."""

    name: str
    objects: tuple[Object, ...] = ()
    waits: tuple[Wait, ...] = ()
    validation: FieldValidation = "Strict"
    keeps: tuple[ObjectReference, ...] = ()
    """Existing objects that are neither applied nor pruned."""


def availability_waits(objects: Iterable[Object]) -> tuple[Available, ...]:
    """Waits for the Deployments and StatefulSets among the objects."""
    running = (reference_to(item) for item in objects if item["kind"] in ("Deployment", "StatefulSet"))
    return tuple(Available(reference.kind, reference.namespace, reference.name) for reference in running)


FIELD_MANAGER = "sliceworks-environment"
"""The field manager of everything that environments apply."""

_OBJECTS, _CHECKSUMS = "objects.json", "checksums.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """One object, its step, and whether it existed before."""

    step: str
    reference: ObjectReference
    adopted: bool = False


@dataclass(slots=True)
class Inventory:
    """The objects of one environment in the order of their first apply, and the SHA-256 of fetched releases."""

    environment: str
    entries: dict[ObjectReference, Entry] = field(default_factory=dict)
    checksums: dict[str, str] = field(default_factory=dict)
    changed: bool = False

    def note(self, entry: Entry) -> None:
        """Record an object. An adopted object stays marked as adopted."""
        known = self.entries.get(entry.reference)
        if known is None or known.step != entry.step:
            self.entries[entry.reference] = Entry(entry.step, entry.reference, known.adopted if known else entry.adopted)
            self.changed = True

    def record_checksum(self, title: str, checksum: str) -> None:
        """Record the checksum of a fetched release."""
        if self.checksums.get(title) != checksum:
            self.checksums[title] = checksum
            self.changed = True

    def strike(self, reference: ObjectReference) -> None:
        """Remove an object from the inventory."""
        self.changed = self.entries.pop(reference, None) is not None or self.changed

    def installed(self, step: str) -> bool:
        """Whether a step installed CustomResourceDefinitions that did not exist before."""
        return any(
            entry.step == step and not entry.adopted and entry.reference.kind == "CustomResourceDefinition"
            for entry in self.entries.values()
        )

    async def begin(self, client: Client) -> None:
        """Create the namespace that the inventories of a cluster share."""
        await client.apply(build_namespace(SYSTEM), field_manager=FIELD_MANAGER, force=True)

    async def save(self, client: Client) -> None:
        """Apply the ConfigMap if the inventory changed."""
        if not self.changed:
            return
        await client.apply(self._config_map(), field_manager=FIELD_MANAGER, force=True)
        self.changed = False

    def _config_map(self) -> Object:
        listed = [[entry.step, *entry.reference, entry.adopted] for entry in self.entries.values()]
        data = {_OBJECTS: orjson.dumps(listed).decode(), _CHECKSUMS: orjson.dumps(self.checksums).decode()}
        metadata = {"name": inventory_name(self.environment), "namespace": SYSTEM}
        return add_owner_label({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}, self.environment)


def inventory_name(environment: str) -> str:
    """The name of the ConfigMap."""
    return f"environment-{owner_label(environment)}"


async def read(client: Client, environment: str) -> Inventory:
    """The inventory of an environment; empty if none exists."""
    config_map = await client.find(CONFIG_MAP, inventory_name(environment), SYSTEM)
    if config_map is None:
        return Inventory(environment)
    data = config_map.get("data") or {}
    try:
        listed = orjson.loads(data.get(_OBJECTS) or b"[]")
        entries = [Entry(step, ObjectReference(*reference), adopted) for step, *reference, adopted in listed]
        checksums = dict(orjson.loads(data.get(_CHECKSUMS) or b"{}"))
    except (ValueError, TypeError) as error:
        raise SliceworksError(
            f"ConfigMap {SYSTEM}/{inventory_name(environment)} cannot be read: {error}",
            hint="delete it; `sliceworks env apply` creates it again",
        ) from error
    return Inventory(environment, {entry.reference: entry for entry in entries}, checksums)
