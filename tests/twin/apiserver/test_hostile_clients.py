"""Clients that send oversized, malformed or incomplete requests."""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.twin_server import Client, Running, echo, refused, serving

from sliceworks.base.errors import Unauthorized
from sliceworks.twin.apiserver.http_server import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.base.transport import Request
    from sliceworks.twin.apiserver.auth import certificates
    from sliceworks.twin.apiserver.auth.authentication import User

pytestmark = pytest.mark.usefixtures("silence")

BODY = 1_000_000
LIMITS = Limits(body=BODY, head=64 * 1024, quiet=0.05)


@pytest.fixture(scope="module")
def running(pki: certificates.Certificates) -> Iterator[Running]:
    with serving(echo, pki, LIMITS) as running:
        yield running


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"X-Big: " + b"x" * 100_000 + b"\r\n\r\n", id="one header"),
        pytest.param(b"".join(b"X-%d: %s\r\n" % (n, b"x" * 1000) for n in range(100)) + b"\r\n", id="many headers"),
        pytest.param(b"a:\r\n" * 20_000 + b"\r\n", id="many empty headers"),
        pytest.param(b"X-Big: " + b"x" * 600_000, id="a header without end"),
    ],
)
def test_oversized_heads_are_rejected(running: Running, head: bytes) -> None:
    with running.connect() as client:
        refused(client.send(b"GET / HTTP/1.1\r\nHost: x\r\n", head).answer(), 431, "RequestHeaderFieldsTooLarge")
        assert client.gone()


def test_long_urls_are_rejected(running: Running) -> None:
    with running.connect() as client:
        refused(client.get("/" + "x" * 100_000).answer(), 431, "RequestHeaderFieldsTooLarge")


def test_oversized_trailers_are_rejected(running: Running) -> None:
    with running.connect() as client:
        client.get("/a", "Transfer-Encoding: chunked", method="POST")
        refused(client.send(b"0\r\n", b"X-Big: x\r\n" * 5_000).answer(), 431, "RequestHeaderFieldsTooLarge")


def test_body_size_limit(running: Running) -> None:
    with running.connect() as client:
        assert client.post("/a", b"x" * BODY).answer().json["body"] == BODY


@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "chunked"])
def test_client_with_an_oversized_body_gets_the_error(running: Running, chunked: bool) -> None:
    piece, pieces = b"x" * 1_000_000, 50
    with running.connect() as client:
        if chunked:
            client.get("/a", "Transfer-Encoding: chunked", method="POST")
            for _ in range(pieces):
                client.send(b"%x\r\n" % len(piece), piece, b"\r\n")
            client.send(b"0\r\n\r\n")
        else:
            client.get("/a", f"Content-Length: {pieces * len(piece)}", method="POST")
            for _ in range(pieces):
                client.send(piece)
        answer = client.answer()
        refused(answer, 413, "RequestEntityTooLarge")
        assert answer.json["message"] == f"Request entity too large: limit is {BODY}"
        assert client.gone()


def test_body_limit_applies_to_tiny_chunks(running: Running) -> None:
    with running.connect() as client:
        client.get("/a", "Transfer-Encoding: chunked", method="POST")
        client.send(b"1;" + b"x" * 5_000_000)
        client.send(b"x" * 5_000_000)
        refused(client.answer(), 413, "RequestEntityTooLarge")


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        (b"\x00\x01\x02\x03garbage\r\n\r\n", 405, "MethodNotAllowed"),
        (b"NONSENSE / HTTP/1.1\r\n\r\n", 405, "MethodNotAllowed"),
        (b"GET / HTTP/9.9\r\n\r\n", 400, "BadRequest"),
        (b"GET /\r\n\r\n", 400, "BadRequest"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "BadRequest"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n", 400, "BadRequest"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n", 400, "BadRequest"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400, "BadRequest"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "BadRequest"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "BadRequest"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400, "BadRequest"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "BadRequest"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501, "NotImplemented"),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 400, "BadRequest"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "BadRequest"),
    ],
)  # fmt: skip
def test_malformed_http_is_rejected(running: Running, text: bytes, code: int, reason: str) -> None:
    with running.connect() as client:
        refused(client.send(text).answer(), code, reason)
        assert client.gone()


def test_too_many_query_parameters_keep_the_connection(running: Running) -> None:
    with running.connect() as client:
        answer = client.get("/?" + "a&" * 300).answer()
        assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
        assert client.get("/").answer().status == 200


def test_garbage_after_a_request_is_rejected_after_its_response(running: Running) -> None:
    with running.connect() as client:
        client.get("/sleep/50").send(b"\x00garbage")
        assert client.answer().json["path"] == "/sleep/50"
        assert client.answer().status == 405


def test_client_without_tls(running: Running) -> None:
    for text in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\x00" * 500, b"\x00" * 100):
        with running.plain() as plain:
            plain.sendall(text)
            with suppress(ConnectionResetError):
                while plain.recv(1000):
                    pass
    with running.connect() as client:
        assert client.get("/").answer().status == 200


def test_clients_that_disconnect(running: Running) -> None:
    for number in range(20):
        client = running.connect()
        if number % 2:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        client.get(f"/sleep/{number}").send(b"POST /half HTTP/1.1\r\nHost")
        client.socket.close()
    running.wait(lambda: not running.server.connections)


