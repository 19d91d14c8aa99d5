"""The line of those who wait, and those who have what they wait for: who is ahead, who uses quota, and when it comes free. Pure."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, quantity
from sliceworks.base.conditions import condition, is_true
from sliceworks.catalog.labels import RUN_SECONDS
from sliceworks.training.states import state
from sliceworks.training.why import kinds, quota
from sliceworks.training.why.answer import Ahead, Release, Seen, Waiter, seen
from sliceworks.training.why.evidence import owner
from sliceworks.training.why.matching import amount

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from sliceworks.training.why.answer import Cause
    from sliceworks.training.why.evidence import Evidence

Object = dict[str, Any]
_NAMED = 5  # so many jobs are named; the others are counted


def ahead(evidence: Evidence) -> Ahead | None:
    """Its place in the ClusterQueue; None where that is not known."""
    if evidence.place is None:
        return None
    position = evidence.place + 1
    total = int(((evidence.cluster_queue or {}).get("status") or {}).get("pendingWorkloads") or 0)
    first = evidence.head[: min(evidence.place, _NAMED)]
    return Ahead(position, max(total, position), tuple(_waiter(each) for each in first))


def waits(workload: Object) -> bool:
    """Whether a Workload stands in line: it has no quota, is not over, and was not given up."""
    status = workload.get("status") or {}
    return not status.get("admission") and not is_true(workload, "Finished") and workload["spec"].get("active") is not False


def behind(evidence: Evidence) -> Iterator[Cause]:
    """Others come first, by priority or because they came earlier."""
    found = ahead(evidence)
    if found is None or found.position < 2 or evidence.workload is None:
        return
    own = int(evidence.workload["spec"].get("priority") or 0)
    higher = [each for each in found.first if each.priority > own]
    queue = evidence.cluster_queue
    place = (
        Seen("ClusterQueue", queue["metadata"]["name"], "pendingworkloads")
        if queue
        else Seen("LocalQueue", evidence.queue, "pendingworkloads", evidence.namespace)
    )
    where = (place, seen(evidence.workload, "spec.priority", "Workload"))
    count = found.position - 1
    jobs = "1 job is" if count == 1 else f"{count} jobs are"
    if higher:
        named = ", ".join(f"{each} ({each.priority})" for each in higher)
        words = f"{jobs} ahead of it, and its priority {own} is lower than that of {named}."
        yield kinds.LOWER_PRIORITY.cause(
            words, *where, remedy=f"wait for them, or submit it with a priority above {higher[0].priority}"
        )
    else:
        named = ", ".join(str(each) for each in found.first)
        more = f" and {count - len(found.first)} more" if count > len(found.first) else ""
        yield kinds.BEHIND.cause(f"{jobs} ahead of it, with its own priority {own} or more: {named}{more}.", *where)


def users(evidence: Evidence, flavor: str, resource: str) -> str:
    """A sentence about who has how much of a flavor."""
    found = sorted(_uses(evidence, flavor, resource), key=lambda use: -use[1])
    if not found:
        return ""
    named = [f"{amount(much, resource)} by {waiter} (priority {waiter.priority})" for waiter, much in found[:_NAMED]]
    if rest := found[_NAMED:]:
        named.append(f"{amount(sum((much for _, much in rest), Fraction(0)), resource)} by {len(rest)} more")
    some = "" if evidence.all_holders else ", as far as was looked"
    return f" In use{some}: {'; '.join(named)}."


def team(evidence: Evidence) -> str:
    """What may be said of the queue where the ClusterQueue may not be seen: how many wait in one's own, and who has quota."""
    local = evidence.local_queue
    if evidence.cluster_queue is not None or local is None or not local.get("status"):
        return ""
    waiting, running = (int(local["status"].get(name) or 0) for name in ("pendingWorkloads", "reservingWorkloads"))
    named = ", ".join(f"{_holder(each).name} ({', '.join(_shares(each)) or 'nothing'})" for each in evidence.holders[:_NAMED])
    return f" Of the jobs in it {waiting} wait and {running} have quota{f': {named}' if named else ''}."


def counted(evidence: Evidence) -> tuple[Seen, ...]:
    """Where the numbers of one's own queue were read."""
    return (seen(evidence.local_queue, "status", "LocalQueue"),) if team(evidence) and evidence.local_queue else ()


