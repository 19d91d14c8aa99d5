"""Renders one job and the diagnosis of its state, for people and as data."""

from __future__ import annotations

import shutil
import textwrap
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, duration, tables
from sliceworks.training.jobset import TENSORBOARD
from sliceworks.training.slice_request import request_of_jobset, slice_size
from sliceworks.training.status import (
    PRIORITY_LABEL,
    QUEUE_LABEL,
    TYPE_LABEL,
    Host,
    final_condition,
    job_state,
    list_hosts,
    pod_spec,
    status_line,
    workers,
)
from sliceworks.training.timeline import build_timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.training.diagnosis.model import Cause, Diagnosis, QueuePosition, QuotaRelease

Object = dict[str, Any]
_MOST_EVENTS = 10


@dataclass(frozen=True, slots=True)
class JobDetails:
    """Objects of a job, as read from the cluster."""

    jobset: Object
    workload: Object | None
    pods: list[Object]
    events: list[Object]
    basis: str = ""


def describe_job(details: JobDetails) -> str:
    """Render facts, hosts, timeline and events."""
    facts = [(label, text) for label, text in _facts(details) if text]
    width = max(len(label) for label, _ in facts) + 2
    parts = ["".join(f"{label:<{width}}{tables.cell(text)}\n" for label, text in facts)]
    hosts = list_hosts(details.jobset, details.pods)
    rows = [(item.label, item.pod or "-", item.node or "-", item.state, item.restarts, _age(item.since)) for item in hosts]
    parts.append(tables.render(("host", "pod", "node", "state", "restarts", "age"), rows))
    steps = build_timeline(details.jobset, details.workload, details.pods)
    step_rows = [(step.at, f"+{duration.human(step.after)}", step.event, step.reported or "-") for step in steps]
    parts.append(tables.render(("time", "after", "event", "message"), step_rows))
    event_rows = [
        (_age(_last(event)), event.get("type"), event.get("reason"), _about(event), _brief(event))
        for event in _latest(details.events)
    ]
    if event_rows:
        parts.append(tables.render(("age", "type", "event", "of", "message"), event_rows))
    return "\n".join(parts)


def _facts(details: JobDetails) -> Iterator[tuple[str, str]]:
    jobset = details.jobset
    metadata, spec = jobset["metadata"], jobset["spec"]
    labels = metadata.get("labels") or {}
    restarts = (jobset.get("status") or {}).get("restarts", 0)
    yield "Job", f"{metadata['name']} in {metadata['namespace']}"
    yield "State", status_line(jobset, details.workload, details.pods)
    yield "Why", details.basis
    yield "Queue", _queue(labels, details.workload)
    yield "Slices", _slices(jobset)
    yield "Image", str(pod_spec(jobset)["containers"][0].get("image", ""))
    yield "Restarts", f"{restarts}, {(spec.get('failurePolicy') or {}).get('maxRestarts', 0)} allowed"
    yield "Submitted", f"{metadata['creationTimestamp']} ({_age(metadata['creationTimestamp'])} ago)"
    yield "TensorBoard", _board(details)


def _queue(labels: Object, workload: Object | None) -> str:
    queue = labels.get(QUEUE_LABEL)
    if not queue:
        return "none (not managed by Kueue)"
    admission = ((workload or {}).get("status") or {}).get("admission") or {}
    through = f", admitted by {admission['clusterQueue']}" if admission else ""
    return f"{queue}, priority {labels.get(PRIORITY_LABEL, 'none')}{through}"


def _slices(jobset: Object) -> str:
    """Describe the slices, with size and price from the catalog."""
    first, request = workers(jobset), request_of_jobset(jobset)
    name = (jobset["metadata"].get("labels") or {}).get(TYPE_LABEL, "")
    if request is None:
        return f"{first.get('replicas', 1)} × {name or first['name']}, {slice_size(jobset)[0]} hosts"
    usd = f"{request.price} USD per hour" if request.price else "price unknown"
    return f"{request.count} × {name}, {request.capacity}, {request.hosts} hosts, {request.chips} chips, {usd}"


def _board(details: JobDetails) -> str:
    """Return the address of the job's TensorBoard."""
    for pod in details.pods:
        for container in pod["spec"]["containers"]:
            if container["name"] == TENSORBOARD and container.get("ports"):
                metadata, address = pod["metadata"], (pod.get("status") or {}).get("podIP")
                port = container["ports"][0]["containerPort"]
                forward = f"kubectl port-forward -n {metadata['namespace']} pod/{metadata['name']} {port}"
                return f"http://{address}:{port}, or {forward}" if address else forward
    return ""


def _latest(events: list[Object]) -> list[Object]:
    return sorted(events, key=_last)[-_MOST_EVENTS:]


def _last(event: Object) -> str:
    series = event.get("series") or {}
    moments = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next((timestamp for timestamp in moments if timestamp), event["metadata"]["creationTimestamp"]))


def _about(event: Object) -> str:
    about = event.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _brief(event: Object) -> str:
    times = (event.get("series") or {}).get("count") or event.get("count") or 1
    text = " ".join(str(event.get("message") or "").split())
    return f"{text} (×{times})" if times > 1 else text


def _age(timestamp: str) -> str:
    return duration.human(max(clock.since(datetime.fromisoformat(timestamp)).total_seconds(), 0)) if timestamp else "-"


