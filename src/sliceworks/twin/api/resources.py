"""What the API serves: resources, their versions and subresources, and the registry that finds them by URL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.schemas.structural import Schema
    from sliceworks.twin.api.strategies import Strategy


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
    """Objects written before this revision were written under another schema."""
    scale_paths: tuple[str, str, str] | None = None
    """Where a custom resource keeps its replicas, its current replicas and its selector."""


@dataclass(eq=False, slots=True)
class Resource:
    """A kind as the API serves it."""

    group: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    versions: dict[str, Version]
    storage_version: str
    storage_hash: str
    """What discovery shows as storageVersionHash: it changes when objects are stored in another version."""
    strategy: Strategy
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    custom: bool = False
    stored_as: str = ""
    """The key of the resource that holds the objects, where two resources show the same ones."""
    key: str = field(init=False)
    """`/pods` or `apps/deployments`."""

    def __post_init__(self) -> None:
        self.list_kind = self.list_kind or f"{self.kind}List"
        self.key = f"{self.group}/{self.plural}"
        self.stored_as = self.stored_as or self.key

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
        found = resource.versions.get(version) if resource else None
        return (resource, found) if resource and found else None

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
