"""Served resources, their versions, subresources and strategies, and the registry that finds them by URL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sliceworks.base import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from ipaddress import IPv4Network

    from sliceworks.schemas import Schema
    from sliceworks.twin.apiserver.admission.chain import Plugin
    from sliceworks.twin.apiserver.printers.cells import Printer
    from sliceworks.twin.apiserver.request_info import RequestInfo
    from sliceworks.twin.apiserver.validation.error_list import ErrorList


Obj = dict[str, Any]


class ClusterView(Protocol):
    """Reads other objects. Resources are named by key, such as `apps/deployments`."""

    service_network: IPv4Network

    def get(self, resource: str, namespace: str, name: str) -> Obj | None: ...

    def list(self, resource: str, namespace: str | None = None) -> Iterable[Obj]: ...

    def search(self, resource: str, text: str) -> Iterable[Obj]: ...


class Conversion(NamedTuple):
    """Converts a served version from and to the stored one. Both functions may change their argument."""

    from_storage: Callable[[Obj], Obj]
    to_storage: Callable[[Obj], Obj]


class Part(NamedTuple):
    """A subresource that takes and returns the whole object, and changes one part of it."""

    reset_fields: Mapping[str, Any]
    """The fields that it does not change."""
    prepare: Callable[[Obj, Obj], None]
    """Resets these fields in the new object to those of the old one."""
    validate: Callable[[ErrorList, Obj, Obj], None]


@dataclass(frozen=True, slots=True)
class Strategy:
    """How the API server handles a kind. The defaults fit a plain kind; `registry.kinds` lists the built-in ones."""

    name_errors: Callable[[str], list[str]] = names.dns1123_subdomain_errors
    has_generation: bool = False
    has_status: bool = False
    """Whether `status` is written through the status subresource only."""
    keeps_status_on_create: bool = False
    status_reset_fields: Mapping[str, Any] = field(default_factory=lambda: {"f:spec": {}})
    """The fields that an update of the status subresource does not change."""
    reset_fields: Mapping[str, Any] = field(default_factory=lambda: {"f:status": {}})
    """The fields that a write of the object itself does not change, if it has a status subresource."""
    parts: Mapping[str, Part] = field(default_factory=dict)
    """The subresources that take and return the whole object, by name; `status` too, if it has rules of its own."""
    allow_create_on_update: bool = False
    allow_unconditional_update: bool = True
    return_deleted_object: bool = False
    graceful_deletion: bool = False
    """Whether deletion waits for the object's grace period."""
    orphans_by_default: bool = False
    """Whether a deletion without a propagation policy orphans the dependents."""
    deprecation: str = ""
    """The warning about every request for this resource."""
    delete_warning: str = ""
    """The warning about a deletion without a propagation policy."""
    create_only: bool = False
    """Whether objects are only posted and never stored, such as reviews."""
    storage_key: str = ""
    """The key under which objects are stored, if another resource has the same objects."""
    selectable_fields: Mapping[str, Callable[[Obj], str]] = field(default_factory=dict)
    add_defaults: Callable[[Obj], None] = lambda obj: None
    """Adds defaults that the client owns as if it had sent them."""
    prepare_for_create: Callable[[Obj, ClusterView], None] = lambda obj, cluster: None
    prepare_for_update: Callable[[Obj, Obj, ClusterView], None] = lambda new, old, cluster: None
    validate: Callable[[ErrorList, Obj], None] | None = None
    """Validates an object without its metadata."""
    validate_metadata: Callable[[ErrorList, Obj], None] | None = None
    """The part of `validate` that reads labels and annotations, if it is small: an update that changes only these runs it alone."""
    validate_update: Callable[[ErrorList, Obj, Obj], None] | None = None
    """Rejects changes of immutable fields."""
    validate_status: Callable[[ErrorList, Obj, Obj], None] | None = None
    validate_references: Callable[[ErrorList, Obj, Obj | None, ClusterView], None] | None = None
    """Validates a valid object against other objects."""
    warnings: Callable[[Obj], list[str]] | None = None
    warns_on_update: bool = True
    mutating: Mapping[tuple[str, str], tuple[Plugin, ...]] = field(default_factory=dict)
    """Mutating admission plugins by operation and subresource."""
    validating: Mapping[tuple[str, str], tuple[Plugin, ...]] = field(default_factory=dict)
    conversions: Mapping[str, Conversion] = field(default_factory=dict)
    """By version, where more than the apiVersion differs from the stored object."""
    printer: Printer | None = None


