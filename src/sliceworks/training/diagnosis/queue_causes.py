"""Causes in the queue: missing, stopped, not usable, or quota insufficient or in use. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, duration
from sliceworks.base.conditions import find_condition
from sliceworks.base.names import closest_name, join_words
from sliceworks.kube.selectors import from_label_selector
from sliceworks.training.diagnosis import cause_catalog, queue_order
from sliceworks.training.diagnosis.model import FieldReference, field_reference
from sliceworks.training.flavor_fit import workload_requests
from sliceworks.training.pod_fit import format_amount, format_free
from sliceworks.training.quota import cohort_of
from sliceworks.training.status import owner_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.training.diagnosis.model import Cause, Evidence
    from sliceworks.training.flavor_fit import FlavorFit

Object = dict[str, Any]
_INACTIVE = {"FlavorNotFound": cause_catalog.NO_FLAVOR}
_WAITING = "Waiting"  # Kueue's reason while it waits for the pods of admitted workloads
_ADMISSION_SECONDS = 60.0  # within which Kueue admits a job that fits
_MAX_LISTED = 5  # jobs listed by name
# Reasons of newer versions of Kueue, for users who may not read the ClusterQueue.
_REASONS = {
    "WaitingForQuota": cause_catalog.QUOTA_IN_USE,
    "ExceedsMaxQuota": cause_catalog.QUOTA_TOO_SMALL,
    "NoMatchingFlavor": cause_catalog.NO_FLAVOR_FITS,
}


def unusable_queue(evidence: Evidence) -> Iterator[Cause]:
    """The queue is missing, stopped or does not accept the job, whatever quota is free."""
    where = field_reference(evidence.jobset, "metadata.labels[kueue.x-k8s.io/queue-name]")
    if not evidence.kueue:
        yield cause_catalog.NO_KUEUE.cause(
            f"It is labelled for the queue {evidence.queue}, but this cluster does not serve kueue.x-k8s.io/v1beta2.", where
        )
        return
    causes = [*_local(evidence), *(_cluster(evidence) if evidence.local_queue is not None else ())]
    yield from causes
    if evidence.workload is None and not causes and "Workload" in evidence.hidden:
        yield cause_catalog.PENDING.cause(f"It is pending in the queue {evidence.queue}; its Workload could not be read.", where)
    elif evidence.workload is None and not causes:
        warning = next((event for event in evidence.events_of("JobSet", evidence.name) if event.get("type") == "Warning"), {})
        yield cause_catalog.NO_WORKLOAD.cause(
            "Kueue has not created a Workload for it.", where, reported=warning.get("message", "")
        )


def _local(evidence: Evidence) -> Iterator[Cause]:
    queue = evidence.local_queue
    if queue is None:
        if "LocalQueue" not in evidence.hidden:
            yield _no_queue(evidence)
        return
    policy = queue["spec"].get("stopPolicy") or "None"
    if policy != "None":
        effect = "and its running jobs were evicted" if policy == "HoldAndDrain" else "but its running jobs continue"
        yield cause_catalog.QUEUE_STOPPED.cause(
            f"The queue {evidence.queue} is stopped ({policy}): it admits no jobs, {effect}.",
            field_reference(queue, "spec.stopPolicy", "LocalQueue"),
        )


def _no_queue(evidence: Evidence) -> Cause:
    known = evidence.local_queues
    closest = closest_name(evidence.queue, known)
    existing = f"It has: {', '.join(known)}." if known else "It has no queues."
    remedy = f"submit it to {closest}" if closest else "`sliceworks queues apply` creates the queues of an Environment"
    return cause_catalog.NO_QUEUE.cause(
        f"The namespace {evidence.namespace} has no queue {evidence.queue}. {existing}",
        field_reference(evidence.jobset, "metadata.labels[kueue.x-k8s.io/queue-name]"),
        remedy=remedy,
    )


def _cluster(evidence: Evidence) -> Iterator[Cause]:
    assert evidence.local_queue is not None
    name, queue = evidence.local_queue["spec"]["clusterQueue"], evidence.cluster_queue
    if queue is None:
        if "ClusterQueue" not in evidence.hidden:
            where = field_reference(evidence.local_queue, "spec.clusterQueue", "LocalQueue")
            message = f"The queue {evidence.queue} references the ClusterQueue {name}, which does not exist."
            yield cause_catalog.NO_CLUSTER_QUEUE.cause(message, where)
        return
    policy, active = queue["spec"].get("stopPolicy") or "None", find_condition(queue, "Active")
    where = field_reference(queue, "status.conditions[Active]", "ClusterQueue")
    if policy != "None":
        message = f"The ClusterQueue {name} is stopped ({policy})."
        yield cause_catalog.CLUSTER_QUEUE_STOPPED.cause(
            message, field_reference(queue, "spec.stopPolicy", "ClusterQueue"), reported=active.get("message", "")
        )
    elif active.get("status") == "False":
        kind = _INACTIVE.get(active.get("reason", ""), cause_catalog.QUEUE_INACTIVE)
        yield kind.cause(
            f"The ClusterQueue {name} is inactive ({active.get('reason', '')}).", where, reported=active.get("message", "")
        )
    yield from _namespace(evidence, queue)


def _namespace(evidence: Evidence, queue: Object) -> Iterator[Cause]:
    selector, namespace = queue["spec"].get("namespaceSelector"), evidence.namespace_object
    if namespace is None:
        return
    labels = namespace["metadata"].get("labels") or {}
    where = (
        field_reference(queue, "spec.namespaceSelector", "ClusterQueue"),
        field_reference(namespace, "metadata.labels", "Namespace"),
    )
    if selector is None:
        yield cause_catalog.NAMESPACE.cause(f"The ClusterQueue {queue['metadata']['name']} selects no namespaces.", where[0])
    elif not from_label_selector(selector).matches(labels):
        message = f"The ClusterQueue {queue['metadata']['name']} selects namespaces with {from_label_selector(selector)}"
        yield cause_catalog.NAMESPACE.cause(f"{message}; {evidence.namespace} does not match.", *where)


def insufficient_quota(evidence: Evidence) -> Iterator[Cause]:
    """The queue accepts the job, but quota is insufficient or other jobs are ahead."""
    workload = evidence.workload
    if workload is None:
        return
    condition = find_condition(workload, "QuotaReserved")
    reason, kueue_message = condition.get("reason", ""), condition.get("message", "")
    where = field_reference(workload, "status.conditions[QuotaReserved]", "Workload")
    causes = [] if evidence.cluster_queue is None else list(_quota_causes(evidence, kueue_message))
    if not causes and evidence.cluster_queue is None and (kind := _REASONS.get(reason)):
        causes.append(kind.cause("Kueue reports it; the ClusterQueue could not be read.", where, reported=kueue_message))
    if reason == _WAITING or evidence.unready:
        names = ", ".join(f"{item['metadata']['namespace']}/{owner_name(item)}" for item in evidence.unready[:_MAX_LISTED])
        message = f"Kueue admits no jobs until the pods of the admitted jobs are ready{names and f': {names}'}."
        causes.append(cause_catalog.OTHERS_NOT_READY.cause(message, where, reported=kueue_message))
    causes += queue_order.jobs_ahead(evidence)
    yield from causes
    if causes:
        return
    if evidence.cluster_queue is not None and (waited := _seconds_unchanged(evidence, workload)) > _ADMISSION_SECONDS:
        message = f"Its quota is free and no job is ahead of it, but Kueue has not admitted it for {duration.human(waited)}."
        outdated = "read Kueue's message; if it is outdated, check that Kueue's controller manager is running"
        yield cause_catalog.NOT_CONSIDERED.cause(message, where, remedy=kueue_message and outdated, reported=kueue_message)
    else:
        message = f"It is pending in the queue {evidence.queue}.{queue_order.describe_local_queue(evidence)}"
        yield cause_catalog.PENDING.cause(message, where, *queue_order.local_queue_reference(evidence), reported=kueue_message)


def is_unexplained(evidence: Evidence) -> bool:
    """Whether the job's own queue does not explain why it is pending."""
    if not evidence.queue or not evidence.suspended or evidence.workload is None or list(unusable_queue(evidence)):
        return False
    kinds = (cause_catalog.PENDING, cause_catalog.NOT_CONSIDERED, cause_catalog.OTHERS_NOT_READY)
    return any(cause.kind in kinds for cause in insufficient_quota(evidence))


