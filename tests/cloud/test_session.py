"""Sessions with Google APIs: requests, error responses and retries."""

from __future__ import annotations

import pytest
from tests.support.scripted_cloud import Scripted, answer, refusal

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
    SliceworksError,
    TooManyOperations,
    Unauthenticated,
    Unreachable,
    UsageError,
)
from sliceworks.base.retry import NEVER, Backoff, Retry
from sliceworks.base.transport import InProcess, Request, Response
from sliceworks.cloud.credentials import Token
from sliceworks.cloud.session import Session

_QUOTA = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []}
_RATE = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "RATE_LIMIT_EXCEEDED"}
_SHORT = "Insufficient regional quota to satisfy request: resource \"CPUS\": request requires '96.0' and is short '48.0'."


def _call(transport: Scripted, method: str = "GET", *, retry: Retry = NEVER, credentials: Token | None = None) -> object:
    session = Session(credentials=credentials, transport=transport, retry=retry)
    return clock.run(session.call(method, "/v1/things", {"a": 1} if method == "POST" else None), virtual=True)


def test_request_has_credentials_and_body() -> None:
    transport = Scripted(answer({"name": "x"}), answer({}))
    session = Session(credentials=Token("secret"), transport=transport, user_agent="tests")

    async def main() -> None:
        assert await session.call("POST", "/v1/a", {"b": 1}, {"alt": "json"}) == {"name": "x"}
        assert await session.call("GET", "/v1/a") == {}
        await session.close()

    clock.run(main(), virtual=True)
    first, second = transport.requests
    assert (first.method, first.target, first.body) == ("POST", "/v1/a?alt=json", b'{"b":1}')
    assert first.headers["authorization"] == "Bearer secret"
    assert first.headers["content-type"] == "application/json"
    assert first.headers["user-agent"] == "tests"
    assert "content-type" not in second.headers
    assert transport.closed


@pytest.mark.parametrize(
    ("given", "cls"),
    [
        (refusal(400, "INVALID_ARGUMENT"), CloudInvalid),
        (refusal(400, "FAILED_PRECONDITION"), FailedPrecondition),
        (refusal(409, "ABORTED"), FailedPrecondition),
        (refusal(403, "PERMISSION_DENIED"), PermissionDenied),
        (refusal(403, "PERMISSION_DENIED", _SHORT), QuotaExceeded),
        (refusal(404, "NOT_FOUND"), CloudNotFound),
        (refusal(409, "ALREADY_EXISTS"), CloudAlreadyExists),
        (refusal(429, "RESOURCE_EXHAUSTED"), TooManyOperations),
        (refusal(429, "RESOURCE_EXHAUSTED", details=[_QUOTA]), QuotaExceeded),
        (refusal(429, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'x'", details=[_RATE]), TooManyOperations),
        (refusal(429, "RESOURCE_EXHAUSTED", "Reservation does not have enough resources for the request: …"), ReservationExhausted),
        (refusal(503, "UNAVAILABLE"), CloudUnavailable),
        (refusal(500, "INTERNAL"), CloudUnavailable),
        (refusal(404), CloudNotFound),
        (refusal(502), CloudUnavailable),
        (refusal(418), CloudError),
        (Response(503, {}, b"<html>"), CloudUnavailable),
    ],
)
def test_error_type_follows_status_and_code(given: Response, cls: type[CloudError]) -> None:
    with pytest.raises(CloudError) as caught:
        _call(Scripted(given), "POST")
    assert type(caught.value) is cls
    assert caught.value.code == given.status


def test_error_without_message_gets_one() -> None:
    with pytest.raises(CloudUnavailable, match="GET /v1/things: the server returned HTTP 503"):
        _call(Scripted(Response(503, {}, b"")))


def test_error_message_is_one_line() -> None:
    with pytest.raises(CloudInvalid, match=r"^two lines$"):
        _call(Scripted(refusal(400, "INVALID_ARGUMENT", "two\nlines")))


def test_read_is_retried() -> None:
    transport = Scripted(refusal(503, "UNAVAILABLE"), Unreachable("gone"), refusal(429, "RESOURCE_EXHAUSTED"), answer({"a": 1}))
    assert _call(transport, retry=Retry(attempts=4)) == {"a": 1}


def test_read_is_retried_a_few_times_only() -> None:
    transport = Scripted(*[refusal(503, "UNAVAILABLE")] * 9)
    with pytest.raises(CloudUnavailable):
        _call(transport, retry=Retry(attempts=3))
    assert len(transport.requests) == 3


def test_permanent_error_is_not_retried() -> None:
    transport = Scripted(refusal(404, "NOT_FOUND"), answer({}))
    with pytest.raises(CloudNotFound):
        _call(transport, retry=Retry(attempts=3))
    assert len(transport.requests) == 1


def test_write_is_never_retried() -> None:
    transport = Scripted(refusal(503, "UNAVAILABLE"), answer({}))
    with pytest.raises(CloudUnavailable):
        _call(transport, "POST", retry=Retry(attempts=3))
    assert len(transport.requests) == 1


def test_retry_after_is_obeyed() -> None:
    transport = Scripted(refusal(429, "RESOURCE_EXHAUSTED", retry_after="30"), answer({}))

    async def main() -> float:
        started = clock.loop_time()
        await Session(transport=transport, retry=Retry(backoff=Backoff(jitter=0))).call("GET", "/v1/a")
        return clock.loop_time() - started

    assert clock.run(main(), virtual=True) == pytest.approx(30)


def test_revoked_token_is_renewed_once() -> None:
    class Renewed:
        def __init__(self) -> None:
            self.token = "old"

        async def headers(self) -> dict[str, str]:
            return {"authorization": f"Bearer {self.token}"}

        def invalidate(self) -> None:
            self.token = "new"

    transport = Scripted(refusal(401, "UNAUTHENTICATED"), answer({"a": 1}))
    session = Session(credentials=Renewed(), transport=transport, retry=NEVER)
    assert clock.run(session.call("POST", "/v1/a", {}), virtual=True) == {"a": 1}
    assert [request.headers["authorization"] for request in transport.requests] == ["Bearer old", "Bearer new"]


def test_second_401_is_unauthenticated() -> None:
    with pytest.raises(Unauthenticated):
        _call(Scripted(*[refusal(401, "UNAUTHENTICATED")] * 2), credentials=Token("x"), retry=Retry(attempts=5))


@pytest.mark.parametrize("body", [b"<html>", b"[1]"])
def test_response_must_be_a_json_object(body: bytes) -> None:
    with pytest.raises(Unreachable, match="is this a Google API"):
        _call(Scripted(Response(200, {}, body)))


def test_closed_session_is_unreachable() -> None:
    async def handler(_: Request) -> Response:
        return Response(200, {}, b"{}")

    async def main() -> None:
        session = Session(transport=InProcess(handler), retry=NEVER)
        assert await session.call("GET", "/v1/a") == {}
        await session.close()
        with pytest.raises(Unreachable):
            await session.call("GET", "/v1/a")

    clock.run(main(), virtual=True)


@pytest.mark.parametrize("endpoint", ["", "container.googleapis.com", "ftp://x"])
def test_endpoint_must_be_a_url(endpoint: str) -> None:
    with pytest.raises(UsageError, match="is not a valid URL"):
        Session(endpoint)


def test_errors_are_sliceworks_errors() -> None:
    assert issubclass(CloudError, SliceworksError)
    assert {cls.temporary for cls in (TooManyOperations, FailedPrecondition, CloudUnavailable)} == {True}
    assert not QuotaExceeded.temporary
