"""Plays nodes: watches them and their pods, and does with each what its stages say, when they say it.

    async with Nodes(client) as nodes:       # plays every node that is labelled sliceworks.dev/node=simulated
        ...

It works through the client alone, so it plays the nodes of a real control plane as well as those of a twin. One heap holds all the
times, a few workers do all the writing, and of a pod that waits for nothing only a name is kept.
"""

from __future__ import annotations

import asyncio
import logging
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, Self

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import ApiError, Conflict, NotFound, SliceworksError
from sliceworks.kube.backoff import NEVER
from sliceworks.kube.events import EventRecorder
from sliceworks.kube.reflector import Reflector, Selection
from sliceworks.kube.resources import Key
from sliceworks.kube.well_known import NODE, POD
from sliceworks.kube.workqueue import work
from sliceworks.twin.nodes.engine import Step, outcome
from sliceworks.twin.nodes.heartbeats import Heartbeats, Rhythm
from sliceworks.twin.nodes.machines import Machine, Machines
from sliceworks.twin.nodes.plans import Plans
from sliceworks.twin.nodes.pod_status import TERMINAL, Addresses
from sliceworks.twin.nodes.sinks import NodeSink, PodSink, Reader, Watching
from sliceworks.twin.nodes.stages import Stages, built_in
from sliceworks.twin.nodes.tracks import Track, What
from sliceworks.twin.nodes.words import spoken
from sliceworks.twin.nodes.writing import resource_of, write

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.kube.client import Client
    from sliceworks.twin.nodes.tracks import Runtime

log = logging.getLogger(__name__)

Obj = dict[str, Any]
LABEL = "sliceworks.dev/node"
SIMULATED = f"{LABEL}=simulated"
_ROUNDING = 0.001


