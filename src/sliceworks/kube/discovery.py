"""Discovery of the resources that a cluster serves: cached, and refreshed when a resource is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sliceworks.base.errors import NotAcceptable, NotFound, ServiceUnavailable
from sliceworks.base.transport import Request
from sliceworks.kube.resources import GVK, Resource, parse_api_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_ACCEPT_AGGREGATED = {"accept": f"{AGGREGATED},application/json"}
_ACCEPT_LEGACY = {"accept": "application/json"}
VERSION_REQUEST = Request("GET", "/version")
_TWIN = "+sliceworks"


class RequestSender(Protocol):
    """The part of a client that discovery uses."""

    async def send(self, request: Request) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Group:
    """An API group and its versions, the preferred one first."""

    name: str
    versions: tuple[str, ...]
    resources: tuple[Resource, ...]


def is_twin_version(version: Mapping[str, Any]) -> bool:
    """Whether the answer to VERSION_REQUEST is that of a twin."""
    return str(version.get("gitVersion", "")).endswith(_TWIN)


async def is_twin(client: RequestSender) -> bool:
    """Whether the cluster is a twin."""
    return is_twin_version(await client.send(VERSION_REQUEST))


class Discovery:
    """The resources of one cluster, cached after the first request."""

    def __init__(self, client: RequestSender) -> None:
        self._client = client
        self._groups: tuple[Group, ...] | None = None

    async def groups(self) -> tuple[Group, ...]:
        """All groups, in the order the cluster lists them."""
        if self._groups is None:
            self._groups = tuple(await self._fetch())
        return self._groups

    def invalidate(self) -> None:
        """Clear the cache."""
        self._groups = None

    async def resources(self) -> list[Resource]:
        """All resources in all versions."""
        return [resource for group in await self.groups() for resource in group.resources]

    async def by_gvk(self, gvk: GVK) -> Resource:
        """The resource of a kind; NotFound if the cluster does not serve it."""
        resource = await self._find(lambda resource: resource.kind == gvk.kind and _same_version(resource, gvk))
        if resource is None:
            raise NotFound(f'no matches for kind "{gvk.kind}" in version "{gvk.api_version}"')
        return resource

    async def find(self, name: str) -> Resource:
        """The resource of a kubectl argument: `po`, `pods`, `Pod`, `deployments.apps` or `deployments.v1.apps`."""
        prefix, _, rest = name.lower().partition(".")
        version, _, group = rest.partition(".")

        def matches(resource: Resource) -> bool:
            if prefix not in (resource.plural, resource.singular, resource.kind.lower(), *resource.short_names):
                return False
            return not rest or resource.group == rest or (resource.version, resource.group) == (version, group)

        resource = await self._find(matches)
        if resource is None:
            raise NotFound(f'the server doesn\'t have a resource type "{name}"')
        return resource

    async def _find(self, matches: Callable[[Resource], bool]) -> Resource | None:
        fresh = self._groups is None
        resource = next(filter(matches, await self.resources()), None)
        if resource is None and not fresh:
            self.invalidate()
            resource = next(filter(matches, await self.resources()), None)
        return resource

    async def _fetch(self) -> list[Group]:
        groups: list[Group] = []
        for root in ("/api", "/apis"):
            try:
                response = await self._client.send(Request("GET", root, headers=_ACCEPT_AGGREGATED))
            except NotAcceptable:
                response = await self._client.send(Request("GET", root, headers=_ACCEPT_LEGACY))
            if response.get("kind") == "APIGroupDiscoveryList":
                groups += parse_aggregated(response)
            else:
                groups += [await self._legacy_group(name, versions) for name, versions in parse_legacy_groups(response)]
        return groups

    async def _legacy_group(self, name: str, versions: Iterable[str]) -> Group:
        resources: list[Resource] = []
        for version in versions:
            path = f"/apis/{name}/{version}" if name else f"/api/{version}"
            try:
                resources += parse_legacy_version(await self._client.send(Request("GET", path, headers=_ACCEPT_LEGACY)))
            except (NotFound, ServiceUnavailable):
                continue  # an aggregated API whose server is unavailable is omitted
        return Group(name, tuple(versions), tuple(resources))


def parse_aggregated(response: dict[str, Any]) -> Iterator[Group]:
    """The groups in an APIGroupDiscoveryList."""
    for item in response.get("items") or ():
        name = item["metadata"].get("name", "")
        versions = item.get("versions") or ()
        resources = (
            _from_aggregated(name, version["version"], entry)
            for version in versions
            for entry in version.get("resources") or ()
            if entry.get("responseKind")
        )
        yield Group(name, tuple(version["version"] for version in versions), tuple(resources))


def _from_aggregated(group: str, version: str, entry: dict[str, Any]) -> Resource:
    return Resource(
        group,
        version,
        entry["responseKind"]["kind"],
        entry["resource"],
        entry.get("scope") == "Namespaced",
        tuple(part["subresource"] for part in entry.get("subresources") or ()),
        entry.get("singularResource", ""),
        tuple(entry.get("shortNames") or ()),
        tuple(entry.get("categories") or ()),
        tuple(entry.get("verbs") or ()),
    )


def parse_legacy_groups(response: dict[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Names and versions of the groups in an APIVersions or APIGroupList, preferred version first."""
    if response.get("kind") == "APIVersions":
        yield "", tuple(response.get("versions") or ())
        return
    for group in response.get("groups") or ():
        preferred = (group.get("preferredVersion") or {}).get("version")
        versions = [version["version"] for version in group.get("versions") or ()]
        yield group["name"], tuple(sorted(versions, key=lambda version: version != preferred))


def parse_legacy_version(response: dict[str, Any]) -> Iterator[Resource]:
    """The resources in an APIResourceList."""
    group, version = parse_api_version(response["groupVersion"])
    entries = response.get("resources") or ()
    for entry in entries:
        if "/" in entry["name"]:
            continue
        prefix = entry["name"] + "/"
        yield Resource(
            group,
            version,
            entry["kind"],
            entry["name"],
            bool(entry.get("namespaced")),
            tuple(other["name"][len(prefix) :] for other in entries if other["name"].startswith(prefix)),
            entry.get("singularName", ""),
            tuple(entry.get("shortNames") or ()),
            tuple(entry.get("categories") or ()),
            tuple(entry.get("verbs") or ()),
        )


def _same_version(resource: Resource, gvk: GVK) -> bool:
    return resource.group == gvk.group and resource.version == gvk.version