def _seconds_unchanged(evidence: Evidence, workload: Object) -> float:
    """Seconds since the Workload was created or one of its conditions changed."""
    times = [workload["metadata"].get("creationTimestamp")]
    times += [condition.get("lastTransitionTime") for condition in (workload.get("status") or {}).get("conditions") or ()]
    known = [time for time in map(clock.parse, times) if time is not None]
    return (evidence.now - max(known)).total_seconds() if known else 0.0


def _quota_causes(evidence: Evidence, reported: str) -> Iterator[Cause]:
    queue, workload = evidence.cluster_queue, evidence.workload
    assert queue is not None
    assert workload is not None
    quota, pod_sets = queue_order.queue_quota(evidence, queue), workload_requests(workload)
    if missing := quota.uncovered(pod_sets):
        message = f"It requests {', '.join(missing)}, which the ClusterQueue {queue['metadata']['name']} does not cover."
        yield cause_catalog.NOT_COVERED.cause(
            message, field_reference(queue, "spec.resourceGroups", "ClusterQueue"), _requested(evidence), reported=reported
        )
    for ranked in quota.fits(pod_sets):
        best = ranked[0]
        if best.fits_now:
            continue
        if best.mismatch:
            yield _mismatch(evidence, queue, ranked, reported)
        elif best.never_fits:
            yield _never_fits(evidence, queue, best, reported)
        else:
            yield _in_use(evidence, queue, best, reported)


