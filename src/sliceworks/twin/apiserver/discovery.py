"""Discovery documents: group and resource lists, and the aggregated form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.apiserver.aggregation.api_services import ApiServices
    from sliceworks.twin.apiserver.aggregation.remote_api import RemoteApi
    from sliceworks.twin.apiserver.registry.resources import AggregatedApi, Registry, Resource, Subresource, Version

    Tree = dict[str, dict[str, list[Resource] | RemoteApi]]
    """Group → version → the resources of this server, or the API that another server serves."""

Obj = dict[str, Any]
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_ADDRESSES = [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}]


class Discovery:
    """Discovery documents, built on first use and again after the registry or an APIService changed."""

    def __init__(
        self, registry: Registry, version: Obj, aggregated_apis: Mapping[str, AggregatedApi], api_services: ApiServices
    ) -> None:
        self._registry, self._aggregated_apis, self._api_services = registry, aggregated_apis, api_services
        self.version = orjson.dumps(version)
        self._documents: dict[str, bytes] = {}
        self._generation = (-1, -1)

    def document(self, name: str) -> bytes | None:
        """The document of a path such as `api`, `apis`, `apis/apps` or `apis/apps/v1`; `…?aggregated` for the aggregated form."""
        generation = (self._registry.generation, self._api_services.generation)
        if self._generation != generation:
            self._documents, self._generation = {}, generation
        if name not in self._documents:
            document = self._build(name)
            if document is None:
                return None
            self._documents[name] = orjson.dumps(document)
        return self._documents[name]

    def _build(self, name: str) -> Obj | None:
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
        resources = tree[group].get(parts[2])
        return _resource_list(group, parts[2], resources) if isinstance(resources, list) else None

    def _tree(self) -> Tree:
        """Groups and versions in the order of their priorities; those of remote APIs without the resources."""
        tree: Tree = {group: dict(versions) for group, versions in self._registry.versions().items()}
        for group, api in self._aggregated_apis.items():
            for resource in api.resources:
                for version in resource.versions:
                    listed = tree.setdefault(group, {}).setdefault(version, [])
                    assert isinstance(listed, list)
                    if all(other.plural != resource.plural for other in listed):  # a custom resource comes before
                        listed.append(resource)
        for remote in self._api_services.remotes.values():
            tree.setdefault(remote.group, {})[remote.version] = remote
        names = self._api_services.sorted((group, version) for group, versions in tree.items() for version in versions)
        return {group: {version: tree[group][version] for version in versions} for group, versions in names.items()}


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
        listed += [_subresource(resource, version, served.subresources[name]) for name in sorted(served.subresources)]
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


def _subresource(resource: Resource, version: str, subresource: Subresource) -> Obj:
    item: Obj = {"name": f"{resource.plural}/{subresource.name}", "singularName": "", "namespaced": resource.namespaced}
    if (subresource.group, subresource.version) != (resource.group, version):
        item |= {"group": subresource.group, "version": subresource.version}
    return {**item, "kind": subresource.kind, "verbs": list(subresource.verbs)}


def _aggregated_list(tree: Tree) -> Obj:
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [_aggregated(version, served) for version, served in versions.items()],
        }
        for group, versions in tree.items()
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated(version: str, resources: list[Resource] | RemoteApi) -> Obj:
    listed: list[Obj] = []
    if not isinstance(resources, list):
        known = resources.documents.resources
        return {"version": version, "freshness": "Stale"} if known is None else _current(version, known)
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
                    "subresource": subresource.name,
                    "responseKind": _subresource_kind(resource, version, subresource),
                    "verbs": list(subresource.verbs),
                }
                for subresource in sorted(served.subresources.values(), key=lambda item: item.name)
            ]
        listed.append(item)
    return _current(version, listed)


def _current(version: str, resources: list[Obj]) -> Obj:
    listed = {"resources": resources} if resources else {}
    return {"version": version, **listed, "freshness": "Current"}


def _subresource_kind(resource: Resource, version: str, subresource: Subresource) -> Obj:
    same = (subresource.group, subresource.version) == (resource.group, version)
    return _kind(resource.custom or not same, subresource.group, subresource.version, subresource.kind)


def _kind(full: bool, group: str, version: str, kind: str) -> Obj:
    """Built-in kinds leave group and version empty, as kube-apiserver does; clients take them from the parent."""
    return {"group": group, "version": version, "kind": kind} if full else {"group": "", "version": "", "kind": kind}
