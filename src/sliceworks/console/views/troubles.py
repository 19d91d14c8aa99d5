"""What has gone wrong lately, in words, the newest first. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import condition
from sliceworks.catalog.labels import NODE_POOL

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from sliceworks.console.views.jobs import JobRow
    from sliceworks.console.views.work import Work

Object = dict[str, Any]
_LATELY = timedelta(hours=2)
_MOST = 12
_LONGEST = 300
_WAITS = ("Workload", "Pending")  # how Kueue says that somebody waits: queues tell that better


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that went wrong: when it last did, what, and the page that tells more."""

    at: str
    what: str
    said: str = ""
    to: str = ""
    tone: str = "wait"


@dataclass(frozen=True, slots=True)
class Told:
    """A warning that the cluster wrote down."""

    at: str
    reason: str
    kind: str
    namespace: str
    name: str
    message: str
    times: int


@dataclass(frozen=True, slots=True)
class Host:
    """A node: its pool, and whether it is ready."""

    name: str
    pool: str
    ready: bool
    since: str


def told(event: Object) -> Told:
    """What is kept of a warning."""
    about, series = event.get("involvedObject") or {}, event.get("series") or {}
    moments = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    at = next((each for each in moments if each), event["metadata"]["creationTimestamp"])
    message = " ".join(str(event.get("message") or "").split())[:_LONGEST]
    times = int(series.get("count") or event.get("count") or 1)
    return Told(
        at, event.get("reason", ""), about.get("kind", ""), about.get("namespace", ""), about.get("name", ""), message, times
    )


def host(node: Object) -> Host:
    """What is kept of a node."""
    metadata, ready = node["metadata"], condition(node, "Ready")
    pool = (metadata.get("labels") or {}).get(NODE_POOL, "")
    return Host(metadata["name"], pool, ready.get("status") == "True", ready.get("lastTransitionTime", ""))


def troubles(
    now: datetime, jobs: Iterable[JobRow], work: Iterable[Work], warnings: Iterable[Told], hosts: Iterable[Host]
) -> tuple[Trouble, ...]:
    """The latest of each kind together."""
    earliest = clock.rfc3339(now - _LATELY)
    found = [*_of_jobs(jobs, earliest), *_sent_back(work, earliest), *_told(warnings, earliest), *_of_hosts(hosts)]
    return tuple(sorted(found, key=lambda each: each.at, reverse=True)[:_MOST])


def _of_jobs(jobs: Iterable[JobRow], earliest: str) -> Iterable[Trouble]:
    for row in jobs:
        if row.state == "failed" and row.ended >= earliest:
            yield Trouble(row.ended, f"{row.namespace}/{row.name} has failed", row.said, f"/jobs/{row.namespace}/{row.name}", "bad")


def _sent_back(work: Iterable[Work], earliest: str) -> Iterable[Trouble]:
    for row in work:
        if row.sent_back >= earliest:
            yield Trouble(row.sent_back, f"{row.namespace}/{row.job} lost its place", row.said, f"/jobs/{row.namespace}/{row.job}")


def _told(warnings: Iterable[Told], earliest: str) -> Iterable[Trouble]:
    """Warnings that say the same of several objects of one namespace are told once."""
    same: dict[tuple[str, str, str, str], list[Told]] = defaultdict(list)
    for each in warnings:
        if each.at >= earliest and (each.kind, each.reason) != _WAITS:
            same[each.namespace, each.kind, each.reason, each.message].append(each)
    for (namespace, kind, reason, message), several in same.items():
        last = max(several, key=lambda each: each.at)
        name = f"{namespace}/{last.name}" if namespace else last.name
        who = f"{kind} {name}" if len(several) == 1 else f"{len(several)} {kind}s in {namespace or 'the cluster'}"
        to = f"/jobs/{namespace}/{last.name}" if kind == "JobSet" else ""
        yield Trouble(last.at, f"{who}: {reason}", message, to)


def _of_hosts(hosts: Iterable[Host]) -> Iterable[Trouble]:
    """Hosts of one pool belong together: a slice works with all of them or not at all."""
    pools: dict[str, list[Host]] = defaultdict(list)
    for each in hosts:
        pools[each.pool or each.name].append(each)
    for pool, members in pools.items():
        lost = [each for each in members if not each.ready]
        if lost:
            since = max(each.since for each in lost)
            yield Trouble(since, f"{len(lost)} of {len(members)} hosts of {pool} not ready", "", f"/slices/{pool}", "bad")
