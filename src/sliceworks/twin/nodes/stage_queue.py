"""Schedules the next stage of every object, again on every change."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson

from sliceworks.base import clock
from sliceworks.base.retry import Backoff
from sliceworks.base.timer_heap import Timers
from sliceworks.catalog.labels import READS, RUN_SECONDS, WRITES
from sliceworks.kube.workqueue import WorkQueue
from sliceworks.twin.nodes.host_ports import HostPorts
from sliceworks.twin.nodes.pod_sources import missing_sources, references
from sliceworks.twin.nodes.pod_status import is_unobserved
from sliceworks.twin.nodes.stage_lifecycle import next_stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.kube.resources import Key
    from sliceworks.twin.nodes.pod_sources import SourceIndex
    from sliceworks.twin.nodes.simulated_node import SimulatedNodes
    from sliceworks.twin.nodes.stage import Stages
    from sliceworks.twin.nodes.stage_lifecycle import ScheduledStage
Obj = dict[str, Any]


class ObjectKey(NamedTuple):
    """The key of a Pod, a Node or the Lease of a node."""

    kind: str
    namespace: str
    name: str


class TrackedObject:
    """The next stage of an object, and the object itself, serialized while it waits."""

    __slots__ = ("address", "node", "obj", "step", "uid", "version")

    def __init__(self, uid: str, node: str) -> None:
        self.uid = uid
        self.node = node
        self.version = 0
        self.address = ""
        self.step: ScheduledStage | None = None
        self.obj: bytes | Obj | None = None


class PodRuntime(Protocol):
    """Runs pods without stages."""

    def node_address(self, name: str) -> str:
        """The address of a node that was created without one, or an empty string."""
        ...

    def accepts(self, pod: Obj) -> bool:
        """Whether it runs a pod."""
        ...

    def on_pod_changed(self, pod: Obj, host: str) -> None:
        """Handle a created or changed pod that it accepts."""
        ...

    def on_pod_deleted(self, pod: Key) -> None:
        """Handle a deleted pod."""
        ...

    def on_volume_released(self, name: str) -> None:
        """Handle a PersistentVolume that is reclaimed with its data."""
        ...


class PodStorage(Protocol):
    """Cloud Storage of the simulated pods."""

    def find_error(self, pod: Obj, node: Obj) -> str:
        """Why a pod cannot read or write what its annotations say; empty if it can."""
        ...

    def write(self, pod: Obj) -> None:
        """Create what a completed pod has written."""
        ...


def uses_storage(pod: Obj) -> bool:
    """Whether annotations say that a pod reads or writes Cloud Storage."""
    annotations = pod["metadata"].get("annotations") or {}
    return READS in annotations or WRITES in annotations


def pack(obj: Obj) -> bytes:
    """Serialize an object that waits; it needs a tenth of the memory."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    # Copy: the buffer of orjson is larger than its content.
    return bytes(memoryview(orjson.dumps({**obj, "metadata": metadata})))


def _is_of_job(pod: Obj) -> bool:
    """Whether a Job controls the pod, and no annotation says how long it runs."""
    metadata = pod["metadata"]
    return RUN_SECONDS not in (metadata.get("annotations") or {}) and any(
        owner["kind"] == "Job" and owner.get("controller") for owner in metadata.get("ownerReferences") or ()
    )


_MAX_UNPACKED = 500  # objects that wait for a worker; further ones are serialized