LINES = ["GET / HTTP/1.1", "POST /a HTTP/1.1", "HEAD /stream/2 HTTP/1.0", "Host: x", "Content-Length: 5", "Connection: close", ""]
MORE = ["Transfer-Encoding: chunked", "Expect: 100-continue", "Upgrade: x\r\nConnection: upgrade", "0", "5\r\nhello"]
PIECES = [*(f"{line}\r\n".encode() for line in LINES + MORE), b"hello", b" ", b"\n", b":", b"\xff"]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(st.binary(max_size=300), st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)))
def test_random_bytes_do_not_break_the_server(running: Running, text: bytes) -> None:
    with running.connect() as client:
        client.send(text)
        client.hang_up()
        try:
            answered = client.rest()
        except (ssl.SSLError, OSError):
            answered = b""
    assert not answered or answered.startswith(b"HTTP/1.1 ")
    assert b"HTTP/1.1 500" not in answered
    with running.connect() as client:
        assert client.get("/").answer().status == 200


def trickle(client: Client, text: bytes, step: int) -> None:
    for at in range(0, len(text), step):
        client.send(text[at : at + step])
        time.sleep(0.01)


class TestDeadlines:
    """Timeouts of slow clients, with short limits."""

    LIMITS = Limits(request=0.2, idle=0.3, stalled=0.2, discard=0.3, quiet=0.05, sweep=0.02)

    @pytest.fixture(scope="class")
    @classmethod
    def running(cls, pki: certificates.Certificates) -> Iterator[Running]:
        with serving(echo, pki, cls.LIMITS) as running:
            yield running

    @pytest.mark.parametrize(
        "text",
        [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-A: ", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"],
    )
    def test_incomplete_request_times_out(self, running: Running, text: bytes) -> None:
        with running.connect() as client:
            started = time.monotonic()
            assert client.send(text).gone()
            assert 0.1 < time.monotonic() - started < Limits().request

    def test_slow_request_times_out(self, running: Running) -> None:
        with running.connect() as client, pytest.raises((OSError, ssl.SSLError)):
            trickle(client, b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: " + b"x" * 10_000, 1)

    def test_idle_connection_is_closed(self, running: Running) -> None:
        with running.connect() as client:
            assert client.get("/").answer().status == 200
            assert client.gone()

    def test_handler_has_no_timeout(self, running: Running) -> None:
        with running.connect() as client:
            assert client.get("/sleep/600").answer().status == 200

    def test_incomplete_pipelined_request_does_not_cancel_the_running_one(self, running: Running) -> None:
        with running.connect() as client:
            client.get("/sleep/600").send(b"GET /half HTTP/1.1\r\n")
            assert client.answer().status == 200
            assert client.gone()

    def test_tls_handshake_times_out(self, pki: certificates.Certificates) -> None:
        with serving(echo, pki, Limits(handshake=0.2)) as running, running.plain() as plain:
            assert plain.recv(1) == b""

    def test_client_that_does_not_read_is_disconnected(self, running: Running) -> None:
        with running.connect() as client:
            client.get("/bytes/100000000")
            running.wait(lambda: not running.server.connections)

    def test_rejected_client_that_keeps_sending_is_disconnected(self, running: Running) -> None:
        with running.connect() as client:
            with pytest.raises((OSError, ssl.SSLError)):
                trickle(client, b"\xff" * 10_000_000, 10_000)
            running.wait(lambda: not running.server.connections)


def test_large_body_of_an_unauthorized_client_is_not_read(pki: certificates.Certificates) -> None:
    """The response comes before the body: anonymous connections cannot fill the memory."""

    def admit(request: Request, user: User | None) -> None:
        if request.headers.get("authorization") != "Bearer good":
            raise Unauthorized("Unauthorized")

    with serving(echo, pki, LIMITS, admit) as running:
        for framing in ("Content-Length: 900000", "Transfer-Encoding: chunked"):
            with running.connect() as client:
                refused(client.get("/a", framing, method="POST").answer(), 401, "Unauthorized")
                assert client.gone()
        with running.connect() as client:
            assert client.post("/a", b"x" * 900_000, "Authorization: Bearer good").answer().status == 200


def test_connections_beyond_the_limit_are_told_to_retry(pki: certificates.Certificates) -> None:
    with serving(echo, pki, replace(LIMITS, connections=2)) as running:
        with running.connect() as one, running.connect() as two:
            assert one.get("/a").answer().status == two.get("/a").answer().status == 200
            with running.connect() as three:
                answer = three.get("/a").answer()
                refused(answer, 429, "TooManyRequests")
                assert answer.headers["retry-after"] == "1"
                assert three.gone()
            assert one.get("/a").answer().status == 200
        running.wait(lambda: not running.server.connections)
        with running.connect() as four:
            assert four.get("/a").answer().status == 200


def test_unused_connections_make_room_for_new_clients(pki: certificates.Certificates) -> None:
    """Anonymous connections that never send a request cannot keep other clients out."""
    with serving(echo, pki, replace(LIMITS, connections=3)) as running, running.connect() as used:
        assert used.get("/a").answer().status == 200
        with running.connect() as silent, running.connect() as slow:
            slow.send(b"GET /a HTTP/1.1\r\n")
            for _ in range(4):
                with running.connect() as client:
                    assert client.get("/a").answer().status == 200
            assert silent.gone()
        assert used.get("/a").answer().status == 200
