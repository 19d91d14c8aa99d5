"""Plain data on both sides of `decide`: views of cluster and cloud, the Snapshot, and the actions of a Decision."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from sliceworks.kube.resources import Key

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from sliceworks.cloud.container import Fault
    from sliceworks.controllers.slices.node_pool_requirements import NodePoolRequirements


NO_NAME = Key("", "")


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """The object that an event or condition is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""

    def as_object(self) -> dict[str, Any]:
        """A partial object with apiVersion, kind and identity."""
        metadata = {"namespace": self.namespace, "name": self.name, "uid": self.uid}
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": {key: value for key, value in metadata.items() if value},
        }


@dataclass(frozen=True, slots=True)
class ConditionView:
    """The current state of one of this controller's conditions."""

    status: str = ""
    reason: str = ""
    message: str = ""
    since: datetime | None = None


NO_CONDITION = ConditionView()


@dataclass(frozen=True, slots=True)
class Problem:
    """A reason in CamelCase, and a message."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Leader:
    """The unschedulable first pod of a Job. `requirements` are those of its node pool, or why they are invalid."""

    subject: ObjectReference
    job: Key
    job_kind: str
    job_key: str
    jobset: Key
    template: str  # the name of its replicated Job
    requirements: NodePoolRequirements | Problem
    since: datetime
    condition: ConditionView = NO_CONDITION
    version: int = 0


class Placement(NamedTuple):
    """The JobSet of a scheduled leader, and the node pool it runs on."""

    jobset: Key
    pool: str


class Attempt(NamedTuple):
    """The failed attempts of a slice: their number, the time of the next one, and the last reason and message."""

    tries: int
    not_before: float = 0.0
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class ReplicatedJobView:
    """A replicated Job: Jobs and pods per Job. `pod` is the pod template if node pools may be needed before pods exist."""

    name: str
    replicas: int
    pods: int
    pod: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class JobSetView:
    """One JobSet. `queued`: Kueue manages it; `suspended_until`: this controller has suspended it."""

    subject: ObjectReference
    ref: Key
    ended: str = ""  # completed or failed
    ended_at: datetime | None = None
    deleting: bool = False
    suspended: bool = False
    suspended_since: datetime | None = None
    queued: bool = False
    drained: bool = False
    suspended_until: datetime | None = None
    time_limit: float | Problem | None = None
    jobs: frozenset[str] = frozenset()
    templates: Mapping[str, ReplicatedJobView] = field(default_factory=dict)
    attempts: Mapping[str, Attempt] = field(default_factory=dict)
    condition: ConditionView = NO_CONDITION
    version: int = 0


@dataclass(frozen=True, slots=True)
class NodePool:
    """A GKE node pool. `is_managed`: a slice provisioner created it; others are never changed."""

    name: str
    status: str
    is_managed: bool = False
    jobset: Key = NO_NAME
    job: Key = NO_NAME
    digest: str = ""
    attempt: int = 0
    created: float = 0.0
    zone: str = ""
    machine: str = ""
    nodes: int = 0
    topology: str = ""
    spot: bool = False
    fault: Fault | None = None

    @property
    def is_running(self) -> bool:
        """Whether its nodes are usable."""
        return self.status in ("RUNNING", "RECONCILING")

    @property
    def is_broken(self) -> bool:
        """Whether its creation failed."""
        return self.status in ("ERROR", "RUNNING_WITH_ERROR")


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What node pools depend on in their cluster. The default is what every cluster accepts."""

    has_release_channel: bool = True
    has_multi_networking: bool = True
    has_workload_pool: bool = False


ANY_CLUSTER = ClusterView()


