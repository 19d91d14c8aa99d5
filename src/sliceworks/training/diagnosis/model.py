"""Evidence, the objects read at one time, and Diagnosis, the ordered causes found in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.training.status import QUEUE_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The objects that were read about one JobSet.

    `hidden` are the kinds that the user may not read: a missing object of these kinds proves nothing. `unreadable` describes
    what could not be read. `namespace_object` is the job's Namespace. `cohort` are the ClusterQueues that share quota,
    `cohorts` their Cohorts. `queue_index` is the job's index in the queue, `head` are the first pending Workloads, `holders` are
    Workloads with reserved quota (all of them if `all_holders`), `unready` are the Workloads of any queue whose pods Kueue waits
    for. `nodes` are keyed by the pods' node selector, `occupants` are the jobs on each node, and `label_exists` records whether
    any node has a label. `undeleted` are the pods that exist although their deletion is due. `hosts` are the nodes of these, and of
    scheduled pods that are not ready.
    """

    jobset: Object
    now: datetime
    workload: Object | None = None
    kueue: bool = True
    local_queue: Object | None = None
    local_queues: tuple[str, ...] = ()
    cluster_queue: Object | None = None
    cohort: tuple[Object, ...] = ()
    cohorts: tuple[Object, ...] = ()
    flavors: Mapping[str, Object] = field(default_factory=dict)
    checks: Mapping[str, Object] = field(default_factory=dict)
    namespace_object: Object | None = None
    queue_index: int | None = None
    head: tuple[Object, ...] = ()
    holders: tuple[Object, ...] = ()
    holder_jobsets: Mapping[tuple[str, str], Object] = field(default_factory=dict)
    all_holders: bool = True
    unready: tuple[Object, ...] = ()
    preemptor: Object | None = None
    jobs: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()
    undeleted: tuple[Object, ...] = ()
    events: tuple[Object, ...] = ()
    nodes: Mapping[str, tuple[Object, ...]] = field(default_factory=dict)
    label_exists: Mapping[str, bool] = field(default_factory=dict)
    occupants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hosts: Mapping[str, Object] = field(default_factory=dict)
    claims: Mapping[str, Object | None] = field(default_factory=dict)
    pools: tuple[Object, ...] = ()
    operations: tuple[Any, ...] = ()
    hidden: frozenset[str] = frozenset()
    unreadable: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return str(self.jobset["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.jobset["metadata"]["namespace"])

    @property
    def queue(self) -> str:
        """The name of the LocalQueue; empty if Kueue does not manage the job."""
        return str((self.jobset["metadata"].get("labels") or {}).get(QUEUE_LABEL, ""))

    @property
    def suspended(self) -> bool:
        return bool(self.jobset["spec"].get("suspend"))

    def events_of(self, kind: str, name: str = "") -> list[Object]:
        """Events of one object, or of all objects of a kind, newest first."""
        events = [
            event
            for event in self.events
            if event["involvedObject"].get("kind") == kind and name in ("", event["involvedObject"].get("name"))
        ]
        return sorted(events, key=_event_time, reverse=True)


def _event_time(event: Object) -> str:
    series = (event.get("series") or {}).get("lastObservedTime")
    return str(series or event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")


@dataclass(frozen=True, slots=True)
class FieldReference:
    """The source of a statement: an object and a field in it."""

    kind: str
    name: str
    field: str
    namespace: str = ""

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}, {self.field}"


def field_reference(obj: Object, field: str, kind: str = "") -> FieldReference:
    """The reference to a field of an object."""
    metadata = obj["metadata"]
    return FieldReference(kind or obj.get("kind", ""), metadata["name"], field, metadata.get("namespace", ""))


@dataclass(frozen=True, slots=True)
class CauseKind:
    """A kind of cause. `title` completes the sentence that starts with the job's name; `remedy` is the default remedy."""

    name: str
    layer: str
    title: str
    remedy: str

    def cause(self, message: str, *sources: FieldReference, remedy: str = "", reported: str = "") -> Cause:
        """Create a cause of this kind; `reported` is the message of the component that reported it."""
        return Cause(self, message, sources, remedy or self.remedy, " ".join(reported.split()))


@dataclass(frozen=True, slots=True)
class Cause:
    """Why one job is in its state. `message` is ours; `reported` quotes the component that reported it."""

    kind: CauseKind
    message: str
    sources: tuple[FieldReference, ...]
    remedy: str
    reported: str = ""


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job that is pending in a queue or holds its quota."""

    namespace: str
    name: str
    priority: int
    since: datetime | None = None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """The position in the queue, counted from 1; `first` are the first of the jobs ahead."""

    position: int
    total: int
    first: tuple[QueuedJob, ...]


@dataclass(frozen=True, slots=True)
class QuotaRelease:
    """The quota that a running job will release, and when (None: unknown); `basis` says how that is known."""

    job: QueuedJob
    amount: str
    expected_at: datetime | None = None
    basis: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer of `train why`: causes in order, the position in the queue, expected releases of quota and progress."""

    namespace: str
    name: str
    state: str
    summary: str
    causes: tuple[Cause, ...]
    ahead: QueuePosition | None = None
    releases: tuple[QuotaRelease, ...] = ()
    progress: tuple[tuple[str, str], ...] = ()
    unreadable: tuple[str, ...] = field(default=())
