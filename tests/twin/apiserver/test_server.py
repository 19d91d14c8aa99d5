"""HTTP/1.1 behaviour of the server, on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.twin_server import Running, echo, refused, serving

from sliceworks.twin.apiserver.auth import certificates
from sliceworks.twin.apiserver.http_server import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("silence")

BODY = 1_000_000
LIMITS = Limits(body=BODY, head=64 * 1024, quiet=0.05)


@pytest.fixture(scope="module")
def running(pki: certificates.Certificates) -> Iterator[Running]:
    with serving(echo, pki, LIMITS) as running:
        yield running


def test_connection_is_kept_alive(running: Running) -> None:
    with running.connect() as client:
        for number in range(3):
            answer = client.get(f"/{number}").answer()
            assert (answer.status, answer.json["path"]) == (200, f"/{number}")
            assert "connection" not in answer.headers
            assert {"audit-id", "date", "content-type", "content-length"} == set(answer.headers)


def test_every_response_has_a_unique_audit_id(running: Running) -> None:
    with running.connect() as client:
        first, second = (client.get("/").answer().headers["audit-id"] for _ in range(2))
    assert len(first) == 36
    assert first != second


def test_connection_close_header(running: Running) -> None:
    with running.connect() as client:
        answer = client.get("/", "Connection: close").answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert client.gone()


def test_pipelined_requests_get_responses_in_order(running: Running) -> None:
    with running.connect() as client:
        paths = [f"/sleep/{60 - number}" if number % 20 == 0 else f"/{number}" for number in range(60)]
        client.send(*(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for path in paths))
        assert [client.answer().json["path"] for _ in paths] == paths


def test_pipelining_is_limited(running: Running) -> None:
    with running.connect() as client:
        request = b"GET /%d HTTP/1.1\r\nHost: x\r\nX-Padding: " + b"x" * 8000 + b"\r\n\r\n"
        client.get("/sleep/5000")
        client.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.send(*(request % number for number in range(10_000)))
        waiting = max(len(connection._pending) for connection in running.server.connections)
        assert waiting < LIMITS.ahead + 256 * 1024 // len(request) + 2


def test_chunked_bodies(running: Running) -> None:
    with running.connect() as client:
        client.get("/a", "Transfer-Encoding: chunked", method="POST")
        client.send(b"5\r\nhello\r\n", b"3;ext=1\r\n...\r\n", b"0\r\n", b"Authorization: Bearer x\r\nX-Trailer: 1\r\n\r\n")
        answer = client.answer()
        assert (answer.json["method"], answer.json["body"]) == ("POST", 8)
        assert "x-trailer" not in answer.json["headers"]
        assert "authorization" not in answer.json["headers"]
        assert client.get("/b").answer().json["path"] == "/b"


def test_body_received_byte_by_byte(running: Running) -> None:
    with running.connect() as client:
        for byte in b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc":
            client.send(bytes([byte]))
        assert client.answer().json["body"] == 3


def test_expect_continue(running: Running) -> None:
    with running.connect() as client:
        client.get("/a", "Expect: 100-continue", "Content-Length: 3", method="POST")
        assert client.head().status == 100
        assert client.send(b"abc").answer().json["body"] == 3
        client.get("/a", "Expect: 100-continue", f"Content-Length: {BODY + 1}", method="POST")
        refused(client.answer(), 413, "RequestEntityTooLarge")
        assert client.gone()


def test_interim_response_keeps_the_order(running: Running) -> None:
    with running.connect() as client:
        client.get("/sleep/50").get("/a", "Expect: 100-continue", "Content-Length: 3", method="POST").send(b"abc")
        assert client.answer().json["path"] == "/sleep/50"
        assert client.answer().json["body"] == 3


def test_head_has_no_body(running: Running) -> None:
    with running.connect() as client:
        answer = client.get("/bytes/100", method="HEAD").answer(body=False)
        assert answer.headers["content-length"] == "100"
        client.get("/stream/3", method="HEAD").answer(body=False)
        assert client.get("/next").answer().json["path"] == "/next"


def test_http_1_0(running: Running) -> None:
    with running.connect() as client:
        assert client.get("/a", version="1.0").answer().json["path"] == "/a"
        assert client.gone()
    with running.connect() as client:
        answer = client.get("/stream/3", version="1.0").answer()
        assert "transfer-encoding" not in answer.headers
        assert answer.body == b"0\n1\n2\n"


def test_streamed_response(running: Running) -> None:
    with running.connect() as client:
        assert client.get("/stream/3").answer().body == b"0\n1\n2\n"
        assert client.get("/next").answer().json["path"] == "/next"


@pytest.mark.parametrize("status", [204, 304])
def test_responses_without_content_length(running: Running, status: int) -> None:
    with running.connect() as client:
        assert "content-length" not in client.get(f"/status/{status}").answer().headers
        assert client.get("/next").answer().json["path"] == "/next"


@pytest.mark.parametrize("size", [1, 65_535, 65_536, 262_144, 262_145, 30_000_000])
def test_response_sizes(running: Running, size: int) -> None:
    with running.connect() as client:
        answer = client.get(f"/bytes/{size}").answer()
        assert len(answer.body) == size
        assert client.get("/next").answer().json["path"] == "/next"


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("https://localhost:6443/api/v1?a=b", "/api/v1", [["a", "b"]]),
        ("https://localhost", "/", []),
        ("/a%2Fb/%C3%A9?x=%26%3D&y=1+2&z", "/a%2Fb/%C3%A9", [["x", "&="], ["y", "1 2"], ["z", ""]]),
        ("//double//slash/", "//double//slash/", []),
        ("/?labelSelector=a%20in%20(b%2Cc)&labelSelector=d", "/", [["labelSelector", "a in (b,c)"], ["labelSelector", "d"]]),
    ],
)
def test_request_targets(running: Running, target: str, path: str, query: list[list[str]]) -> None:
    with running.connect() as client:
        seen = client.get(target).answer().json
        assert (seen["path"], seen["query"]) == (path, query)


def test_headers(running: Running) -> None:
    with running.connect() as client:
        client.get("/", "X-A: 1", "x-a:   2  ", "Impersonate-Group: a, b", "impersonate-group: c", "X-Empty:", "X-Text: caf\xe9")
        seen = client.answer().json["headers"]
    assert seen["x-a"] == "1, 2"
    assert seen["impersonate-group"] == "a, b\nc"
    assert seen["x-empty"] == ""


def test_header_values_cannot_inject_headers(running: Running) -> None:
    with running.connect() as client:
        answer = client.get("/header").answer()
        assert answer.headers["warning"] == '299 - "one"\n299 - "two x-evil: 1"'
        assert "x-evil" not in answer.headers


def test_client_certificates(running: Running, pki: certificates.Certificates, tmp_path: Path) -> None:
    (tmp_path / "client.pem").write_text(certificates.client_certificate(pki, "jane", ["dev", "ops"]))
    with running.connect(str(tmp_path / "client.pem")) as client:
        assert client.get("/").answer().json["user"] == ["jane", "dev", "ops", "system:authenticated"]
    with running.connect() as client:
        assert client.get("/").answer().json["user"] is None


def test_upgrade_requests_are_not_upgraded(running: Running) -> None:
    with running.connect() as client:
        client.get("/a", "Connection: Upgrade", "Upgrade: websocket").send(b"\x00\x01garbage")
        answer = client.answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert client.gone()


@pytest.mark.parametrize("size", [5, 300_000])
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("apart", [False, True])
def test_body_of_an_upgrade_request_is_read(running: Running, size: int, *, chunked: bool, apart: bool) -> None:
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    head = f"POST /a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n{framing}\r\n\r\n".encode()
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (size, b"x" * size) if chunked else b"x" * size
    with running.connect() as client:
        for piece in (head, body) if apart else (head + body,):
            client.send(piece)
        answer = client.answer()
        assert (answer.json["body"], answer.headers["connection"]) == (size, "close")
        assert client.gone()


def test_http_1_0_connection_is_closed(running: Running) -> None:
    with running.connect() as client:
        answer = client.get("/a", "Connection: keep-alive", version="1.0").answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert client.gone()
