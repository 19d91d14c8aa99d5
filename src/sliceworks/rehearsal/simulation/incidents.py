"""Incidents of a simulation: disruptions, preemptions and stockouts, and how the platform responded."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.catalog.labels import JOBSET_NAME
from sliceworks.rehearsal.record import Incident, IncidentResponse
from sliceworks.rehearsal.simulation.job_observer import JOB_NAME
from sliceworks.rehearsal.simulation.pool_observer import is_stockout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.rehearsal.record import SliceRecord
    from sliceworks.rehearsal.simulation.job_observer import JobEvent
    from sliceworks.rehearsal.simulation.pool_observer import ProvisioningFailure
    from sliceworks.twin.store.watch_cache import Change

_STATE, _FAIL = "sliceworks.dev/state", "sliceworks.dev/fail"

_NODE_DISRUPTIONS = {
    "silent": ("host", "stopped responding"),
    "preempted": ("host", "was preempted by the cloud"),
    "maintenance": ("maintenance", "is under maintenance"),
}

_POD_DISRUPTIONS = {"crash": "crashed", "oom": "ran out of memory"}


@dataclass(frozen=True, slots=True)
class Disruption:
    """A failure of a node or pod, and the jobs that it affects."""

    at: float
    kind: str
    what: str
    jobs: tuple[str, ...]


class DisruptionObserver:
    """Collects disruptions from the annotations that a Scenario sets on nodes and pods."""

    def __init__(self) -> None:
        self.all: list[Disruption] = []
        self._pods_by_node: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
        self._node_by_pod: dict[tuple[str, str], str] = {}

    def observe_node(self, at: float, change: Change) -> None:
        """Record a disruption if the node got an annotation."""
        state = _changed_annotation(change, _STATE)
        if state in _NODE_DISRUPTIONS:
            kind, description = _NODE_DISRUPTIONS[state]
            jobs = tuple(sorted(set(self._pods_by_node[change.name].values())))
            self.all.append(Disruption(at, kind, f"{change.name} {description}", jobs))

    def observe_pod(self, at: float, change: Change) -> None:
        """Track the pod's node, and record a disruption if it got an annotation."""
        key, obj = (change.namespace, change.name), change.obj
        labels = obj["metadata"].get("labels") or {}
        job = labels.get(JOBSET_NAME) or labels.get(JOB_NAME)
        ended = (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if change.type == "DELETED" or ended:
            self._pods_by_node[self._node_by_pod.pop(key, "")].pop(key, None)
        elif job and obj["spec"].get("nodeName"):
            self._node_by_pod[key] = obj["spec"]["nodeName"]
            self._pods_by_node[self._node_by_pod[key]][key] = f"{change.namespace}/{job}"
        failure = _changed_annotation(change, _FAIL)
        if failure in _POD_DISRUPTIONS:
            self.all.append(
                Disruption(at, "crash", f"a pod {_POD_DISRUPTIONS[failure]}", (f"{change.namespace}/{job}",) if job else ())
            )


def _changed_annotation(change: Change, name: str) -> str:
    """The new value of an annotation; empty if it did not change."""
    if change.type == "DELETED" or name.encode() not in change.entry.data:
        return ""
    now = (change.obj["metadata"].get("annotations") or {}).get(name)
    before = ((change.old or {}).get("metadata", {}).get("annotations") or {}).get(name)
    return str(now) if now and now != before else ""


_RECOVERY_EVENTS = ("running", "ended")


def find_incidents(
    disruptions: Iterable[Disruption],
    events: Iterable[JobEvent],
    failures: Iterable[ProvisioningFailure],
    slices: Iterable[SliceRecord],
) -> tuple[Incident, ...]:
    """All incidents, ordered by time."""
    job_events, slice_records = list(events), list(slices)
    incidents = [
        *_preemptions(job_events),
        *_stockouts(list(failures), slice_records, job_events),
        *(_disruption(disruption, job_events) for disruption in disruptions),
    ]
    return tuple(sorted(incidents, key=lambda incident: (incident.at, incident.subject, incident.kind)))


def _preemptions(events: list[JobEvent]) -> Iterator[Incident]:
    for event in events:
        if event.what == "preempted":
            next_event = _next(events, event.at, event.job)
            responses = [IncidentResponse(event.at, "released its chips and was requeued")]
            if next_event is not None:
                responses.append(IncidentResponse(next_event.at, "ran again" if next_event.what == "running" else next_event.note))
            what = f"a workload with higher priority preempted {event.job}"
            yield Incident(event.at, what, "preemption", f"job {event.job}", tuple(responses), _recovered_at(next_event))


def _stockouts(failures: list[ProvisioningFailure], slice_records: list[SliceRecord], events: list[JobEvent]) -> Iterator[Incident]:
    """Pools that could not be created. Until the job runs, further failures for it belong to the first incident."""
    recovered: dict[str, float | None] = {}
    for failure in failures:
        if failure.job and failure.job in recovered and ((until := recovered[failure.job]) is None or failure.at <= until):
            continue
        incident = _stockout(failure, slice_records, events)
        recovered[failure.job] = incident.recovered_at
        yield incident


def _stockout(failure: ProvisioningFailure, slice_records: list[SliceRecord], events: list[JobEvent]) -> Incident:
    """One incident; later slices of the same job are the response."""
    subject = f"slice {failure.pool}" + (f" of job {failure.job}" if failure.job else "")
    later_slices = [
        record for record in slice_records if failure.job and record.job == failure.job and record.created >= failure.at
    ]
    outcomes = [IncidentResponse(at, f"the slice is ready in {item.zone}") for item in later_slices for at in _was_ready(item)]
    next_event = _next(events, failure.at, failure.job)
    if next_event is not None:
        outcomes.append(
            IncidentResponse(
                next_event.at, f"{failure.job} runs" if next_event.what == "running" else f"{failure.job} {next_event.note}"
            )
        )
    outcomes.sort(key=lambda response: response.at)
    until = next(
        (
            response.at
            for response in outcomes
            if next_event is None or response.at != next_event.at or _recovered_at(next_event) is not None
        ),
        None,
    )
    tried = [response for response in later_slices if until is None or response.created <= until]
    tries = [IncidentResponse(response.created, f"requested {response.capacity} machines in {response.zone}") for response in tried]
    unique = {response.what: response for response in reversed(tries)}
    if is_stockout(failure):
        kind, what = "stockout", f"{failure.zone} is out of {failure.capacity} machines with {failure.chip}"
    else:
        kind, what = "cloud", f"the cloud failed to create machines with {failure.chip} in {failure.zone} ({failure.code})"
    responses = sorted((*unique.values(), *outcomes[:2]), key=lambda response: response.at)
    return Incident(failure.at, what, kind, subject, tuple(responses), until)


def _was_ready(record: SliceRecord) -> Iterator[float]:
    return (span.begin for span in record.spans if span.state == "running")


def _disruption(disruption: Disruption, events: list[JobEvent]) -> Incident:
    """A disruption is recovered when all affected jobs run again or have succeeded."""
    responses: list[IncidentResponse] = []
    recovered: list[float | None] = []
    for job in disruption.jobs:
        after = [event for event in events if event.job == job and event.at >= disruption.at]
        restart = next((event for event in after if event.what == "restarted"), None)
        next_event = _next(events, restart.at if restart else disruption.at, job)
        if restart is not None:
            responses.append(IncidentResponse(restart.at, f"restarted {job} (restart {restart.note})"))
        if next_event is not None:
            responses.append(
                IncidentResponse(next_event.at, f"{job} {'ran again' if next_event.what == 'running' else next_event.note}")
            )
        recovered.append(_recovered_at(next_event))
    known = [item for item in recovered if item is not None]
    subject = ", ".join(f"job {job}" for job in disruption.jobs) or "idle machines"
    recovered_at = max(known) if known and len(known) == len(recovered) else None
    responses.sort(key=lambda response: response.at)
    return Incident(disruption.at, disruption.what, disruption.kind, subject, tuple(responses), recovered_at)


def _next(events: list[JobEvent], at: float, job: str) -> JobEvent | None:
    """The first time after `at` that a job ran or ended."""
    return next((event for event in events if event.job == job and event.at > at and event.what in _RECOVERY_EVENTS), None)


def _recovered_at(event: JobEvent | None) -> float | None:
    """When the job of this event had recovered; None if it failed or was cancelled, or if there is no event."""
    return event.at if event is not None and (event.what == "running" or event.note == "succeeded") else None
