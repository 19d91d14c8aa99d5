"""What a person reads about one training job, and the same as data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, duration, tables
from sliceworks.training.asked import asked, size
from sliceworks.training.boards import TENSORBOARD
from sliceworks.training.hosts import Host, hosts
from sliceworks.training.stages import line
from sliceworks.training.states import ending, pod_spec, state, workers
from sliceworks.training.timeline import timeline
from sliceworks.training.words import PRIORITY, QUEUE, TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator

Object = dict[str, Any]
_MOST_EVENTS = 10


@dataclass(frozen=True, slots=True)
class Found:
    """What was read of a job."""

    jobset: Object
    workload: Object | None
    pods: list[Object]
    events: list[Object]
    why: str = ""


def page(found: Found) -> str:
    """Facts, hosts, timeline and events, each under the other."""
    facts = [(label, text) for label, text in _facts(found) if text]
    width = max(len(label) for label, _ in facts) + 2
    parts = ["".join(f"{label:<{width}}{tables.cell(text)}\n" for label, text in facts)]
    every = hosts(found.jobset, found.pods)
    rows = [(each.label, each.pod or "-", each.node or "-", each.state, each.restarts, _age(each.since)) for each in every]
    parts.append(tables.render(("host", "pod", "node", "state", "restarts", "age"), rows))
    steps = timeline(found.jobset, found.workload, found.pods)
    happened = [(each.at, f"+{duration.human(each.after)}", each.what, each.said or "-") for each in steps]
    parts.append(tables.render(("time", "after", "what", "said"), happened))
    told = [(_age(_last(each)), each.get("type"), each.get("reason"), _about(each), _brief(each)) for each in _latest(found.events)]
    if told:
        parts.append(tables.render(("age", "type", "event", "of", "message"), told))
    return "\n".join(parts)


def _facts(found: Found) -> Iterator[tuple[str, str]]:
    jobset = found.jobset
    metadata, spec = jobset["metadata"], jobset["spec"]
    labels = metadata.get("labels") or {}
    restarts = (jobset.get("status") or {}).get("restarts", 0)
    yield "Job", f"{metadata['name']} in {metadata['namespace']}"
    yield "State", line(jobset, found.workload, found.pods)
    yield "Why", found.why
    yield "Queue", _queue(labels, found.workload)
    yield "Slices", _slices(jobset)
    yield "Image", str(pod_spec(jobset)["containers"][0].get("image", ""))
    yield "Restarts", f"{restarts}, {(spec.get('failurePolicy') or {}).get('maxRestarts', 0)} allowed"
    yield "Submitted", f"{metadata['creationTimestamp']} ({_age(metadata['creationTimestamp'])} ago)"
    yield "TensorBoard", _board(found)


def _queue(labels: Object, workload: Object | None) -> str:
    queue = labels.get(QUEUE)
    if not queue:
        return "none: Kueue does not hold it"
    admission = ((workload or {}).get("status") or {}).get("admission") or {}
    through = f", admitted by {admission['clusterQueue']}" if admission else ""
    return f"{queue}, priority {labels.get(PRIORITY, 'none')}{through}"


def _slices(jobset: Object) -> str:
    """So many of a type, with what the catalogue knows of it."""
    first, ask = workers(jobset), asked(jobset)
    name = (jobset["metadata"].get("labels") or {}).get(TYPE, "")
    if ask is None:
        return f"{first.get('replicas', 1)} × {name or first['name']}, {size(jobset)[0]} hosts"
    usd = f"{ask.price} USD an hour" if ask.price else "price unknown"
    return f"{ask.count} × {name}, {ask.capacity}, {ask.hosts} hosts, {ask.chips} chips, {usd}"


def _board(found: Found) -> str:
    """Where a plain TensorBoard beside the job answers."""
    for pod in found.pods:
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
    return str(next((each for each in moments if each), event["metadata"]["creationTimestamp"]))


def _about(event: Object) -> str:
    about = event.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _brief(event: Object) -> str:
    times = (event.get("series") or {}).get("count") or event.get("count") or 1
    text = " ".join(str(event.get("message") or "").split())
    return f"{text} (×{times})" if times > 1 else text


def _age(moment: str) -> str:
    return duration.human(max(clock.since(datetime.fromisoformat(moment)).total_seconds(), 0)) if moment else "-"


def data(found: Found) -> Object:
    """The job as plain data."""
    jobset = found.jobset
    return {
        "name": jobset["metadata"]["name"],
        "namespace": jobset["metadata"]["namespace"],
        "state": state(jobset),
        "line": line(jobset, found.workload, found.pods),
        "why": found.why or None,
        "type": (jobset["metadata"].get("labels") or {}).get(TYPE),
        "restarts": (jobset.get("status") or {}).get("restarts", 0),
        "ended": ending(jobset).get("lastTransitionTime"),
        "hosts": [_host(each) for each in hosts(jobset, found.pods)],
        "timeline": [asdict(each) for each in timeline(jobset, found.workload, found.pods)],
        "events": [
            {"at": _last(each), "type": each.get("type"), "reason": each.get("reason"), "of": _about(each), "message": _brief(each)}
            for each in _latest(found.events)
        ],
        "jobset": jobset,
        "workload": found.workload,
    }


def _host(host: Host) -> Object:
    return {name: value if value != "" else None for name, value in asdict(host).items()}
