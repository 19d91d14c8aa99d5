"""Training jobs, watched: from submission to end, through queue, slices, preemptions and restarts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import condition, is_true
from sliceworks.rehearsal.course.machines import chip_named
from sliceworks.rehearsal.course.plain_jobs import as_jobset, is_plain
from sliceworks.rehearsal.course.spans import Spans
from sliceworks.rehearsal.day.record import JobLife
from sliceworks.training.states import state, workers
from sliceworks.training.words import PRIORITY, QUEUE
from sliceworks.twin.scheduler.requests import pod_requests

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.store.entries import Change

Object = dict[str, Any]
JOBSETS, WORKLOADS = "jobset.x-k8s.io/jobsets", "kueue.x-k8s.io/workloads"
_STATES = {"queued": "waiting", "restarting": "starting"}
_ENDS = {"completed": "succeeded", "failed": "failed"}


@dataclass(frozen=True, slots=True)
class Turn:
    """Something that happened to a job: `preempted`, `restarted`, `running`, `ended`."""

    at: float
    what: str
    job: str
    note: str = ""


@dataclass(slots=True)
class _Job:
    life: JobLife
    spans: Spans = field(default_factory=Spans)


class Jobs:
    """Collects their lives. `team_of` knows whose a namespace is."""

    def __init__(self, team_of: Callable[[str], str]) -> None:
        self._team_of = team_of
        self._jobs: dict[tuple[str, str], _Job] = {}
        self._ended: list[_Job] = []
        self.turns: list[Turn] = []

    def lives(self, now: float) -> tuple[JobLife, ...]:
        """All of them, in the order of their submission."""
        found = [replace(each.life, spans=each.spans.until(now)) for each in (*self._ended, *self._jobs.values())]
        return tuple(sorted(found, key=lambda life: (life.submitted, life.namespace, life.name)))

    @property
    def running(self) -> int:
        """How many run now."""
        return sum(each.spans.state == "running" for each in self._jobs.values())

    @property
    def waiting(self) -> int:
        """How many have not begun and wait for their turn."""
        return sum(each.spans.state == "waiting" for each in self._jobs.values())

    def unexplained(self) -> list[tuple[str, str]]:
        """Those that wait, and nobody has said why: namespace and name."""
        return [key for key, each in self._jobs.items() if each.spans.state == "waiting" and not each.spans.note]

    def explain(self, namespace: str, name: str, why: str) -> None:
        """Say why a job waits, if it still does."""
        job = self._jobs.get((namespace, name))
        if job is not None and job.spans.state == "waiting":
            job.spans.explain(why)

    def see_jobset(self, at: float, change: Change) -> None:
        """A JobSet has changed."""
        self._see(at, change, change.obj)

    def see_job(self, at: float, change: Change) -> None:
        """A Job has changed: one that belongs to a JobSet is a part of that."""
        if is_plain(change.obj):
            self._see(at, change, as_jobset(change.obj))

    def _see(self, at: float, change: Change, obj: Object) -> None:
        key = (change.namespace, change.name)
        if key not in self._jobs:
            if change.type == "DELETED":
                return
            self._jobs[key] = _Job(self._born(at, obj))
        job = self._jobs[key]
        if change.type == "DELETED":
            self._bury(at, key)
        elif job.life.ended is None:
            self._look(at, job, obj)

    def _born(self, at: float, obj: Object) -> JobLife:
        metadata, worker = obj["metadata"], workers(obj)
        labels, spec = metadata.get("labels") or {}, worker["template"]["spec"]
        pod = spec["template"]["spec"]
        asked = pod_requests(pod)
        each = next((int(amount) for name, amount in asked.items() if "/" in name), 0)
        return JobLife(
            metadata["name"],
            metadata["namespace"],
            self._team_of(metadata["namespace"]),
            labels.get(QUEUE, ""),
            labels.get(PRIORITY, ""),
            chip_named(pod.get("nodeSelector") or {}),
            each * worker.get("replicas", 1) * spec.get("parallelism", 1),
            at,
        )

    def _look(self, at: float, job: _Job, obj: Object) -> None:
        word, life, name = state(obj), job.life, f"{job.life.namespace}/{job.life.name}"
        restarts = int((obj.get("status") or {}).get("restarts") or 0)
        if restarts > life.restarts:
            job.life = life = replace(life, restarts=restarts)
            self.turns.append(Turn(at, "restarted", name, f"{restarts}"))
        if word in _ENDS:
            job.spans.close(at)
            job.life = replace(life, ended=at, outcome=_ENDS[word])
            self.turns.append(Turn(at, "ended", name, _ENDS[word]))
            return
        now = _STATES.get(word, word)
        if job.spans.enter(at, now):
            began = life.admitted is None and now in ("starting", "running")
            job.life = replace(
                life,
                outcome=now,
                admitted=at if began else life.admitted,
                started=at if now == "running" and life.started is None else life.started,
            )
            if now == "running":
                self.turns.append(Turn(at, "running", name))

    def _bury(self, at: float, key: tuple[str, str]) -> None:
        job = self._jobs.pop(key)
        job.spans.close(at)
        if job.life.ended is None:
            job.life = replace(job.life, ended=at, outcome="deleted")
        self._ended.append(job)

    def see_workload(self, at: float, change: Change) -> None:
        """Kueue's view of a job has changed: it was let in, or has to go."""
        obj, old = change.obj, change.old
        owner = next(
            (each["name"] for each in obj["metadata"].get("ownerReferences") or () if each["kind"] in {"JobSet", "Job"}), ""
        )
        job = self._jobs.get((change.namespace, owner))
        if job is None or change.type == "DELETED":
            return
        if is_true(obj, "Admitted") and job.life.admitted is None:
            job.life = replace(job.life, admitted=at)
        evicted = condition(obj, "Evicted")
        if evicted.get("status") == "True" and evicted.get("reason") == "Preempted" and evicted != condition(old, "Evicted"):
            told = str(condition(obj, "Preempted").get("message") or evicted.get("message") or "")
            job.life = replace(job.life, preemptions=job.life.preemptions + 1)
            self.turns.append(Turn(at, "preempted", f"{job.life.namespace}/{job.life.name}", told))
