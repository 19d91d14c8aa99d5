"""The load generator's HTTP client: every connection failure has its name, and every request ends once."""

from __future__ import annotations

from ssl import PROTOCOL_TLS_SERVER
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import gevent
import pytest
from gevent import socket, ssl
from gevent.event import Event
from gevent.server import StreamServer
from tests.support.certificates import self_signed

from sliceworks.loadtest.generator.http_client import Connection, HttpClient
from sliceworks.loadtest.generator.response_reader import RawReader, ResponseReader
from sliceworks.loadtest.request_log import NEVER, Failure, RequestRecord
from sliceworks.specs.load_test import RequestTimeouts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


class Server:
    """Answers the n-th request with the n-th script: bytes, seconds to wait, or "end" to close; the last script repeats."""

    def __init__(self, *scripts: list[Any], **secure: Any) -> None:
        self.scripts, self.requests, self.connections = list(scripts), list[bytes](), 0
        self._server = StreamServer(("127.0.0.1", 0), self._serve, **secure)
        self._server.start()
        self.url = f"http{'s' if secure else ''}://127.0.0.1:{self._server.server_port}"

    def _serve(self, connection: Any, _address: Any) -> None:
        self.connections += 1
        while (request := self._read(connection)) is not None:
            script = self.scripts[min(len(self.requests), len(self.scripts) - 1)]
            self.requests.append(request)
            for item in script:
                if item == "end":
                    return
                if isinstance(item, float):
                    gevent.sleep(item)
                else:
                    connection.sendall(item)

    @staticmethod
    def _read(connection: Any) -> bytes | None:
        result = b""
        while b"\r\n\r\n" not in result:
            data = connection.recv(65536)
            if not data:
                return None
            result += data
        head, _, rest = result.partition(b"\r\n\r\n")
        size, body = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]), bytearray(rest)
        while len(body) < size:
            data = connection.recv(65536)
            if not data:
                return None
            body += data
        return bytes(body)

    def stop(self) -> None:
        self._server.stop(timeout=0)


