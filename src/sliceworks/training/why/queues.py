"""Causes in the queue: it is not there, it is stopped, it may not be used, or its quota is not enough or in use. Pure."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import condition
from sliceworks.kube.selectors import from_label_selector
from sliceworks.training.why import kinds, line, quota
from sliceworks.training.why.answer import Seen, seen
from sliceworks.training.why.matching import amount, either, share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.training.why.answer import Cause
    from sliceworks.training.why.evidence import Evidence
    from sliceworks.training.why.quota import Fit

Object = dict[str, Any]
_INACTIVE = {"FlavorNotFound": kinds.NO_FLAVOR}
_OTHERS_FIRST = "Waiting"  # Kueue's reason where it starts one job after another
# Reasons of newer versions of Kueue, for those who may not see the ClusterQueue.
_REASONS = {
    "WaitingForQuota": kinds.QUOTA_IN_USE,
    "ExceedsMaxQuota": kinds.QUOTA_TOO_SMALL,
    "NoMatchingFlavor": kinds.NO_FLAVOR_FITS,
}


def way(evidence: Evidence) -> Iterator[Cause]:
    """The way into the queue is barred: nobody could get through, however much were free."""
    where = seen(evidence.jobset, "metadata.labels[kueue.x-k8s.io/queue-name]")
    if not evidence.kueue:
        yield kinds.NO_KUEUE.cause(
            f"It is meant for the queue {evidence.queue}, and this cluster has no Kueue (kueue.x-k8s.io/v1beta2).", where
        )
        return
    found = [*_local(evidence), *(_cluster(evidence) if evidence.local_queue is not None else ())]
    yield from found
    if evidence.workload is None and not found and "Workload" in evidence.hidden:
        yield kinds.WAITS.cause(f"It waits in the queue {evidence.queue}; how it stands there may not be seen.", where)
    elif evidence.workload is None and not found:
        told = next((each for each in evidence.events_of("JobSet", evidence.name) if each.get("type") == "Warning"), {})
        yield kinds.NO_WORKLOAD.cause("Kueue has not made a Workload for it.", where, said=told.get("message", ""))


def _local(evidence: Evidence) -> Iterator[Cause]:
    queue = evidence.local_queue
    if queue is None:
        if "LocalQueue" not in evidence.hidden:
            yield _no_queue(evidence)
        return
    policy = queue["spec"].get("stopPolicy") or "None"
    if policy != "None":
        what = "and those that ran were stopped" if policy == "HoldAndDrain" else "those that run go on"
        yield kinds.QUEUE_STOPPED.cause(
            f"The queue {evidence.queue} is stopped ({policy}): it lets no job through, {what}.",
            seen(queue, "spec.stopPolicy", "LocalQueue"),
        )


def _no_queue(evidence: Evidence) -> Cause:
    known = evidence.local_queues
    close = difflib.get_close_matches(evidence.queue, known, n=1)
    there = f"There are {', '.join(known)}." if known else "It has none at all."
    remedy = f"submit it to {close[0]}" if close else "`sliceworks queues apply` makes the queues that an Environment names"
    return kinds.NO_QUEUE.cause(
        f"The namespace {evidence.namespace} has no queue {evidence.queue}. {there}",
        seen(evidence.jobset, "metadata.labels[kueue.x-k8s.io/queue-name]"),
        remedy=remedy,
    )


def _cluster(evidence: Evidence) -> Iterator[Cause]:
    assert evidence.local_queue is not None
    name, queue = evidence.local_queue["spec"]["clusterQueue"], evidence.cluster_queue
    if queue is None:
        if "ClusterQueue" not in evidence.hidden:
            where = seen(evidence.local_queue, "spec.clusterQueue", "LocalQueue")
            yield kinds.NO_CLUSTER_QUEUE.cause(f"The queue {evidence.queue} leads to {name}, which does not exist.", where)
        return
    policy, active = queue["spec"].get("stopPolicy") or "None", condition(queue, "Active")
    where = seen(queue, "status.conditions[Active]", "ClusterQueue")
    if policy != "None":
        words = f"The ClusterQueue {name} is stopped ({policy})."
        yield kinds.CLUSTER_QUEUE_STOPPED.cause(
            words, seen(queue, "spec.stopPolicy", "ClusterQueue"), said=active.get("message", "")
        )
    elif active.get("status") == "False":
        kind = _INACTIVE.get(active.get("reason", ""), kinds.QUEUE_INACTIVE)
        yield kind.cause(
            f"The ClusterQueue {name} admits nobody ({active.get('reason', '')}).", where, said=active.get("message", "")
        )
    yield from _namespace(evidence, queue)


def _namespace(evidence: Evidence, queue: Object) -> Iterator[Cause]:
    selector, home = queue["spec"].get("namespaceSelector"), evidence.home
    if home is None:
        return
    own = home["metadata"].get("labels") or {}
    where = (seen(queue, "spec.namespaceSelector", "ClusterQueue"), seen(home, "metadata.labels", "Namespace"))
    if selector is None:
        yield kinds.NAMESPACE.cause(f"The ClusterQueue {queue['metadata']['name']} selects no namespace at all.", where[0])
    elif not from_label_selector(selector).matches(own):
        wanted = str(from_label_selector(selector)) or "nothing"
        yield kinds.NAMESPACE.cause(
            f"The ClusterQueue {queue['metadata']['name']} is for namespaces with {wanted}; {evidence.namespace} has not.", *where
        )


def full(evidence: Evidence) -> Iterator[Cause]:
    """The way is open, and there is not enough, or others come first."""
    workload = evidence.workload
    if workload is None:
        return
    told = condition(workload, "QuotaReserved")
    where = seen(workload, "status.conditions[QuotaReserved]", "Workload")
    found = [] if evidence.cluster_queue is None else list(_amounts(evidence, told.get("message", "")))
    if not found and evidence.cluster_queue is None and (kind := _REASONS.get(told.get("reason", ""))):
        found.append(kind.cause("Kueue says so; the ClusterQueue itself may not be seen.", where, said=told.get("message", "")))
    if told.get("reason") == _OTHERS_FIRST:
        found.append(
            kinds.OTHERS_NOT_READY.cause(
                "Kueue admits nobody until the pods of those it admitted are ready.", where, said=told["message"]
            )
        )
    found += line.behind(evidence)
    yield from found
    if not found:
        words = f"It waits in the queue {evidence.queue}.{line.team(evidence)}"
        yield kinds.WAITS.cause(words, where, *line.counted(evidence), said=told.get("message", ""))


def _amounts(evidence: Evidence, said: str) -> Iterator[Cause]:
    queue = evidence.cluster_queue
    assert queue is not None
    if missing := quota.uncovered(evidence):
        words = f"It asks for {', '.join(missing)}, which the ClusterQueue {queue['metadata']['name']} does not have."
        yield kinds.NOT_COVERED.cause(words, seen(queue, "spec.resourceGroups", "ClusterQueue"), _wanted(evidence), said=said)
    for ranked in quota.fits(evidence):
        best = ranked[0]
        if best.ok:
            continue
        if best.mismatch:
            yield _mismatch(evidence, queue, ranked, said)
        elif best.never:
            yield _never(evidence, queue, best, said)
        else:
            yield _in_use(evidence, queue, best, said)


def _mismatch(evidence: Evidence, queue: Object, ranked: list[Fit], said: str) -> Cause:
    told = "; ".join(f"{each.flavor}: {each.mismatch}" for each in ranked)
    flavors = [Seen("ResourceFlavor", each.flavor, "spec.nodeTaints" if each.taint else "spec.nodeLabels") for each in ranked]
    words = f"The pods of {ranked[0].need.name} fit no flavor of {queue['metadata']['name']}. {told}."
    return kinds.NO_FLAVOR_FITS.cause(words, *flavors[:3], _wanted(evidence), said=said)


def _never(evidence: Evidence, queue: Object, fit: Fit, said: str) -> Cause:
    room = fit.room
    assert room is not None
    smaller = _smaller(evidence, fit, room.most)
    if room.limit is not None and room.cohort and fit.asked <= room.shared:
        return _limited(queue, fit, smaller, said)
    asked, most = amount(fit.asked, room.resource), amount(room.most, room.resource)
    borrowing = " with all that it may borrow" if room.cohort else ""
    words = f"It asks for {asked} of {room.flavor}; {queue['metadata']['name']} never has more than {most}{borrowing}."
    remedy = f"{smaller}, or have the quota of {room.flavor} raised to {amount(fit.asked, room.resource)}"
    return kinds.QUOTA_TOO_SMALL.cause(words, _nominal(queue, room.flavor), _wanted(evidence), remedy=remedy, said=said)


def _in_use(evidence: Evidence, queue: Object, fit: Fit, said: str) -> Cause:
    room = fit.room
    assert room is not None
    smaller = _smaller(evidence, fit, room.free)
    if room.cohort and room.limit is not None and fit.asked <= room.shared_free:
        return _limited(queue, fit, smaller, said)
    whose = line.users(evidence, room.flavor, room.resource)
    asked, left = amount(fit.asked, room.resource), share(room.free, room.most, room.resource)
    ways = ["wait", smaller, "have the quota raised", line.outbid(evidence, room.flavor)]
    words = f"It asks for {asked} of {room.flavor}; {left}.{whose}"
    remedy = either(ways)
    return kinds.QUOTA_IN_USE.cause(words, _used(queue, room.flavor), _wanted(evidence), remedy=remedy, said=said)


def _limited(queue: Object, fit: Fit, smaller: str, said: str) -> Cause:
    """The cohort has enough; this queue may not have that much of it."""
    room, name = fit.room, queue["metadata"]["name"]
    assert room is not None
    assert room.limit is not None
    words = (
        f"It asks for {amount(fit.asked, room.resource)} of {room.flavor}."
        f" {name} has {amount(room.nominal, room.resource)} of its own,"
        f" and may borrow {amount(room.limit, room.resource)} at most from the cohort {quota.cohort_of(queue)};"
        f" {amount(room.used, room.resource)} are in use."
    )
    limit = seen(queue, f"spec.resourceGroups[].flavors[{room.flavor}].resources[{room.resource}].borrowingLimit", "ClusterQueue")
    remedy = f"{smaller}, or have the borrowing limit raised"
    return kinds.BORROWING_LIMIT.cause(words, limit, _used(queue, room.flavor), remedy=remedy, said=said)


def _smaller(evidence: Evidence, fit: Fit, room: Any) -> str:
    """How many slices would fit, where the pods belong to several."""
    part: Object = next((each for each in evidence.jobset["spec"]["replicatedJobs"] if each["name"] == fit.need.name), {})
    slices = int(part.get("replicas", 1))
    fitting = int(room * slices / fit.asked) if fit.asked else 0
    if 0 < fitting < slices:
        return f"ask for {fitting} of {slices} slices"
    return "ask for smaller slices" if room else "ask for another type of slice"


def _nominal(queue: Object, flavor: str) -> Seen:
    return seen(queue, f"spec.resourceGroups[].flavors[{flavor}]", "ClusterQueue")


def _used(queue: Object, flavor: str) -> Seen:
    return seen(queue, f"status.flavorsReservation[{flavor}]", "ClusterQueue")


def _wanted(evidence: Evidence) -> Seen:
    assert evidence.workload is not None
    return seen(evidence.workload, "spec.podSets", "Workload")
