"""The record of a rehearsal: plain, frozen facts, identical for identical documents and seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import orjson

from sliceworks.base.errors import InvalidDocument
from sliceworks.rehearsal.timeline import TimelineEntry  # noqa: TC001 - pydantic reads the types of the fields

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True)
class CheckResult:
    """An expected and an actual result, as text."""

    expected: str
    actual: str
    passed: bool
    place: str = ""
    """File and line of the expectation."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of a run, such as `environment` or `load-test`."""

    name: str
    title: str
    at: float
    duration: float
    """Twin time. Steps that run in real time take 0, or an assumed time."""
    result: str
    """`done`, `failed` or `skipped`."""
    summary: str = ""
    """Summary such as `34 resources in 4 stages`, or the problems."""
    checks: tuple[CheckResult, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the step and all its checks passed."""
        return self.result != "failed" and all(check.passed for check in self.checks)


@dataclass(frozen=True, slots=True)
class Span:
    """A state from `begin` to `end`."""

    state: str
    begin: float
    end: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """Chips of one type over time, as (time, chips from then on): used by `team`, or existing if it is empty."""

    chip: str
    """Name in the catalog: `v5e`, `v4`, `nvidia-l4`."""
    points: tuple[tuple[float, int], ...]
    team: str = ""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A training job from its submission to its end. Its spans are `waiting`, `starting`, `running`, `suspended`."""

    name: str
    namespace: str
    team: str
    queue: str
    priority: str
    chip: str
    chips: int
    submitted: float
    admitted: float | None = None
    """First admission."""
    started: float | None = None
    """When all its pods first ran."""
    ended: float | None = None
    outcome: str = "waiting"
    """`succeeded`, `failed`, `deleted`; or, if it has not ended, `waiting`, `suspended`, `starting` or `running`."""
    preemptions: int = 0
    restarts: int = 0
    spans: tuple[Span, ...] = ()

    @property
    def waited(self) -> float | None:
        """From submission to the first admission."""
        return None if self.admitted is None else self.admitted - self.submitted


@dataclass(frozen=True, slots=True)
class SliceRecord:
    """A slice or node pool with chips, from request to deletion. Its spans are the cloud's states:
    `provisioning`, `running`, `error`, `stopping`."""

    name: str
    chip: str
    topology: str
    hosts: int
    chips: int
    zone: str
    capacity: str
    """`on-demand`, `spot` or `reserved`."""
    created: float
    deleted: float | None = None
    job: str = ""
    """namespace/name of the job that owns it; empty if no job does."""
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """An instance of a graph or a model service. Its spans are states: `ACTIVE`, `Ready`."""

    kind: str
    name: str
    namespace: str
    about: str
    """Short description: engine and machines, or the kind of the graph."""
    created: float
    deleted: float | None = None
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Cost:
    """A team's use of a pool's chips and its cost at published prices; idle chips have no team."""

    team: str
    pool: str
    chip: str
    capacity: str
    chip_hours: float
    usd: float | None
    """None without a published price."""


@dataclass(frozen=True, slots=True)
class IncidentResponse:
    """What the platform did about an incident."""

    at: float
    what: str


@dataclass(frozen=True, slots=True)
class Incident:
    """A failure, planned by the Scenario or not, and when the platform recovered from it, if it did."""

    at: float
    what: str
    kind: str
    """`stockout`, `host`, `preemption`, `maintenance`, `crash`, `cloud`, `refused`."""
    subject: str
    """The affected object: `node gke-…`, `job team-vision/resnet`."""
    responses: tuple[IncidentResponse, ...] = ()
    recovered_at: float | None = None


@dataclass(frozen=True, slots=True)
class Outage:
    """An outage of a program that the drill killed; `was_busy` if it was about to send a request."""

    name: str
    at: float
    duration: float
    was_busy: bool


@dataclass(frozen=True, slots=True)
class LoadTestRecord:
    """Results of a load test."""

    name: str
    target: str
    model: str
    requests: int
    failed: int
    rate: float
    """Requests sent per second."""
    goodput: float
    """Requests per second that met all objectives."""
    times: dict[str, dict[str, float]] = field(default_factory=dict)
    """Seconds: `{"ttft": {"p50": …, "p95": …, "p99": …}, "e2e": …}`."""
    objectives: tuple[CheckResult, ...] = ()
    report: str = ""
    """Path of its report, absolute or relative to the rehearsal's report; empty if there is none."""


@dataclass(frozen=True, slots=True)
class Measurements:
    """Real-time measurements on this machine; they differ between runs."""

    seconds: float = 0.0
    steps: dict[str, float] = field(default_factory=dict)
    """Real seconds by step name."""
    terraform: str = ""
    load_runs: tuple[LoadTestRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Record of a rehearsal."""

    name: str
    folder: str
    seed: int
    start: str
    """Twin time at the start, such as `2026-11-16T08:00:00Z`."""
    duration: float
    scenario_start: float = 0.0
    """Start of the Scenario; its times are relative to this."""
    steps: tuple[StepRecord, ...] = ()
    timeline: tuple[TimelineEntry, ...] = ()
    usage: tuple[Series, ...] = ()
    capacity: tuple[Series, ...] = ()
    jobs: tuple[JobRecord, ...] = ()
    slices: tuple[SliceRecord, ...] = ()
    instances: tuple[InstanceRecord, ...] = ()
    costs: tuple[Cost, ...] = ()
    incidents: tuple[Incident, ...] = ()
    leftovers: tuple[str, ...] = ()
    """Billable resources left in the cloud after destroy."""
    measured: Measurements = field(default_factory=Measurements)
    outages: tuple[Outage, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every step passed."""
        return all(step.passed for step in self.steps)


def dumps(record: RunRecord) -> bytes:
    """Serialize a record as JSON."""
    return orjson.dumps(record, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def loads(data: bytes, place: str = "") -> RunRecord:
    """Parse a record from JSON; raises InvalidDocument."""
    from pydantic import ValidationError

    try:
        return _adapter().validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidDocument(f"not a valid rehearsal record: {where}: {first['msg']}", place=place) from error


@cache
def _adapter() -> TypeAdapter[RunRecord]:
    from pydantic import TypeAdapter

    return TypeAdapter(RunRecord)


class SpanBuilder:
    """Builds the spans of one object from its state changes."""

    def __init__(self) -> None:
        self._done: list[Span] = []
        self._state, self._begin, self._note = "", 0.0, ""

    @property
    def state(self) -> str:
        """Current state; empty before the first and after the last."""
        return self._state

    def enter(self, at: float, state: str, note: str = "") -> bool:
        """Enter a state; False if it is the current one."""
        if state == self._state:
            return False
        self.close(at)
        self._state, self._begin, self._note = state, at, note
        if self._done and (last := self._done[-1]).state == state and last.end == at:
            # The state in between had no duration.
            self._begin, self._note = self._done.pop().begin, last.note
        return True

    @property
    def note(self) -> str:
        """Note of the current state."""
        return self._note if self._state else ""

    def explain(self, note: str) -> None:
        """Set the note of the current state."""
        self._note = note

    def close(self, at: float) -> None:
        """End the current state; drop it if it had no duration."""
        if self._state and at > self._begin:
            self._done.append(Span(self._state, self._begin, at, self._note))
        self._state = ""

    def until(self, at: float) -> tuple[Span, ...]:
        """All spans; the current state ends at `at`."""
        if self._state and at > self._begin:
            return (*self._done, Span(self._state, self._begin, at, self._note))
        return tuple(self._done)
