"""Creates, watches, cordons, drains and deletes the Nodes of node pools through the Kubernetes API.

Keeps only the name and readiness of each Node of a node pool.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import is_condition_true
from sliceworks.base.errors import AlreadyExists, ApiError, Conflict, NotFound, SliceworksError
from sliceworks.catalog.labels import NODE_POOL
from sliceworks.kube.reflector import Reflector, Selection
from sliceworks.kube.resources import NODE, POD
from sliceworks.twin.cloud.core.exceptions import GoogleError
from sliceworks.twin.controllers.runtime.pod_index import is_finished
from sliceworks.twin.controllers.runtime.resource_keys import NODES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from sliceworks.kube.client import Client
    from sliceworks.twin.store.store import Store
    from sliceworks.twin.store.watch_cache import Change

log = logging.getLogger(__name__)
Obj = dict[str, Any]
_NODE_POOL_KEY = f'"{NODE_POOL}"'.encode()
_UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
"""Taint of kubelets with an external cloud provider; the cloud controller removes it when it initializes the Node."""
_KUBERNETES_TAINTS = ("node.kubernetes.io/", _UNINITIALIZED)
_STATE_ANNOTATION = "sliceworks.dev/state"
_CONCURRENCY = 32
_FIRST_NUMBER, _END_NUMBER = 8_192, 65_536
"""Range of Node numbers; lower ones are left to Nodes that are not created by GKE."""


class NodeManager:
    """Tracks the Nodes of node pools and reports when one becomes ready, becomes not ready or is deleted.

    With the `store` of the cluster it subscribes to the store; otherwise it lists and watches Nodes.
    """

    def __init__(self, client: Client, store: Store | None = None) -> None:
        self._client = client
        self._store = store
        self._ready: dict[str, bool] = {}
        self._numbers: set[int] = set()
        self._next = _FIRST_NUMBER
        self._task: asyncio.Task[None] | None = None
        self._is_subscribed = False
        self._initializing: set[asyncio.Task[None]] = set()
        self._draining: asyncio.Task[dict[str, list[tuple[str, str]]]] | None = None
        self.on_node_ready: Callable[[str], None] = lambda _: None
        self.on_node_not_ready: Callable[[str], None] = lambda _: None
        self.on_node_deleted: Callable[[str], None] = lambda _: None
        self.on_nodes_listed: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Start to watch Nodes, once."""
        if self._task is not None or self._is_subscribed:
            return
        if self._store is not None:
            self._is_subscribed = True
            self._store.subscribe(self._observe, (NODES,))
            self.on_nodes_listed()
            return
        reflector = Reflector(self._client, Selection(NODE, labels=NODE_POOL), self)
        self._task = asyncio.create_task(reflector.run(), name="cloud: nodes")

    def _observe(self, change: Change) -> None:
        if change.name in self._ready or _NODE_POOL_KEY in change.entry.data:
            self.changed(change.type, change.obj)

    async def stop(self) -> None:
        """Stop watching."""
        if self._store is not None and self._is_subscribed:
            self._store.unsubscribe(self._observe)
        tasks = [*self._initializing, *([self._task] if self._task is not None else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._task = None

    # Callbacks of the reflector.

    def replaced(self, items: Sequence[Obj]) -> None:
        """Handle a list of all Nodes."""
        names = {item["metadata"]["name"] for item in items}
        for name in [name for name in self._ready if name not in names]:
            self._on_deleted(name)
        for item in items:
            self._on_changed(item)
        self.on_nodes_listed()

    def changed(self, kind: str, obj: Obj) -> None:
        """Handle an ADDED, MODIFIED or DELETED event."""
        if kind == "DELETED":
            self._on_deleted(obj["metadata"]["name"])
        else:
            self._on_changed(obj)

    def _on_changed(self, node: Obj) -> None:
        name = node["metadata"]["name"]
        ready = is_condition_true(node, "Ready")
        before = self._ready.get(name)
        self._ready[name] = ready
        if ready and any(taint["key"] == _UNINITIALIZED for taint in node["spec"].get("taints") or ()):
            task = asyncio.create_task(self._initialize(node))
            self._initializing.add(task)
            task.add_done_callback(self._initializing.discard)
        if ready and not before:
            self.on_node_ready(name)
        elif before and not ready:
            self.on_node_not_ready(name)

    async def _initialize(self, node: Obj) -> None:
        """Remove the taint of an uninitialized Node. After a conflict the event of the other change triggers it again."""
        metadata = {"resourceVersion": node["metadata"]["resourceVersion"]}
        taints = [taint for taint in node["spec"]["taints"] if taint["key"] != _UNINITIALIZED]
        try:
            await self._client.patch(NODE, node["metadata"]["name"], {"metadata": metadata, "spec": {"taints": taints or None}})
        except (Conflict, NotFound):
            return
        except SliceworksError as error:
            # The next heartbeat triggers it again.
            log.warning("cannot initialize node %s: %s", node["metadata"]["name"], error)

    def _on_deleted(self, name: str) -> None:
        if self._ready.pop(name, None) is not None:
            self.on_node_deleted(name)

    def is_ready(self, name: str) -> bool:
        """Whether a Node is Ready."""
        return self._ready.get(name, False)

    def exists(self, name: str) -> bool:
        """Whether a Node exists."""
        return name in self._ready

    # Numbers, which determine the addresses of Nodes.

    def hold(self, numbers: Iterable[int]) -> None:
        """Mark numbers as used."""
        self._numbers.update(numbers)

    def free(self, numbers: Iterable[int]) -> None:
        """Release the numbers of deleted Nodes."""
        self._numbers.difference_update(numbers)

    def allocate_numbers(self, count: int) -> list[int]:
        """Return unused numbers and mark them as used; raises RESOURCE_EXHAUSTED if there are not enough."""
        if len(self._numbers) + count > _END_NUMBER - _FIRST_NUMBER:
            raise GoogleError("RESOURCE_EXHAUSTED", f"The twin supports {_END_NUMBER - _FIRST_NUMBER} nodes of node pools.")
        numbers: list[int] = []
        while len(numbers) < count:
            if self._next not in self._numbers:
                self._numbers.add(self._next)
                numbers.append(self._next)
            self._next = self._next + 1 if self._next + 1 < _END_NUMBER else _FIRST_NUMBER
        return numbers

    # Writes to the Kubernetes API.

    async def create(self, nodes: Iterable[Obj]) -> None:
        """Create Nodes that do not exist."""

        async def create_node(node: Obj) -> None:
            taints = [*(node["spec"].get("taints") or ()), {"key": _UNINITIALIZED, "value": "true", "effect": "NoSchedule"}]
            with suppress(AlreadyExists):
                await self._client.create({**node, "spec": {**node["spec"], "taints": taints}}, resource=NODE)

        self.start()
        await _for_each(create_node, nodes)

    async def cordon(self, names: Iterable[str]) -> None:
        """Make Nodes unschedulable."""

        async def cordon_node(name: str) -> None:
            with suppress(NotFound):
                await self._client.patch(NODE, name, {"spec": {"unschedulable": True}})

        await _for_each(cordon_node, names)

    async def relabel(self, name: str, labels: Obj, taints: list[Obj]) -> None:
        """Set labels and taints of a Node; taints of Kubernetes itself are kept."""
        with suppress(NotFound):
            node = await self._client.get(NODE, name)
            own = [taint for taint in node["spec"].get("taints") or () if taint["key"].startswith(_KUBERNETES_TAINTS)]
            await self._client.patch(NODE, name, {"metadata": {"labels": labels}, "spec": {"taints": [*taints, *own]}})

    async def drain(self, names: Iterable[str]) -> int:
        """Evict the pods of Nodes except DaemonSet pods; returns how many evictions a disruption budget prevented."""
        if self._draining is None or self._draining.done():
            # Node pools that are drained at the same time share one list of pods.
            self._draining = asyncio.create_task(self._evictable_pods())
        pods = await self._draining
        blocked = 0

        async def evict(pod: tuple[str, str]) -> None:
            nonlocal blocked
            try:
                await self._client.evict(pod[1], pod[0])
            except ApiError as error:
                blocked += error.code == 429

        await _for_each(evict, [pod for name in names for pod in pods.get(name, ())])
        return blocked

    async def _evictable_pods(self) -> dict[str, list[tuple[str, str]]]:
        """Running pods without DaemonSet pods, by Node name."""
        await asyncio.sleep(0)
        pods: dict[str, list[tuple[str, str]]] = {}
        for pod in (await self._client.list_all(POD, None, fields="spec.nodeName!=")).items:
            metadata = pod["metadata"]
            of_daemon_set = any(owner["kind"] == "DaemonSet" for owner in metadata.get("ownerReferences") or ())
            if not of_daemon_set and not is_finished(pod) and "deletionTimestamp" not in metadata:
                pods.setdefault(pod["spec"]["nodeName"], []).append((metadata["namespace"], metadata["name"]))
        return pods

    async def node_state(self, name: str) -> str:
        """`ready`, `deleted`, `unready`, or the injected state of a Node such as `maintenance`."""
        node = await self._client.find(NODE, name)
        if node is None:
            return "deleted"
        return (
            "ready" if self.is_ready(name) else str((node["metadata"].get("annotations") or {}).get(_STATE_ANNOTATION) or "unready")
        )

    async def unschedulable_pods(self) -> list[Obj]:
        """The pods that the scheduler has marked unschedulable, sorted by name."""
        pods = (await self._client.list_all(POD, None, fields="status.phase=Pending")).items
        return [pod for pod in pods if _is_unschedulable(pod)]

    async def busy_nodes(self) -> set[str]:
        """The Nodes with pods other than DaemonSet pods."""
        return set(await self._evictable_pods())

    async def delete(self, names: Iterable[str]) -> None:
        """Delete Nodes."""

        async def delete_node(name: str) -> None:
            with suppress(NotFound):
                await self._client.delete(NODE, name)

        await _for_each(delete_node, names)


def _is_unschedulable(pod: Obj) -> bool:
    """Whether the scheduler found no Node for a pod."""
    if "deletionTimestamp" in pod["metadata"] or pod["spec"].get("nodeName"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(item["type"] == "PodScheduled" and item.get("reason") == "Unschedulable" for item in conditions)


async def _for_each(act: Callable[[Any], Awaitable[None]], items: Iterable[Any]) -> None:
    """Run `act` concurrently for all items, then raise the first error."""
    semaphore = asyncio.Semaphore(_CONCURRENCY)

    async def run(item: Any) -> None:
        async with semaphore:
            await act(item)

    results = await asyncio.gather(*(run(item) for item in items), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