class Client:
    """Sends requests and waits."""

    def __init__(self, url: str, **fields: Any) -> None:
        self.reads: list[int] = []
        self.times = RequestTimeouts.model_validate({"connect": "2s", "idle": "2s", "total": "5s", **fields.pop("times", {})})
        self.wire = HttpClient(url, self.times, perf_counter_ns, on_read=self.reads.append, **fields)
        self.ends = 0

    def send(self, body: bytes = b"") -> RequestRecord:
        record, received = RequestRecord(0, perf_counter_ns(), 0), Event()

        def ended(_: ResponseReader) -> None:
            self.ends += 1
            received.set()

        self.wire.send(b"POST /x HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body), RawReader(record), ended)
        assert received.wait(90)
        gevent.sleep(0.005)
        return record


@pytest.fixture
def to_close() -> Iterator[list[Any]]:
    """Objects to close at the end."""
    things: list[Any] = []
    yield things
    for item in reversed(things):
        item.wire.close() if isinstance(item, Client) else item.stop()


def both(to_close: list[Any], *scripts: list[Any], **fields: Any) -> tuple[Server, Client]:
    server = Server(*scripts)
    client = Client(server.url, **fields)
    to_close += [server, client]
    return server, client


def test_connection_is_reused_and_times_are_ordered(to_close: list[Any]) -> None:
    server, client = both(to_close, [OK])
    records = [client.send() for _ in range(3)]
    assert server.connections == 1
    for record in records:
        assert (record.status, record.failure, record.bytes_in) == (200, Failure.NONE, len(OK))
        assert record.intended <= record.sent < record.first_byte <= record.ended


@pytest.mark.parametrize(
    ("script", "failure"),
    [
        ([b"HTTP/1.1 100 Continue\r\n\r\n", 0.01, OK], Failure.NONE),
        ([b"HTTP/1.1 200 OK\r\n\r\nhalf", 0.01, b"whole", "end"], Failure.NONE),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "end"], Failure.CLOSED),
        ([b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nhalf", "end"], Failure.CLOSED),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", "end"], Failure.CLOSED),
        (["end"], Failure.CLOSED),
        ([b"SSH-2.0-OpenSSH_9.2\r\n"], Failure.GARBLED),
        ([b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"], Failure.STATUS),
    ],
)
def test_every_failure_has_its_name(to_close: list[Any], script: list[Any], failure: Failure) -> None:
    _, client = both(to_close, script)
    record = client.send()
    assert record.failure is failure
    assert record.ended >= record.sent != NEVER
    assert client.ends == 1


def test_chunk_and_total_timeouts(to_close: list[Any]) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"1\r\nx\r\n"
    _, client = both(to_close, [head, 3.0], [head, *([0.1, chunk] * 30)], times={"idle": "400ms", "total": "1s"})
    assert client.send().failure is Failure.IDLE_TIMEOUT
    assert client.send().failure is Failure.TOTAL_TIMEOUT
    assert client.ends == 2


def test_refused_connection() -> None:
    server = Server([OK])
    server.stop()
    client = Client(server.url)
    record = client.send()
    client.wire.close()
    assert (record.failure, record.sent, client.ends) == (Failure.CONNECT, NEVER, 1)


def test_closed_connection_is_not_reused(to_close: list[Any]) -> None:
    server, client = both(to_close, [OK, "end"], [OK])
    assert [client.send().failure for _ in range(2)] == [Failure.NONE, Failure.NONE]
    assert server.connections == 2


def test_excess_bytes_are_not_the_next_response(to_close: list[Any]) -> None:
    server, client = both(to_close, [OK + OK], [OK])
    assert client.send().bytes_in == 2 * len(OK)
    assert client.send().bytes_in == len(OK)
    assert server.connections == 2


def test_large_request_is_sent_in_parts(to_close: list[Any]) -> None:
    server, client = both(to_close, [OK])
    body = bytes(range(256)) * 40_000
    assert client.send(body).failure is Failure.NONE
    assert server.requests == [body]


def test_slow_upload_is_not_idle() -> None:
    one, other = socket.socketpair()
    now, ends = 1, list[ResponseReader]()
    connection = Connection(one, lambda: now, lambda _: None, lambda _: None)
    connection.send(bytes(10_000_000), RawReader(RequestRecord(0, 0, 0)), ends.append)
    assert (connection.started, connection.last_activity) == (1, 1)
    now = 2
    for _ in range(100):
        assert other.recv(65536)
    assert (connection.started, connection.last_activity, ends) == (1, 2, [])
    connection.close()
    other.close()


def until(true: Callable[[], bool]) -> None:
    with gevent.Timeout(20):
        while not true():
            gevent.sleep(0.002)


def test_due_requests_are_sent_before_reads(to_close: list[Any]) -> None:
    _, client = both(to_close, [OK])
    seen: list[int] = []
    record = RequestRecord(0, 0, 0)
    client.wire._on_read = lambda _: seen.append(record.status)
    received = Event()
    client.wire.send(b"POST /x HTTP/1.1\r\nContent-Length: 0\r\n\r\n", RawReader(record), lambda _: received.set())
    assert received.wait(90)
    assert seen == [0]
    assert record.status == 200


def test_connections_are_opened_in_advance(to_close: list[Any]) -> None:
    server, client = both(to_close, [OK])
    client.wire.keep_ready()
    until(lambda: server.connections > 1 and not client.wire._opening)
    opened = server.connections
    client.send()
    assert server.connections <= opened + 1


def test_end_of_the_test_ends_active_requests(to_close: list[Any]) -> None:
    _, client = both(to_close, [5.0])
    record, ends = RequestRecord(0, 0, 0), list[RequestRecord]()
    client.wire.send(b"POST /x HTTP/1.1\r\nContent-Length: 0\r\n\r\n", RawReader(record), lambda answer: ends.append(answer.record))
    until(lambda: bool(client.wire._busy))
    client.wire.close()
    until(lambda: bool(ends))
    assert ends == [record]
    assert record.failure is Failure.INTERRUPTED


def test_tls_connection(to_close: list[Any], tmp_path: Path) -> None:
    pair = self_signed()
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    for file, content in zip(files, (pair.certificate, pair.key), strict=True):
        file.write_bytes(content)
    size = 300_000
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size)
    context = ssl.SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    server = Server([answer], ssl_context=context)
    trusting, strange = Client(server.url, authority=str(files[0])), Client(server.url)
    to_close += [server, trusting, strange]
    body = bytes(1_000_000)
    for _ in range(2):
        record = trusting.send(body)
        assert (record.failure, record.bytes_in) == (Failure.NONE, len(answer))
    assert server.connections == 1
    assert server.requests == [body, body]
    assert strange.send().failure is Failure.TLS
