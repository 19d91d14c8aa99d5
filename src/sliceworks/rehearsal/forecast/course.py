"""One run: the twin's Kueue decides, work ends when its time is over, and the clock jumps from one event to the next.

There are no pods and no nodes here. Time is a number: seconds from the snapshot.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sliceworks.rehearsal.forecast import hopes
from sliceworks.rehearsal.forecast.jobs import RUNNING, Job
from sliceworks.rehearsal.forecast.snapshot import RESOURCES
from sliceworks.twin.store.entries import ADDED, MODIFIED, Change, Entry
from sliceworks.twin.workloads.kueue.core.model import Item, Key, PodSet
from sliceworks.twin.workloads.kueue.keys import CLUSTER_QUEUES
from sliceworks.twin.workloads.kueue.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.rehearsal.forecast.snapshot import Snapshot

Object = dict[str, Any]
HORIZON = 400 * 86_400.0
"""No run looks further ahead, in seconds."""
_NAMES = {resource.kind: f"{resource.group}/{resource.plural}" for resource in RESOURCES}
_TOLD = ("Namespace", "ResourceFlavor", "AdmissionCheck", "Cohort", "ClusterQueue", "LocalQueue")


@dataclass(slots=True)
class Track:
    """How one job fares in a run. `lasts` is how long it runs in all; None when nobody knows."""

    job: Job
    lasts: float | None
    item: Item
    started: float | None = None
    ended: float | None = None
    since: float = 0.0
    done: float = 0.0
    serial: int = 0
    preempted: int = 0


@dataclass(slots=True)
class Course:
    """A run in progress. Tell it of jobs and of what is to happen, then `run` it."""

    boot: float = 0.0
    now: float = 0.0
    tracks: dict[Key, Track] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    words: dict[Any, str] = field(default_factory=dict)
    _left: set[Key] = field(default_factory=set)
    _due: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _count: itertools.count[int] = field(default_factory=itertools.count)

    def learn(self, snapshot: Snapshot) -> None:
        """Everything but the work."""
        for kind in _TOLD:
            for obj in snapshot.of(kind):
                self._tell(ADDED, _NAMES[kind], obj)

    def _tell(self, how: str, resource: str, obj: Object) -> None:
        metadata = obj["metadata"]
        entry = Entry(resource, metadata.get("namespace") or "", metadata["name"], 0, b"")
        self.ledger.observe(Change(how, entry, None, obj))

    def change_queue(self, obj: Object) -> None:
        """A ClusterQueue gets another spec."""
        self._tell(MODIFIED, CLUSTER_QUEUES, obj)

    def at(self, moment: float, act: Callable[[], None]) -> None:
        """Something happens at a time, after what was planned for that time before."""
        heapq.heappush(self._due, (max(moment, self.now), next(self._count), act))

    def add(self, job: Job, lasts: float | None) -> None:
        """A job, as it stands; `lasts` is how long it holds its quota in all."""
        track = self.tracks[job.key] = Track(job, lasts, fresh(job.holds or job.item), done=job.before)
        if job.state == RUNNING:
            track.started, track.since = job.began, job.began
            self.ledger.brain.reserve(track.item)
            self._plan_end(track)
            if track.item.evicted:
                self.at(0.0, lambda: self._stop(track))
        elif not job.problem:
            self.at(max(job.waits_until, job.came), lambda: self._come(track))

    def drop(self, key: Key) -> None:
        """A job is taken away."""
        if self.tracks.pop(key, None) is not None:
            self._left.discard(key)
            self.ledger.brain.withdraw(key)

    def prefer(self, key: Key, priority: int) -> None:
        """A job gets another priority."""
        track = self.tracks.get(key)
        if track is None or track.ended is not None:
            return
        track.job = replace(track.job, item=_like(track.job.item, priority))
        if track.item.key in self.ledger.brain.items:
            track.item.priority = priority
            if self.ledger.brain.holds(track.item):
                self.ledger.brain.wake(track.item.cluster_queue)
            else:
                self._come(track)

    def evict(self, wanted: Callable[[Item], bool]) -> None:
        """Those that are wanted stop, and wait again."""
        for track in [each for each in self.tracks.values() if self.ledger.brain.holds(each.item) and wanted(each.item)]:
            self._stop(track)

    def run(self, wanted: Iterable[Key] = ()) -> None:
        """Until all that is wanted has ended, or nothing happens any more."""
        self._left = {key for key in wanted if key in self.tracks and self._goes_on(self.tracks[key])}
        brain, until_done = self.ledger.brain, bool(self._left)
        while self._due and self._due[0][0] <= HORIZON:
            self.now = self._due[0][0]
            while self._due and self._due[0][0] <= self.now:
                heapq.heappop(self._due)[2]()
            changed = True
            while brain.ready:
                if changed:
                    hopes.spare(brain)
                changed = self._cycle()
            if until_done and not self._left:
                return

    def _goes_on(self, track: Track) -> bool:
        """Whether something is still to be learned of it."""
        return track.ended is None and (track.started is None or track.lasts is not None)

    def _come(self, track: Track) -> None:
        track.item = fresh(track.job.item)
        self.ledger.brain.submit(track.item)

    def _cycle(self) -> bool:
        """Decide once; tells whether anybody started or stopped."""
        done = self.ledger.brain.cycle()
        for entry in done.entries:
            if entry.admitted:
                self._start(entry.item)
                continue
            self.words[entry.item.queue, entry.item.shape] = entry.message
            for target in entry.evicting:
                self._stop(self.tracks[target.item.key])
        for refused in done.refused:
            self.words[refused.item.queue, refused.item.shape] = refused.message
        return any(entry.admitted or entry.evicting for entry in done.entries)

    def _start(self, item: Item) -> None:
        track = self.tracks[item.key]
        item.reserved_at = track.since = self.now
        if track.started is None:
            track.started = self.now + self.boot
        self._plan_end(track)
        if track.lasts is None:
            self._left.discard(item.key)

    def _plan_end(self, track: Track) -> None:
        track.serial += 1
        if track.lasts is not None:
            serial, left = track.serial, max(track.lasts - track.done, 0.0)
            self.at(track.since + left, lambda: self._end(track, serial))

    def _end(self, track: Track, serial: int) -> None:
        if track.serial == serial and track.job.key in self.tracks:
            track.ended = self.now
            self._left.discard(track.job.key)
            self.ledger.brain.withdraw(track.job.key)

    def _stop(self, track: Track) -> None:
        """It gives back what it has, and waits again; without checkpoints, all it did is lost."""
        track.serial += 1
        track.preempted += 1
        if track.job.keeps:
            track.done += self.now - track.since
        self.ledger.brain.withdraw(track.job.key)
        self._come(track)


def fresh(item: Item) -> Item:
    """A copy that a run may change."""
    pods = [PodSet(each.name, each.count, each.requests, each.least, each.spec, dict(each.flavors)) for each in item.pod_sets]
    return Item(
        item.key,
        item.queue,
        item.priority,
        item.time,
        pods,
        item.uid,
        item.cluster_queue,
        None,
        dict(item.usage),
        item.evicted,
        item.reserved_at,
        item.waits,
        item.shape,
        item.facts,
    )


def _like(item: Item, priority: int) -> Item:
    found = fresh(item)
    found.priority = priority
    return found
