"""The record of a rehearsed day: plain facts, frozen, and the same for the same documents and seed.

All times are seconds of the twin's clock since the day began. What was measured on this machine, and differs from run to run, is in
`Day.measured` and nowhere else: `dumps(day.without_measured())` has the same bytes each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

import orjson

from sliceworks.base.errors import InvalidDocument
from sliceworks.rehearsal.timeline import Moment  # noqa: TC001 - pydantic reads the types of the fields

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True)
class Check:
    """Something that was expected, and what was found: both in words."""

    expected: str
    actual: str
    kept: bool
    place: str = ""
    """Where the Scenario says so: file and line."""


@dataclass(frozen=True, slots=True)
class Step:
    """One part of the day, such as `environment` or `load-test`."""

    name: str
    title: str
    at: float
    lasted: float
    """Of the twin's time. Steps in real time take none, or as much as is assumed for them."""
    result: str
    """`done`, `failed` or `skipped`."""
    told: str = ""
    """What came of it, in a few words: `made 34 resources in 4 stages`, or what went wrong."""
    checks: tuple[Check, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether it ended as the Scenario expects."""
        return self.result != "failed" and all(check.kept for check in self.checks)


@dataclass(frozen=True, slots=True)
class Span:
    """A state that lasted from one moment to another."""

    state: str
    begin: float
    end: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """Chips of one type over time: (moment, chips from then on). Of a team, what its work holds; of none, what there is."""

    chip: str
    """As the catalog has it: `v5e`, `v4`, `nvidia-l4`."""
    points: tuple[tuple[float, int], ...]
    team: str = ""


@dataclass(frozen=True, slots=True)
class JobLife:
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
    """The first time."""
    started: float | None = None
    """When all of it ran for the first time."""
    ended: float | None = None
    outcome: str = "waiting"
    """`succeeded`, `failed`, `deleted`; of one that has not ended `waiting`, `suspended`, `starting` or `running`."""
    preemptions: int = 0
    restarts: int = 0
    spans: tuple[Span, ...] = ()

    @property
    def waited(self) -> float | None:
        """From submission to the first admission."""
        return None if self.admitted is None else self.admitted - self.submitted


@dataclass(frozen=True, slots=True)
class SliceLife:
    """A slice or a pool of machines with chips, from when it was asked for until it was gone. Its spans are the cloud's states:
    `provisioning`, `running`, `error`, `stopping`."""

    name: str
    chip: str
    topology: str
    hosts: int
    chips: int
    zone: str
    capacity: str
    """`on-demand`, `spot` or `reserved`."""
    born: float
    gone: float | None = None
    job: str = ""
    """Whose it is: namespace/name of a job; empty where it is nobody's own."""
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Life:
    """Anything else with a life to draw: an instance of a graph, a model service. Its spans are states: `ACTIVE`, `Ready`."""

    kind: str
    name: str
    namespace: str
    about: str
    """In few words: the engine and the machines, or the kind of the graph."""
    born: float
    gone: float | None = None
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Cost:
    """What a team had of a pool's chips, and what that costs at list prices. Of no team: what stood idle."""

    team: str
    pool: str
    chip: str
    capacity: str
    chip_hours: float
    usd: float | None
    """None where there is no list price."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the platform did about something that went wrong."""

    at: float
    what: str


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that went wrong: planned by the Scenario or not, and when it was mended, if it was."""

    at: float
    what: str
    kind: str
    """`stockout`, `host`, `preemption`, `maintenance`, `crash`, `cloud`, `refused`."""
    subject: str
    """What it happened to: `node gke-…`, `job team-vision/resnet`."""
    answers: tuple[Answer, ...] = ()
    mended: float | None = None


@dataclass(frozen=True, slots=True)
class Death:
    """A program that a drill killed: when, for how long it was away, and whether it was in the middle of something."""

    name: str
    at: float
    lasted: float
    at_work: bool


@dataclass(frozen=True, slots=True)
class LoadRun:
    """A load test that was run against something real."""

    name: str
    target: str
    model: str
    requests: int
    failed: int
    rate: float
    """Requests sent in a second."""
    goodput: float
    """Requests in a second that were answered and kept all objectives."""
    times: dict[str, dict[str, float]] = field(default_factory=dict)
    """Seconds: `{"ttft": {"p50": …, "p95": …, "p99": …}, "e2e": …}`."""
    objectives: tuple[Check, ...] = ()
    report: str = ""
    """The file of its report, where one is kept: a path, or one that is relative to the page of the day."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured on this machine. It differs from run to run."""

    seconds: float = 0.0
    steps: dict[str, float] = field(default_factory=dict)
    """Real seconds by the name of a step."""
    terraform: str = ""
    load_runs: tuple[LoadRun, ...] = ()


@dataclass(frozen=True, slots=True)
class Day:
    """A whole rehearsal."""

    name: str
    folder: str
    seed: int
    start: str
    """What the twin's clock showed in the beginning, such as `2026-11-16T08:00:00Z`."""
    lasted: float
    opened: float = 0.0
    """When the platform stood and the Scenario began: its times count from here."""
    steps: tuple[Step, ...] = ()
    moments: tuple[Moment, ...] = ()
    usage: tuple[Series, ...] = ()
    capacity: tuple[Series, ...] = ()
    jobs: tuple[JobLife, ...] = ()
    slices: tuple[SliceLife, ...] = ()
    lives: tuple[Life, ...] = ()
    costs: tuple[Cost, ...] = ()
    incidents: tuple[Incident, ...] = ()
    left: tuple[str, ...] = ()
    """What the cloud still had when everything had been removed, and would go on to cost."""
    measured: Measured = field(default_factory=Measured)
    deaths: tuple[Death, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether every step ended as the Scenario expects."""
        return all(step.kept for step in self.steps)

    def without_measured(self) -> Day:
        """What is the same each time."""
        return replace(self, measured=Measured())


def dumps(day: Day) -> bytes:
    """A day as JSON."""
    return orjson.dumps(day, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def loads(text: bytes, place: str = "") -> Day:
    """A day from JSON; InvalidDocument where it is none."""
    from pydantic import ValidationError

    try:
        return _adapter().validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidDocument(f"is no record of a rehearsal: {where}: {first['msg']}", place=place) from error


@cache
def _adapter() -> TypeAdapter[Day]:
    from pydantic import TypeAdapter

    return TypeAdapter(Day)
