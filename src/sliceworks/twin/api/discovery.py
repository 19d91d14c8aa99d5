"""What is served, told to those who ask: the old group and resource lists, and the aggregated form that clients prefer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.api.pages import Page
    from sliceworks.twin.api.resources import Registry, Resource, Subresource, Version

Obj = dict[str, Any]
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_ADDRESSES = [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}]
_STABILITY = {"alpha": 0, "beta": 1, "": 2}
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


def version_rank(version: str) -> tuple[Any, ...]:
    """Sorts versions as Kubernetes prefers them: stable before beta before alpha, newer first; others behind, by name."""
    found = _VERSION.fullmatch(version)
    if not found:
        return (1, version)
    major, stability, minor = found.groups()
    return (0, -_STABILITY[stability or ""], -int(major), -int(minor or 0))


class Discovery:
    """Discovery documents, made when first asked for and again when the registry changed."""

    def __init__(self, registry: Registry, version: Obj, pages: Mapping[str, Page]) -> None:
        self._registry, self._pages = registry, pages
        self.version = orjson.dumps(version)
        self._made: dict[str, bytes] = {}
        self._generation = -1

    def document(self, name: str) -> bytes | None:
        """The document of a path such as `api`, `apis`, `apis/apps` or `apis/apps/v1`; `…?aggregated` for the new form."""
        if self._generation != self._registry.generation:
            self._made, self._generation = {}, self._registry.generation
        if name not in self._made:
            made = self._make(name)
            if made is None:
                return None
            self._made[name] = orjson.dumps(made)
        return self._made[name]

    def _make(self, name: str) -> Obj | None:
        tree = self._tree()
        if name == "api":
            return {"kind": "APIVersions", "versions": list(tree.get("", {})), "serverAddressByClientCIDRs": _ADDRESSES}
        if name == "api?aggregated":
            return _aggregated_list({"": tree.get("", {})})
        if name == "apis?aggregated":
            return _aggregated_list({group: versions for group, versions in tree.items() if group})
        if name == "apis":
            groups = [_group(group, list(versions)) for group, versions in tree.items() if group]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        parts = name.split("/")
        if parts[0] == "api":
            parts.insert(1, "")
        group = parts[1]
        if group not in tree or len(parts) > 3:
            return None
        if len(parts) == 2:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, list(tree[group]))}
        return _resource_list(group, parts[2], tree[group].get(parts[2]))

    def _tree(self) -> dict[str, dict[str, list[Resource]]]:
        tree = self._registry.versions()
        for group, page in self._pages.items():
            for resource in page.resources:
                for version in resource.versions:
                    tree.setdefault(group, {}).setdefault(version, []).append(resource)
        return {group: dict(sorted(versions.items(), key=lambda item: version_rank(item[0]))) for group, versions in tree.items()}


def _group(name: str, versions: list[str]) -> Obj:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resource_list(group: str, version: str, resources: list[Resource] | None) -> Obj | None:
    if resources is None:
        return None
    listed: list[Obj] = []
    for resource in sorted(resources, key=lambda item: item.plural):
        served = resource.versions[version]
        listed.append(_resource(resource, served))
        listed += [_below(resource, version, served.subresources[name]) for name in sorted(served.subresources)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": listed,
    }


def _resource(resource: Resource, version: Version) -> Obj:
    item: Obj = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(version.verbs),
    }
    if resource.short_names:
        item["shortNames"] = list(resource.short_names)
    if resource.categories:
        item["categories"] = list(resource.categories)
    if resource.storage_hash:
        item["storageVersionHash"] = resource.storage_hash
    return item


def _below(resource: Resource, version: str, subresource: Subresource) -> Obj:
    item: Obj = {"name": f"{resource.plural}/{subresource.name}", "singularName": "", "namespaced": resource.namespaced}
    if (subresource.group, subresource.version) != (resource.group, version):
        item |= {"group": subresource.group, "version": subresource.version}
    return {**item, "kind": subresource.kind, "verbs": list(subresource.verbs)}


def _aggregated_list(tree: dict[str, dict[str, list[Resource]]]) -> Obj:
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [_aggregated(version, found) for version, found in versions.items()],
        }
        for group, versions in tree.items()
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated(version: str, resources: list[Resource]) -> Obj:
    listed = []
    for resource in sorted(resources, key=lambda item: item.plural):
        served = resource.versions[version]
        item: Obj = {
            "resource": resource.plural,
            "responseKind": _kind(resource.custom, resource.group, version, resource.kind),
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "singularResource": resource.singular,
            "verbs": list(served.verbs),
        }
        if resource.short_names:
            item["shortNames"] = list(resource.short_names)
        if resource.categories:
            item["categories"] = list(resource.categories)
        if served.subresources:
            item["subresources"] = [
                {
                    "subresource": below.name,
                    "responseKind": _below_kind(resource, version, below),
                    "verbs": list(below.verbs),
                }
                for below in sorted(served.subresources.values(), key=lambda found: found.name)
            ]
        listed.append(item)
    return {"version": version, "resources": listed, "freshness": "Current"}


def _below_kind(resource: Resource, version: str, below: Subresource) -> Obj:
    same = (below.group, below.version) == (resource.group, version)
    return _kind(resource.custom or not same, below.group, below.version, below.kind)


def _kind(full: bool, group: str, version: str, kind: str) -> Obj:
    """Built-in kinds leave group and version empty: the real server does, and clients fill them in from the place."""
    return {"group": group, "version": version, "kind": kind} if full else {"group": "", "version": "", "kind": kind}
