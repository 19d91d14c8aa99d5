"""A long-running operation of the container API, read into a small value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# google.rpc.Code, as operations carry it in numbers.
_CODES = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
]


@dataclass(frozen=True, slots=True)
class Fault:
    """Why something failed: a code of Google's, and its words."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Operation:
    """What goes on in the cloud. `target` is the name of the node pool or cluster it works on; `kind` such as CREATE_NODE_POOL."""

    name: str
    kind: str
    target: str
    status: str
    started: str = ""
    ended: str = ""
    fault: Fault | None = None

    @property
    def done(self) -> bool:
        return self.status == "DONE"


def read(raw: Mapping[str, Any]) -> Operation:
    """An operation from its JSON. A fault is in `error`; clusters of old say it in `statusMessage` alone."""
    return Operation(
        name=str(raw.get("name") or ""),
        kind=str(raw.get("operationType") or ""),
        target=str(raw.get("targetLink") or "").rpartition("/")[2],
        status=str(raw.get("status") or ""),
        started=str(raw.get("startTime") or ""),
        ended=str(raw.get("endTime") or ""),
        fault=_fault(raw),
    )


def condition_fault(conditions: Any, message: str = "") -> Fault | None:
    """The fault that the conditions of a pool or an operation tell: the first that has a code of its own."""
    told = [each for each in conditions or () if isinstance(each, dict)]
    for each in told:
        code = str(each.get("code") or each.get("canonicalCode") or "")
        if code and code not in ("UNKNOWN", "OK"):
            return Fault(code, " ".join(str(each.get("message") or message).split()))
    if told or message:
        return Fault("UNKNOWN", " ".join((str(told[0].get("message") or "") if told else "").split() or message.split()))
    return None


def _fault(raw: Mapping[str, Any]) -> Fault | None:
    if raw.get("status") != "DONE":
        return None
    by_condition = condition_fault(raw.get("clusterConditions") or raw.get("nodepoolConditions"))
    error = raw.get("error")
    if isinstance(error, dict) and (error.get("code") or error.get("message")):
        number = error.get("code") or 2
        code = _CODES[number] if isinstance(number, int) and 0 <= number < len(_CODES) else "UNKNOWN"
        if by_condition is not None and by_condition.code != "UNKNOWN":
            code = by_condition.code
        return Fault(code, " ".join(str(error.get("message") or "").split()))
    if by_condition is not None:
        return by_condition
    message = " ".join(str(raw.get("statusMessage") or "").split())
    return Fault("UNKNOWN", message) if message else None
