"""The objects that an answer is made from, as they were read at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.training.words import QUEUE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was read about one JobSet. `hidden` are the kinds that may not be read: of those, nothing found means nothing known.

    `cohort` are the ClusterQueues that share quota, `place` and `head` the line of those who wait, `holders` who has quota;
    `nodes` are by the selector of the pods that want them, `guests` who is on a node, `lone_labels` which labels some node has.
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
    home: Object | None = None
    place: int | None = None
    head: tuple[Object, ...] = ()
    holders: tuple[Object, ...] = ()
    holder_jobsets: Mapping[tuple[str, str], Object] = field(default_factory=dict)
    all_holders: bool = True
    preemptor: Object | None = None
    jobs: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()
    events: tuple[Object, ...] = ()
    nodes: Mapping[str, tuple[Object, ...]] = field(default_factory=dict)
    lone_labels: Mapping[str, bool] = field(default_factory=dict)
    guests: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    claims: Mapping[str, Object | None] = field(default_factory=dict)
    pools: tuple[Object, ...] = ()
    operations: tuple[Any, ...] = ()
    hidden: frozenset[str] = frozenset()
    unseen: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return str(self.jobset["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.jobset["metadata"]["namespace"])

    @property
    def queue(self) -> str:
        """The name of its LocalQueue; empty where Kueue has no part in it."""
        return str((self.jobset["metadata"].get("labels") or {}).get(QUEUE, ""))

    @property
    def suspended(self) -> bool:
        return bool(self.jobset["spec"].get("suspend"))

    def events_of(self, kind: str, name: str = "") -> list[Object]:
        """What was told about one object, or all of a kind, the latest first."""
        found = [
            each
            for each in self.events
            if each["involvedObject"].get("kind") == kind and name in ("", each["involvedObject"].get("name"))
        ]
        return sorted(found, key=_told_at, reverse=True)


def owner(obj: Object) -> str:
    """The name of what an object was made for; its own where it was made for nothing."""
    metadata = obj["metadata"]
    return str(next((each["name"] for each in metadata.get("ownerReferences") or ()), metadata["name"]))


def _told_at(event: Object) -> str:
    series = (event.get("series") or {}).get("lastObservedTime")
    return str(series or event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")
