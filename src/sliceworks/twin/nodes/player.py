"""Plays nodes: watches them and their pods, and does with each what its stages say, when they say it.

    async with Nodes(client) as nodes:       # plays every node that is labelled sliceworks.dev/node=simulated
        ...

It works through the client alone, so it plays the nodes of a real control plane as well as those of a twin. One heap holds all the
times, a few workers do all the writing, and of a pod that waits for nothing only a name is kept.
"""

from __future__ import annotations

import asyncio
import logging
from random import Random
from typing import TYPE_CHECKING, Any, Literal, Self

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import ApiError, Conflict, NotFound, SliceworksError
from sliceworks.kube.backoff import NEVER, Backoff
from sliceworks.kube.events import EventRecorder
from sliceworks.kube.reflector import Reflector, Selection
from sliceworks.kube.resources import Key
from sliceworks.kube.well_known import NODE, POD
from sliceworks.kube.workqueue import ShutDown, WorkQueue
from sliceworks.twin.nodes.engine import Step, next_step, outcome
from sliceworks.twin.nodes.heartbeats import Heartbeats, Rhythm
from sliceworks.twin.nodes.machines import Machine, Machines
from sliceworks.twin.nodes.pod_status import TERMINAL, Addresses
from sliceworks.twin.nodes.sinks import NodeSink, PodSink
from sliceworks.twin.nodes.stages import Stages, built_in
from sliceworks.twin.nodes.timers import Timers
from sliceworks.twin.nodes.tracks import Track, What, packed
from sliceworks.twin.nodes.words import spoken
from sliceworks.twin.nodes.writing import resource_of, write

if TYPE_CHECKING:
    from sliceworks.kube.client import Client
    from sliceworks.twin.nodes.tracks import Runtime

log = logging.getLogger(__name__)

Obj = dict[str, Any]
LABEL = "sliceworks.dev/node"
SIMULATED = f"{LABEL}=simulated"
_ROUNDING = 0.001
_UNPACKED = 500  # so many objects wait for a worker as they came; more of them are packed


