"""Workloads as a forecast sees them: what they ask for, how they stand, what kind of work they are, and what is known of how long
they run. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.catalog.labels import RUN_SECONDS
from sliceworks.rehearsal.forecast.trimming import CHECKPOINTS
from sliceworks.specs.training import SLICE
from sliceworks.twin.workloads.kueue import conditions, reading
from sliceworks.twin.workloads.kueue.keys import ADMITTED, FINISHED, READY, RESERVED
from sliceworks.twin.workloads.kueue.ledger import owner_of

if TYPE_CHECKING:
    from sliceworks.twin.workloads.kueue.core.model import Item, Key

Object = dict[str, Any]
QUEUED, RUNNING, HELD = "queued", "running", "held"
_BEFORE = "accumulatedPastExecutionTimeSeconds"
_ENDS = ("Succeeded", "Failed", "JobFinished")
_NUMBERS = re.compile(r"([-_.]?(\d+|[0-9a-f]*\d[0-9a-f]{4,}))+$")


@dataclass(frozen=True, slots=True)
class Kind:
    """What tells work of one kind from other work: whose it is, what it is called but for numbers, its images and its size."""

    namespace: str
    stem: str
    images: tuple[str, ...]
    size: str


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of work. Times are seconds from the snapshot, so that the past is negative."""

    key: Key
    name: str
    kind: Kind
    state: str
    item: Item
    """As it waits, or would wait."""
    came: float
    estimate: float | None = None
    holds: Item | None = None
    """As it runs, with the flavors that it has."""
    began: float = 0.0
    before: float = 0.0
    """How long it ran before it was stopped, where it goes on from there."""
    waits_until: float = 0.0
    keeps: bool = False
    longest: float | None = None
    problem: str = ""

    @property
    def elapsed(self) -> float:
        """How long it has been running in all."""
        return self.before + (max(0.0, -self.began) if self.state == RUNNING else 0.0)


@dataclass(frozen=True, slots=True)
class Past:
    """Work that has ended: how long it held its quota, and how long it took to get ready."""

    kind: Kind
    came: float
    seconds: float
    estimate: float | None
    readied: float | None
    job: Job


def job_of(workload: Object, taken: datetime) -> Job:
    """A Workload that has not ended; `taken` is when it was seen."""
    owner, status = owner_of(workload), workload.get("status") or {}
    name = owner[2] if owner else workload["metadata"]["name"]
    item = _item({**workload, "status": {key: value for key, value in status.items() if key != "admission"}}, taken)
    state, began, holds, problem = QUEUED, 0.0, None, ""
    if status.get("admission"):
        admitted = conditions.find(workload, ADMITTED) or conditions.find(workload, RESERVED) or {}
        state, began, holds = RUNNING, _seconds(admitted.get("lastTransitionTime", ""), taken), _item(workload, taken)
    elif not conditions.active(workload):
        state, problem = HELD, "it is deactivated (spec.active of its Workload is false)"
    until = (status.get("requeueState") or {}).get("requeueAt") if item.waits else ""
    item.waits, keeps = False, _keeps(workload)
    return Job(
        item.key,
        name,
        kind_of(workload, name),
        state,
        item,
        item.time,
        estimate_of(workload),
        holds,
        began,
        float(status.get(_BEFORE) or 0) if keeps else 0.0,
        max(0.0, _seconds(until or "", taken)),
        keeps,
        workload["spec"].get("maximumExecutionTimeSeconds"),
        problem,
    )


def _item(workload: Object, taken: datetime) -> Item:
    """What Kueue's core works with; its times are numbers here."""
    found = reading.item(workload, clock.rfc3339(taken))
    found.time = _seconds(found.time, taken)
    found.reserved_at = _seconds(found.reserved_at, taken) if found.cluster_queue else None
    return found


def past_of(workload: Object, taken: datetime) -> Past | None:
    """A Workload that has ended; None when it never ran, or was thrown away."""
    ended, admitted = conditions.find(workload, FINISHED), conditions.find(workload, ADMITTED)
    if ended is None or ended["status"] != "True" or ended["reason"] not in _ENDS or admitted is None:
        return None
    if admitted["status"] != "True":
        return None
    began = _seconds(admitted["lastTransitionTime"], taken)
    job = job_of({**workload, "status": {_BEFORE: (workload.get("status") or {}).get(_BEFORE)}}, taken)
    seconds = _seconds(ended["lastTransitionTime"], taken) - began + job.before
    ready = conditions.find(workload, READY)
    readied = _seconds(ready["lastTransitionTime"], taken) - began if ready and ready["reason"] == "PodsReady" else None
    return Past(job.kind, job.came, max(seconds, 0.0), job.estimate, readied, job)


def kind_of(workload: Object, name: str) -> Kind:
    """What kind of work a Workload is."""
    images: dict[str, None] = {}
    sizes = []
    for pods in workload["spec"]["podSets"]:
        spec = pods["template"].get("spec") or {}
        images.update(dict.fromkeys(str(each.get("image", "")) for each in spec.get("containers") or ()))
        limits = [(each.get("resources") or {}).get("requests") or {} for each in spec.get("containers") or ()]
        sizes.append((pods["count"], [sorted(each.items()) for each in limits], sorted((spec.get("nodeSelector") or {}).items())))
    return Kind(workload["metadata"]["namespace"], stem(name), tuple(images), repr(sizes))


def stem(name: str) -> str:
    """A name without the numbers and hashes at its end: work that comes again and again is called alike."""
    return _NUMBERS.sub("", name) or name


def estimate_of(workload: Object) -> float | None:
    """How long it is expected to run, as its pods say. Steps of a TrainingJob follow one another; other pods run side by side."""
    sets = workload["spec"]["podSets"]
    texts = [((pods["template"].get("metadata") or {}).get("annotations") or {}).get(RUN_SECONDS) for pods in sets]
    found = [seconds for text in texts if (seconds := _number(text)) > 0]
    if any(pods["name"] == SLICE for pods in sets):
        return sum(found) if found else None
    return max(found, default=None)


def _number(text: Any) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


def _keeps(workload: Object) -> bool:
    """Whether it goes on where it stopped when it is stopped."""
    return any(
        each.get("name") == CHECKPOINTS
        for pods in workload["spec"]["podSets"]
        for container in (pods["template"].get("spec") or {}).get("containers") or ()
        for each in container.get("env") or ()
    )


def _seconds(text: str, taken: datetime) -> float:
    """When something was, from the snapshot on."""
    return (datetime.fromisoformat(text) - taken).total_seconds() if text else 0.0
