"""Causes in the slices: what the slices controller and the cloud report about node pools. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock, duration
from sliceworks.base.conditions import find_condition
from sliceworks.catalog import labels
from sliceworks.training.diagnosis import cause_catalog
from sliceworks.training.diagnosis.model import FieldReference, field_reference

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.training.diagnosis.model import Cause, CauseKind, Evidence

Object = dict[str, Any]
_PROVISIONING = ("Provisioning", "Stopping", "Replacing", "Taken", "TooManyOperations", "FailedPrecondition", "Unavailable", "Gone")
_KINDS: dict[str, CauseKind] = {
    **dict.fromkeys(_PROVISIONING, cause_catalog.POOL_PROVISIONING),
    "Stockout": cause_catalog.STOCKOUT,
    "QuotaExceeded": cause_catalog.PROJECT_QUOTA,
    "ReservationExhausted": cause_catalog.RESERVATION_FULL,
    "Draining": cause_catalog.DRAINING,
}
_MESSAGES = {
    cause_catalog.STOCKOUT.name: "The cloud has no capacity in the zones that were tried.",
    cause_catalog.PROJECT_QUOTA.name: "The cloud rejects the node pools: the project's quota is exceeded.",
    cause_catalog.DRAINING.name: "Its node pools were drained, and no new ones are created.",
    cause_catalog.RESERVATION.name: "Its reservation does not exist in that zone.",
    cause_catalog.RESERVATION_FULL.name: "Its reservation has no capacity left.",
    cause_catalog.SLICE_REJECTED.name: "The slices controller cannot create the node pools that it requests.",
}


def is_waiting_for_slices(evidence: Evidence) -> bool:
    """Whether the slices controller manages the job's slices and they are not ready."""
    if _slices_condition(evidence).get("status") == "False" or _pod_without_slice(evidence) is not None:
        return True
    return any((check.get("spec") or {}).get("controllerName") == labels.SLICES_CHECK for check in evidence.checks.values())


def slices(evidence: Evidence) -> Iterator[Cause]:
    """The state of the job's slices, from the JobSet's condition or else the leader pod's."""
    condition, pod = _slices_condition(evidence), _pod_without_slice(evidence)
    where = []
    if condition.get("status") == "False":
        where.append(field_reference(evidence.jobset, f"status.conditions[{labels.SLICES_READY}]"))
    elif pod is not None:
        condition = find_condition(pod, labels.SLICE_READY)
    if condition.get("status") == "False":
        yield _slice_cause(evidence, condition.get("reason", ""), condition.get("message", ""), where)


def _slices_condition(evidence: Evidence) -> Mapping[str, Any]:
    """The JobSet's condition; empty if its slices were deleted, which does not explain why a job is pending."""
    condition = find_condition(evidence.jobset, labels.SLICES_READY)
    return {} if condition.get("reason") == labels.RELEASED else condition


def before_admission(evidence: Evidence, message: str) -> Cause:
    """The state of the slices while Kueue waits for them: only the failed attempts are recorded on the JobSet."""
    reason = next(iter(_attempts(evidence)), "Provisioning")
    where = [field_reference(evidence.jobset, f"metadata.annotations[{labels.ATTEMPTS}]")]
    return _slice_cause(evidence, reason, message, where, is_detailed=False)


def _attempts(evidence: Evidence) -> Iterator[str]:
    """Reasons of the failed attempts so far; none if the annotation is malformed."""
    annotation = (evidence.jobset["metadata"].get("annotations") or {}).get(labels.ATTEMPTS)
    try:
        attempts = orjson.loads(annotation) if annotation else {}
        yield from (str(reason) for _, _, reason, *_ in attempts.values())
    except (orjson.JSONDecodeError, AttributeError, TypeError, ValueError):
        return