CheckState = Literal["Pending", "Ready", "Retry", "Rejected"]


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """A Kueue Workload with admission checks. `flavors` are the flavors assigned to each pod set."""

    subject: ObjectReference
    jobset: Key
    checks: Mapping[str, tuple[CheckState, str]]
    reserved_since: datetime | None = None
    active: bool = False  # has reserved quota, and is neither finished nor evicted
    flavors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    version: int = 0


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A failed attempt without a node pool: the request was rejected, or the operation failed."""

    attempt: int
    problem: Problem


_UNLIMITED = 1_000_000


@dataclass(frozen=True)
class Snapshot:
    """The state of cluster and cloud. `now` is Unix time; `pending_operations` are requests that no LIST has shown yet."""

    now: float
    leaders: Mapping[Key, Leader] = field(default_factory=dict)
    jobsets: Mapping[Key, JobSetView] = field(default_factory=dict)
    pools: Mapping[str, NodePool] = field(default_factory=dict)
    pending_operations: Mapping[str, Literal["create", "delete"]] = field(default_factory=dict)
    running_since: Mapping[str, float] = field(default_factory=dict)  # when each running pool was first seen running
    known_jobs: Mapping[Key, Key] = field(
        default_factory=dict
    )  # Jobs whose leaders were unschedulable at some time, with their JobSets
    placements: Mapping[Key, Placement] = field(default_factory=dict)  # of scheduled leaders, by Job
    failures: Mapping[Key, FailedAttempt] = field(default_factory=dict)
    workloads: tuple[WorkloadView, ...] = ()
    checks: frozenset[str] = frozenset()  # this controller's AdmissionChecks
    inactive_checks: tuple[ObjectReference, ...] = ()  # those without the condition Active
    flavors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    available_operations: int = _UNLIMITED  # operations that can be started now
    cluster: ClusterView = ANY_CLUSTER
    cloud_error: Problem | None = None  # why node pools could not be listed; `pools` is not valid then

    def occupant(self, pool: NodePool) -> Key | None:
        """The Job of another JobSet that runs on the pool, if any."""
        return self._occupant_by_pool.get(pool.name)

    @cached_property
    def _occupant_by_pool(self) -> dict[str, Key]:
        occupant_by_pool: dict[str, Key] = {}
        for job, placement in self.placements.items():
            pool = self.pools.get(placement.pool)
            if pool is not None and pool.jobset != placement.jobset:
                occupant_by_pool[pool.name] = job
        return occupant_by_pool

    @cached_property
    def waiting_jobsets(self) -> frozenset[Key]:
        """The JobSets with an unschedulable leader."""
        return frozenset(leader.jobset for leader in self.leaders.values())

    @cached_property
    def occupants(self) -> dict[str, list[Key]]:
        """The Jobs that run on each pool."""
        occupants: dict[str, list[Key]] = {}
        for job, placement in self.placements.items():
            occupants.setdefault(placement.pool, []).append(job)
        return occupants


@dataclass(frozen=True, slots=True)
class CreateNodePool:
    """Create a node pool for a Job."""

    name: str
    body: Mapping[str, Any]
    job: Key
    jobset: Key
    attempt: int
    regarding: ObjectReference  # the pod, or the Workload if there is no pod yet
    owner: ObjectReference  # the JobSet
    where: str
    since: float  # when the slice was first requested


@dataclass(frozen=True, slots=True)
class DeleteNodePool:
    """Delete a node pool. `cancel`: its create operation must be cancelled first."""

    name: str
    reason: str
    regarding: ObjectReference
    cancel: bool = False


@dataclass(frozen=True, slots=True)
class RecordAttempts:
    """Record failed attempts on a JobSet. `failed` get an event and a log line; `repeated` are only counted."""

    owner: ObjectReference
    attempts: Mapping[str, Attempt]
    failed: tuple[tuple[ObjectReference, Problem], ...] = ()
    repeated: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class SetCondition:
    """Set a condition, and record an event if `event` is set. Writes that are not `urgent` may be delayed.

    `since` is the previous transition time, if the status does not change.
    """

    regarding: ObjectReference
    condition: str
    status: Literal["True", "False"]
    reason: str
    message: str
    event: bool = False
    urgent: bool = True
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class SuspendJobSet:
    """Suspend a JobSet until a time, so that its slices can be deleted."""

    owner: ObjectReference
    until: float
    reason: str


@dataclass(frozen=True, slots=True)
class ResumeJobSet:
    """Resume a JobSet that this controller suspended."""

    owner: ObjectReference


@dataclass(frozen=True, slots=True)
class SetAdmissionCheck:
    """Set the state of a Workload's admission check, and record an event if `event` is set.

    The pods of `podsets` get `selector` as their node selector.
    """

    regarding: ObjectReference
    check: str
    state: CheckState
    message: str
    podsets: tuple[str, ...] = ()
    selector: Mapping[str, str] = field(default_factory=dict)
    urgent: bool = True
    event: bool = False


Action: TypeAlias = (
    CreateNodePool | DeleteNodePool | RecordAttempts | SetCondition | SuspendJobSet | ResumeJobSet | SetAdmissionCheck
)


@dataclass(slots=True)
class Decision:
    """Actions by urgency, and the time of the next reconcile if nothing changes (Unix time)."""

    actions: list[Action] = field(default_factory=list)
    requeue_time: float | None = None

    def requeue_at(self, time: float) -> None:
        """Requeue at this time; the earliest wins."""
        if self.requeue_time is None or time < self.requeue_time:
            self.requeue_time = time