def _shares(holder: Object) -> list[str]:
    """What a job has, chips before anything else."""
    found: dict[tuple[str, str], Fraction] = {}
    for pods in (holder["status"].get("admission") or {}).get("podSetAssignments") or ():
        for name, flavor in (pods.get("flavors") or {}).items():
            much = quantity.parse((pods.get("resourceUsage") or {}).get(name) or "0")
            found[flavor, name] = found.get((flavor, name), Fraction(0)) + much
    chips = {key: much for key, much in found.items() if "/" in key[1]} or found
    return [f"{amount(much, name)} of {flavor}" for (flavor, name), much in chips.items()]


def outbid(evidence: Evidence, flavor: str) -> str:
    """What a higher priority would do, where the queue lets priorities preempt."""
    queue, workload = evidence.cluster_queue, evidence.workload
    policy = (((queue or {}).get("spec") or {}).get("preemption") or {}).get("withinClusterQueue") or "Never"
    if workload is None or queue is None or policy == "Never":
        return ""
    own, name = int(workload["spec"].get("priority") or 0), queue["metadata"]["name"]
    theirs = [
        int(each["spec"].get("priority") or 0)
        for each in evidence.holders
        if (each["status"].get("admission") or {}).get("clusterQueue") == name and _amount(each, flavor)
    ]
    above = [each for each in theirs if each >= own]
    return f"submit it with a priority above {min(above)}, which preempts" if above else ""


def releases(evidence: Evidence) -> tuple[Release, ...]:
    """What running jobs give back of the flavors that are short, those first whose end is known."""
    short = [ranked[0].room for ranked in quota.fits(evidence) if ranked[0].later] if evidence.workload else []
    found: dict[tuple[str, str], Release] = {}
    for room in short:
        if room is None:
            continue
        for holder in evidence.holders:
            much = _amount(holder, room.flavor, room.resource)
            who = _holder(holder)
            if much and (who.namespace, who.name) not in found:
                when, why = _end(evidence, holder)
                found[who.namespace, who.name] = Release(who, f"{amount(much, room.resource)} of {room.flavor}", when, why)
    late = evidence.now + timedelta(days=36500)
    return tuple(sorted(found.values(), key=lambda each: each.when or late)[:_NAMED])


def _uses(evidence: Evidence, flavor: str, resource: str) -> Iterator[tuple[Waiter, Fraction]]:
    for holder in evidence.holders:
        if much := _amount(holder, flavor, resource):
            yield _holder(holder), much


def _amount(holder: Object, flavor: str, resource: str = "") -> Fraction:
    """What a running job has of a flavor: of one resource, or of any."""
    total = Fraction(0)
    for pods in (holder["status"].get("admission") or {}).get("podSetAssignments") or ():
        for name, chosen in (pods.get("flavors") or {}).items():
            if chosen == flavor and resource in ("", name):
                total += quantity.parse((pods.get("resourceUsage") or {}).get(name) or "0")
    return total


def _end(evidence: Evidence, holder: Object) -> tuple[datetime | None, str]:
    """When a running job ends at the latest, or should: by its own estimate, else by its deadline."""
    began = clock.parse(condition(holder, "Admitted").get("lastTransitionTime"))
    jobset = evidence.holder_jobsets.get((holder["metadata"]["namespace"], owner(holder))) or {}
    if jobset and state(jobset) in ("starting", "queued"):
        return None, "it has not started yet"
    if began is None:
        return None, ""
    templates = [(each.get("template") or {}).get("metadata") or {} for each in holder["spec"]["podSets"]]
    estimates = [_seconds((each.get("annotations") or {}).get(RUN_SECONDS)) for each in templates]
    if known := [each for each in estimates if each]:
        return began + timedelta(seconds=max(known)), "by its own estimate"
    limits = [
        each["template"]["spec"].get("activeDeadlineSeconds") for each in (jobset.get("spec") or {}).get("replicatedJobs") or ()
    ]
    if deadlines := [float(each) for each in (*limits, holder["spec"].get("maximumExecutionTimeSeconds")) if each]:
        return began + timedelta(seconds=max(deadlines)), "at the latest, by its deadline"
    return None, ""


def _seconds(text: Any) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


def _waiter(row: Object) -> Waiter:
    metadata = row["metadata"]
    priority = int(row.get("priority", (row.get("spec") or {}).get("priority")) or 0)
    return Waiter(metadata["namespace"], owner(row), priority, clock.parse(metadata.get("creationTimestamp")))


def _holder(workload: Object) -> Waiter:
    since = clock.parse(condition(workload, "Admitted").get("lastTransitionTime"))
    return Waiter(workload["metadata"]["namespace"], owner(workload), int(workload["spec"].get("priority") or 0), since)
