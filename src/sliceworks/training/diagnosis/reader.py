"""Reads objects through a client: missing objects are None, forbidden kinds are recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from sliceworks.base.errors import ApiError, Forbidden, NotFound
from sliceworks.base.transport import Request
from sliceworks.kube.resources import CLUSTER_QUEUE_VISIBILITY, LOCAL_QUEUE_VISIBILITY

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sliceworks.kube import Client
    from sliceworks.kube.requests import ListOptions
    from sliceworks.kube.resources import Resource

Object = dict[str, Any]
HEAD_SIZE = 6  # pending workloads that are read at the head of a queue
_PAGE_SIZE = 500
_LIST_LIMIT = 500


class QueueIndex(NamedTuple):
    """An index in a queue, counted from 0, and the rows at its head."""

    queue_index: int
    head: tuple[Object, ...]


def queue_sort_key(row: Object) -> tuple[int, str]:
    """The order of a queue: higher priority first, then older."""
    priority = row.get("priority", (row.get("spec") or {}).get("priority"))
    return -int(priority or 0), str(row["metadata"]["creationTimestamp"])


class Reader:
    """Reads through a client. `hidden` are the forbidden kinds, `unreadable` describes what could not be read."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.hidden: set[str] = set()
        self.unreadable: list[str] = []
        self.is_complete = False  # whether the last `list_pages` read all namespaces to the end

    async def get_required(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """An object; raises NotFound or Forbidden."""
        return await self._client.get(resource, name, namespace)

    async def get(self, resource: Resource, name: str, namespace: str = "", *, quiet: bool = False) -> Object | None:
        """An object, or None if it does not exist or may not be read."""
        try:
            return await self._client.get(resource, name, namespace)
        except NotFound:
            return None
        except Forbidden:
            self._record_forbidden(resource, f"{resource.kind} {name}", quiet)
            return None

    async def items(
        self, resource: Resource, namespace: str | None = None, *, quiet: bool = False, **selection: Unpack[ListOptions]
    ) -> list[Object] | None:
        """The selected objects, or None if the cluster does not serve the kind or it may not be read."""
        try:
            return (await self._client.list(resource, namespace, **selection)).items
        except NotFound:
            return None
        except Forbidden:
            self._record_forbidden(resource, f"{resource.plural} {f'in {namespace}' if namespace else 'in all namespaces'}", quiet)
            return None

    async def list_pages(self, resource: Resource, own: str, *, maximum: int) -> AsyncGenerator[Object, None]:
        """Objects of all namespaces, or of `own` if only that may be read; at most `maximum`, in whole pages."""
        token, count, namespace = "", 0, None
        self.is_complete = False
        while count < maximum:
            try:
                page = await self._client.list(resource, namespace, limit=_LIST_LIMIT, continue_token=token)
            except Forbidden:
                if namespace is not None:
                    return
                self.unreadable.append(f"{resource.plural} in other namespaces: forbidden")
                namespace = own
                continue
            for item in page.items:
                yield item
            count, token = count + len(page.items), page.continue_token
            if not token:
                self.is_complete = namespace is None
                return

    async def find_position(self, local: Object, workload: Object, pending: int) -> QueueIndex | None:
        """The Workload's index among about `pending` in its ClusterQueue, and the queue's head; None if unknown."""
        metadata, queue = local["metadata"], local["spec"]["clusterQueue"]
        cluster_path = CLUSTER_QUEUE_VISIBILITY.path(None, queue, "pendingworkloads")
        for path in (cluster_path, LOCAL_QUEUE_VISIBILITY.path(metadata["namespace"], metadata["name"], "pendingworkloads")):
            try:
                return await self._find_position(path, workload, pending)
            except ApiError:
                continue  # not installed, forbidden or unavailable: the other endpoint may work
        self.unreadable.append(f"order of pending workloads in {queue}: Kueue's visibility API is not available")
        return None

    async def _find_position(self, path: str, workload: Object, pending: int) -> QueueIndex | None:
        """Find a Workload by binary search over pages."""
        head = await self._page(path, 0, HEAD_SIZE)
        low, high = 0, pending + _PAGE_SIZE
        while high - low > _PAGE_SIZE:
            middle = (low + high) // 2
            rows = await self._page(path, middle, 1)
            low, high = (middle, high) if rows and queue_sort_key(rows[0]) <= queue_sort_key(workload) else (low, middle)
        # Workloads of the same second are in any order: read one more page on either side.
        own, start = workload["metadata"], max(low - _PAGE_SIZE, 0)
        for number, row in enumerate(await self._page(path, start, 3 * _PAGE_SIZE)):
            if (row["metadata"]["namespace"], row["metadata"]["name"]) == (own["namespace"], own["name"]):
                return QueueIndex(int(row.get("positionInClusterQueue", start + number)), tuple(head))
        return None

    async def _page(self, path: str, offset: int, limit: int) -> list[Object]:
        query = (("limit", str(limit)), ("offset", str(offset)))
        result: list[Object] = (await self._client.send(Request("GET", path, query))).get("items") or []
        return result

    def _record_forbidden(self, resource: Resource, description: str, quiet: bool) -> None:
        self.hidden.add(resource.kind)
        if not quiet:
            self.unreadable.append(f"{description}: forbidden")
