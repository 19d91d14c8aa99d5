"""The kinds that templates may use: built-in ones, and those of CustomResourceDefinitions at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sliceworks.schemas.builtins import catalogue
from sliceworks.schemas.crds import schema_for_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.graph.model import Object
    from sliceworks.schemas.structural import Schema


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One version of a kind: how it is addressed, and the schema of its objects."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    schema: Schema

    @property
    def api_version(self) -> str:
        """What objects write as their apiVersion."""
        return f"{self.group}/{self.version}" if self.group else self.version


class Kinds(Protocol):
    """Where kinds are looked up."""

    def find(self, api_version: str, kind: str) -> Kind | None:
        """The kind, or None where it is not known."""

    def names(self) -> Iterable[tuple[str, str]]:
        """Every known apiVersion and kind, to suggest the closest."""


class BuiltinKinds:
    """What every Kubernetes cluster has."""

    def __init__(self) -> None:
        self._resources = {(_api_version(item.group, item.version), item.kind): item for item in catalogue().resources}

    def find(self, api_version: str, kind: str) -> Kind | None:
        item = self._resources.get((api_version, kind))
        if item is None:
            return None
        schema = catalogue().schema(item.group, item.version, item.kind)
        return Kind(item.group, item.version, item.kind, item.plural, item.namespaced, schema)

    def names(self) -> Iterable[tuple[str, str]]:
        return self._resources


class CustomKinds:
    """The served versions of CustomResourceDefinitions."""

    def __init__(self, definitions: Iterable[Object]) -> None:
        self._served = {(api_version, kind): crd for crd in definitions for api_version, kind in _served(crd)}
        self._found: dict[tuple[str, str], Kind] = {}

    def find(self, api_version: str, kind: str) -> Kind | None:
        key = (api_version, kind)
        crd = self._served.get(key)
        if crd is not None and key not in self._found:
            self._found[key] = from_crd(crd, api_version.rpartition("/")[2])
        return self._found.get(key)

    def names(self) -> Iterable[tuple[str, str]]:
        return self._served


class AllKinds:
    """Several sources, asked in order."""

    def __init__(self, *sources: Kinds) -> None:
        self._sources = sources

    def find(self, api_version: str, kind: str) -> Kind | None:
        return next((found for source in self._sources if (found := source.find(api_version, kind)) is not None), None)

    def names(self) -> Iterable[tuple[str, str]]:
        return (name for source in self._sources for name in source.names())


def from_crd(crd: Object, version: str) -> Kind:
    """The kind that a CustomResourceDefinition defines in one of its versions."""
    spec = crd["spec"]
    names = spec["names"]
    schema = schema_for_version(crd, version)
    return Kind(spec["group"], version, names["kind"], names["plural"], spec.get("scope") != "Cluster", schema)


def _served(crd: Object) -> Iterator[tuple[str, str]]:
    for version in crd["spec"].get("versions") or ():
        if version.get("served", True):
            yield _api_version(crd["spec"]["group"], version["name"]), crd["spec"]["names"]["kind"]


def _api_version(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version
