"""What Google's APIs answer when they do not do what they were asked for.

    {"error": {"code": 404, "message": …, "errors": [{message, domain, reason}], "status": "NOT_FOUND", "details": […]}}

`status` is the name of a canonical code; the HTTP code and the old `reason` follow from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Obj = dict[str, Any]


class Canonical(NamedTuple):
    """One of the canonical codes: its number, the HTTP code it becomes, and the reason that older clients read."""

    number: int
    http: int
    reason: str


CODES = {
    "CANCELLED": Canonical(1, 499, "clientClosedRequest"),
    "UNKNOWN": Canonical(2, 500, "backendError"),
    "INVALID_ARGUMENT": Canonical(3, 400, "badRequest"),
    "DEADLINE_EXCEEDED": Canonical(4, 504, "deadlineExceeded"),
    "NOT_FOUND": Canonical(5, 404, "notFound"),
    "ALREADY_EXISTS": Canonical(6, 409, "alreadyExists"),
    "PERMISSION_DENIED": Canonical(7, 403, "forbidden"),
    "RESOURCE_EXHAUSTED": Canonical(8, 429, "rateLimitExceeded"),
    "FAILED_PRECONDITION": Canonical(9, 400, "failedPrecondition"),
    "ABORTED": Canonical(10, 409, "aborted"),
    "UNIMPLEMENTED": Canonical(12, 501, "notImplemented"),
    "INTERNAL": Canonical(13, 500, "backendError"),
    "UNAVAILABLE": Canonical(14, 503, "backendError"),
    "UNAUTHENTICATED": Canonical(16, 401, "authError"),
}
_TYPES = "type.googleapis.com/google.rpc."
_EXPECTED = (
    "Expected OAuth 2 access token, login cookie or other valid authentication credential. "
    "See https://developers.google.com/identity/sign-in/web/devconsole-project."
)


class GoogleError(Exception):
    """An answer other than success."""

    def __init__(
        self, status: str, message: str, *, details: Iterable[Mapping[str, Any]] = (), reason: str = "", http: int = 0
    ) -> None:
        super().__init__(message)
        self._http = http
        self.status = status
        self.message = message
        self.details = [dict(detail) for detail in details]
        self.reason = reason or CODES[status].reason

    @property
    def code(self) -> int:
        """The HTTP code: the status's own, unless the API has another for it."""
        return self._http or CODES[self.status].http

    def body(self) -> Obj:
        """The JSON of the answer."""
        said = {"message": self.message, "domain": "global", "reason": self.reason}
        request = {"@type": f"{_TYPES}RequestInfo", "requestId": f"0x{clock.randomness().getrandbits(64):016x}"}
        details = [*self.details, request]
        return {"error": {"code": self.code, "message": self.message, "errors": [said], "status": self.status, "details": details}}


def error_info(reason: str, domain: str, **metadata: str) -> Obj:
    """A detail that machines read."""
    return {"@type": f"{_TYPES}ErrorInfo", "reason": reason, "domain": domain, **({"metadata": metadata} if metadata else {})}


def invalid_fields(violations: list[tuple[str, str]]) -> GoogleError:
    """A body whose fields are wrong: where, and what is said of each."""
    fields = [{**({"field": field} if field else {}), "description": said} for field, said in violations]
    detail = {"@type": f"{_TYPES}BadRequest", "fieldViolations": fields}
    return GoogleError("INVALID_ARGUMENT", "\n".join(said for _, said in violations), details=[detail])


def invalid(message: str) -> GoogleError:
    """A request that makes no sense."""
    return GoogleError("INVALID_ARGUMENT", message)


def not_found(path: str) -> GoogleError:
    """Nothing is there."""
    return GoogleError("NOT_FOUND", f"Not found: {path}.")


def already_exists(path: str) -> GoogleError:
    """The name is taken."""
    return GoogleError("ALREADY_EXISTS", f"Already exists: {path}.")


def stale(message: str = "At least one of the pre-conditions you specified did not hold.") -> GoogleError:
    """What was asked for on a condition, which does not hold: 412, as older APIs have it."""
    return GoogleError("FAILED_PRECONDITION", message, reason="conditionNotMet", http=412)


def no_credentials() -> GoogleError:
    """Nobody said who asks."""
    return GoogleError(
        "UNAUTHENTICATED",
        f"Request is missing required authentication credential. {_EXPECTED}",
        details=[error_info("CREDENTIALS_MISSING", "googleapis.com")],
        reason="required",
    )


def bad_credentials() -> GoogleError:
    """A token that nobody knows, or that has expired: Google says the same of both."""
    return GoogleError(
        "UNAUTHENTICATED",
        f"Request had invalid authentication credentials. {_EXPECTED}",
        details=[error_info("ACCESS_TOKEN_EXPIRED", "googleapis.com")],
    )
