"""What a forecast takes for granted, in plain words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sliceworks.base import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.rehearsal.forecast.arrivals import Arrivals
    from sliceworks.rehearsal.forecast.history import History
    from sliceworks.rehearsal.forecast.jobs import Job
    from sliceworks.rehearsal.forecast.snapshot import Snapshot

_NAMED = 3


def told(snapshot: Snapshot, jobs: Sequence[Job], history: History, arrivals: Arrivals) -> list[str]:
    """One line each."""
    return [
        _arrivals(arrivals),
        _capacity(history),
        *_run_times(jobs, history),
        *_preemption(jobs),
        *_checks(snapshot),
    ]


def _arrivals(arrivals: Arrivals) -> str:
    if not arrivals.days:
        return "Nobody submits anything else."
    each = sum(map(len, arrivals.days)) / len(arrivals.days)
    return f"Work goes on coming as in the last {len(arrivals.days)} days, {each:.0f} jobs a day."


def _capacity(history: History) -> str:
    ready = (
        f"is ready {duration.human(history.boot)} after it is admitted, as usual" if history.boot else "starts when it is admitted"
    )
    return f"Quota is there as machines, no machine fails, and work {ready}."


def _run_times(jobs: Sequence[Job], history: History) -> list[str]:
    sources: Counter[str] = Counter()
    unknown: list[str] = []
    for job in jobs:
        known = history.of(job)
        if known.spread is None:
            unknown.append(job.name)
        sources[_sort(known.source)] += 1
    del sources["unknown"]
    found = []
    if sources:
        found.append("Run times: " + ", ".join(f"{count} from {sort}" for sort, count in sources.most_common()) + ".")
    if unknown:
        names = ", ".join(sorted(unknown)[:_NAMED]) + (" and others" if len(unknown) > _NAMED else "")
        found.append(f"Nothing says how long {len(unknown)} of {len(jobs)} jobs run ({names}): they are taken to run for ever.")
    return found


def _sort(source: str) -> str:
    if source.startswith("estimate"):
        return (
            "estimates held against what was right before" if "as right as" in source else "estimates, right within a factor of two"
        )
    if source.startswith("assumed"):
        return "what you assume"
    return "unknown" if source == "unknown" else "runs alike"


def _preemption(jobs: Sequence[Job]) -> list[str]:
    keeping = sum(job.keeps for job in jobs)
    kept = f", but for {keeping} of {len(jobs)} jobs, which have a checkpoint folder" if keeping else ""
    return [f"Work that is preempted begins again from nothing{kept}."]


def _checks(snapshot: Snapshot) -> list[str]:
    found = []
    queues = snapshot.of("ClusterQueue")
    if any((queue["spec"].get("admissionChecksStrategy") or {}).get("admissionChecks") for queue in queues):
        found.append("Admission checks pass at once.")
    if any(queue["spec"].get("fairSharing") for queue in queues):
        found.append("Fair sharing is left out: queues are taken in order of priority and time.")
    return found
