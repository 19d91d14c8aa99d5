"""Recent incidents: failed jobs, evictions, warnings and lost hosts."""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import find_condition
from sliceworks.catalog.labels import NODE_POOL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from sliceworks.console.views.job_view import JobRow
    from sliceworks.console.views.queue_view import WorkloadRow

Object = dict[str, Any]
_WINDOW = timedelta(hours=2)
_MAX_INCIDENTS = 12
_MAX_MESSAGE = 600
_PENDING = ("Workload", "Pending")  # the queues page shows pending workloads
# Warnings that a healthy starting job causes, for example when a pod is created before its slice has an owner.
_PLACEMENT = {("Pod", "FailedScheduling"), ("Job", "FailedCreate"), ("JobSet", "FailedCreate")}
# A twin measures no pod usage, so its autoscalers always report this.
_METRICS = {"FailedGetPodsMetric", "FailedGetResourceMetric", "FailedComputeMetricsReplicas"}
_RESTARTED = re.compile(r"Restart\w+FailurePolicyAction")  # JobSet applies an action of its failure policy
_JOB_KINDS = ("Pod", "Job", "JobSet")
_STARTUP = timedelta(minutes=5)
_REPEATED = timedelta(minutes=10)  # schedulers and controllers repeat a warning that persists


@dataclass(frozen=True, slots=True)
class Incident:
    """An incident: its latest time, description and link."""

    at: str
    what: str
    message: str = ""
    to: str = ""
    tone: str = "wait"


@dataclass(frozen=True, slots=True)
class EventRow:
    """An Event of the cluster."""

    at: str
    reason: str
    kind: str
    namespace: str
    name: str
    message: str
    times: int


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node: its pool, and whether it is ready."""

    name: str
    pool: str
    ready: bool
    since: str


def event_row(event: Object) -> EventRow:
    """The row of an Event."""
    about, series = event.get("involvedObject") or {}, event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    at = next((time for time in times if time), event["metadata"]["creationTimestamp"])
    message = textwrap.shorten(str(event.get("message") or ""), _MAX_MESSAGE, placeholder=" …")
    count = int(series.get("count") or event.get("count") or 1)
    return EventRow(
        at, event.get("reason", ""), about.get("kind", ""), about.get("namespace", ""), about.get("name", ""), message, count
    )


def node_row(node: Object) -> NodeRow:
    """The row of a node."""
    metadata, ready = node["metadata"], find_condition(node, "Ready")
    pool = (metadata.get("labels") or {}).get(NODE_POOL, "")
    return NodeRow(metadata["name"], pool, ready.get("status") == "True", ready.get("lastTransitionTime", ""))


def recent_incidents(
    now: datetime, jobs: Iterable[JobRow], work: Iterable[WorkloadRow], warnings: Iterable[EventRow], hosts: Iterable[NodeRow]
) -> tuple[Incident, ...]:
    """The latest incidents: lost hosts and failed jobs first, then by time, newest first; placement that a job has overcome is not
    an incident."""
    earliest, rows = clock.rfc3339(now - _WINDOW), {(row.namespace, row.name): row for row in jobs}
    named = [(event, _job_of(event, rows)) for event in warnings if event.at >= earliest]
    incidents = [
        *_failed_jobs(rows.values(), earliest),
        *_evictions(work, earliest),
        *_warnings((event, row) for event, row in named if not _is_overcome(event, row, now)),
        *_lost_hosts(hosts),
    ]
    newest = sorted(incidents, key=lambda incident: incident.at, reverse=True)
    return tuple(sorted(newest, key=lambda incident: incident.tone != "bad")[:_MAX_INCIDENTS])


def _job_of(event: EventRow, jobs: Mapping[tuple[str, str], JobRow]) -> JobRow | None:
    """The job whose JobSet, Job or pod an event is about: the longest name that the object's name starts with."""
    name = event.name if event.kind in _JOB_KINDS else ""
    while name and (event.namespace, name) not in jobs:
        name = name.rpartition("-")[0]
    return jobs.get((event.namespace, name))


def is_unmeasured(event: EventRow) -> bool:
    """Whether a warning only says that an autoscaler has no metrics."""
    return event.kind == "HorizontalPodAutoscaler" and event.reason in _METRICS


def _is_overcome(event: EventRow, row: JobRow | None, now: datetime) -> bool:
    """Whether a warning about placement is no longer true, or normal because its job has just started."""
    if (event.kind, event.reason) not in _PLACEMENT:
        return False
    if event.at < clock.rfc3339(now - _REPEATED):
        return True
    return row is not None and (row.state not in ("starting", "restarting") or row.started > clock.rfc3339(now - _STARTUP))


def _failed_jobs(jobs: Iterable[JobRow], earliest: str) -> Iterable[Incident]:
    for row in jobs:
        if row.state == "failed" and row.ended >= earliest:
            yield Incident(row.ended, f"{row.namespace}/{row.name} failed", row.message, f"/jobs/{row.namespace}/{row.name}", "bad")


def _evictions(work: Iterable[WorkloadRow], earliest: str) -> Iterable[Incident]:
    for row in work:
        if row.evicted_at >= earliest:
            yield Incident(
                row.evicted_at, f"{row.namespace}/{row.job} was evicted", row.message, f"/jobs/{row.namespace}/{row.job}"
            )


def _warnings(warnings: Iterable[tuple[EventRow, JobRow | None]]) -> Iterable[Incident]:
    """Warnings about one job are merged, and so are equal ones about several objects of a namespace."""
    of_jobs: dict[tuple[str, str], list[EventRow]] = defaultdict(list)
    same: dict[tuple[str, ...], list[EventRow]] = defaultdict(list)
    for event, row in warnings:
        if row is not None:
            of_jobs[row.namespace, row.name].append(event)
        elif (event.kind, event.reason) != _PENDING:
            # An autoscaler reports one failure with several reasons.
            cause = () if event.kind == "HorizontalPodAutoscaler" else (event.reason, event.message)
            same[event.namespace, event.kind, *cause].append(event)
    yield from (_job_warning(f"{namespace}/{name}", events) for (namespace, name), events in of_jobs.items())
    for (namespace, kind, *_), several in same.items():
        last, names = max(several, key=lambda event: event.at), {event.name for event in several}
        name = f"{namespace}/{last.name}" if namespace else last.name
        subject = f"{kind} {name}" if len(names) == 1 else f"{len(names)} {kind}s in {namespace or 'the cluster'}"
        yield Incident(last.at, f"{subject}: {last.reason}", last.message)


def _job_warning(job: str, events: list[EventRow]) -> Incident:
    """The last warning about a job; one that says more than that its pods are not placed comes first."""
    last = max(events, key=lambda event: ((event.kind, event.reason) not in _PLACEMENT, event.at))
    what = f"{job} restarted" if _RESTARTED.fullmatch(last.reason) else f"{job}: {last.reason}"
    return Incident(last.at, what, last.message, f"/jobs/{job}")


def _lost_hosts(hosts: Iterable[NodeRow]) -> Iterable[Incident]:
    """Hosts that are not ready, by node pool: a slice needs all of its hosts."""
    pools: dict[str, list[NodeRow]] = defaultdict(list)
    for host in hosts:
        pools[host.pool or host.name].append(host)
    for pool, members in pools.items():
        lost = [member for member in members if not member.ready]
        if lost:
            since = max(item.since for item in lost)
            yield Incident(since, f"{len(lost)} of {len(members)} hosts of {pool} not ready", "", f"/slices/{pool}", "bad")
