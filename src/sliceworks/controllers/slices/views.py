"""Slim pictures of what the controller needs to know of pods, JobSets, Workloads and node pools, and nothing more.

A cluster of ten thousand nodes has as many pods: only what decides is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from sliceworks.cloud.operations import Fault
    from sliceworks.controllers.slices.asks import Ask


class Ref(NamedTuple):
    """An object of a namespace: a Job, a JobSet."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


NOTHING = Ref("", "")


@dataclass(frozen=True, slots=True)
class Subject:
    """An object that events and conditions are about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""

    def reference(self) -> dict[str, Any]:
        """The object as far as an event needs it."""
        metadata = {"namespace": self.namespace, "name": self.name, "uid": self.uid}
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": {key: value for key, value in metadata.items() if value},
        }


@dataclass(frozen=True, slots=True)
class Told:
    """A condition of ours on an object, as it stands."""

    status: str = ""
    reason: str = ""
    message: str = ""
    since: datetime | None = None


UNTOLD = Told()


@dataclass(frozen=True, slots=True)
class Problem:
    """Why something cannot be: one word, and a line for a person."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Leader:
    """The first pod of a Job that waits for a place. `ask` is what its pool must be, or why there can be none."""

    subject: Subject
    job: Ref
    job_kind: str
    job_key: str
    jobset: Ref
    template: str  # the replicated Job it is of
    ask: Ask | Problem
    since: datetime
    told: Told = UNTOLD
    version: int = 0


class Seat(NamedTuple):
    """Where the leader of a Job sits: its JobSet, and the pool of its node."""

    jobset: Ref
    pool: str


class Attempt(NamedTuple):
    """How often a slice was tried in vain, when it may be tried again, and what was in the way last."""

    tries: int
    not_before: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Template:
    """A replicated Job: how many Jobs, of how many pods; `pod` is kept only where a pool may be wanted before there are pods."""

    name: str
    replicas: int
    pods: int
    pod: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class JobSetView:
    """One JobSet. `queued` says that Kueue decides when it runs; `held_until` that we suspended it."""

    subject: Subject
    ref: Ref
    ended: str = ""  # completed or failed
    ended_at: datetime | None = None
    deleting: bool = False
    suspended: bool = False
    suspended_since: datetime | None = None
    queued: bool = False
    drained: bool = False
    held_until: datetime | None = None
    time_limit: float | Problem | None = None
    jobs: frozenset[str] = frozenset()
    templates: Mapping[str, Template] = field(default_factory=dict)
    attempts: Mapping[str, Attempt] = field(default_factory=dict)
    told: Told = UNTOLD
    version: int = 0


@dataclass(frozen=True, slots=True)
class Pool:
    """A node pool of the cloud. `ours` says that a slice provisioner made it; only those are ever touched."""

    name: str
    status: str
    ours: bool = False
    jobset: Ref = NOTHING
    job: Ref = NOTHING
    digest: str = ""
    attempt: int = 0
    created: float = 0.0
    zone: str = ""
    machine: str = ""
    nodes: int = 0
    topology: str = ""
    spot: bool = False
    fault: Fault | None = None


CheckState = Literal["Pending", "Ready", "Retry", "Rejected"]


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """A Workload of Kueue that has quota and waits for our check, or has it. `flavors` are the node labels of each pod set."""

    subject: Subject
    jobset: Ref
    checks: Mapping[str, tuple[CheckState, str]]
    reserved_since: datetime | None = None
    active: bool = False  # quota is reserved, it is not finished and not evicted
    flavors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    version: int = 0
