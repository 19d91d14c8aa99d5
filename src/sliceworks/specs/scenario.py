"""Scenario: timed events of a rehearsal (submissions, failures, quota changes, cloud faults) and its expectations."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from sliceworks.base import quantity
from sliceworks.specs.common import Metadata, Natural, Positive, Seconds, Spec, Timestamp, at_most_one_of, exactly_one_of, number

FaultType = Literal[
    "PermissionDenied",
    "ExpiredCredentials",
    "TooManyOperations",
    "IncompatibleOperation",
    "RateLimited",
    "QuotaExceeded",
    "Unavailable",
    "InternalError",
    "LostAnswers",
    "SlowAnswers",
    "SlowOperations",
    "StuckOperations",
    "FailedOperations",
    "Stockout",
    "MachineQuotaExceeded",
    "ServiceAccountMissing",
    "SlowBoot",
]


class CloudMatch(Spec):
    """Selects the calls, operations or machines that a fault affects. Strings may contain `*`; an unset field matches anything."""

    service: str | None = None
    method: str | None = Field(default=None, description="Google's method name, such as nodePools.create.")
    project: str | None = None
    location: str | None = None
    region: str | None = None
    zone: str | None = None
    cluster: str | None = None
    node_pool: str | None = None
    machine_type: str | None = None
    spot: bool | None = None
    reservation: str | None = None
    operation_type: str | None = Field(default=None, description="Operation type, such as CREATE_NODE_POOL.")


class CloudFault(Spec):
    """Injects a cloud fault for a duration, a number of times, or until `endCloudFault` ends it by name."""

    fault: FaultType
    name: str | None = None
    match: CloudMatch | None = None
    duration: Seconds | None = Field(default=None, alias="for")
    count: Positive | None = None
    probability: Annotated[float, Field(gt=0, le=1)] | None = None
    seconds: Seconds | None = Field(
        default=None, description="Delay of slow calls, operations and boots, or time until a stockout is reported."
    )
    message: str | None = None


class CloudQuota(Spec):
    """A regional quota. Without a limit, the quota is removed."""

    metric: str = Field(description="Quota metric, such as CPUS or TPU_LITE_PODSLICE_V5.")
    region: str
    project: str | None = None
    limit: Annotated[float, Field(ge=0)] | None = None


class CloudReservation(Spec):
    """Reserved machines in a zone. Without `nodes`, the reservation is deleted."""

    name: str
    zone: str
    machine_type: str | None = None
    nodes: Natural | None = None


class CloudCapacity(Spec):
    """Number of machines in a zone, not counting reserved ones. Without `nodes`, capacity is unlimited."""

    zone: str | None = None
    machine_type: str | None = None
    spot: bool | None = None
    nodes: Natural | None = None


class CloudCluster(Spec):
    """A cluster that exists from the start; the first one is the twin's own."""

    project: str
    location: str
    name: str


class SetCloud(Spec):
    """Settings of the container API from now on; unset fields keep their values."""

    operations: Positive | None = Field(default=None, description="Maximum concurrent operations per cluster.")
    seconds: dict[str, Seconds] | None = Field(default=None, description="Durations by name, such as boot.")
    quotas: list[CloudQuota] | None = None
    reservations: list[CloudReservation] | None = None
    capacity: list[CloudCapacity] | None = None
    clusters: list[CloudCluster] | None = None


class EndCloudFault(Spec):
    """Ends a cloud fault."""

    name: str


Outcome = Literal["succeeded", "failed", "deleted", "waiting", "suspended", "starting", "running"]
NonNegative = Annotated[float, Field(ge=0), BeforeValidator(number)]


class ExpectJob(Spec):
    """A training job and its outcome."""

    name: str
    namespace: str
    outcome: Outcome | None = Field(default=None, description="Final state, or the state at the end of the run.")
    by: Seconds | None = Field(default=None, description="The job has ended by this time.")
    waited: Seconds | None = Field(default=None, description="Maximum wait for the first admission.")
    preempted: Natural | None = Field(default=None, description="Minimum number of preemptions; 0 means never.")
    restarted: Natural | None = Field(default=None, description="Minimum number of restarts; 0 means never.")


class ExpectSlice(Spec):
    """A slice is created for a job and becomes ready, optionally in a zone or with a capacity type."""

    job: str = Field(description="namespace/name of the job.")
    zone: str = ""
    capacity: Literal["", "on-demand", "spot", "reserved"] = ""
    by: Seconds | None = None


class ExpectState(Spec):
    """An instance of a graph, or a ModelService, reaches a state."""

    kind: str
    name: str
    namespace: str
    state: str = Field(description="For example ACTIVE (graph instance), ready (ModelService), or deleted.")
    by: Seconds | None = None


class ExpectChips(Spec):
    """Number of chips of a type that a team uses at a time, or that exist."""

    chip: str = Field(description="Chip type, such as v5e or nvidia-l4.")
    at: Seconds
    team: str = Field(default="", description="Team that uses the chips; without it, all existing chips are counted.")
    min: Natural | None = None
    max: Natural | None = None

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("must set min, max or both")
        return self


class ExpectLoadTest(Spec):
    """A load test is valid and meets its objectives."""

    name: str
    goodput: NonNegative = Field(default=0.0, description="Minimum requests per second that meet all objectives.")
    errors: Annotated[NonNegative, Field(le=1)] = Field(default=0.0, description="Maximum share of failed requests.")


class ExpectIncident(Spec):
    """An incident occurs, and the platform recovers from it."""

    kind: Literal["stockout", "host", "preemption", "maintenance", "crash", "cloud"]
    about: str = Field(default="", description="Substring of the affected object's name; any object if unset.")
    within: Seconds | None = Field(default=None, description="Maximum time to recovery.")


