"""Resolves the kinds that templates use: built-in kinds and CustomResourceDefinitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sliceworks.kube.resources import Resource, format_api_version
from sliceworks.schemas.builtins import builtin_scheme
from sliceworks.schemas.crds import schema_for_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.graph.model import Object
    from sliceworks.schemas import Schema


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One version of a kind: its resource name and the schema of its objects."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    schema: Schema

    @property
    def api_version(self) -> str:
        """The apiVersion of its objects."""
        return format_api_version(self.group, self.version)

    @property
    def resource(self) -> Resource:
        """The resource of its objects."""
        return Resource(self.group, self.version, self.kind, self.plural, self.namespaced)


class Kinds(Protocol):
    """A source of kinds."""

    def find(self, api_version: str, kind: str) -> Kind | None:
        """The kind, or None if it is unknown."""

    def names(self) -> Iterable[tuple[str, str]]:
        """Every known apiVersion and kind, for suggestions."""


class BuiltinKinds:
    """The kinds of every Kubernetes cluster."""

    def __init__(self) -> None:
        self._resources = {(format_api_version(item.group, item.version), item.kind): item for item in builtin_scheme().resources}

    def find(self, api_version: str, kind: str) -> Kind | None:
        item = self._resources.get((api_version, kind))
        if item is None:
            return None
        schema = builtin_scheme().schema(item.group, item.version, item.kind)
        return Kind(item.group, item.version, item.kind, item.plural, item.namespaced, schema)

    def names(self) -> Iterable[tuple[str, str]]:
        return self._resources


class CustomKinds:
    """The served versions of CustomResourceDefinitions."""

    def __init__(self, definitions: Iterable[Object]) -> None:
        self._served = {(api_version, kind): crd for crd in definitions for api_version, kind in _served(crd)}
        self._cache: dict[tuple[str, str], Kind] = {}

    def find(self, api_version: str, kind: str) -> Kind | None:
        key = (api_version, kind)
        crd = self._served.get(key)
        if crd is not None and key not in self._cache:
            self._cache[key] = from_crd(crd, api_version.rpartition("/")[2])
        return self._cache.get(key)

    def names(self) -> Iterable[tuple[str, str]]:
        return self._served


class AllKinds:
    """Several sources, in order of precedence."""

    def __init__(self, *sources: Kinds) -> None:
        self._sources = sources

    def find(self, api_version: str, kind: str) -> Kind | None:
        return next((match for source in self._sources if (match := source.find(api_version, kind)) is not None), None)

    def names(self) -> Iterable[tuple[str, str]]:
        return (name for source in self._sources for name in source.names())


def from_crd(crd: Object, version: str) -> Kind:
    """The kind of one version of a CustomResourceDefinition."""
    spec = crd["spec"]
    names = spec["names"]
    schema = schema_for_version(crd, version)
    return Kind(spec["group"], version, names["kind"], names["plural"], spec.get("scope") != "Cluster", schema)


def _served(crd: Object) -> Iterator[tuple[str, str]]:
    for version in crd["spec"].get("versions") or ():
        if version.get("served", True):
            yield format_api_version(crd["spec"]["group"], version["name"]), crd["spec"]["names"]["kind"]
