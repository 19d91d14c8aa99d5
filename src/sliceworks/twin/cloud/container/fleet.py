"""The machines of the cloud as nodes of the cluster: made, watched, emptied and taken away through the Kubernetes API alone.

Of each node that belongs to a pool only its name is kept, and whether it is ready.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import is_true
from sliceworks.base.errors import AlreadyExists, ApiError, Conflict, NotFound, SliceworksError
from sliceworks.catalog.labels import NODE_POOL
from sliceworks.kube.reflector import Reflector, Selection
from sliceworks.kube.well_known import NODE, POD

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from sliceworks.kube.client import Client
    from sliceworks.twin.store.entries import Change
    from sliceworks.twin.store.store import Store

log = logging.getLogger(__name__)
Obj = dict[str, Any]
_NODES, _MARK = "/nodes", f'"{NODE_POOL}"'.encode()
_UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
"""The taint with which kubelets come up in a cloud; the cloud's own controller takes it away once it knows the machine."""
_OF_KUBERNETES = ("node.kubernetes.io/", _UNINITIALIZED)
_STATE = "sliceworks.dev/state"
_AT_ONCE = 32
_FIRST, _LAST = 8_192, 65_536
"""Numbers of nodes: the lower ones are left to nodes that others make."""


class Fleet:
    """Knows which nodes are there, and says so when one comes up, fails or goes.

    Where the cluster's own `store` is in this process, nodes are read there; else they are listed and watched.
    """

    def __init__(self, client: Client, store: Store | None = None) -> None:
        self._client = client
        self._store = store
        self._ready: dict[str, bool] = {}
        self._numbers: set[int] = set()
        self._next = _FIRST
        self._task: asyncio.Task[None] | None = None
        self._reading = False
        self._taking_up: set[asyncio.Task[None]] = set()
        self._draining: asyncio.Task[dict[str, list[tuple[str, str]]]] | None = None
        self.came_up: Callable[[str], None] = lambda _: None
        self.failed: Callable[[str], None] = lambda _: None
        self.went: Callable[[str], None] = lambda _: None
        self.listed: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Begin to watch, if that has not been done."""
        if self._task is not None or self._reading:
            return
        if self._store is not None:
            self._reading = True
            self._store.subscribe(self._observe)
            self.listed()
            return
        reader = Reflector(self._client, Selection(NODE, labels=NODE_POOL), self)
        self._task = asyncio.create_task(reader.run(), name="cloud: nodes")

    def _observe(self, change: Change) -> None:
        if change.resource == _NODES and (change.name in self._ready or _MARK in change.entry.data):
            self.changed(change.type, change.obj)

    async def stop(self) -> None:
        """Watch no more."""
        if self._store is not None and self._reading:
            self._store.unsubscribe(self._observe)
        tasks = [*self._taking_up, *([self._task] if self._task is not None else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._task = None

    # What the watch tells.

    def replaced(self, items: Sequence[Obj]) -> None:
        """The nodes are exactly these."""
        there = {item["metadata"]["name"] for item in items}
        for name in [name for name in self._ready if name not in there]:
            self._lose(name)
        for item in items:
            self._see(item)
        self.listed()

    def changed(self, kind: str, obj: Obj) -> None:
        """One node is ADDED, MODIFIED or DELETED."""
        if kind == "DELETED":
            self._lose(obj["metadata"]["name"])
        else:
            self._see(obj)

    def _see(self, node: Obj) -> None:
        name = node["metadata"]["name"]
        ready = is_true(node, "Ready")
        before = self._ready.get(name)
        self._ready[name] = ready
        if ready and any(taint["key"] == _UNINITIALIZED for taint in node["spec"].get("taints") or ()):
            task = asyncio.create_task(self._take_up(node))
            self._taking_up.add(task)
            task.add_done_callback(self._taking_up.discard)
        if ready and not before:
            self.came_up(name)
        elif before and not ready:
            self.failed(name)

    async def _take_up(self, node: Obj) -> None:
        """Let pods come to a machine that is up. Where somebody else has just changed it, that change is seen next."""
        metadata = {"resourceVersion": node["metadata"]["resourceVersion"]}
        taints = [taint for taint in node["spec"]["taints"] if taint["key"] != _UNINITIALIZED]
        try:
            await self._client.patch(NODE, node["metadata"]["name"], {"metadata": metadata, "spec": {"taints": taints or None}})
        except (Conflict, NotFound):
            return
        except SliceworksError as error:
            log.warning("node %s: %s", node["metadata"]["name"], error)  # its next heartbeat is another chance

    def _lose(self, name: str) -> None:
        if self._ready.pop(name, None) is not None:
            self.went(name)

    def is_ready(self, name: str) -> bool:
        """Whether a node's kubelet says that it is ready."""
        return self._ready.get(name, False)

    def is_there(self, name: str) -> bool:
        """Whether there is such a node."""
        return name in self._ready

    # Numbers, from which addresses follow.

    def hold(self, numbers: Iterable[int]) -> None:
        """Know that nodes have these."""
        self._numbers.update(numbers)

    def free(self, numbers: Iterable[int]) -> None:
        """The nodes that had these are gone."""
        self._numbers.difference_update(numbers)

    def number(self) -> int:
        """One that no node has."""
        while self._next in self._numbers:
            self._next = self._next + 1 if self._next + 1 < _LAST else _FIRST
        self._numbers.add(self._next)
        return self._next

    # What is done.

    async def create(self, nodes: Iterable[Obj]) -> None:
        """Let nodes appear; those that are there already are left alone."""

        async def one(node: Obj) -> None:
            taints = [*(node["spec"].get("taints") or ()), {"key": _UNINITIALIZED, "value": "true", "effect": "NoSchedule"}]
            try:
                await self._client.create({**node, "spec": {**node["spec"], "taints": taints}}, resource=NODE)
            except AlreadyExists:
                return

        self.start()
        await _each(one, nodes)

    async def cordon(self, names: Iterable[str]) -> None:
        """Let no more pods come to nodes."""

        async def one(name: str) -> None:
            try:
                await self._client.patch(NODE, name, {"spec": {"unschedulable": True}})
            except NotFound:
                return

        await _each(one, names)

    async def repaint(self, name: str, labels: Obj, taints: list[Obj]) -> None:
        """Set labels of a node, and its taints but for those that Kubernetes itself gives."""
        try:
            node = await self._client.get(NODE, name)
            own = [taint for taint in node["spec"].get("taints") or () if taint["key"].startswith(_OF_KUBERNETES)]
            await self._client.patch(NODE, name, {"metadata": {"labels": labels}, "spec": {"taints": [*taints, *own]}})
        except NotFound:
            return

    async def drain(self, names: Iterable[str]) -> int:
        """Ask the pods of nodes to leave, but for those that every node has; returns how many may not leave yet."""
        if self._draining is None or self._draining.done():
            # Pools that end together are emptied by one look at the pods.
            self._draining = asyncio.create_task(self._pods())
        on = await self._draining
        left = 0

        async def one(pod: tuple[str, str]) -> None:
            nonlocal left
            try:
                await self._client.evict(pod[1], pod[0])
            except NotFound:
                return
            except ApiError as error:
                left += error.code == 429

        await _each(one, [pod for name in names for pod in on.get(name, ())])
        return left

    async def _pods(self) -> dict[str, list[tuple[str, str]]]:
        """The pods that can be evicted, by node."""
        await asyncio.sleep(0)
        found: dict[str, list[tuple[str, str]]] = {}
        for pod in (await self._client.list_all(POD, None, fields="spec.nodeName!=")).items:
            metadata = pod["metadata"]
            owners = metadata.get("ownerReferences") or ()
            ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
            if not ended and "deletionTimestamp" not in metadata and not any(owner["kind"] == "DaemonSet" for owner in owners):
                found.setdefault(pod["spec"]["nodeName"], []).append((metadata["namespace"], metadata["name"]))
        return found

    async def state(self, name: str) -> str:
        """How a node is: `ready`, `gone`, or what was done to it, such as `maintenance`."""
        node = await self._client.find(NODE, name)
        if node is None:
            return "gone"
        return "ready" if self.is_ready(name) else str((node["metadata"].get("annotations") or {}).get(_STATE) or "unready")

    async def waiting_pods(self) -> list[Obj]:
        """The pods that no node has room for, in the order of their names."""
        found = (await self._client.list_all(POD, None, fields="status.phase=Pending")).items
        return [pod for pod in found if _is_waiting(pod)]

    async def busy_nodes(self) -> set[str]:
        """The nodes with pods that are there for their own sake, and not because every node has one."""
        return {node for node, pods in (await self._pods()).items() if pods}

    async def delete(self, names: Iterable[str]) -> None:
        """Take nodes away."""

        async def one(name: str) -> None:
            try:
                await self._client.delete(NODE, name)
            except NotFound:
                return

        await _each(one, names)


def _is_waiting(pod: Obj) -> bool:
    """Whether the scheduler has said that there is no room for a pod."""
    if "deletionTimestamp" in pod["metadata"] or pod["spec"].get("nodeName"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable" for each in conditions)


async def _each(act: Callable[[Any], Awaitable[None]], items: Iterable[Any]) -> None:
    """Do something for each, many at once; all are tried before the first failure is raised."""
    waiting = asyncio.Semaphore(_AT_ONCE)

    async def one(item: Any) -> None:
        async with waiting:
            await act(item)

    results = await asyncio.gather(*(one(item) for item in items), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
