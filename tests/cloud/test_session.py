"""Sessions with Google's APIs: what is sent, what refusals mean, when a request is sent again."""

from __future__ import annotations

import pytest
from tests.support.cloud_script import Scripted, answer, refusal

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
from sliceworks.cloud.credentials import Token
from sliceworks.cloud.inprocess import InProcess
from sliceworks.cloud.retrying import NEVER, Retry
from sliceworks.cloud.session import Session
from sliceworks.cloud.transport import Response

_QUOTA = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []}
_RATE = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "RATE_LIMIT_EXCEEDED"}
_SHORT = "Insufficient regional quota to satisfy request: resource \"CPUS\": request requires '96.0' and is short '48.0'."


def _ask(transport: Scripted, method: str = "GET", *, retry: Retry = NEVER, credentials: Token | None = None) -> object:
    session = Session(credentials=credentials, transport=transport, retry=retry)
    return clock.run(session.call(method, "/v1/things", {"a": 1} if method == "POST" else None), virtual=True)


def test_a_request_says_who_asks_and_for_what() -> None:
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
def test_refusals_are_told_apart_by_status_and_code(given: Response, cls: type[CloudError]) -> None:
    with pytest.raises(CloudError) as caught:
        _ask(Scripted(given), "POST")
    assert type(caught.value) is cls
    assert caught.value.code == given.status


def test_a_refusal_without_words_gets_some() -> None:
    with pytest.raises(CloudUnavailable, match="GET /v1/things: the server answered 503"):
        _ask(Scripted(Response(503, {}, b"")))


def test_a_refusal_is_one_line() -> None:
    with pytest.raises(CloudInvalid, match=r"^two lines$"):
        _ask(Scripted(refusal(400, "INVALID_ARGUMENT", "two\nlines")))


def test_a_read_is_sent_again_while_it_may_help() -> None:
    transport = Scripted(refusal(503, "UNAVAILABLE"), Unreachable("gone"), refusal(429, "RESOURCE_EXHAUSTED"), answer({"a": 1}))
    assert _ask(transport, retry=Retry(attempts=4)) == {"a": 1}


def test_a_read_is_not_sent_again_for_ever() -> None:
    transport = Scripted(*[refusal(503, "UNAVAILABLE")] * 9)
    with pytest.raises(CloudUnavailable):
        _ask(transport, retry=Retry(attempts=3))
    assert len(transport.requests) == 3


def test_a_read_that_cannot_work_is_not_sent_again() -> None:
    transport = Scripted(refusal(404, "NOT_FOUND"), answer({}))
    with pytest.raises(CloudNotFound):
        _ask(transport, retry=Retry(attempts=3))
    assert len(transport.requests) == 1


def test_a_write_is_never_sent_again_by_itself() -> None:
    transport = Scripted(refusal(503, "UNAVAILABLE"), answer({}))
    with pytest.raises(CloudUnavailable):
        _ask(transport, "POST", retry=Retry(attempts=3))
    assert len(transport.requests) == 1


def test_the_server_says_how_long_to_wait() -> None:
    transport = Scripted(refusal(429, "RESOURCE_EXHAUSTED", retry_after="30"), answer({}))

    async def main() -> float:
        began = clock.loop_time()
        await Session(transport=transport, retry=Retry(jitter=0)).call("GET", "/v1/a")
        return clock.loop_time() - began

    assert clock.run(main(), virtual=True) == pytest.approx(30)


def test_a_token_that_was_withdrawn_is_renewed_once() -> None:
    class Renewed:
        def __init__(self) -> None:
            self.token = "old"

        async def headers(self) -> dict[str, str]:
            return {"authorization": f"Bearer {self.token}"}

        def refused(self) -> None:
            self.token = "new"

    transport = Scripted(refusal(401, "UNAUTHENTICATED"), answer({"a": 1}))
    session = Session(credentials=Renewed(), transport=transport, retry=NEVER)
    assert clock.run(session.call("POST", "/v1/a", {}), virtual=True) == {"a": 1}
    assert [each.headers["authorization"] for each in transport.requests] == ["Bearer old", "Bearer new"]


def test_one_who_is_not_known_stays_unknown() -> None:
    with pytest.raises(Unauthenticated):
        _ask(Scripted(*[refusal(401, "UNAUTHENTICATED")] * 2), credentials=Token("x"), retry=Retry(attempts=5))


@pytest.mark.parametrize("body", [b"<html>", b"[1]"])
def test_an_answer_that_is_no_object_of_json(body: bytes) -> None:
    with pytest.raises(Unreachable, match="is this a Google API"):
        _ask(Scripted(Response(200, {}, body)))


def test_a_closed_connection_is_closed() -> None:
    async def handler(*_: object) -> tuple[int, dict[str, str], bytes]:
        return 200, {}, b"{}"

    async def main() -> None:
        session = Session(transport=InProcess(handler), retry=NEVER)
        assert await session.call("GET", "/v1/a") == {}
        await session.close()
        with pytest.raises(Unreachable):
            await session.call("GET", "/v1/a")

    clock.run(main(), virtual=True)


@pytest.mark.parametrize("endpoint", ["", "container.googleapis.com", "ftp://x"])
def test_an_endpoint_must_be_an_address(endpoint: str) -> None:
    with pytest.raises(UsageError, match="is no address of an API"):
        Session(endpoint)


def test_all_errors_are_of_one_tree() -> None:
    assert issubclass(CloudError, SliceworksError)
    assert {cls.temporary for cls in (TooManyOperations, FailedPrecondition, CloudUnavailable)} == {True}
    assert not QuotaExceeded.temporary
