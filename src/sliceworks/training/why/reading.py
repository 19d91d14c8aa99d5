"""One reader for all layers: what may not be read is remembered and told, what is not there is None."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from sliceworks.base.errors import ApiError, Forbidden, NotFound
from sliceworks.kube.resources import Resource
from sliceworks.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sliceworks.kube import Client
    from sliceworks.kube.options import ListOptions

Object = dict[str, Any]
JOBSET = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")


def _kueue(kind: str, plural: str, *, namespaced: bool = False) -> Resource:
    return Resource("kueue.x-k8s.io", "v1beta2", kind, plural, namespaced)


WORKLOAD = _kueue("Workload", "workloads", namespaced=True)
LOCAL_QUEUE = _kueue("LocalQueue", "localqueues", namespaced=True)
CLUSTER_QUEUE = _kueue("ClusterQueue", "clusterqueues")
COHORT = _kueue("Cohort", "cohorts")
FLAVOR = _kueue("ResourceFlavor", "resourceflavors")
CHECK = _kueue("AdmissionCheck", "admissionchecks")

_VISIBILITY = "/apis/visibility.kueue.x-k8s.io/v1beta2"
HEAD = 6  # so many at the head of a line are asked for
_PAGE = 500
_CHUNK = 500


class Turn(NamedTuple):
    """A place in a line, counted from 0, and the rows at its head."""

    place: int
    head: tuple[Object, ...]


def line_up(row: Object) -> tuple[int, str]:
    """What the order of a line goes by: the higher priority first, then the earlier."""
    priority = row.get("priority", (row.get("spec") or {}).get("priority"))
    return -int(priority or 0), str(row["metadata"]["creationTimestamp"])


class Reader:
    """Reads through a client. `hidden` are the kinds that were refused, `unseen` what to tell a person about them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.hidden: set[str] = set()
        self.unseen: list[str] = []
        self.whole = False  # whether the last `each` came to the end of all namespaces

    async def must(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """An object that has to be there."""
        return await self._client.get(resource, name, namespace)

    async def get(self, resource: Resource, name: str, namespace: str = "", *, quiet: bool = False) -> Object | None:
        """An object, or None: there is none, or it may not be seen."""
        try:
            return await self._client.get(resource, name, namespace)
        except NotFound:
            return None
        except Forbidden:
            self._refused(resource, f"{resource.kind} {name}", quiet)
            return None

    async def items(
        self, resource: Resource, namespace: str | None = None, *, quiet: bool = False, **selection: Unpack[ListOptions]
    ) -> list[Object] | None:
        """What is selected; None where the cluster has no such kind, or it may not be seen."""
        try:
            return (await self._client.list(resource, namespace, **selection)).items
        except NotFound:
            return None
        except Forbidden:
            self._refused(resource, f"{resource.plural} {f'of {namespace}' if namespace else 'of the cluster'}", quiet)
            return None

    async def each(self, resource: Resource, own: str, *, most: int) -> AsyncGenerator[Object, None]:
        """Objects of all namespaces, or of one's own where that is all one may see; so many at most."""
        token, seen, place = "", 0, None
        self.whole = False
        while seen < most:
            try:
                part = await self._client.list(resource, place, limit=_CHUNK, continue_token=token)
            except Forbidden:
                if place is not None:
                    return
                self.unseen.append(f"{resource.plural} of other namespaces: not allowed")
                place = own
                continue
            for item in part.items:
                yield item
            seen, token = seen + len(part.items), part.continue_token
            if not token:
                self.whole = place is None
                return

    async def turn(self, local: Object, workload: Object, waiting: int) -> Turn | None:
        """A Workload's place in its ClusterQueue, where about so many wait, and the head of that; None if Kueue does not tell."""
        metadata, queue = local["metadata"], local["spec"]["clusterQueue"]
        ways = (f"clusterqueues/{queue}", f"namespaces/{metadata['namespace']}/localqueues/{metadata['name']}")
        for way in ways:
            try:
                return await self._turn(f"{_VISIBILITY}/{way}/pendingworkloads", workload, waiting)
            except ApiError:
                continue  # not installed, not allowed, or not answering: the other way may do
        self.unseen.append(f"the order of those who wait in {queue}: Kueue's visibility API does not tell")
        return None

    async def _turn(self, path: str, workload: Object, waiting: int) -> Turn | None:
        """Halve the line until a page holds the one that is looked for."""
        head = await self._page(path, 0, HEAD)
        low, high = 0, waiting + _PAGE
        while high - low > _PAGE:
            middle = (low + high) // 2
            there = await self._page(path, middle, 1)
            low, high = (middle, high) if there and line_up(there[0]) <= line_up(workload) else (low, middle)
        # Those of one second stand in any order: a page more on either side is looked through.
        own, start = workload["metadata"], max(low - _PAGE, 0)
        for number, row in enumerate(await self._page(path, start, 3 * _PAGE)):
            if (row["metadata"]["namespace"], row["metadata"]["name"]) == (own["namespace"], own["name"]):
                return Turn(int(row.get("positionInClusterQueue", start + number)), tuple(head))
        return None

    async def _page(self, path: str, offset: int, limit: int) -> list[Object]:
        query = (("limit", str(limit)), ("offset", str(offset)))
        found: list[Object] = (await self._client.send(Request("GET", path, query))).get("items") or []
        return found

    def _refused(self, resource: Resource, what: str, quiet: bool) -> None:
        self.hidden.add(resource.kind)
        if not quiet:
            self.unseen.append(f"{what}: not allowed")
