"""The day of a cluster, moment by moment, as its objects tell of it: jobs that come, start and end, hosts that come and fail. Pure.

An object knows when it was made and when each condition last changed. What was seen once is remembered, so that the day is whole
although objects go.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import condition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Object = dict[str, Any]
Key = tuple[str, str, str]
MOST = 20_000
_FIRST = ("joined", "submitted")
_STATE = "sliceworks.dev/state"
_OF_JOB = {"Completed": ("completed", "good"), "Failed": ("failed", "bad"), "Suspended": ("suspended", "wait")}
_OF_WORKLOAD = {"Admitted": ("admitted", "busy"), "Evicted": ("evicted", "wait"), "PodsReady": ("all pods ready", "good")}
LANES = ("faults", "hosts", "jobs")


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened. `lane` is where a time line shows it; times are as Kubernetes writes them, and so in order."""

    at: str
    subject: str
    what: str
    lane: str = "jobs"
    tone: str = "idle"
    said: str = ""
    link: str = ""

    @property
    def key(self) -> Key:
        """What tells it from others."""
        return self.at, self.subject, self.what


def _key(moment: Moment) -> tuple[str, bool, str, str]:
    """Times have whole seconds: within one, what comes into being comes first."""
    return moment.at, moment.what not in _FIRST, moment.subject, moment.what


def of_node(node: Object) -> Iterator[Moment]:
    """A host that came, was lost, or came back."""
    metadata, ready = node["metadata"], condition(node, "Ready")
    name, born = metadata["name"], metadata.get("creationTimestamp", "")
    yield Moment(born, f"host {name}", "joined", "hosts", "idle")
    at = ready.get("lastTransitionTime") or ""
    if ready.get("status") == "True":
        yield Moment(at or born, f"host {name}", "is ready", "hosts", "good")
    elif ready:
        told = (metadata.get("annotations") or {}).get(_STATE)
        what = {"preempted": "is taken away", "maintenance": "is in maintenance"}.get(str(told), "stopped answering")
        yield Moment(at or born, f"host {name}", what, "hosts", "bad", str(ready.get("message") or ""))


def of_jobset(jobset: Object) -> Iterator[Moment]:
    """A job that was submitted, and ended or was stopped."""
    metadata = jobset["metadata"]
    key = f"{metadata.get('namespace', '')}/{metadata['name']}"
    link = f"/jobs/{key}"
    yield Moment(metadata.get("creationTimestamp", ""), f"job {key}", "submitted", "jobs", "idle", "", link)
    yield from _told(jobset, _OF_JOB, f"job {key}", link)


def of_workload(workload: Object) -> Iterator[Moment]:
    """A job that was admitted or evicted by its queue."""
    metadata = workload["metadata"]
    owner = next(iter(metadata.get("ownerReferences") or ()), None)
    if owner is not None:
        key = f"{metadata.get('namespace', '')}/{owner['name']}"
        yield from _told(workload, _OF_WORKLOAD, f"job {key}", f"/jobs/{key}")


def _told(obj: Object, known: Mapping[str, tuple[str, str]], subject: str, link: str) -> Iterator[Moment]:
    for each in (obj.get("status") or {}).get("conditions") or ():
        if each.get("status") == "True" and each.get("type") in known:
            what, tone = known[each["type"]]
            yield Moment(each.get("lastTransitionTime") or "", subject, what, "jobs", tone, str(each.get("message") or ""), link)


@dataclass(frozen=True, slots=True)
class Sample:
    """How many chips were at work, of how many."""

    at: datetime
    busy: int
    chips: int

    def same(self, other: Sample) -> bool:
        return (self.busy, self.chips) == (other.busy, other.chips)


@dataclass(slots=True)
class Diary:
    """What has happened so far, in order; the oldest is forgotten first."""

    moments: list[Moment] = field(default_factory=list)
    lanes: dict[str, list[Moment]] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    version: int = 0
    _known: set[Key] = field(default_factory=set)

    def note(self, found: Iterable[Moment]) -> None:
        """Write down what is not there yet."""
        fresh = {moment.key: moment for moment in found if moment.at and moment.key not in self._known}
        if not fresh:
            return
        self.version += 1
        self._known |= fresh.keys()
        self.moments = sorted([*self.moments, *fresh.values()], key=_key)
        forgotten = self.moments[: max(len(self.moments) - MOST, 0)]
        del self.moments[: len(forgotten)]
        self._known -= {each.key for each in forgotten}
        touched = {each.lane for each in (*fresh.values(), *forgotten)}
        self.lanes |= {lane: [each for each in self.moments if each.lane == lane] for lane in touched}

    def sample(self, taken: Sample) -> None:
        """How many chips are at work now. What is the same as before needs no further point."""
        if len(self.samples) > 1 and taken.same(self.samples[-1]) and taken.same(self.samples[-2]):
            self.samples[-1] = taken
        else:
            self.samples.append(taken)
            self.version += 1
        del self.samples[: max(len(self.samples) - MOST, 0)]

    def latest(self, count: int, lane: str = "") -> list[Moment]:
        """The last so many, the newest first; of one lane where that is named."""
        return list(islice(reversed(self.lanes.get(lane, []) if lane else self.moments), count))


@dataclass(frozen=True, slots=True)
class Window:
    """The part of the day that is shown."""

    begins: datetime
    ends: datetime

    @property
    def seconds(self) -> float:
        return max((self.ends - self.begins).total_seconds(), 1.0)

    def place(self, at: datetime, width: float) -> float:
        """How far from the left."""
        return (at - self.begins).total_seconds() / self.seconds * width

    def parts(self, moments: list[Moment], count: int) -> Iterator[tuple[int, list[Moment]]]:
        """Moments, which are in order, by the equal parts of the time that they fall into; what comes after it is in the last."""
        edges = [clock.rfc3339(self.begins + (self.ends - self.begins) * (number / count)) for number in range(count)]
        starts = [bisect_left(moments, edge, key=lambda each: each.at) for edge in edges]
        for number, (start, end) in enumerate(pairwise([*starts, len(moments)])):
            if start < end:
                yield number, moments[start:end]


def window(diary: Diary, now: datetime, hours: float = 0.0) -> Window:
    """The last so many hours, or all that is known."""
    if hours:
        return Window(now - timedelta(hours=hours), now)
    first = [datetime.fromisoformat(each.at) for each in diary.moments[:1]] + [each.at for each in diary.samples[:1]]
    return Window(min([*first, now - timedelta(minutes=1)]), now)
