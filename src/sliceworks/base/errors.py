"""Every error that Sliceworks raises on purpose, in one tree.

    SliceworksError                exit 1: a one-line message, with a hint if there is one
    ├── UsageError                 exit 2: invalid arguments or options
    ├── InvalidDocument            an invalid document; carries its file and line
    ├── UnknownAccelerator         unknown slice type, GPU or machine type; the hint names the closest match
    ├── InvalidShape               topology, machine type and number of chips that do not match
    ├── TimedOut                   exit 3: the deadline passed
    ├── Unreachable                no response from a server; worth a retry
    ├── ApiError                   an error response of a Kubernetes API; carries its Status
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
    └── CloudError                 an error response of a Google API; carries its code, status and reasons
        ├── CloudInvalid           400: an invalid request
        ├── FailedPrecondition     400: rejected in the current state; worth a retry
        ├── Unauthenticated        401
        ├── PermissionDenied       403
        ├── QuotaExceeded          403, 429
        ├── ReservationExhausted   429: the reservation has no machines left
        ├── CloudNotFound          404
        ├── CloudAlreadyExists     409
        ├── TooManyOperations      429
        └── CloudUnavailable       500 and above: worth a retry

The client raises the ApiError that matches a server's Status; the twin's API server responds with the Status of the error it
raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class SliceworksError(Exception):
    """The root: `str(error)` is a one-line message; `hint` says how to fix it."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def message_with_hint(self) -> str:
        """The message and the hint in one line."""
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UsageError(SliceworksError):
    """Invalid arguments or options."""

    exit_code: ClassVar[int] = 2


class InvalidDocument(SliceworksError):
    """An invalid document: `place` is `file:line` or the name of an object, `problem` the message without it.

    `others` are the document's further problems.
    """

    def __init__(self, message: str, *, place: str = "", hint: str = "") -> None:
        super().__init__(f"{place}: {message}" if place else message, hint=hint)
        self.place, self.problem = place, message
        self.others: tuple[InvalidDocument, ...] = ()

    @classmethod
    def first_of(cls, problems: Iterable[InvalidDocument]) -> InvalidDocument:
        """The first problem, which holds the others."""
        first, *rest = problems
        first.others = tuple(rest)
        return first


class UnknownAccelerator(SliceworksError):
    """Unknown slice type, GPU or machine type; the hint names the closest match."""


class InvalidShape(SliceworksError):
    """Topology, machine type and number of chips that do not match."""


class TimedOut(SliceworksError):
    """The deadline passed."""

    exit_code: ClassVar[int] = 3


class Unreachable(SliceworksError):
    """No response from a server; worth a retry."""


class ApiError(SliceworksError):
    """An error response of a Kubernetes API."""

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
        """This error as a `metav1.Status`."""
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
        """Seconds to wait before a retry, if the server gave them."""
        seconds = (self.details or {}).get("retryAfterSeconds")
        return float(seconds) if seconds else None


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.hint = "your credentials are invalid or have expired; renew them"


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
    """The error for a server's Status: by its reason, else by the HTTP code."""
    status = status or {}
    reason = str(status.get("reason") or "")
    cls = _BY_REASON.get(reason) or _BY_CODE.get(code) or ApiError
    message = str(status.get("message") or f"the server returned HTTP {code}")
    details = status.get("details")
    return cls(message, code=code, reason=reason or None, details=details if isinstance(details, dict) else None)


class CloudError(SliceworksError):
    """An error response of a Google API. `status` is the canonical code, `reasons` are the reason codes in its details."""

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


def root_error(error: BaseException) -> BaseException:
    """The error in a group that explains it: the first unexpected one, else the first. Any other error is returned as it is."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    roots = [root_error(inner) for inner in error.exceptions]
    return next((root for root in roots if not isinstance(root, SliceworksError | OSError)), roots[0])
