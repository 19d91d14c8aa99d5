"""The built-in kinds of Kubernetes 1.35: discovery data and schemas, loaded on first use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.schemas.model import Schema, build

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.schemas.model import Check, Defaulter

DATA = Path(__file__).parent / "data" / "kubernetes-1.35"
FEATURES = ("MutatingAdmissionPolicy",)
"""Features of kube-apiserver 1.35 that are off by default, and add kinds."""
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
# Component prefixes of groups, where they are not `io.k8s.api.<first label of the group>`.
_PACKAGES = {
    "": "io.k8s.api.core",
    "rbac.authorization.k8s.io": "io.k8s.api.rbac",
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration.k8s.io": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
    "meta.k8s.io": "io.k8s.apimachinery.pkg.apis.meta",
}


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource; its kind can differ from the kind of the object."""

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
    """A group and its versions, the preferred version first."""

    name: str
    versions: tuple[str, ...]


class Scheme:
    """The built-in kinds. `builtin_scheme` returns the instance of the process."""

    def __init__(self) -> None:
        documents = _read(DATA / "discovery.json")
        self.groups = tuple(BuiltinGroup(item["group"], tuple(v["version"] for v in item["versions"])) for item in documents)
        self.resources = list(_resources(documents))
        self.optional = {feature: list(_resources(_read(_feature_folder(feature) / "discovery.json"))) for feature in FEATURES}
        """By feature: the resources that it adds."""
        self._packages: dict[str, dict[str, Any]] = {}
        self._components: dict[str, Schema] = {}
        self._defaulters: dict[str, Defaulter] = {}
        self._checks: dict[str, Check] = {}

    def component(self, name: str) -> Schema:
        """The schema of a component, such as `io.k8s.api.core.v1.Container`. Raises KeyError if it does not exist."""
        result = self._components.get(name)
        if result is None:
            result = build(self.node(name), self.component, name)
            self._attach_rules(result)
            self._components[name] = result  # complete: threads decode at the same time
        return result

    def schema(self, group: str, version: str, kind: str) -> Schema:
        """The schema of a kind. Raises KeyError if it is not built in."""
        return self.component(component_name(group, version, kind))

    def node(self, name: str) -> dict[str, Any]:
        """The raw node of a component: OpenAPI with shortened references and `go` annotations."""
        package = name.rpartition(".")[0]
        components = self._packages.get(package)
        if components is None:
            folders = (DATA, *map(_feature_folder, FEATURES))
            path = next((file for folder in folders if (file := folder / f"{package}.json").is_file()), None)
            if path is None:
                raise KeyError(name)
            components = self._packages[package] = orjson.loads(path.read_bytes())
        node: dict[str, Any] = components[name]
        return node

    def nodes(self) -> dict[str, dict[str, Any]]:
        """The raw nodes of all components."""
        return {name: node for path in DATA.glob("io.k8s.*.json") for name, node in orjson.loads(path.read_bytes()).items()}

    def storage_version(self, group: str) -> str:
        """The version in which objects of a group are stored: the preferred one."""
        return next(item.versions[0] for item in self.groups if item.name == group)

    def register(self, defaulters: Mapping[str, Defaulter], checks: Mapping[str, Check]) -> None:
        """Register defaulters and checks by component name; the API server calls it once, on startup."""
        self._defaulters.update(defaulters)
        self._checks.update(checks)
        for schema in self._components.values():
            self._attach_rules(schema)

    def _attach_rules(self, schema: Schema) -> None:
        defaulter, check = self._defaulters.get(schema.name), self._checks.get(schema.name)
        if defaulter and defaulter not in schema.defaulters:
            schema.defaulters.append(defaulter)
        if check and check not in schema.checks:
            schema.checks.append(check)


@cache
def builtin_scheme() -> Scheme:
    """The built-in kinds, loaded once per process."""
    return Scheme()


def _feature_folder(feature: str) -> Path:
    return DATA / "features" / feature


def _read(path: Path) -> list[dict[str, Any]]:
    documents: list[dict[str, Any]] = orjson.loads(path.read_bytes())
    return documents


def is_kind(group: str, version: str, kind: str) -> bool:
    """Whether a kind is built in."""
    return any((item.group, item.version, item.kind) == (group, version, kind) for item in builtin_scheme().resources)


@lru_cache(maxsize=1024)
def component_name(group: str, version: str, kind: str) -> str:
    """The component that describes a built-in kind: `io.k8s.api.batch.v1.Job`."""
    if kind in ("DeleteOptions", "WatchEvent") or (not group and kind in ("Status", "APIResourceList")):
        # Every group declares these kinds; they share one component.
        return f"io.k8s.apimachinery.pkg.apis.meta.v1.{kind}"
    package = _PACKAGES.get(group) or "io.k8s.api." + group.partition(".")[0]
    return f"{package}.{version}.{kind}"


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
