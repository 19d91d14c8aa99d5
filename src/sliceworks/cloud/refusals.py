"""What a refusal of a Google API means: by its status and codes, by its words only where Google gives nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import (
    CloudAlreadyExists,
    CloudError,
    CloudInvalid,
    CloudNotFound,
    CloudUnavailable,
    FailedPrecondition,
    PermissionDenied,
    QuotaExceeded,
    ReservationExhausted,
    TooManyOperations,
    Unauthenticated,
)

if TYPE_CHECKING:
    from sliceworks.cloud.transport import Response

_BY_STATUS: dict[str, type[CloudError]] = {
    "INVALID_ARGUMENT": CloudInvalid,
    "OUT_OF_RANGE": CloudInvalid,
    "FAILED_PRECONDITION": FailedPrecondition,
    "ABORTED": FailedPrecondition,
    "UNAUTHENTICATED": Unauthenticated,
    "PERMISSION_DENIED": PermissionDenied,
    "NOT_FOUND": CloudNotFound,
    "ALREADY_EXISTS": CloudAlreadyExists,
    "RESOURCE_EXHAUSTED": TooManyOperations,
    "UNAVAILABLE": CloudUnavailable,
    "DEADLINE_EXCEEDED": CloudUnavailable,
    "INTERNAL": CloudUnavailable,
    "CANCELLED": CloudUnavailable,
}
_BY_CODE: dict[int, type[CloudError]] = {
    400: CloudInvalid,
    401: Unauthenticated,
    403: PermissionDenied,
    404: CloudNotFound,
    409: CloudAlreadyExists,
    412: FailedPrecondition,
    429: TooManyOperations,
}
_QUOTA_FAILURE = "type.googleapis.com/google.rpc.QuotaFailure"
_QUOTA_REASONS = frozenset({"quotaExceeded", "QUOTA_EXCEEDED", "GCE_QUOTA_EXCEEDED", "insufficientQuota"})
# GKE refuses what exceeds a regional quota with a bare 403 of these words and no code.
_QUOTA_WORDS = ("Insufficient regional quota", "Insufficient project quota", "Quota exceeded for")
# A reservation that is used up is a bare 429, as too many operations are: only these words tell it from one worth waiting for.
_RESERVATION_WORDS = "Reservation does not have enough resources"
_RATE_REASONS = frozenset({"RATE_LIMIT_EXCEEDED", "rateLimitExceeded", "userRateLimitExceeded"})


def refusal(response: Response, what: str) -> CloudError:
    """The error that an answer stands for; `what` is said where Google says nothing."""
    error = _body(response.body)
    code = response.status
    status = str(error.get("status") or "")
    message = " ".join(str(error.get("message") or f"{what}: the server answered {code}").split())
    reasons = _reasons(error)
    cls = _BY_STATUS.get(status) or _BY_CODE.get(code) or (CloudUnavailable if code >= 500 else CloudError)
    if issubclass(cls, PermissionDenied | TooManyOperations) and _is_quota(error, reasons, message):
        cls = QuotaExceeded
    elif issubclass(cls, TooManyOperations) and message.startswith(_RESERVATION_WORDS):
        cls = ReservationExhausted
    return cls(message, code=code, status=status, reasons=reasons, retry_after=_retry_after(response))


def _body(body: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    error = found.get("error") if isinstance(found, dict) else None
    return error if isinstance(error, dict) else {}


def _reasons(error: dict[str, Any]) -> tuple[str, ...]:
    parts = [*(error.get("details") or ()), *(error.get("errors") or ())]
    return tuple(dict.fromkeys(str(part["reason"]) for part in parts if isinstance(part, dict) and part.get("reason")))


def _is_quota(error: dict[str, Any], reasons: tuple[str, ...], message: str) -> bool:
    if _RATE_REASONS & set(reasons):
        return False
    if _QUOTA_REASONS & set(reasons):
        return True
    if any(isinstance(part, dict) and part.get("@type") == _QUOTA_FAILURE for part in error.get("details") or ()):
        return True
    return message.startswith(_QUOTA_WORDS)


def _retry_after(response: Response) -> float | None:
    header = response.headers.get("retry-after", "")
    return float(header) if header.isdigit() else None
