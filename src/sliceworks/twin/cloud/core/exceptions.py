"""Google's canonical error codes and the JSON of an error response.

    {"error": {"code": 404, "message": …, "errors": [{message, domain, reason}], "status": "NOT_FOUND", "details": […]}}

`status` is the name of a canonical code; it determines the HTTP status code and the legacy `reason`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import clock
from sliceworks.catalog import gke_rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.catalog.gke_rules import Violation

Obj = dict[str, Any]


class CanonicalCode(NamedTuple):
    """A canonical code: its number, its HTTP status code, and the `reason` of older error formats."""

    number: int
    http: int
    reason: str


CODES = {
    "CANCELLED": CanonicalCode(1, 499, "clientClosedRequest"),
    "UNKNOWN": CanonicalCode(2, 500, "backendError"),
    "INVALID_ARGUMENT": CanonicalCode(3, 400, "badRequest"),
    "DEADLINE_EXCEEDED": CanonicalCode(4, 504, "deadlineExceeded"),
    "NOT_FOUND": CanonicalCode(5, 404, "notFound"),
    "ALREADY_EXISTS": CanonicalCode(6, 409, "alreadyExists"),
    "PERMISSION_DENIED": CanonicalCode(7, 403, "forbidden"),
    "RESOURCE_EXHAUSTED": CanonicalCode(8, 429, "rateLimitExceeded"),
    "FAILED_PRECONDITION": CanonicalCode(9, 400, "failedPrecondition"),
    "ABORTED": CanonicalCode(10, 409, "aborted"),
    "UNIMPLEMENTED": CanonicalCode(12, 501, "notImplemented"),
    "INTERNAL": CanonicalCode(13, 500, "backendError"),
    "UNAVAILABLE": CanonicalCode(14, 503, "backendError"),
    "UNAUTHENTICATED": CanonicalCode(16, 401, "authError"),
}
_TYPES = "type.googleapis.com/google.rpc."
_EXPECTED = (
    "Expected OAuth 2 access token, login cookie or other valid authentication credential. "
    "See https://developers.google.com/identity/sign-in/web/devconsole-project."
)


class GoogleError(Exception):
    """An error response."""

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
        """The HTTP status code of the canonical code, unless the API overrides it."""
        return self._http or CODES[self.status].http

    def body(self) -> Obj:
        """The JSON body of the response."""
        error = {"message": self.message, "domain": "global", "reason": self.reason}
        request = {"@type": f"{_TYPES}RequestInfo", "requestId": f"0x{clock.rng().getrandbits(64):016x}"}
        details = [*self.details, request]
        return {"error": {"code": self.code, "message": self.message, "errors": [error], "status": self.status, "details": details}}


def error_info(reason: str, domain: str, **metadata: str) -> Obj:
    """A machine-readable `google.rpc.ErrorInfo` detail."""
    return {"@type": f"{_TYPES}ErrorInfo", "reason": reason, "domain": domain, **({"metadata": metadata} if metadata else {})}


def refusal(violation: Violation, **metadata: str) -> GoogleError:
    """The error response for a violated rule of the catalog; `metadata` is that of its ErrorInfo."""
    rule = violation.rule
    details = [error_info(rule.info["reason"], rule.info["domain"], **metadata)] if rule.info else []
    return GoogleError(rule.status, violation.message, details=details, reason=rule.reason, http=rule.http)


def refuse(rule: str, **parameters: object) -> GoogleError:
    """The error response for a rule of the catalog, by its id."""
    return refusal(gke_rules.violate(rule, **parameters))


def enforce(*violations: Violation | None) -> None:
    """Raise GoogleError for the first violation, if there is one."""
    for violation in violations:
        if violation is not None:
            raise refusal(violation)


def invalid_fields(violations: list[tuple[str, str]]) -> GoogleError:
    """INVALID_ARGUMENT for (field, description) pairs."""
    fields = [{**({"field": field} if field else {}), "description": description} for field, description in violations]
    detail = {"@type": f"{_TYPES}BadRequest", "fieldViolations": fields}
    return GoogleError("INVALID_ARGUMENT", "\n".join(description for _, description in violations), details=[detail])


def invalid_argument(message: str) -> GoogleError:
    """INVALID_ARGUMENT."""
    return GoogleError("INVALID_ARGUMENT", message)


def not_found(path: str) -> GoogleError:
    """NOT_FOUND for a resource path."""
    return GoogleError("NOT_FOUND", f"Not found: {path}.")


def already_exists(path: str) -> GoogleError:
    """ALREADY_EXISTS for a resource path."""
    return GoogleError("ALREADY_EXISTS", f"Already exists: {path}.")


def condition_not_met(message: str = "At least one of the pre-conditions you specified did not hold.") -> GoogleError:
    """A failed precondition as HTTP 412, as older APIs return it."""
    return GoogleError("FAILED_PRECONDITION", message, reason="conditionNotMet", http=412)


def no_credentials() -> GoogleError:
    """UNAUTHENTICATED: the request has no bearer token."""
    return GoogleError(
        "UNAUTHENTICATED",
        f"Request is missing required authentication credential. {_EXPECTED}",
        details=[error_info("CREDENTIALS_MISSING", "googleapis.com")],
        reason="required",
    )


def bad_credentials() -> GoogleError:
    """UNAUTHENTICATED: an unknown or expired token, which Google does not distinguish."""
    return GoogleError(
        "UNAUTHENTICATED",
        f"Request had invalid authentication credentials. {_EXPECTED}",
        details=[error_info("ACCESS_TOKEN_EXPIRED", "googleapis.com")],
    )
