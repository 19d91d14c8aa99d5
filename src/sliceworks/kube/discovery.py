"""Which resources a cluster serves: asked once, asked again when something is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sliceworks.base.errors import NotAcceptable, NotFound, ServiceUnavailable
from sliceworks.kube.resources import GVK, Resource, parse_api_version
from sliceworks.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_ACCEPT_EITHER = {"accept": f"{AGGREGATED},application/json"}
_ACCEPT_OLD = {"accept": "application/json"}


class Sends(Protocol):
    """What discovery needs of a client."""

    async def send(self, request: Request) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Group:
    """An API group and its versions, the preferred one first."""

    name: str
    versions: tuple[str, ...]
    resources: tuple[Resource, ...]


class Discovery:
    """The resources of one cluster, kept after the first question."""

    def __init__(self, client: Sends) -> None:
        self._client = client
        self._groups: tuple[Group, ...] | None = None

    async def groups(self) -> tuple[Group, ...]:
        """Every group, in the order the cluster prefers."""
        if self._groups is None:
            self._groups = tuple(await self._ask())
        return self._groups

    def invalidate(self) -> None:
        """Forget everything, so that the next question goes to the cluster."""
        self._groups = None

    async def resources(self) -> list[Resource]:
        """Every resource in every version."""
        return [resource for group in await self.groups() for resource in group.resources]

    async def by_gvk(self, gvk: GVK) -> Resource:
        """The resource of one kind in one version; NotFound where the cluster has none."""
        found = await self._look(lambda resource: resource.kind == gvk.kind and _same_version(resource, gvk))
        if found is None:
            raise NotFound(f'no matches for kind "{gvk.kind}" in version "{gvk.api_version}"')
        return found

    async def find(self, name: str) -> Resource:
        """The resource a person means: `po`, `pods`, `Pod`, `deployments.apps` or `deployments.v1.apps`."""
        wanted, _, rest = name.lower().partition(".")
        version, _, group = rest.partition(".")

        def matches(resource: Resource) -> bool:
            if wanted not in (resource.plural, resource.singular, resource.kind.lower(), *resource.short_names):
                return False
            return not rest or resource.group == rest or (resource.version, resource.group) == (version, group)

        found = await self._look(matches)
        if found is None:
            raise NotFound(f'the server doesn\'t have a resource type "{name}"')
        return found

    async def _look(self, matches: Callable[[Resource], bool]) -> Resource | None:
        fresh = self._groups is None
        found = next(filter(matches, await self.resources()), None)
        if found is None and not fresh:
            self.invalidate()
            found = next(filter(matches, await self.resources()), None)
        return found

    async def _ask(self) -> list[Group]:
        groups: list[Group] = []
        for root in ("/api", "/apis"):
            try:
                answer = await self._client.send(Request("GET", root, headers=_ACCEPT_EITHER))
            except NotAcceptable:
                answer = await self._client.send(Request("GET", root, headers=_ACCEPT_OLD))
            if answer.get("kind") == "APIGroupDiscoveryList":
                groups += parse_aggregated(answer)
            else:
                groups += [await self._old_group(name, versions) for name, versions in old_groups(answer)]
        return groups

    async def _old_group(self, name: str, versions: Iterable[str]) -> Group:
        resources: list[Resource] = []
        for version in versions:
            path = f"/apis/{name}/{version}" if name else f"/api/{version}"
            try:
                resources += parse_old_version(await self._client.send(Request("GET", path, headers=_ACCEPT_OLD)))
            except (NotFound, ServiceUnavailable):
                continue  # an aggregated API whose server is away hides only itself
        return Group(name, tuple(versions), tuple(resources))


def parse_aggregated(answer: dict[str, Any]) -> Iterator[Group]:
    """The groups in an APIGroupDiscoveryList."""
    for item in answer.get("items") or ():
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


def old_groups(answer: dict[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Names and versions in an APIVersions or APIGroupList, preferred version first."""
    if answer.get("kind") == "APIVersions":
        yield "", tuple(answer.get("versions") or ())
        return
    for group in answer.get("groups") or ():
        preferred = (group.get("preferredVersion") or {}).get("version")
        versions = [version["version"] for version in group.get("versions") or ()]
        yield group["name"], tuple(sorted(versions, key=lambda version: version != preferred))


def parse_old_version(answer: dict[str, Any]) -> Iterator[Resource]:
    """The resources in an APIResourceList."""
    group, version = parse_api_version(answer["groupVersion"])
    entries = answer.get("resources") or ()
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