class Nodes:
    """Plays the nodes that a label selector selects. `stages` take the place of those that come with the twin."""

    def __init__(
        self,
        client: Client,
        stages: Stages | None = None,
        nodes: str = SIMULATED,
        *,
        rhythm: Rhythm | None = None,
        events: Literal["all", "warnings", "none"] = "all",
        runtime: Runtime | None = None,
        seed: int = 0,
        workers: int = 16,
    ) -> None:
        self._client = client.using(retry=NEVER, field_manager="kubelet")
        self._stages = {
            kind: tuple(stage for stage in stages if stage.kind == kind) if stages is not None else built_in(kind)
            for kind in ("Pod", "Node")
        }
        self._selector = nodes
        self._heartbeats = Heartbeats(self._client, rhythm or Rhythm())
        self._events = events
        self._recorder = EventRecorder(client.using(field_manager="kubelet"), "kubelet", core=True)
        self.runtime = runtime
        self._seed = seed
        self.machines = Machines()
        self._tracks: dict[What, Track] = {}
        self._silent: set[str] = set()
        self._queue: WorkQueue[What] = WorkQueue(Backoff(first=0.05, cap=30.0, jitter=0.0))
        self._timers: Timers[What] = Timers(self._queue.add)
        self._workers = workers
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        nodes, pods = NodeSink(self), PodSink(self)
        readers = [
            Reflector(self._client, Selection(NODE, labels=self._selector), nodes),
            Reflector(self._client, Selection(POD, fields="spec.nodeName!="), pods),
        ]
        self._tasks = [asyncio.create_task(reader.run(), name="nodes: reader") for reader in readers]
        self._tasks += [asyncio.create_task(self._work(), name="nodes: worker") for _ in range(self._workers)]
        await nodes.synced.wait()
        await pods.synced.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._queue.shut_down()
        self._timers.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await self._recorder.close(1.0)

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do at this moment."""
        return self._queue.idle

    # What the watches tell.

    def see_node(self, node: Obj) -> None:
        """A node is new or has changed."""
        name = node["metadata"]["name"]
        matters = self.machines.put(node)
        machine = self.machines.get(name)
        assert machine is not None
        self._see(What("Node", "", name), node, name)
        self._keep_time(machine, name)
        if matters:
            for key in self.machines.pods_on(name):
                self._look_anew(What("Pod", *key))

    def lose_node(self, name: str) -> None:
        """A node is gone, or is not ours any more."""
        self.machines.remove(name)
        self._heartbeats.forget(name)
        self._silent.discard(name)
        for kind in ("Node", "Lease"):
            self._drop(What(kind, "", name))

    def see_pod(self, pod: Obj) -> None:
        """A pod on some node is new or has changed."""
        metadata, node = pod["metadata"], pod["spec"].get("nodeName")
        if not node:
            return
        key = Key(metadata["namespace"], metadata["name"])
        if pod["status"].get("phase") in TERMINAL and "deletionTimestamp" not in metadata and self.runtime is None:
            self.lose_pod(key)
            return
        self.machines.add_pod(node, key)
        self._see(What("Pod", *key), pod, node)

    def lose_pod(self, key: Key) -> None:
        """A pod is gone, or nothing can become of it any more."""
        what = What("Pod", *key)
        track = self._tracks.get(what)
        if track is not None:
            self.machines.drop_pod(track.node, key)
            machine = self.machines.get(track.node)
            if machine is not None and track.address:
                machine.addresses.give_back(track.address)
        self._drop(what)
        if self.runtime is not None:
            self.runtime.gone(key)

    def _keep_time(self, machine: Machine, name: str) -> None:
        """Begin to send heartbeats, or stop."""
        what = What("Lease", "", name)
        if machine.silent:
            if name not in self._silent:
                self._silent.add(name)
                self._queue.add(what)
        elif machine.booted and (name in self._silent or what not in self._tracks):
            self._silent.discard(name)
            self._tracks[what] = Track("", name)
            self._queue.add(what)

    # What comes next.

    def _see(self, what: What, obj: Obj, node: str) -> None:
        metadata = obj["metadata"]
        track = self._tracks.get(what)
        if track is None or track.uid != metadata["uid"]:
            track = self._tracks[what] = Track(metadata["uid"], node)
        version = int(metadata["resourceVersion"])
        if version > track.version:
            track.version = version
            self._plan(what, track, obj)

    def _plan(self, what: What, track: Track, obj: Obj) -> None:
        machine = self.machines.get(track.node)
        if machine is None or (machine.silent and what.kind == "Pod"):
            self._rest(what, track)
            return
        if what.kind == "Pod" and self.runtime is not None and self.runtime.takes(obj):
            self.runtime.see(obj, machine.host)
            return
        now = clock.now()
        step = next_step(obj, self._stages[what.kind], now, lambda: self._chance(obj), machine.node)
        if step is None:
            self._rest(what, track)
            return
        if step.at <= now:
            self._timers.drop(what)
            track.step, track.obj = step, obj if len(self._queue) < _UNPACKED else packed(obj)
            self._queue.add(what)
            return
        waits = track.step is not None and track.step.stage is step.stage and what in self._timers
        if waits and step.stage.delay.since is None:
            track.obj = packed(obj)
            return  # it began to wait when this state was first seen
        track.step, track.obj = step, packed(obj)
        self._timers.set(what, (step.at - now).total_seconds())

    def _chance(self, obj: Obj) -> Random:
        """The same dice for the same object in the same state, whoever asks and however often."""
        counts = [item["restartCount"] for item in (obj.get("status") or {}).get("containerStatuses") or ()]
        return Random(f"{self._seed}/{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}/{counts}")

    def _rest(self, what: What, track: Track) -> None:
        self._timers.drop(what)
        track.step = track.obj = None

    def _drop(self, what: What) -> None:
        self._timers.drop(what)
        self._tracks.pop(what, None)

    # What is done.

    async def _work(self) -> None:
        while True:
            try:
                what = await self._queue.get()
            except ShutDown:
                return
            try:
                await (self._beat(what.name) if what.kind == "Lease" else self._act(what))
            except (Conflict, NotFound):
                self._again(what)
            except SliceworksError as error:
                log.log(logging.INFO if isinstance(error, ApiError) else logging.WARNING, "%s %s: %s", what.kind, what.name, error)
                self._again(what)
            except Exception:
                log.exception("%s %s", what.kind, what.name)
                self._again(what)
            else:
                self._queue.forget(what)
            finally:
                self._queue.done(what)
            # A twin in this process answers at once: let those who watch take in what was written before there is more of it.
            await asyncio.sleep(0)

    def _again(self, what: What) -> None:
        """Somebody was faster, or the API was away: read it anew, later."""
        if (track := self._tracks.get(what)) is not None:
            track.obj = track.step = None
            self._timers.drop(what)
            self._queue.add_rate_limited(what)

    def _look_anew(self, what: What) -> None:
        """Read it and decide again what comes next."""
        if (track := self._tracks.get(what)) is not None:
            track.obj = track.step = None
            self._timers.drop(what)
            self._queue.add(what)

    async def _beat(self, name: str) -> None:
        machine = self.machines.get(name)
        if machine is None:
            return
        if machine.silent:
            await self._heartbeats.fall_silent(machine.node)
            return
        await self._heartbeats.beat(machine.node)
        if self._heartbeats.rhythm.lease:
            self._timers.set(What("Lease", "", name), self._heartbeats.rhythm.lease)

    async def _act(self, what: What) -> None:
        track = self._tracks.get(what)
        if track is None:
            return
        obj, step = track.obj, track.step
        if obj is None or step is None:
            await self._read(what, track)
            return
        left = (step.at - clock.now()).total_seconds()
        if left > _ROUNDING:  # woken for another reason than its time
            self._timers.set(what, left)
            return
        track.obj = track.step = None
        if isinstance(obj, bytes):
            obj = orjson.loads(obj)
        machine = self.machines.get(track.node)
        if machine is None or (machine.silent and what.kind == "Pod"):
            return
        await self._carry_out(what, track, obj, step, machine)

    async def _read(self, what: What, track: Track) -> None:
        try:
            obj = await self._client.get(resource_of(what), what.name, what.namespace or None)
        except NotFound:
            if what.kind == "Pod":
                self.lose_pod(Key(what.namespace, what.name))
            return
        if obj["metadata"]["uid"] == track.uid:
            track.version = int(obj["metadata"]["resourceVersion"])
            self._plan(what, track, obj)

    async def _carry_out(self, what: What, track: Track, obj: Obj, step: Step, machine: Machine) -> None:
        where = Addresses(machine.host, "")
        if what.kind == "Pod":
            where = Addresses(machine.host, self._address(track, obj, machine))
        result = outcome(step.stage, obj, clock.now(), where, machine.node)
        await write(self._client, what, obj, result)
        for event in result.events:
            if self._events == "all" or (self._events == "warnings" and event.type == "Warning"):
                kind: Literal["Normal", "Warning"] = "Warning" if event.type == "Warning" else "Normal"
                self._recorder.record(obj, event.reason, spoken(event.message, obj), type=kind)

    def _address(self, track: Track, pod: Obj, machine: Machine) -> str:
        if pod["spec"].get("hostNetwork"):
            return machine.host
        if not track.address:
            if held := pod["status"].get("podIP"):
                machine.addresses.hold(held)
            track.address = held or machine.addresses.take()
        return track.address