class Expectation(Spec):
    """One expectation; exactly one field is set."""

    job: ExpectJob | None = None
    slice: ExpectSlice | None = None
    state: ExpectState | None = None
    chips: ExpectChips | None = None
    load_test: ExpectLoadTest | None = None
    incident: ExpectIncident | None = None
    nothing_left: bool | None = Field(default=None, description="After destroy, the cloud contains no billable resource.")

    @property
    def selected(self) -> tuple[str, Spec | bool]:
        """Name and value of the field that is set."""
        return next((name, value) for name in _EXPECTATIONS if (value := getattr(self, name)) is not None)

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if sum(getattr(self, name) is not None for name in _EXPECTATIONS) != 1:
            listed = ", ".join(str(Expectation.model_fields[name].alias) for name in _EXPECTATIONS)
            raise ValueError(f"exactly one of {listed} is required")
        return self


_EXPECTATIONS = tuple(Expectation.model_fields)


def _check_quantity(value: str) -> str:
    quantity.parse(value or "0")
    return value


class Selector(Spec):
    """Selects objects by name, by labels, or `count` of them at random."""

    names: list[str] = Field(default_factory=list)
    labels: dict[str, str] = Field(default_factory=dict)
    count: Positive | None = None

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if not self.names and not self.labels and self.count is None:
            raise ValueError("must set names, labels or count")
        return self


class Submit(Spec):
    """Submits the objects of a file `count` times. `{n}` in names becomes 1, 2, 3, …"""

    file: str
    count: Annotated[Positive, Field(le=100_000)] = 1
    every: Seconds | None = None
    rate: Annotated[float, Field(gt=0)] | None = Field(default=None, description="Arrivals per hour (Poisson process).")
    namespace: str = ""

    _check_pace = at_most_one_of("every", "rate")


class Trace(Spec):
    """Submissions from a CSV file with the columns `at`, `file` and, optionally, `name` and `namespace`."""

    file: str


class Apply(Spec):
    """Applies the objects of a file, as `kubectl apply --server-side --force-conflicts` does."""

    file: str


class Target(Spec):
    """Identifies one object of the cluster."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""


class Patch(Target):
    """Changes one object with a merge patch."""

    patch: dict[str, Any]
    subresource: str = ""


class FailNodes(Spec):
    """Nodes fail and lose their pods. They recover after `for`, if it is set."""

    nodes: Selector
    duration: Seconds | None = Field(default=None, alias="for", description="Duration of the failure; permanent if unset.")
    reason: Literal["Failure", "SpotPreemption", "Maintenance"] = "Failure"


class FailPods(Spec):
    """Containers of pods exit with a code."""

    pods: Selector
    namespace: str = ""
    exit_code: Annotated[int, Field(ge=1, le=255)] = 1
    reason: Literal["Error", "OOMKilled"] = "Error"


class SlowPulls(Spec):
    """Image pulls take `seconds` on the selected nodes, for a duration or permanently."""

    nodes: Selector
    seconds: Seconds
    duration: Seconds | None = Field(default=None, alias="for")


class SetQuota(Spec):
    """Changes the nominal quota of a ClusterQueue to a value, or by a delta."""

    cluster_queue: str
    flavor: str
    resource: str
    nominal: Annotated[str, AfterValidator(_check_quantity)] = ""
    delta: Annotated[str, AfterValidator(_check_quantity)] = Field(default="", description="Change of the quota; may be negative.")

    _check_change = exactly_one_of("nominal", "delta")

    def after(self, before: str) -> str:
        """The nominal quota after the change, at least 0."""
        if self.nominal:
            return self.nominal
        quota = quantity.add(before, self.delta)
        return quota if quantity.compare(quota, "0") >= 0 else "0"

    def describe(self) -> str:
        """The change as a phrase that follows `quota of …`."""
        change = f"becomes {self.nominal}" if self.nominal else f"changes by {self.delta}"
        return f"{change} {self.resource} of {self.flavor}"


class SetPriority(Spec):
    """Changes the priority of a job to a WorkloadPriorityClass."""

    job: str
    priority: str
    namespace: str = ""


class EndReservation(Spec):
    """Ends a reservation: the quota of its flavors becomes 0, and its nodes fail."""

    reservation: str


class Event(Spec):
    """One action at a time relative to the start; exactly one action is set."""

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
        """Name and value of the action."""
        return next((name, value) for name in _ACTIONS if (value := getattr(self, name)) is not None)

    @model_validator(mode="after")
    def _check_action(self) -> Self:
        actions = [name for name in _ACTIONS if getattr(self, name) is not None]
        if len(actions) != 1:
            listed = ", ".join(str(Event.model_fields[name].alias) for name in _ACTIONS)
            raise ValueError(f"exactly one of {listed} is required")
        return self


_ACTIONS = tuple(name for name in Event.model_fields if name != "at")


class ScenarioSpec(Spec):
    """Events and expectations of a run."""

    seed: int = 0
    start: Timestamp | None = None
    duration: Seconds = Field(default=60.0, description="Duration of the rehearsal. Forecasts ignore it.")
    environment: Literal["given", "terraform"] = Field(
        default="given",
        description="given: the machines of the Environment exist from the start; terraform: Terraform creates and destroys them.",
    )
    events: list[Event] = Field(default_factory=list)
    expect: list[Expectation] = Field(default_factory=list, description="The rehearsal fails if one of these is not met.")


class Scenario(Spec):
    """The Scenario document."""

    api_version: Literal["sliceworks.dev/v1alpha1"]
    kind: Literal["Scenario"]
    metadata: Metadata
    spec: ScenarioSpec
