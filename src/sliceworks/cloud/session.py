"""A session with a Google API: sends requests with credentials, retries reads, and translates error responses."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import orjson

from sliceworks.base import clock
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
    Unreachable,
)
from sliceworks.base.retry import Backoff, Retry
from sliceworks.base.transport import Request, Response
from sliceworks.cloud.credentials import Anonymous

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from sliceworks.base.transport import Transport
    from sliceworks.cloud.credentials import Credentials


Object = dict[str, Any]
RETRY_READS = Retry(attempts=4, backoff=Backoff(first=0.5, cap=8.0, jitter=0.5), longest_wait=float("inf"))
"""The default policy. Only GET requests are retried: whether a write is safe to retry is for its caller to decide."""
_JSON = "application/json"
_VERSION = re.compile(r"/v[0-9]+(?:(?:alpha|beta)[0-9]+)?$")

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

# GKE returns 403 without a reason code when a regional quota is exceeded; only these prefixes of the message identify it.
_QUOTA_MESSAGES = ("Insufficient regional quota", "Insufficient project quota", "Quota exceeded for")

# An exhausted reservation is a 429 without a reason code, like too many operations; only the message tells them apart.
_RESERVATION_MESSAGE = "Reservation does not have enough resources"
_RATE_REASONS = frozenset({"RATE_LIMIT_EXCEEDED", "rateLimitExceeded", "userRateLimitExceeded"})


def error_from_response(response: Response, what: str) -> CloudError:
    """The CloudError of an error response; `what` (method and path) is used if the response has no message."""
    error = _error_body(response.body)
    code = response.status
    status = str(error.get("status") or "")
    message = " ".join(str(error.get("message") or f"{what}: the server returned HTTP {code}").split())
    reasons = _reasons(error)
    cls = _BY_STATUS.get(status) or _BY_CODE.get(code) or (CloudUnavailable if code >= 500 else CloudError)
    if issubclass(cls, PermissionDenied | TooManyOperations) and _is_quota_exceeded(error, reasons, message):
        cls = QuotaExceeded
    elif issubclass(cls, TooManyOperations) and message.startswith(_RESERVATION_MESSAGE):
        cls = ReservationExhausted
    return cls(message, code=code, status=status, reasons=reasons, retry_after=_retry_after(response))


def _error_body(body: bytes) -> dict[str, Any]:
    try:
        decoded = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    error = decoded.get("error") if isinstance(decoded, dict) else None
    return error if isinstance(error, dict) else {}


def _reasons(error: dict[str, Any]) -> tuple[str, ...]:
    parts = [*(error.get("details") or ()), *(error.get("errors") or ())]
    return tuple(dict.fromkeys(str(part["reason"]) for part in parts if isinstance(part, dict) and part.get("reason")))


def _is_quota_exceeded(error: dict[str, Any], reasons: tuple[str, ...], message: str) -> bool:
    if _RATE_REASONS & set(reasons):
        return False
    if _QUOTA_REASONS & set(reasons):
        return True
    if any(isinstance(part, dict) and part.get("@type") == _QUOTA_FAILURE for part in error.get("details") or ()):
        return True
    return message.startswith(_QUOTA_MESSAGES)


def _retry_after(response: Response) -> float | None:
    header = response.headers.get("retry-after", "")
    return float(header) if header.isdigit() else None


class Session:
    """One endpoint with credentials and a retry policy for reads. `endpoint` has no path; pass a `transport` to replace HTTP."""

    def __init__(
        self,
        endpoint: str = "",
        credentials: Credentials | None = None,
        *,
        transport: Transport | None = None,
        retry: Retry | None = None,
        user_agent: str = "sliceworks",
    ) -> None:
        self._transport = transport or _http_transport(endpoint)
        self.credentials = credentials or Anonymous()
        self.retry = retry or RETRY_READS
        self._common = {"accept": _JSON, "user-agent": user_agent}

    async def call(self, method: str, path: str, body: Object | None = None, query: Mapping[str, str] | None = None) -> Object:
        """Send a request and decode its JSON response; error responses are raised as CloudError."""
        data = orjson.dumps(body) if body is not None else b""
        headers = {"content-type": _JSON} if data else {}
        return _decode(await self.send_raw(method, path, data, headers, query), f"{method} {path}")

    async def pages(self, path: str, query: Mapping[str, str] | None = None) -> AsyncIterator[Object]:
        """The responses of a list request, page by page."""
        token = ""
        while True:
            response = await self.call("GET", path, query={**(query or {}), **({"pageToken": token} if token else {})})
            yield response
            token = str(response.get("nextPageToken") or "")
            if not token:
                return

    async def send_raw(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Response:
        """Send a request with a raw body and return the raw response; GET requests are retried."""
        request = Request(method, path, tuple((query or {}).items()), {**self._common, **(headers or {})}, body)
        failures = 0
        while True:
            try:
                response = await self._exchange(request)
                if response.status >= 400:
                    raise error_from_response(response, f"{method} {path}")
                return response
            except (Unreachable, CloudError) as error:
                failures += 1
                wait = getattr(error, "retry_after", None)
                is_final = failures >= self.retry.attempts or (wait or 0.0) > self.retry.longest_wait
                if method != "GET" or is_final or not _is_transient(error):
                    raise
                await clock.sleep(self.retry.delay(failures, wait))

    async def upload(self, path: str, content: bytes, query: Mapping[str, str], content_type: str) -> Object:
        """Upload raw content with one request; returns the decoded response."""
        return _decode(await self.send_raw("POST", path, content, {"content-type": content_type}, query), f"POST {path}")

    async def _exchange(self, request: Request) -> Response:
        response = await self._send(request)
        if response.status == 401:
            # The token may have been revoked before it expired: try once with a new one.
            self.credentials.invalidate()
            response = await self._send(request)
        return response

    async def _send(self, request: Request) -> Response:
        headers = {**request.headers, **await self.credentials.headers()}
        return await self._transport.send(replace(request, headers=headers))

    async def close(self) -> None:
        """Close the transport."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _http_transport(endpoint: str) -> Transport:
    from sliceworks.base.http_transport import HttpTransport

    return HttpTransport(endpoint, hint="check the endpoint and the network")


def _decode(response: Response, what: str) -> Object:
    try:
        body = orjson.loads(response.body) if response.body else {}
    except orjson.JSONDecodeError as error:
        raise Unreachable(f"{what}: response is not JSON; is this a Google API?") from error
    if not isinstance(body, dict):
        raise Unreachable(f"{what}: response is not a JSON object; is this a Google API?")
    return body


def _is_transient(error: Exception) -> bool:
    """Whether a retry of a read may succeed."""
    if isinstance(error, Unreachable | CloudUnavailable):
        return True
    return isinstance(error, CloudError) and error.code == 429 and not isinstance(error, Unauthenticated)


def split_endpoint(endpoint: str) -> tuple[str, str]:
    """Scheme and host of an endpoint, and the path before the API version."""
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc}", _VERSION.sub("", parts.path.rstrip("/"))
