"""Scenario: what happens when in a rehearsal, and what is expected of it: submissions, failures, delays, quotas, the cloud."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from sliceworks.base import quantity
from sliceworks.specs.clouds import CloudFault, EndCloudFault, SetCloud
from sliceworks.specs.expectations import Expectation
from sliceworks.specs.model import Metadata, Moment, Seconds, Spec

Count = Annotated[int, Field(ge=1)]


def _amount(value: str) -> str:
    quantity.parse(value or "0")
    return value


class Selector(Spec):
    """Some objects of a kind: by name, by labels, or that many chosen at random."""

    names: list[str] = Field(default_factory=list)
    labels: dict[str, str] = Field(default_factory=dict)
    count: Count | None = None

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.names and not self.labels and self.count is None:
            raise ValueError("select by names, labels or count")
        return self


class Submit(Spec):
    """Objects from a file, once or again and again. `{n}` in their names becomes 1, 2, 3, …"""

    file: str
    count: Count = 1
    every: Seconds | None = None
    rate: Annotated[float, Field(gt=0)] | None = Field(default=None, description="Arrivals per hour, at random moments (Poisson).")
    namespace: str = ""

    @model_validator(mode="after")
    def _paced_once(self) -> Self:
        if self.every is not None and self.rate is not None:
            raise ValueError("give every or rate, not both")
        return self


class Trace(Spec):
    """Submissions from a CSV file with the columns `at`, `file` and, if wanted, `name` and `namespace`."""

    file: str


class Apply(Spec):
    """Apply the objects of a file, as `kubectl apply --server-side --force-conflicts` does."""

    file: str


class Target(Spec):
    """One object of a cluster."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""


class Patch(Target):
    """Change one object by a merge patch."""

    patch: dict[str, Any]
    subresource: str = ""


class FailNodes(Spec):
    """Nodes stop: their pods are lost. They come back after a time, or not at all."""

    nodes: Selector
    lasting: Seconds | None = Field(default=None, alias="for", description="How long; for good when it is left out.")
    reason: Literal["Failure", "SpotPreemption", "Maintenance"] = "Failure"


class FailPods(Spec):
    """Containers of pods end with an exit code."""

    pods: Selector
    namespace: str = ""
    exit_code: Annotated[int, Field(ge=1, le=255)] = 1
    reason: Literal["Error", "OOMKilled"] = "Error"


class SlowPulls(Spec):
    """Images take that long to pull on some nodes, for a while or for good."""

    nodes: Selector
    seconds: Seconds
    lasting: Seconds | None = Field(default=None, alias="for")


class SetQuota(Spec):
    """A ClusterQueue gets another nominal quota: so much in all, or so much more than it has."""

    cluster_queue: str
    flavor: str
    resource: str
    nominal: Annotated[str, AfterValidator(_amount)] = ""
    more: Annotated[str, AfterValidator(_amount)] = Field(default="", description="Less, where it is negative.")

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if bool(self.nominal) == bool(self.more):
            raise ValueError("give nominal or more, one of them")
        return self

    def after(self, before: str) -> str:
        """The nominal quota after the change; never less than nothing."""
        if self.nominal:
            return self.nominal
        found = quantity.add(before, self.more)
        return found if quantity.compare(found, "0") >= 0 else "0"

    def spoken(self) -> str:
        """The change in words, after `the quota of …`."""
        how = f"becomes {self.nominal}" if self.nominal else f"changes by {self.more}"
        return f"{how} {self.resource} of {self.flavor}"


class SetPriority(Spec):
    """A job gets another priority, which is a WorkloadPriorityClass."""

    job: str
    priority: str
    namespace: str = ""


class EndReservation(Spec):
    """A reservation of machines ends: the quota of its flavors is gone, and so is what runs there."""

    reservation: str


class Event(Spec):
    """One thing that happens, at a time counted from the beginning."""

    at: Seconds
    submit: Submit | None = None
    trace: Trace | None = None
    apply: Apply | None = None
    patch: Patch | None = None
    delete: Target | None = None
    fail_nodes: FailNodes | None = None
    fail_pods: FailPods | None = None
    slow_pulls: SlowPulls | None = None
    set_quota: SetQuota | None = None
    set_priority: SetPriority | None = None
    end_reservation: EndReservation | None = None
    cloud_fault: CloudFault | None = None
    end_cloud_fault: EndCloudFault | None = None
    set_cloud: SetCloud | None = None

    @property
    def action(self) -> tuple[str, Spec]:
        """The name of what happens, and its details."""
        return next((name, value) for name in _ACTIONS if (value := getattr(self, name)) is not None)

    @model_validator(mode="after")
    def _one_action(self) -> Self:
        given = [name for name in _ACTIONS if getattr(self, name) is not None]
        if len(given) != 1:
            listed = ", ".join(str(Event.model_fields[name].alias) for name in _ACTIONS)
            raise ValueError(f"an event is exactly one of {listed}")
        return self


_ACTIONS = tuple(name for name in Event.model_fields if name != "at")


class ScenarioSpec(Spec):
    """A rehearsal's day."""

    seed: int = 0
    start: Moment | None = None
    duration: Seconds = Field(default=60.0, description="How long a rehearsal of it lasts. A forecast does not ask.")
    environment: Literal["given", "terraform"] = Field(
        default="given",
        description="Whether the machines of an Environment are there from the start, or Terraform makes and removes all of it.",
    )
    events: list[Event] = Field(default_factory=list)
    expect: list[Expectation] = Field(default_factory=list, description="A rehearsal in which one of these is not so has failed.")


class Scenario(Spec):
    """The document."""

    api_version: Literal["sliceworks.dev/v1alpha1"]
    kind: Literal["Scenario"]
    metadata: Metadata
    spec: ScenarioSpec
