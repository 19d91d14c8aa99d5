"""What a Scenario expects of a rehearsal: of jobs, slices, instances of graphs, model services, load tests, and of the end.

Times are counted as those of events are.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from sliceworks.specs.model import Seconds, Spec, number

Outcome = Literal["succeeded", "failed", "deleted", "waiting", "suspended", "starting", "running"]
Natural = Annotated[int, Field(ge=0)]


Amount = Annotated[float, Field(ge=0), BeforeValidator(number)]


class ExpectJob(Spec):
    """A training job, and how it fares."""

    name: str
    namespace: str
    outcome: Outcome | None = Field(default=None, description="How it ends, or how it stands when the day is over.")
    by: Seconds | None = Field(default=None, description="It has ended by then.")
    waited: Seconds | None = Field(default=None, description="It waits no longer than this for its first admission.")
    preempted: Natural | None = Field(default=None, description="So often at least; 0 is never.")
    restarted: Natural | None = Field(default=None, description="So often at least; 0 is never.")


class ExpectSlice(Spec):
    """A slice that is made for a job and becomes usable, in a zone or of a kind."""

    job: str = Field(description="namespace/name of the job.")
    zone: str = ""
    capacity: Literal["", "on-demand", "spot", "reserved"] = ""
    by: Seconds | None = None


class ExpectState(Spec):
    """An instance of a graph, or a ModelService, that comes to a state, such as ACTIVE or ready."""

    kind: str
    name: str
    namespace: str
    state: str = Field(description="Such as ACTIVE of a graph's instance, ready of a ModelService; gone once it is deleted.")
    by: Seconds | None = None


class ExpectChips(Spec):
    """What a team has of some chips at a moment, or how many there are in all."""

    chip: str = Field(description="Such as v5e or nvidia-l4.")
    at: Seconds
    team: str = Field(default="", description="Whose; all that there are when left out.")
    least: Natural | None = None
    most: Natural | None = None

    @model_validator(mode="after")
    def _bound(self) -> Self:
        if self.least is None and self.most is None:
            raise ValueError("give least, most or both")
        return self


class ExpectLoadTest(Spec):
    """A load test that counts and keeps its objectives."""

    name: str
    goodput: Amount = Field(default=0.0, description="Good answers a second, at least.")
    errors: Annotated[Amount, Field(le=1)] = Field(default=0.0, description="Share of requests that fail, at most.")


class ExpectIncident(Spec):
    """Something that goes wrong, and is mended."""

    kind: Literal["stockout", "host", "preemption", "maintenance", "crash", "cloud"]
    about: str = Field(default="", description="A part of the name of what it happens to; any when left out.")
    within: Seconds | None = Field(default=None, description="It is mended in this time.")


class Expectation(Spec):
    """One thing that is expected."""

    job: ExpectJob | None = None
    slice: ExpectSlice | None = None
    state: ExpectState | None = None
    chips: ExpectChips | None = None
    load_test: ExpectLoadTest | None = None
    incident: ExpectIncident | None = None
    nothing_left: bool | None = Field(default=None, description="After everything was removed, the cloud has nothing that costs.")

    @property
    def wanted(self) -> tuple[str, Spec | bool]:
        """The name of what is expected, and its details."""
        return next((name, value) for name in _KINDS if (value := getattr(self, name)) is not None)

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if sum(getattr(self, name) is not None for name in _KINDS) != 1:
            listed = ", ".join(str(Expectation.model_fields[name].alias) for name in _KINDS)
            raise ValueError(f"an expectation is exactly one of {listed}")
        return self


_KINDS = tuple(Expectation.model_fields)
