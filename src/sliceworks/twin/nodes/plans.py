"""What comes next for each object that is played, and when: planned anew whenever the object changes."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.kube.backoff import Backoff
from sliceworks.kube.workqueue import WorkQueue
from sliceworks.twin.nodes.engine import next_step
from sliceworks.twin.nodes.timers import Timers
from sliceworks.twin.nodes.tracks import Track, What, packed

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.nodes.machines import Machines
    from sliceworks.twin.nodes.stages import Stages
    from sliceworks.twin.nodes.tracks import Runtime

Obj = dict[str, Any]
_UNPACKED = 500  # so many objects wait for a worker as they came; more of them are packed


class Plans:
    """Puts what is to be looked at now into `queue`; one heap holds all later times. `stages` are asked for by kind, once there is
    something to play."""

    def __init__(self, stages: Callable[[str], Stages], machines: Machines, *, runtime: Runtime | None, seed: int) -> None:
        self._stages = stages
        self._machines = machines
        self._runtime = runtime
        self._seed = seed
        self._tracks: dict[What, Track] = {}
        self.queue: WorkQueue[What] = WorkQueue(Backoff(first=0.05, cap=30.0, jitter=0.0))
        self._timers: Timers[What] = Timers(self.queue.add)

    def get(self, what: What) -> Track | None:
        """What is kept of an object."""
        return self._tracks.get(what)

    def see(self, what: What, obj: Obj, node: str) -> None:
        """An object on a node, or a node, is new or has changed."""
        metadata = obj["metadata"]
        track = self._tracks.get(what)
        if track is None or track.uid != metadata["uid"]:
            track = self._tracks[what] = Track(metadata["uid"], node)
        version = int(metadata["resourceVersion"])
        if version > track.version:
            track.version = version
            self.plan(what, track, obj)

    def plan(self, what: What, track: Track, obj: Obj) -> None:
        """Decide what comes next for an object in this state."""
        machine = self._machines.get(track.node)
        if machine is None or (what.kind == "Pod" and machine.idle):
            self._rest(what, track)
            return
        if what.kind == "Pod" and self._runtime is not None and self._runtime.takes(obj):
            self._runtime.see(obj, machine.host)
            return
        now = clock.now()
        step = next_step(obj, self._stages(what.kind), now, lambda: self._chance(obj), machine.node)
        if step is None:
            self._rest(what, track)
            return
        if step.at <= now:
            self._timers.drop(what)
            track.step, track.obj = step, obj if len(self.queue) < _UNPACKED else packed(obj)
            self.queue.add(what)
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

    def keep(self, what: What, node: str) -> bool:
        """Follow something that no stage is about, such as a lease; False when it is followed already."""
        if what in self._tracks:
            return False
        self._tracks[what] = Track("", node)
        return True

    def wait(self, what: What, seconds: float) -> None:
        """Look at it after so many seconds."""
        self._timers.set(what, seconds)

    def look_anew(self, what: What) -> None:
        """Read it and decide again what comes next."""
        if self._forget_state(what):
            self.queue.add(what)

    def try_again(self, what: What) -> None:
        """Somebody was faster, or the API was away: read it anew, later."""
        if self._forget_state(what):
            self.queue.add_rate_limited(what)

    def _forget_state(self, what: What) -> bool:
        track = self._tracks.get(what)
        if track is None:
            return False
        self._rest(what, track)
        return True

    def _rest(self, what: What, track: Track) -> None:
        self._timers.drop(what)
        track.step = track.obj = None

    def drop(self, what: What) -> None:
        """It is gone, or nothing can become of it any more."""
        self._timers.drop(what)
        self._tracks.pop(what, None)

    def close(self) -> None:
        """Plan no more."""
        self.queue.shut_down()
        self._timers.close()
