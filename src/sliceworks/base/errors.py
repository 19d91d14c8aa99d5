"""Every error that Sliceworks raises on purpose, in one tree.

    SliceworksError                exit 1: one line for a person, with a hint where there is one
    ├── UsageError                 exit 2: the call itself is wrong
    ├── InvalidDocument            a document that cannot be used; carries its place
    ├── UnknownAccelerator         no type of slice, GPU or machine has this name; the hint names the closest
    ├── WrongShape                 a topology, machine type or number of chips that does not fit the others
    ├── TimedOut                   exit 3: it did not happen in time
    ├── Unreachable                no answer from the other side: worth another try
    ├── ApiError                   an answer of a Kubernetes API other than success; carries its Status
    │   ├── BadRequest             400
    │   ├── Unauthorized           401
    │   ├── Forbidden              403
    │   ├── NotFound               404
    │   ├── MethodNotAllowed       405
    │   ├── NotAcceptable          406
    │   ├── AlreadyExists          409
    │   ├── Conflict               409
    │   ├── Gone                   410
    │   ├── Expired                410
    │   ├── RequestEntityTooLarge  413
    │   ├── UnsupportedMediaType   415
    │   ├── Invalid                422
    │   ├── TooManyRequests        429
    │   ├── InternalError          500
    │   ├── ServiceUnavailable     503
    │   └── ServerTimeout          504
    └── CloudError                an answer of a Google API other than success; carries its code, status and reasons
        ├── CloudInvalid           400: this request can never work
        ├── FailedPrecondition     400: not while something else goes on; worth another try
        ├── Unauthenticated        401
        ├── PermissionDenied       403
        ├── QuotaExceeded          403, 429
        ├── ReservationExhausted   429: a reservation has no machines left
        ├── CloudNotFound          404
        ├── CloudAlreadyExists     409
        ├── TooManyOperations      429
        └── CloudUnavailable       500 and above: worth another try

The client raises the ApiError that a server's Status names; the twin's server answers with the Status of the one it raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping


class SliceworksError(Exception):
    """The root: `str(error)` is one line for a person; `hint` says what to do about it."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(SliceworksError):
    """The call itself is wrong."""

    exit_code: ClassVar[int] = 2


class InvalidDocument(SliceworksError):
    """A document that cannot be used: `place` is `file:line` or the name of an object."""

    def __init__(self, message: str, *, place: str = "", hint: str = "") -> None:
        super().__init__(f"{place}: {message}" if place else message, hint=hint)
        self.place = place


class UnknownAccelerator(SliceworksError):
    """No type of slice, GPU or machine has this name: the hint names the closest."""


class WrongShape(SliceworksError):
    """A topology, a machine type or a number of chips that does not fit the others."""


class TimedOut(SliceworksError):
    """It did not happen in time."""

    exit_code: ClassVar[int] = 3


class Unreachable(SliceworksError):
    """The other side gave no answer: worth another try."""


class ApiError(SliceworksError):
    """An answer of a Kubernetes API other than success."""

    code: int = 500
    reason: str = "InternalError"

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        reason: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        if reason is not None:
            self.reason = reason
        self.details = dict(details) if details is not None else None

    def status(self) -> dict[str, Any]:
        """The `metav1.Status` that says the same."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if not self.reason:
            del body["reason"]
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body

    @property
    def retry_after(self) -> float | None:
        """How long the server asks to wait before another try, in seconds."""
        seconds = (self.details or {}).get("retryAfterSeconds")
        return float(seconds) if seconds else None


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"

    def __init__(self, message: str, **more: Any) -> None:
        super().__init__(message, **more)
        self.hint = "your credentials are wrong or have expired: renew them"


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    code, reason = 404, "NotFound"


class MethodNotAllowed(ApiError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"


class Conflict(ApiError):
    code, reason = 409, "Conflict"


class Gone(ApiError):
    code, reason = 410, "Gone"


class Expired(ApiError):
    code, reason = 410, "Expired"


class RequestEntityTooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    code, reason = 429, "TooManyRequests"


class InternalError(ApiError):
    code, reason = 500, "InternalError"


class ServiceUnavailable(ApiError):
    code, reason = 503, "ServiceUnavailable"


class ServerTimeout(ApiError):
    code, reason = 504, "Timeout"


_BY_REASON: dict[str, type[ApiError]] = {cls.reason: cls for cls in ApiError.__subclasses__()}
_BY_CODE: dict[int, type[ApiError]] = {cls.code: cls for cls in reversed(ApiError.__subclasses__())}


def from_status(code: int, status: Mapping[str, Any] | None) -> ApiError:
    """The error that a server's answer names: by reason, else by code."""
    status = status or {}
    reason = str(status.get("reason") or "")
    cls = _BY_REASON.get(reason) or _BY_CODE.get(code) or ApiError
    message = str(status.get("message") or f"the server answered {code}")
    details = status.get("details")
    return cls(message, code=code, reason=reason or None, details=details if isinstance(details, dict) else None)


class CloudError(SliceworksError):
    """An answer of a Google API other than success. `status` is Google's canonical word, `reasons` the codes in its details."""

    code: int = 500
    status: str = "UNKNOWN"
    temporary: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        status: str = "",
        reasons: tuple[str, ...] = (),
        retry_after: float | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        if code is not None:
            self.code = code
        if status:
            self.status = status
        self.reasons = reasons
        self.retry_after = retry_after


class CloudInvalid(CloudError):
    code, status = 400, "INVALID_ARGUMENT"


class FailedPrecondition(CloudError):
    code, status = 400, "FAILED_PRECONDITION"
    temporary: ClassVar[bool] = True


class Unauthenticated(CloudError):
    code, status = 401, "UNAUTHENTICATED"


class PermissionDenied(CloudError):
    code, status = 403, "PERMISSION_DENIED"


class QuotaExceeded(CloudError):
    code, status = 403, "RESOURCE_EXHAUSTED"


class ReservationExhausted(CloudError):
    code, status = 429, "RESOURCE_EXHAUSTED"


class CloudNotFound(CloudError):
    code, status = 404, "NOT_FOUND"


class CloudAlreadyExists(CloudError):
    code, status = 409, "ALREADY_EXISTS"


class TooManyOperations(CloudError):
    code, status = 429, "RESOURCE_EXHAUSTED"
    temporary: ClassVar[bool] = True


class CloudUnavailable(CloudError):
    code, status = 503, "UNAVAILABLE"
    temporary: ClassVar[bool] = True