class StageQueue:
    """Adds objects to `queue` when their next stage is due. `stages` returns the stages of a kind."""

    def __init__(
        self,
        stages: Callable[[str], Stages],
        nodes: SimulatedNodes,
        sources: SourceIndex,
        *,
        runtime: PodRuntime | None,
        seed: int,
        job_seconds: float | None = None,
        storage: PodStorage | None = None,
    ) -> None:
        self._storage = storage
        self._job_seconds = job_seconds
        self._stages = stages
        self._nodes = nodes
        self._sources = sources
        self._runtime = runtime
        self._seed = seed
        self._host_ports = HostPorts()
        self._tracked: dict[ObjectKey, TrackedObject] = {}
        self.queue: WorkQueue[ObjectKey] = WorkQueue(Backoff(first=0.05, cap=30.0, jitter=0.0))
        self._timers: Timers[ObjectKey] = Timers(self.queue.add)

    def get(self, key: ObjectKey) -> TrackedObject | None:
        """Return the tracked object, or None."""
        return self._tracked.get(key)

    def observe(self, key: ObjectKey, obj: Obj, node: str) -> None:
        """Handle a created or changed object of a node."""
        metadata = obj["metadata"]
        tracked = self._tracked.get(key)
        if tracked is None or tracked.uid != metadata["uid"]:
            tracked = self._tracked[key] = TrackedObject(metadata["uid"], node)
        version = int(metadata["resourceVersion"])
        if version > tracked.version:
            tracked.version = version
            self.plan(key, tracked, obj)

    def plan(self, key: ObjectKey, tracked: TrackedObject, obj: Obj) -> None:
        """Schedule the next stage of an object in this state."""
        simulated = self._nodes.get(tracked.node)
        if simulated is None or (key.kind == "Pod" and not simulated.is_active):
            self._clear(key, tracked)
            return
        if key.kind == "Pod" and not self._host_ports.admit(key, tracked.node, obj):
            obj = {**obj, "rejected": True}
        elif key.kind == "Pod" and self._runtime is not None and self._runtime.accepts(obj):
            self._runtime.on_pod_changed(obj, simulated.host)
            return
        if key.kind == "Pod":
            obj = self._prepare_pod(key, obj, simulated.obj)
        now = clock.now()
        step = next_stage(obj, self._stages(key.kind), now, lambda: self._random(obj), simulated.obj)
        if step is None:
            self._clear(key, tracked)
            return
        if step.at <= now:
            self._timers.cancel(key)
            tracked.step, tracked.obj = step, obj if len(self.queue) < _MAX_UNPACKED else pack(obj)
            self.queue.add(key)
            return
        is_waiting = tracked.step is not None and tracked.step.stage is step.stage and key in self._timers
        if is_waiting and step.stage.delay.since is None:
            tracked.obj = pack(obj)
            return  # the delay started when this state was first observed
        tracked.step, tracked.obj = step, pack(obj)
        self._timers.set(key, (step.at - now).total_seconds())

    def _prepare_pod(self, key: ObjectKey, pod: Obj, node: Obj) -> Obj:
        """The pod, with the fields that stages match besides its own."""
        phase = pod["status"].get("phase")
        if is_unobserved(pod):
            pod = {**pod, "unobserved": True}
        if self._storage is not None and uses_storage(pod) and (error := self._storage.find_error(pod, node)):
            pod = {**pod, "storageError": error}
        if phase == "Pending":
            return self._with_missing_sources(key, pod)
        if phase == "Running" and self._job_seconds is not None and _is_of_job(pod):
            return {**pod, "runSeconds": self._job_seconds}
        return pod

    def _with_missing_sources(self, key: ObjectKey, pod: Obj) -> Obj:
        """The pod, with a field `missing` for the stages if objects that it needs do not exist; it is planned again with them."""
        missing = missing_sources(pod, self._sources.get)
        if missing is None:
            return pod
        self._sources.wait(key, references(pod))
        return {**pod, "missing": missing}

    def _random(self, obj: Obj) -> Random:
        """A random generator that depends only on the seed, the object and its restart counts."""
        counts = [item["restartCount"] for item in (obj.get("status") or {}).get("containerStatuses") or ()]
        return Random(f"{self._seed}/{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}/{counts}")

    def track(self, key: ObjectKey, node: str) -> bool:
        """Track an object without stages, such as a lease; returns False if it is tracked already."""
        if key in self._tracked:
            return False
        self._tracked[key] = TrackedObject("", node)
        return True

    def requeue_after(self, key: ObjectKey, seconds: float) -> None:
        """Add an object to the queue after `seconds`."""
        self._timers.set(key, seconds)

    def requeue(self, key: ObjectKey) -> None:
        """Read an object again and schedule its next stage."""
        if self._clear_state(key):
            self.queue.add(key)

    def retry(self, key: ObjectKey) -> None:
        """Read an object again with backoff, after a conflict or an API error."""
        if self._clear_state(key):
            self.queue.add_rate_limited(key)

    def _clear_state(self, key: ObjectKey) -> bool:
        tracked = self._tracked.get(key)
        if tracked is None:
            return False
        self._clear(key, tracked)
        return True

    def _clear(self, key: ObjectKey, tracked: TrackedObject) -> None:
        self._timers.cancel(key)
        tracked.step = tracked.obj = None

    def delete(self, key: ObjectKey) -> None:
        """Stop tracking an object."""
        self._timers.cancel(key)
        if (tracked := self._tracked.pop(key, None)) is not None:
            self._host_ports.release(key, tracked.node)

    def close(self) -> None:
        """Stop scheduling."""
        self.queue.shut_down()
        self._timers.close()
