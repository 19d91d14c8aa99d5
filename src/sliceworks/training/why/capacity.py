"""Causes in the slices: what the slice controller and the cloud say of node pools that are wanted. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock, duration
from sliceworks.base.conditions import condition
from sliceworks.catalog import labels
from sliceworks.training.why import kinds
from sliceworks.training.why.answer import Seen, seen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.training.why.answer import Cause, Kind
    from sliceworks.training.why.evidence import Evidence

Object = dict[str, Any]
_MAKING = ("Provisioning", "Stopping", "Replacing", "Taken", "TooManyOperations", "FailedPrecondition", "Unavailable", "Gone")
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(_MAKING, kinds.POOL_BEING_MADE),
    "Stockout": kinds.STOCKOUT,
    "QuotaExceeded": kinds.PROJECT_QUOTA,
    "ReservationExhausted": kinds.RESERVATION_FULL,
    "Draining": kinds.DRAINING,
}
_WORDS = {
    kinds.STOCKOUT.name: "The cloud has no machines for it where it looked.",
    kinds.PROJECT_QUOTA.name: "The cloud refuses machines: the project's own quota is used up.",
    kinds.DRAINING.name: "Its node pools were given back on purpose, and no new ones are made.",
    kinds.RESERVATION.name: "The reservation that it names does not exist in that zone.",
    kinds.RESERVATION_FULL.name: "The reservation that it names has no machines left for it.",
    kinds.SLICE_REFUSED.name: "The slice controller cannot make the node pools that it asks for.",
}


def awaited(evidence: Evidence) -> bool:
    """Whether the slice controller has a part in it, and is not done."""
    if condition(evidence.jobset, labels.SLICES_READY).get("status") == "False" or _told_pod(evidence) is not None:
        return True
    return any((each.get("spec") or {}).get("controllerName") == labels.SLICES_CHECK for each in evidence.checks.values())


def slices(evidence: Evidence) -> Iterator[Cause]:
    """How far its slices are, and what is in their way: as the JobSet says, or else the pod that leads a slice."""
    told, pod = condition(evidence.jobset, labels.SLICES_READY), _told_pod(evidence)
    where = []
    if told.get("status") == "False":
        where.append(seen(evidence.jobset, f"status.conditions[{labels.SLICES_READY}]"))
    elif pod is not None:
        told = condition(pod, labels.SLICE_READY)
    if told.get("status") == "False":
        yield _standing(evidence, told.get("reason", ""), told.get("message", ""), where)


def before_admission(evidence: Evidence, message: str) -> Cause:
    """The same for a job that Kueue lets wait for its slices: what has failed so far is all that is written on it."""
    reason = next(iter(_attempts(evidence)), "Provisioning")
    return _standing(evidence, reason, message, [seen(evidence.jobset, f"metadata.annotations[{labels.ATTEMPTS}]")])


def _attempts(evidence: Evidence) -> Iterator[str]:
    """Why slices could not be had so far; an annotation that somebody has spoilt says nothing."""
    text = (evidence.jobset["metadata"].get("annotations") or {}).get(labels.ATTEMPTS)
    try:
        found = orjson.loads(text) if text else {}
        yield from (str(reason) for _, _, reason in found.values())
    except (orjson.JSONDecodeError, AttributeError, TypeError, ValueError):
        return


def _standing(evidence: Evidence, reason: str, message: str, where: list[Seen]) -> Cause:
    pod = _told_pod(evidence)
    if pod is not None:
        where.append(seen(pod, f"status.conditions[{labels.SLICE_READY}]", "Pod"))
    kind, words = _kind(evidence, reason), ""
    if kind is kinds.POOL_BEING_MADE:
        # What is being made may be one more try: then it is the failure of the last that matters.
        kind = next((each for each in (_kind(evidence, tried) for tried in _attempts(evidence)) if each is not kind), kind)
        if kind is kinds.POOL_BEING_MADE:
            return _being_made(evidence, where, reason, message)
        where.append(seen(evidence.jobset, f"metadata.annotations[{labels.ATTEMPTS}]"))
        words = " It is just being tried again."
    # The condition says how often it was tried; what the cloud said each time is in the events.
    failed = next((each for each in evidence.events_of("JobSet", evidence.name) if each["reason"] == labels.CREATION_FAILED), None)
    if failed is not None:
        where.append(seen(evidence.jobset, f"events[{labels.CREATION_FAILED}]"))
        message = failed.get("message") or message
    seen_in = (*dict.fromkeys(where), *_pools_seen(evidence, "ERROR"))
    return kind.cause(f"{_WORDS[kind.name]}{words}", *seen_in, remedy=_remedy(evidence, kind), said=message)


def _kind(evidence: Evidence, reason: str) -> Kind:
    return _KINDS.get(reason) or (kinds.RESERVATION if reason == "NotFound" and _reserves(evidence) else kinds.SLICE_REFUSED)


def _being_made(evidence: Evidence, where: list[Seen], reason: str, message: str) -> Cause:
    begun = _begun(evidence)
    words = f"Its node pools are being made ({reason})." if reason != "Provisioning" else "Its node pools are being made."
    running = [each for each in evidence.operations if not each.done and each.target in {pool["name"] for pool in evidence.pools}]
    if begun:
        words += f" The cloud began {begun} ago."
    going = (Seen("Operation", each.name, f"status {each.status}, {each.kind} of {each.target}") for each in running[:3])
    return kinds.POOL_BEING_MADE.cause(words, *where, *_pools_seen(evidence, "PROVISIONING"), *going, said=message)


def _begun(evidence: Evidence) -> str:
    """How long the cloud has been at it."""
    times = [clock.parse(each.started) for each in evidence.operations if not each.done]
    times += [
        clock.parse(each.get("eventTime") or each.get("lastTimestamp"))
        for each in evidence.events
        if each["reason"] == labels.CREATION_STARTED
    ]
    known = [each for each in times if each is not None]
    return duration.human(max((evidence.now - min(known)).total_seconds(), 0.0)) if known else ""


def _pools_seen(evidence: Evidence, status: str) -> list[Seen]:
    return [Seen("NodePool", each["name"], f"status {status}") for each in evidence.pools if each.get("status") == status][:3]


def _told_pod(evidence: Evidence) -> Object | None:
    """A pod without a place for which the controller has a word."""
    waiting = (pod for pod in evidence.pods if not pod["spec"].get("nodeName"))
    return next((pod for pod in waiting if condition(pod, labels.SLICE_READY).get("status") == "False"), None)


def _templates(evidence: Evidence) -> Iterator[Object]:
    for part in evidence.jobset["spec"]["replicatedJobs"]:
        yield part["template"]["spec"]["template"]


def _reserves(evidence: Evidence) -> bool:
    """Whether its pods name a reservation, by a selector or as a kind of capacity."""
    for template in _templates(evidence):
        annotations = (template.get("metadata") or {}).get("annotations") or {}
        if labels.RESERVATION_NAME in (template["spec"].get("nodeSelector") or {}) or "reservation=" in annotations.get(
            labels.CAPACITY, ""
        ):
            return True
    return False


def _remedy(evidence: Evidence, kind: Kind) -> str:
    if kind is not kinds.STOCKOUT:
        return ""
    for template in _templates(evidence):
        selector = template["spec"].get("nodeSelector") or {}
        if labels.ZONE in selector:
            return f"leave the zone {selector[labels.ZONE]} open, so that others are tried; or ask for smaller slices"
        if labels.SPOT in selector:
            return "spot machines come and go: wait, ask for on-demand ones or another zone, or ask for smaller slices"
    return ""