class Nodes:
    """Plays the nodes that a label selector selects. `stages` take the place of those that come with the twin.

    What there is comes from `reader`: a list and a watch, unless somebody knows a shorter way.
    """

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
        reader: Callable[[Selection, Watching], Reader] | None = None,
    ) -> None:
        self._client = client.using(retry=NEVER, field_manager="kubelet")
        self._selector = nodes
        self._reader = reader or partial(Reflector, self._client)
        self._heartbeats = Heartbeats(self._client, rhythm or Rhythm())
        self._events = events
        self._recorder = EventRecorder(client.using(field_manager="kubelet"), "kubelet", core=True)
        self.runtime = runtime
        self.machines = Machines()
        self._plans = Plans(built_in if stages is None else partial(_of_kind, stages), self.machines, runtime=runtime, seed=seed)
        self._silent: set[str] = set()
        self._workers = workers
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        nodes, pods = NodeSink(self), PodSink(self)
        readers = [
            self._reader(Selection(NODE, labels=self._selector), nodes),
            self._reader(Selection(POD, fields="spec.nodeName!="), pods),
        ]
        self._tasks = [asyncio.create_task(reader.run(), name="nodes: reader") for reader in readers]
        working = (work(self._plans.queue, self._work, self._failed) for _ in range(self._workers))
        self._tasks += [asyncio.create_task(one, name="nodes: worker") for one in working]
        await nodes.synced.wait()
        await pods.synced.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._plans.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await self._recorder.close(1.0)

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do at this moment."""
        return self._plans.queue.idle

    # What the watches tell.

    def see_node(self, node: Obj) -> None:
        """A node is new or has changed."""
        name = node["metadata"]["name"]
        matters = self.machines.put(node)
        machine = self.machines.get(name)
        assert machine is not None
        self._plans.see(What("Node", "", name), node, name)
        self._keep_time(machine, name)
        if matters:
            for key in self.machines.pods_on(name):
                self._plans.look_anew(What("Pod", *key))

    def lose_node(self, name: str) -> None:
        """A node is gone, or is not ours any more."""
        self.machines.remove(name)
        self._heartbeats.forget(name)
        self._silent.discard(name)
        for kind in ("Node", "Lease"):
            self._plans.drop(What(kind, "", name))

    def see_pod(self, pod: Obj) -> None:
        """A pod on some node is new or has changed."""
        metadata, node = pod["metadata"], pod["spec"].get("nodeName")
        if not node:
            return
        key = Key(metadata["namespace"], metadata["name"])
        if pod["status"].get("phase") in TERMINAL and "deletionTimestamp" not in metadata and self.runtime is None:
            self.lose_pod(key)
            return
        what = What("Pod", *key)
        self.machines.add_pod(node, key)
        self._plans.see(what, pod, node)
        if "podIP" in pod["status"]:
            self._hold_address(what, pod)

    def lose_pod(self, key: Key) -> None:
        """A pod is gone, or nothing can become of it any more."""
        what = What("Pod", *key)
        track = self._plans.get(what)
        if track is not None:
            self.machines.drop_pod(track.node, key)
            machine = self.machines.get(track.node)
            if machine is not None and track.address:
                machine.addresses.give_back(track.address)
        self._plans.drop(what)
        if self.runtime is not None:
            self.runtime.gone(key)

    def _keep_time(self, machine: Machine, name: str) -> None:
        """Begin to send heartbeats, or stop."""
        what = What("Lease", "", name)
        if machine.silent:
            if name not in self._silent:
                self._silent.add(name)
                self._plans.queue.add(what)
        elif machine.up and (self._plans.keep(what, name) or name in self._silent):
            self._silent.discard(name)
            self._plans.queue.add(what)

    # What is done.

    async def _work(self, what: What) -> None:
        await (self._beat(what.name) if what.kind == "Lease" else self._act(what))
        # A twin in this process answers at once: let those who watch take in what was written before there is more of it.
        await asyncio.sleep(0)

    def _failed(self, what: What, error: Exception) -> None:
        if not isinstance(error, SliceworksError):
            log.error("%s %s", what.kind, what.name, exc_info=error)
        elif not isinstance(error, Conflict | NotFound):
            log.log(logging.INFO if isinstance(error, ApiError) else logging.WARNING, "%s %s: %s", what.kind, what.name, error)
        self._plans.try_again(what)

    async def _beat(self, name: str) -> None:
        machine = self.machines.get(name)
        if machine is None:
            return
        if machine.silent:
            await self._heartbeats.fall_silent(machine.node)
            return
        await self._heartbeats.beat(machine.node)
        if self._heartbeats.rhythm.lease:
            self._plans.wait(What("Lease", "", name), self._heartbeats.rhythm.lease)

    async def _act(self, what: What) -> None:
        track = self._plans.get(what)
        if track is None:
            return
        obj, step = track.obj, track.step
        if obj is None or step is None:
            await self._read(what, track)
            return
        left = (step.at - clock.now()).total_seconds()
        if left > _ROUNDING:  # woken for another reason than its time
            self._plans.wait(what, left)
            return
        track.obj = track.step = None
        if isinstance(obj, bytes):
            obj = orjson.loads(obj)
        machine = self.machines.get(track.node)
        if machine is None or (what.kind == "Pod" and machine.idle):
            return
        await self._carry_out(what, track, obj, step, machine)

    async def _read(self, what: What, track: Track) -> None:
        try:
            obj = await self._client.get(resource_of(what), what.name, what.namespace or None)
        except NotFound:
            if what.kind == "Pod":
                self.lose_pod(Key(what.namespace, what.name))
            return
        version = int(obj["metadata"]["resourceVersion"])
        # A newer state may have been told of, and planned for, while this answer was on its way.
        if obj["metadata"]["uid"] == track.uid and version >= track.version:
            self._hold_address(what, obj)
            track.version = version
            self._plans.plan(what, track, obj)

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
        track.address = track.address or machine.addresses.take()
        return track.address

    def _hold_address(self, what: What, obj: Obj) -> None:
        """A pod that was there before this player was has an address already, which nobody else gets."""
        track = self._plans.get(what)
        if track is None or track.address or what.kind != "Pod" or obj["spec"].get("hostNetwork"):
            return
        held = (obj.get("status") or {}).get("podIP")
        machine = self.machines.get(track.node)
        if machine is not None and held:
            machine.addresses.hold(held)
            track.address = held


@lru_cache
def _of_kind(stages: Stages, kind: str) -> Stages:
    return tuple(stage for stage in stages if stage.kind == kind)
