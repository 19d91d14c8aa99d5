"""What is decided from, and what is decided: plain data on both sides of `decide`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from sliceworks.controllers.slices.views import (
        Attempt,
        CheckState,
        JobSetView,
        Leader,
        Pool,
        Problem,
        Ref,
        Seat,
        Subject,
        WorkloadView,
    )


@dataclass(frozen=True, slots=True)
class Failure:
    """A try that left no pool behind: the request was refused, or its operation undid it."""

    attempt: int
    problem: Problem


_PLENTY = 1_000_000


@dataclass(frozen=True)
class World:
    """Everything as it stands. `now` is in seconds since 1970; `busy` are requests whose result no LIST has shown yet."""

    now: float
    leaders: Mapping[Ref, Leader] = field(default_factory=dict)
    jobsets: Mapping[Ref, JobSetView] = field(default_factory=dict)
    pools: Mapping[str, Pool] = field(default_factory=dict)
    busy: Mapping[str, Literal["create", "delete"]] = field(default_factory=dict)
    working: Mapping[str, float] = field(default_factory=dict)  # since when each pool that works was seen to
    seen: Mapping[Ref, Ref] = field(default_factory=dict)  # Jobs whose leaders were seen to wait, with their JobSets
    seats: Mapping[Ref, Seat] = field(default_factory=dict)  # where leaders that wait no more are, by Job
    failures: Mapping[Ref, Failure] = field(default_factory=dict)
    workloads: tuple[WorkloadView, ...] = ()
    checks: frozenset[str] = frozenset()  # AdmissionChecks of ours
    idle_checks: tuple[Subject, ...] = ()  # those of them that nobody has said are looked after
    flavors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    room: int = _PLENTY  # requests that the cloud would take now
    trouble: Problem | None = None  # why the cloud cannot be asked; nothing is known about its pools then

    def guest(self, pool: Pool) -> Ref | None:
        """The Job of another JobSet that sits on a pool, if one does."""
        return self._guests.get(pool.name)

    @cached_property
    def _guests(self) -> dict[str, Ref]:
        found: dict[str, Ref] = {}
        for job, seat in self.seats.items():
            pool = self.pools.get(seat.pool)
            if pool is not None and pool.jobset != seat.jobset:
                found[pool.name] = job
        return found

    @cached_property
    def sitting(self) -> dict[str, list[Ref]]:
        """The Jobs that sit on each pool."""
        found: dict[str, list[Ref]] = {}
        for job, seat in self.seats.items():
            found.setdefault(seat.pool, []).append(job)
        return found


@dataclass(frozen=True, slots=True)
class Create:
    """Ask for a node pool, for this Job."""

    name: str
    body: Mapping[str, Any]
    job: Ref
    jobset: Ref
    attempt: int
    about: Subject  # the pod, or the Workload where there is no pod yet
    owner: Subject  # the JobSet
    where: str
    since: float  # when the slice was first waited for


@dataclass(frozen=True, slots=True)
class Delete:
    """Give a node pool back. `cancel` says that it is still being made: what makes it must be stopped first."""

    name: str
    why: str
    about: Subject
    cancel: bool = False


@dataclass(frozen=True, slots=True)
class Remember:
    """Write down on a JobSet what has failed; then tell of each failure, and count those that were told before: `again`."""

    owner: Subject
    attempts: Mapping[str, Attempt]
    failed: tuple[tuple[Subject, Problem], ...] = ()
    again: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Tell:
    """Say how it stands, as a condition; `event` says it aloud too. What is not `urgent` may come late.

    `since` is when the condition came to its status, where that is what it was before.
    """

    about: Subject
    condition: str
    status: Literal["True", "False"]
    reason: str
    message: str
    event: bool = False
    urgent: bool = True
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """Suspend a JobSet until a time, so that its slices can be given back."""

    owner: Subject
    until: float
    why: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Let a JobSet that we suspended go on."""

    owner: Subject


@dataclass(frozen=True, slots=True)
class Answer:
    """Tell Kueue what became of an admission check; `event` says it aloud too.

    The pods of `podsets` are to go to nodes with the labels of `selector`.
    """

    about: Subject
    check: str
    state: CheckState
    message: str
    podsets: tuple[str, ...] = ()
    selector: Mapping[str, str] = field(default_factory=dict)
    urgent: bool = True
    event: bool = False


Action: TypeAlias = Create | Delete | Remember | Tell | Hold | Resume | Answer


@dataclass(slots=True)
class Decision:
    """What to do, in the order of its urgency, and when to look again though nothing changes (seconds since 1970)."""

    actions: list[Action] = field(default_factory=list)
    wake: float | None = None

    def look_at(self, time: float) -> None:
        """Look again at this time; the earliest counts."""
        if self.wake is None or time < self.wake:
            self.wake = time