def _slice_cause(evidence: Evidence, reason: str, reported: str, where: list[FieldReference], *, is_detailed: bool = True) -> Cause:
    pod = _pod_without_slice(evidence)
    if pod is not None:
        where.append(field_reference(pod, f"status.conditions[{labels.SLICE_READY}]", "Pod"))
    kind, retry = _kind(evidence, reason), ""
    if kind is cause_catalog.POOL_PROVISIONING:
        # The pool may be created in one more attempt: then the failure of the last attempt matters.
        kind = next(
            (failed for failed in (_kind(evidence, attempt) for attempt in _attempts(evidence)) if failed is not kind), kind
        )
        if kind is cause_catalog.POOL_PROVISIONING:
            return _provisioning(evidence, where, reason, reported)
        where.append(field_reference(evidence.jobset, f"metadata.annotations[{labels.ATTEMPTS}]"))
        retry = " It is being retried."
    # A condition has the cloud's message of the slice that it is about, but not while a failed attempt is retried.
    failures = (event for event in evidence.events_of("JobSet", evidence.name) if event["reason"] == labels.CREATION_FAILED)
    if (retry or not is_detailed) and (event := next(failures, None)) is not None:
        where.append(field_reference(evidence.jobset, f"events[{labels.CREATION_FAILED}]"))
        reported = event.get("message") or reported
    sources = (*dict.fromkeys(where), *_pool_references(evidence, "ERROR"))
    return kind.cause(f"{_MESSAGES[kind.name]}{retry}", *sources, remedy=_remedy(evidence, kind), reported=reported)


def _kind(evidence: Evidence, reason: str) -> CauseKind:
    return _KINDS.get(reason) or (
        cause_catalog.RESERVATION if reason == "NotFound" and _uses_reservation(evidence) else cause_catalog.SLICE_REJECTED
    )


def _provisioning(evidence: Evidence, where: list[FieldReference], reason: str, reported: str) -> Cause:
    elapsed = _elapsed(evidence)
    message = "Its node pools are being created" + (f" ({reason})." if reason != "Provisioning" else ".")
    running = [
        operation
        for operation in evidence.operations
        if not operation.done and operation.target in {pool["name"] for pool in evidence.pools}
    ]
    if elapsed:
        message += f" Creation started {elapsed} ago."
    operations = (
        FieldReference("Operation", item.name, f"status {item.status}, {item.kind} of {item.target}") for item in running[:3]
    )
    return cause_catalog.POOL_PROVISIONING.cause(
        message, *where, *_pool_references(evidence, "PROVISIONING"), *operations, reported=reported
    )


def _elapsed(evidence: Evidence) -> str:
    """How long the node pools have been in creation."""
    times = [clock.parse(operation.started) for operation in evidence.operations if not operation.done]
    times += [
        clock.parse(event.get("eventTime") or event.get("lastTimestamp"))
        for event in evidence.events
        if event["reason"] == labels.CREATION_STARTED
    ]
    known = [time for time in times if time is not None]
    return duration.human(max((evidence.now - min(known)).total_seconds(), 0.0)) if known else ""


def _pool_references(evidence: Evidence, status: str) -> list[FieldReference]:
    return [
        FieldReference("NodePool", pool["name"], f"status {status}") for pool in evidence.pools if pool.get("status") == status
    ][:3]


def _pod_without_slice(evidence: Evidence) -> Object | None:
    """An unscheduled pod whose slice is not ready, by the controller's condition."""
    unscheduled = (pod for pod in evidence.pods if not pod["spec"].get("nodeName"))
    return next((pod for pod in unscheduled if find_condition(pod, labels.SLICE_READY).get("status") == "False"), None)


def _templates(evidence: Evidence) -> Iterator[Object]:
    for job in evidence.jobset["spec"]["replicatedJobs"]:
        yield job["template"]["spec"]["template"]


def _uses_reservation(evidence: Evidence) -> bool:
    """Whether the pods use a reservation, by node selector or capacity annotation."""
    for template in _templates(evidence):
        annotations = (template.get("metadata") or {}).get("annotations") or {}
        if labels.RESERVATION_NAME in (template["spec"].get("nodeSelector") or {}) or "reservation=" in annotations.get(
            labels.CAPACITY, ""
        ):
            return True
    return False


def _remedy(evidence: Evidence, kind: CauseKind) -> str:
    if kind is not cause_catalog.STOCKOUT:
        return ""
    for template in _templates(evidence):
        selector = template["spec"].get("nodeSelector") or {}
        if labels.ZONE in selector:
            return f"remove the zone {selector[labels.ZONE]} from the job so that other zones are tried, or request smaller slices"
        if labels.SPOT in selector:
            return "wait: spot capacity varies; or request on-demand capacity, another zone or smaller slices"
    return ""