def _mismatch(evidence: Evidence, queue: Object, ranked: list[FlavorFit], reported: str) -> Cause:
    mismatches = "; ".join(f"{fit.flavor}: {fit.mismatch}" for fit in ranked)
    flavors = [
        FieldReference("ResourceFlavor", fit.flavor, "spec.nodeTaints" if fit.taint else "spec.nodeLabels") for fit in ranked
    ]
    message = f"The pods of {ranked[0].pod_set.name} fit no flavor of {queue['metadata']['name']}. {mismatches}."
    return cause_catalog.NO_FLAVOR_FITS.cause(message, *flavors[:3], _requested(evidence), reported=reported)


def _never_fits(evidence: Evidence, queue: Object, fit: FlavorFit, reported: str) -> Cause:
    headroom = fit.headroom
    assert headroom is not None
    smaller = _suggest_smaller(evidence, fit, headroom.maximum)
    if headroom.limit is not None and headroom.cohort and fit.requested <= headroom.shared:
        return _exceeds_borrowing_limit(queue, fit, smaller, reported)
    requested, maximum = format_amount(fit.requested, headroom.resource), format_amount(headroom.maximum, headroom.resource)
    borrowing = ", borrowed quota included" if headroom.cohort else ""
    message = f"It requests {requested} of {headroom.flavor}; the maximum of {queue['metadata']['name']} is {maximum}{borrowing}."
    remedy = f"{smaller}, or have the quota of {headroom.flavor} raised to {format_amount(fit.requested, headroom.resource)}"
    return cause_catalog.QUOTA_TOO_SMALL.cause(
        message, _nominal(queue, headroom.flavor), _requested(evidence), remedy=remedy, reported=reported
    )


def _in_use(evidence: Evidence, queue: Object, fit: FlavorFit, reported: str) -> Cause:
    headroom = fit.headroom
    assert headroom is not None
    smaller = _suggest_smaller(evidence, fit, headroom.free)
    if headroom.cohort and headroom.limit is not None and fit.requested <= headroom.shared_free:
        return _exceeds_borrowing_limit(queue, fit, smaller, reported)
    holders = queue_order.describe_holders(evidence, headroom.flavor, headroom.resource)
    requested, available = (
        format_amount(fit.requested, headroom.resource),
        format_free(headroom.free, headroom.maximum, headroom.resource),
    )
    remedies = ["wait", smaller, "have the quota raised", queue_order.describe_preemption(evidence, headroom.flavor)]
    message = f"It requests {requested} of {headroom.flavor}; {available}.{holders}"
    remedy = join_words(filter(None, remedies), "or")
    return cause_catalog.QUOTA_IN_USE.cause(
        message, _used(queue, headroom.flavor), _requested(evidence), remedy=remedy, reported=reported
    )


def _exceeds_borrowing_limit(queue: Object, fit: FlavorFit, smaller: str, reported: str) -> Cause:
    """The cohort has enough, but the queue may not borrow that much."""
    headroom, name = fit.headroom, queue["metadata"]["name"]
    assert headroom is not None
    assert headroom.limit is not None
    message = (
        f"It requests {format_amount(fit.requested, headroom.resource)} of {headroom.flavor}."
        f" {name} has a nominal quota of {format_amount(headroom.nominal, headroom.resource)}"
        f" and may borrow at most {format_amount(headroom.limit, headroom.resource)} from the cohort {cohort_of(queue)};"
        f" {format_amount(headroom.used, headroom.resource)} are in use."
    )
    limit = field_reference(
        queue, f"spec.resourceGroups[].flavors[{headroom.flavor}].resources[{headroom.resource}].borrowingLimit", "ClusterQueue"
    )
    remedy = f"{smaller}, or have the borrowing limit raised"
    return cause_catalog.BORROWING_LIMIT.cause(message, limit, _used(queue, headroom.flavor), remedy=remedy, reported=reported)


def _suggest_smaller(evidence: Evidence, fit: FlavorFit, headroom: Any) -> str:
    """The remedy: how many slices would fit, if the job has several."""
    replicated_job: Object = next((job for job in evidence.jobset["spec"]["replicatedJobs"] if job["name"] == fit.pod_set.name), {})
    slices = int(replicated_job.get("replicas", 1))
    fitting = int(headroom * slices / fit.requested) if fit.requested else 0
    if 0 < fitting < slices:
        return f"request {fitting} of {slices} slices"
    return "request smaller slices" if headroom else "request another slice type"


def _nominal(queue: Object, flavor: str) -> FieldReference:
    return field_reference(queue, f"spec.resourceGroups[].flavors[{flavor}]", "ClusterQueue")


def _used(queue: Object, flavor: str) -> FieldReference:
    return field_reference(queue, f"status.flavorsReservation[{flavor}]", "ClusterQueue")


def _requested(evidence: Evidence) -> FieldReference:
    assert evidence.workload is not None
    return field_reference(evidence.workload, "spec.podSets", "Workload")