def job_data(details: JobDetails) -> Object:
    """Return the job as data."""
    jobset = details.jobset
    return {
        "name": jobset["metadata"]["name"],
        "namespace": jobset["metadata"]["namespace"],
        "state": job_state(jobset),
        "line": status_line(jobset, details.workload, details.pods),
        "why": details.basis or None,
        "type": (jobset["metadata"].get("labels") or {}).get(TYPE_LABEL),
        "restarts": (jobset.get("status") or {}).get("restarts", 0),
        "ended": final_condition(jobset).get("lastTransitionTime"),
        "hosts": [_host(host) for host in list_hosts(jobset, details.pods)],
        "timeline": [asdict(item) for item in build_timeline(jobset, details.workload, details.pods)],
        "events": [
            {
                "at": _last(event),
                "type": event.get("type"),
                "reason": event.get("reason"),
                "of": _about(event),
                "message": _brief(event),
            }
            for event in _latest(details.events)
        ],
        "jobset": jobset,
        "workload": details.workload,
    }


def _host(host: Host) -> Object:
    return {name: value if value != "" else None for name, value in asdict(host).items()}


_WIDEST, _NARROWEST = 110, 40


def describe_answer(answer: Diagnosis, width: int = 0) -> str:
    """Render the diagnosis. Width 0 uses the width of the terminal."""
    columns = max(min(width or shutil.get_terminal_size((100, 24)).columns, _WIDEST), _NARROWEST)
    lines = [*_wrapped(answer.summary, columns)]
    last_reported = ""
    for number, cause in enumerate(answer.causes, start=1):
        lines += ["", *_cause(cause, number if len(answer.causes) > 1 else 0, columns, quoted=cause.reported != last_reported)]
        last_reported = cause.reported
    if answer.ahead is not None:
        lines += ["", *_ahead(answer.ahead)]
    if answer.releases:
        lines += [
            "",
            "Capacity to be released:",
            *(f"  {line}" for release in answer.releases for line in _wrapped(_release(release), columns - 2)),
        ]
    if answer.progress:
        lines += ["", *(f"{name}: {text}" for name, text in answer.progress)]
    if answer.unreadable:
        lines += ["", "Could not be read:", *(f"  {line}" for item in answer.unreadable for line in _wrapped(item, columns - 2))]
    return "".join(f"{line}\n" for line in lines)


def _cause(cause: Cause, number: int, columns: int, *, quoted: bool) -> Iterator[str]:
    first = f"{number}. " if number else ""
    indent = " " * len(first)
    yield from _wrapped(cause.message, columns, first, indent)
    if cause.reported and quoted and cause.reported not in cause.message:
        yield from _wrapped(f"“{tables.cell(cause.reported)}”", columns, f"{indent}  message ", f"{indent}          ")
    for number_seen, source in enumerate(cause.sources):
        label = "seen in" if not number_seen else "       "
        yield from _wrapped(str(source), columns, f"{indent}  {label} ", f"{indent}          ")
    yield from _wrapped(cause.remedy, columns, f"{indent}  do      ", f"{indent}          ")


def _ahead(ahead: QueuePosition) -> Iterator[str]:
    yield f"Position {ahead.position} of {ahead.total} in the queue{':' if ahead.first else '.'}"
    if ahead.first:
        rows = [
            (f"  {number}", queued_job, queued_job.priority, _elapsed(queued_job.since))
            for number, queued_job in enumerate(ahead.first, start=1)
        ]
        yield from tables.render(("  #", "job", "priority", "waits"), rows).splitlines()
    rest = ahead.position - 1 - len(ahead.first)
    if rest > 0:
        yield f"  and {rest} more"


def _release(release: QuotaRelease) -> str:
    if release.expected_at is None:
        return f"{release.amount} when {release.job} ends; {release.basis or 'end time unknown'}"
    left = (release.expected_at - clock.now()).total_seconds()
    when = f"in {duration.human(left)}" if left > 0 else f"overdue by {duration.human(-left)}"
    return f"{release.amount} when {release.job} ends, {when} ({_time(release.expected_at)}, {release.basis})"


def _time(time: datetime) -> str:
    return clock.rfc3339(time)


def _elapsed(since: datetime | None) -> str:
    return duration.human(max(clock.since(since).total_seconds(), 0)) if since else "unknown"


def _wrapped(text: str, columns: int, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        columns,
        initial_indent=first,
        subsequent_indent=rest or " " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]


def answer_data(answer: Diagnosis) -> dict[str, Any]:
    """Return the diagnosis as data."""
    return {
        "namespace": answer.namespace,
        "name": answer.name,
        "state": answer.state,
        "summary": answer.summary,
        "causes": [
            {
                "cause": cause.kind.name,
                "layer": cause.kind.layer,
                "message": cause.message,
                "reported": cause.reported or None,
                "seenIn": [
                    {"kind": source.kind, "namespace": source.namespace or None, "name": source.name, "field": source.field}
                    for source in cause.sources
                ],
                "remedy": cause.remedy,
            }
            for cause in answer.causes
        ],
        "ahead": None
        if answer.ahead is None
        else {
            "position": answer.ahead.position,
            "total": answer.ahead.total,
            "first": [{"namespace": item.namespace, "name": item.name, "priority": item.priority} for item in answer.ahead.first],
        },
        "releases": [
            {
                "namespace": release.job.namespace,
                "name": release.job.name,
                "amount": release.amount,
                "when": _time(release.expected_at) if release.expected_at else None,
                "why": release.basis or None,
            }
            for release in answer.releases
        ],
        "progress": dict(answer.progress),
        "unreadable": list(answer.unreadable),
    }
