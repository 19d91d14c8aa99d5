"""Simulates nodes: watches nodes and pods and applies their stages."""

from __future__ import annotations

import asyncio
import logging
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import ApiError, Conflict, NotFound, SliceworksError
from sliceworks.base.retry import NEVER
from sliceworks.catalog import labels
from sliceworks.kube import requests
from sliceworks.kube.events import EventRecorder
from sliceworks.kube.reflector import Reflector, Selection
from sliceworks.kube.resources import NODE, PERSISTENT_VOLUME, POD, Key, key_of
from sliceworks.kube.workqueue import run_worker
from sliceworks.twin.controllers.runtime.pod_index import is_finished
from sliceworks.twin.nodes import pod_sources
from sliceworks.twin.nodes.container_status import render_message
from sliceworks.twin.nodes.heartbeat import HeartbeatIntervals, Heartbeats
from sliceworks.twin.nodes.pod_sources import SourceIndex, SourceKey, source_keys
from sliceworks.twin.nodes.pod_status import Addresses
from sliceworks.twin.nodes.simulated_node import SimulatedNode, SimulatedNodes
from sliceworks.twin.nodes.stage import Stages, builtin_stages
from sliceworks.twin.nodes.stage_lifecycle import ScheduledStage, apply_stage
from sliceworks.twin.nodes.stage_queue import ObjectKey, StageQueue, TrackedObject, uses_storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sliceworks.kube.client import Client
    from sliceworks.kube.requests import DeleteOptions
    from sliceworks.kube.resources import Resource
    from sliceworks.twin.nodes.stage_lifecycle import StageResult
    from sliceworks.twin.nodes.stage_queue import PodRuntime, PodStorage
Obj = dict[str, Any]


class Reader(Protocol):
    """Passes existing objects and changes to a sink until it is cancelled."""

    async def run(self) -> None: ...


class ObjectSink:
    """Calls `on_changed` with created and changed objects, and `on_deleted` with the keys of those deleted since the last list."""

    def __init__(self, on_changed: Callable[[Obj], None], on_deleted: Callable[[Key], None]) -> None:
        self.synced = asyncio.Event()
        self._on_changed, self._on_deleted = on_changed, on_deleted
        self._names: set[Key] = set()

    def replaced(self, items: Sequence[Obj]) -> None:
        """Handle a list of all objects."""
        names = {key_of(item) for item in items}
        for key in self._names - names:
            self._on_deleted(key)
        self._names = names
        for item in items:
            self._on_changed(item)
        self.synced.set()

    def changed(self, kind: str, obj: Obj) -> None:
        """Handle an ADDED, MODIFIED or DELETED event."""
        key = key_of(obj)
        if kind == "DELETED":
            self._names.discard(key)
            self._on_deleted(key)
        else:
            self._names.add(key)
            self._on_changed(obj)


async def write_result(client: Client, key: ObjectKey, obj: Obj, result: StageResult) -> None:
    """Write the result of a stage; the watch delivers the new state."""
    resource, metadata = resource_of(key), obj["metadata"]
    lock = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    if result.status:
        old = obj.get("status") or {}
        cleared = {name: None for name in ("reason", "message") if name in old and name not in result.status}
        await _patch(client, key, {"metadata": lock, "status": {**result.status, **cleared}}, "status")
        lock = {"uid": metadata["uid"]}
    if result.patch:
        await _patch(client, key, {**result.patch, "metadata": {**lock, **result.patch.get("metadata", {})}})
    if result.delete:
        options: DeleteOptions = {"uid": metadata["uid"]}
        if key.kind == "Pod":
            options["grace_period_seconds"] = 0
        await client.delete(resource, key.name, key.namespace or None, **options)


async def _patch(client: Client, key: ObjectKey, change: Obj, subresource: str = "") -> None:
    # The response is not parsed: the watch delivers the object, and parsing is the largest cost of a write.
    manager = client.field_manager
    await client.exchange(
        requests.patch(resource_of(key), key.name, change, key.namespace, subresource=subresource, field_manager=manager)
    )


def resource_of(key: ObjectKey) -> Resource:
    """The resource of a key."""
    return POD if key.kind == "Pod" else NODE


log = logging.getLogger(__name__)

_SELECTOR = f"{labels.NODE_RUNTIME}={labels.SIMULATED}"
_ROUNDING = 0.001


