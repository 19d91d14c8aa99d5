"""The kinds Kubernetes 1.35 is born with: what discovery says of them, and their schemas, read from data when first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.schemas.model import Schema, build

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = Path(__file__).parent / "data" / "kubernetes-1.35"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_DEFINITION = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
# Where the components of a group live, when it is not `io.k8s.api.<first label of the group>`.
_PACKAGES = {
    "": "io.k8s.api.core",
    "rbac.authorization.k8s.io": "io.k8s.api.rbac",
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
}


@dataclass(frozen=True, slots=True)
class Subresource:
    """Something below an object: its kind may be another than the object's."""

    name: str
    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BuiltinResource:
    """One resource of one version, as discovery describes it."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    verbs: tuple[str, ...]
    subresources: tuple[Subresource, ...]
    storage_version_hash: str


@dataclass(frozen=True, slots=True)
class BuiltinGroup:
    """A group with its versions, the preferred one first."""

    name: str
    versions: tuple[str, ...]


class Builtins:
    """The built-in kinds. One instance serves the process: see `catalogue`."""

    def __init__(self) -> None:
        documents = orjson.loads((DATA / "discovery.json").read_bytes())
        self.groups = tuple(BuiltinGroup(item["group"], tuple(v["version"] for v in item["versions"])) for item in documents)
        self.resources = list(_resources(documents))
        self._packages: dict[str, dict[str, Any]] = {}
        self._components: dict[str, Schema] = {}

    def component(self, name: str) -> Schema:
        """The schema of a component, such as `io.k8s.api.core.v1.Container`. KeyError when there is none."""
        found = self._components.get(name)
        if found is None:
            found = self._components[name] = build(self.node(name), self.component, name)
            self._attach_rules(found)
        return found

    def schema(self, group: str, version: str, kind: str) -> Schema:
        """The schema of a kind. KeyError when it is not built in."""
        return self.component(component_name(group, version, kind))

    def node(self, name: str) -> dict[str, Any]:
        """A component as it stands in the data: OpenAPI with short references and `go` notes."""
        package = name.rpartition(".")[0]
        found = self._packages.get(package)
        if found is None:
            path = DATA / f"{package}.json"
            if not path.is_file():
                raise KeyError(name)
            found = self._packages[package] = orjson.loads(path.read_bytes())
        node: dict[str, Any] = found[name]
        return node

    def nodes(self) -> dict[str, dict[str, Any]]:
        """All components as they stand in the data."""
        return {name: node for path in DATA.glob("io.k8s.*.json") for name, node in orjson.loads(path.read_bytes()).items()}

    def storage_version(self, group: str) -> str:
        """The version objects of a group are stored in: the preferred one."""
        return next(item.versions[0] for item in self.groups if item.name == group)

    def _attach_rules(self, schema: Schema) -> None:
        defaulter, check = _defaulters().get(schema.name), _checks().get(schema.name)
        if defaulter:
            schema.defaulters.append(defaulter)
        if check:
            schema.checks.append(check)
        if schema.name == _DEFINITION:
            from sliceworks.schemas.crds import set_defaults

            schema.defaulters.append(set_defaults)


@cache
def catalogue() -> Builtins:
    """The built-in kinds, read once for the process."""
    return Builtins()


def is_kind(group: str, version: str, kind: str) -> bool:
    """Whether a kind is built in."""
    return any((item.group, item.version, item.kind) == (group, version, kind) for item in catalogue().resources)


def component_name(group: str, version: str, kind: str) -> str:
    """The component that describes a built-in kind: `io.k8s.api.batch.v1.Job`."""
    if kind in ("DeleteOptions", "WatchEvent") or (not group and kind in ("Status", "APIResourceList")):
        # Every group has these, and all mean the same.
        return f"io.k8s.apimachinery.pkg.apis.meta.v1.{kind}"
    package = _PACKAGES.get(group) or "io.k8s.api." + group.partition(".")[0]
    return f"{package}.{version}.{kind}"


@cache
def _defaulters() -> dict[str, Any]:
    from sliceworks.schemas import rules

    return dict(rules.defaulters())


@cache
def _checks() -> dict[str, Any]:
    from sliceworks.schemas import rules

    return dict(rules.checks())


def _resources(documents: list[dict[str, Any]]) -> Iterator[BuiltinResource]:
    for document in documents:
        for version in document["versions"]:
            for item in version["resources"]:
                yield _resource(document["group"], version["version"], item)


def _resource(group: str, version: str, item: dict[str, Any]) -> BuiltinResource:
    return BuiltinResource(
        group=group,
        version=version,
        kind=item["responseKind"]["kind"],
        plural=item["resource"],
        singular=item["singularResource"],
        namespaced=item["scope"] == "Namespaced",
        short_names=tuple(item.get("shortNames", ())),
        categories=tuple(item.get("categories", ())),
        verbs=tuple(item["verbs"]),
        subresources=tuple(_subresource(group, version, below) for below in item.get("subresources", ())),
        storage_version_hash=item.get("storageVersionHash", ""),
    )


def _subresource(group: str, version: str, item: dict[str, Any]) -> Subresource:
    kind = item["responseKind"]
    return Subresource(item["subresource"], kind["group"] or group, kind["version"] or version, kind["kind"], tuple(item["verbs"]))