def field_getter(path: str, default: str = "") -> Callable[[Obj], str]:
    """A function that reads a selectable field as a string; numbers and booleans as Go prints them."""
    parts = path.split(".")

    def read(obj: Obj) -> str:
        value: Any = obj
        for part in parts:
            if not isinstance(value, dict):
                return default
            value = value.get(part)
        if value is None:
            return default
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    return read


@dataclass(frozen=True, slots=True)
class Subresource:
    """A path below an object. Group, version and kind are those of its body where they differ from the object's."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


@dataclass(eq=False, slots=True)
class Version:
    """One served version of a resource."""

    name: str
    schema: Callable[[], Schema]
    subresources: dict[str, Subresource] = field(default_factory=dict)
    verbs: tuple[str, ...] = ()
    deprecation: str = ""
    printer_columns: list[dict[str, Any]] | None = None
    since: int = 0
    """The revision at which this schema was first served; older objects were written with another schema."""
    selectable_fields: Mapping[str, Callable[[Obj], str]] = field(default_factory=dict)
    """Those of a version of a custom resource."""
    scale_paths: tuple[str, str, str] | None = None
    """JSON paths of a custom resource's replicas, current replicas and selector."""


@dataclass(eq=False, slots=True)
class Resource:
    """A kind that the API serves."""

    group: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    versions: dict[str, Version]
    storage_version: str
    storage_hash: str
    """The storageVersionHash of discovery: it changes with the version that objects are stored in."""
    strategy: Strategy
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    custom: bool = False
    conversion: Mapping[str, Any] | None = None
    """The conversion webhook of a custom resource."""
    key: str = field(init=False)
    """`/pods` or `apps/deployments`."""
    storage_key: str = field(init=False)
    """The key of the resource that holds the objects: another one where two resources serve the same objects."""

    def __post_init__(self) -> None:
        self.list_kind = self.list_kind or f"{self.kind}List"
        self.key = f"{self.group}/{self.plural}"
        self.storage_key = self.strategy.storage_key or self.key

    @property
    def qualified(self) -> str:
        """`pods` or `deployments.apps`, as error messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def api_version(self, version: str) -> str:
        return f"{self.group}/{version}" if self.group else version


class Registry:
    """All resources, by group, version and plural name."""

    def __init__(self) -> None:
        self._resources: dict[tuple[str, str], Resource] = {}
        self.generation = 0

    def add(self, resource: Resource) -> None:
        self._resources[resource.group, resource.plural] = resource
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        if self._resources.pop((group, plural), None) is not None:
            self.generation += 1

    def find(self, group: str, version: str, plural: str) -> tuple[Resource, Version] | None:
        resource = self._resources.get((group, plural))
        served = resource.versions.get(version) if resource else None
        return (resource, served) if resource and served else None

    def has_group(self, group: str) -> bool:
        return any(known == group for known, _ in self._resources)

    def get(self, group: str, plural: str) -> Resource | None:
        return self._resources.get((group, plural))

    def by_key(self, key: str) -> Resource | None:
        group, _, plural = key.rpartition("/")
        return self._resources.get((group, plural))

    def __iter__(self) -> Iterator[Resource]:
        return iter(list(self._resources.values()))

    def versions(self) -> dict[str, dict[str, list[Resource]]]:
        """Group → version → resources served there, in the order they were added."""
        tree: dict[str, dict[str, list[Resource]]] = {}
        for resource in self._resources.values():
            for version in resource.versions:
                tree.setdefault(resource.group, {}).setdefault(version, []).append(resource)
        return tree


class AggregatedApi(NamedTuple):
    """An API group that is not stored: its request handler, its resources for discovery, and its OpenAPI documents by version."""

    answer: Callable[[RequestInfo, Mapping[str, list[str]]], dict[str, Any]]
    resources: tuple[Resource, ...]
    document: Callable[[str], bytes]