class NodeSimulator:
    """Simulates the kubelets of the nodes that the label selector `nodes` selects.

    `stages` replace the built-in ones. `reader` replaces list and watch as the source of objects. `job_seconds` is how long pods of
    Jobs run that have no annotation; None: until they are deleted. `storage` is the Cloud Storage that annotations of pods name.
    """

    def __init__(
        self,
        client: Client,
        stages: Stages | None = None,
        nodes: str = _SELECTOR,
        *,
        intervals: HeartbeatIntervals | None = None,
        events: Literal["all", "warnings", "none"] = "all",
        runtime: PodRuntime | None = None,
        seed: int = 0,
        job_seconds: float | None = None,
        storage: PodStorage | None = None,
        workers: int = 16,
        reader: Callable[[Selection, ObjectSink], Reader] | None = None,
    ) -> None:
        self._client = client.using(retry=NEVER, field_manager="kubelet")
        self._selector = nodes
        self._reader = reader or partial(Reflector, self._client)
        self._heartbeats = Heartbeats(self._client, intervals or HeartbeatIntervals())
        self._events = events
        self._recorder = EventRecorder(client.using(field_manager="kubelet"), "kubelet", core=True)
        self.runtime = runtime
        self._nodes = SimulatedNodes()
        self._sources = SourceIndex(self._requeue_pod)
        self._stages = StageQueue(
            builtin_stages if stages is None else partial(_stages_of_kind, stages),
            self._nodes,
            self._sources,
            runtime=runtime,
            seed=seed,
            job_seconds=job_seconds,
            storage=storage,
        )
        self._storage = storage
        self._silent_nodes: set[str] = set()
        self._workers = workers
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        # Pods come last: they start only if what they need is known to exist.
        await self._start_readers(
            (Selection(resource), ObjectSink(partial(self._on_source_changed, kind), partial(self._on_source_deleted, kind)))
            for kind, resource in pod_sources.RESOURCES.items()
        )
        workers = (run_worker(self._stages.queue, self._process, self._retry) for _ in range(self._workers))
        self._tasks += [asyncio.create_task(worker, name="nodes: worker") for worker in workers]
        nodes = ObjectSink(self._on_node_changed, self._on_node_deleted)
        pods = ObjectSink(self._on_pod_changed, self._on_pod_deleted)
        if self.runtime is not None:
            volumes = ObjectSink(self._on_volume_changed, lambda _: None)
            await self._start_readers([(Selection(PERSISTENT_VOLUME), volumes)])
        await self._start_readers(
            ((Selection(NODE, labels=self._selector), nodes), (Selection(POD, fields="spec.nodeName!="), pods))
        )
        return self

    async def _start_readers(self, selected: Iterable[tuple[Selection, ObjectSink]]) -> None:
        sinks = list(selected)
        readers = [self._reader(selection, sink) for selection, sink in sinks]
        self._tasks += [asyncio.create_task(reader.run(), name="nodes: reader") for reader in readers]
        for _, sink in sinks:
            await sink.synced.wait()

    def _requeue_pod(self, key: ObjectKey) -> None:
        self._stages.requeue(key)

    async def __aexit__(self, *_: object) -> None:
        self._stages.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await self._recorder.close(1.0)

    @property
    def idle(self) -> bool:
        """Whether the work queue is empty."""
        return self._stages.queue.idle

    # Callbacks of the watches.

    def _on_source_changed(self, kind: str, obj: Obj) -> None:
        self._sources.put(SourceKey(kind, *key_of(obj)), source_keys(obj))

    def _on_source_deleted(self, kind: str, key: Key) -> None:
        self._sources.delete(SourceKey(kind, *key))

    def _on_volume_changed(self, volume: Obj) -> None:
        is_released = (volume.get("status") or {}).get("phase") == "Released"
        if self.runtime is not None and is_released and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            self.runtime.on_volume_released(volume["metadata"]["name"])

    def _on_node_changed(self, obj: Obj) -> None:
        # Managed fields and images are not needed. The object may be shared: copy it instead of deleting fields.
        metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
        status = {name: value for name, value in (obj.get("status") or {}).items() if name != "images"}
        node, name = {**obj, "metadata": metadata, "status": status}, metadata["name"]
        affects_pods = self._nodes.put(node)
        simulated = self._nodes.get(name)
        assert simulated is not None
        self._stages.observe(ObjectKey("Node", "", name), node, name)
        self._schedule_heartbeat(simulated, name)
        if affects_pods:
            for key in self._nodes.pods_on(name):
                self._stages.requeue(ObjectKey("Pod", *key))

    def _on_node_deleted(self, key: Key) -> None:
        """Handle a node that was deleted or no longer matches the selector."""
        name = key.name
        self._nodes.delete(name)
        self._heartbeats.delete_node(name)
        self._silent_nodes.discard(name)
        for kind in ("Node", "Lease"):
            self._stages.delete(ObjectKey(kind, "", name))

    def _on_pod_changed(self, pod: Obj) -> None:
        metadata, node = pod["metadata"], pod["spec"].get("nodeName")
        if not node:
            return
        key = Key(metadata["namespace"], metadata["name"])
        if is_finished(pod) and "deletionTimestamp" not in metadata and self.runtime is None:
            self._on_pod_deleted(key)
            return
        object_key = ObjectKey("Pod", *key)
        self._nodes.add_pod(node, key)
        self._stages.observe(object_key, pod, node)
        if "podIP" in pod["status"]:
            self._reserve_address(object_key, pod)

    def _on_pod_deleted(self, key: Key) -> None:
        """Handle a deleted pod, or one in a terminal phase."""
        object_key = ObjectKey("Pod", *key)
        tracked = self._stages.get(object_key)
        if tracked is not None:
            self._nodes.delete_pod(tracked.node, key)
            node = self._nodes.get(tracked.node)
            if node is not None and tracked.address:
                node.addresses.release(tracked.address)
        self._stages.delete(object_key)
        if self.runtime is not None:
            self.runtime.on_pod_deleted(key)

    def _schedule_heartbeat(self, node: SimulatedNode, name: str) -> None:
        """Start or stop the heartbeats of a node."""
        lease = ObjectKey("Lease", "", name)
        if node.is_silent:
            if name not in self._silent_nodes:
                self._silent_nodes.add(name)
                self._stages.queue.add(lease)
        elif node.is_up and (self._stages.track(lease, name) or name in self._silent_nodes):
            self._silent_nodes.discard(name)
            self._stages.queue.add(lease)

    # Work.

    async def _process(self, key: ObjectKey) -> None:
        await (self._send_heartbeat(key.name) if key.kind == "Lease" else self._run_stage(key))
        # A twin in this process responds without I/O: yield, so that watches deliver the write before the next one.
        await asyncio.sleep(0)

    def _retry(self, key: ObjectKey, error: Exception) -> None:
        if not isinstance(error, SliceworksError):
            log.error("%s %s", key.kind, key.name, exc_info=error)
        elif not isinstance(error, Conflict | NotFound):
            level = logging.INFO if isinstance(error, ApiError) else logging.WARNING
            log.log(level, "%s %s: %s", key.kind, key.name, error)
        self._stages.retry(key)

    async def _send_heartbeat(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None:
            return
        if node.is_silent:
            await self._heartbeats.stop_renewing(node.obj)
            return
        await self._heartbeats.renew(node.obj)
        if self._heartbeats.intervals.lease:
            self._stages.requeue_after(ObjectKey("Lease", "", name), self._heartbeats.intervals.lease)

    async def _run_stage(self, key: ObjectKey) -> None:
        tracked = self._stages.get(key)
        if tracked is None:
            return
        obj, step = tracked.obj, tracked.step
        if obj is None or step is None:
            await self._read(key, tracked)
            return
        seconds_left = (step.at - clock.now()).total_seconds()
        if seconds_left > _ROUNDING:  # queued before its time
            self._stages.requeue_after(key, seconds_left)
            return
        tracked.obj = tracked.step = None
        if isinstance(obj, bytes):
            obj = orjson.loads(obj)
        node = self._nodes.get(tracked.node)
        if node is None or (key.kind == "Pod" and not node.is_active):
            return
        await self._apply(key, tracked, obj, step, node)

    async def _read(self, key: ObjectKey, tracked: TrackedObject) -> None:
        try:
            obj = await self._client.get(resource_of(key), key.name, key.namespace or None)
        except NotFound:
            if key.kind == "Pod":
                self._on_pod_deleted(Key(key.namespace, key.name))
            return
        version = int(obj["metadata"]["resourceVersion"])
        # The watch may have delivered a newer state before this response.
        if obj["metadata"]["uid"] == tracked.uid and version >= tracked.version:
            self._reserve_address(key, obj)
            tracked.version = version
            self._stages.plan(key, tracked, obj)

    async def _apply(self, key: ObjectKey, tracked: TrackedObject, obj: Obj, step: ScheduledStage, node: SimulatedNode) -> None:
        pod_address = self._allocate_address(tracked, obj, node) if key.kind == "Pod" else ""
        host = node.host or (self.runtime.node_address(tracked.node) if self.runtime is not None else "")
        result = apply_stage(step.stage, obj, clock.now(), Addresses(host, pod_address), node.obj)
        if key.kind == "Pod" and self._storage is not None and result.status.get("phase") == "Succeeded" and uses_storage(obj):
            self._storage.write(obj)
        await write_result(self._client, key, obj, result)
        for event in result.events:
            if self._events == "all" or (self._events == "warnings" and event.type == "Warning"):
                kind: Literal["Normal", "Warning"] = "Warning" if event.type == "Warning" else "Normal"
                self._recorder.record(obj, event.reason, render_message(event.message, obj), type=kind)

    def _allocate_address(self, tracked: TrackedObject, pod: Obj, node: SimulatedNode) -> str:
        if pod["spec"].get("hostNetwork"):
            return node.host
        tracked.address = tracked.address or node.addresses.allocate()
        return tracked.address

    def _reserve_address(self, key: ObjectKey, obj: Obj) -> None:
        """Reserve the address of a pod that had one before this simulator started."""
        tracked = self._stages.get(key)
        if tracked is None or tracked.address or key.kind != "Pod" or obj["spec"].get("hostNetwork"):
            return
        address = (obj.get("status") or {}).get("podIP")
        node = self._nodes.get(tracked.node)
        if node is not None and address:
            node.addresses.reserve(address)
            tracked.address = address


@lru_cache
def _stages_of_kind(stages: Stages, kind: str) -> Stages:
    return tuple(stage for stage in stages if stage.kind == kind)
