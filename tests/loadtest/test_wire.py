"""What servers do to connections: every end has its name, and every request ends once."""

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

from sliceworks.loadtest.generator.answers import Answer, Bytes
from sliceworks.loadtest.generator.connections import Connection
from sliceworks.loadtest.generator.wire import Wire
from sliceworks.loadtest.rows import NEVER, Failure, Record
from sliceworks.specs.load_test import Times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


class Server:
    """Answers the n-th request with the n-th script: bytes, or seconds to wait, or "end" to close; the last one again and again."""

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
            for each in script:
                if each == "end":
                    return
                if isinstance(each, float):
                    gevent.sleep(each)
                else:
                    connection.sendall(each)

    @staticmethod
    def _read(connection: Any) -> bytes | None:
        found = b""
        while b"\r\n\r\n" not in found:
            data = connection.recv(65536)
            if not data:
                return None
            found += data
        head, _, rest = found.partition(b"\r\n\r\n")
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
    """Asks, and waits."""

    def __init__(self, url: str, **fields: Any) -> None:
        self.reads: list[int] = []
        self.times = Times.model_validate({"connect": "2s", "idle": "2s", "total": "5s", **fields.pop("times", {})})
        self.wire = Wire(url, self.times, perf_counter_ns, first=self.reads.append, **fields)
        self.ends = 0

    def ask(self, body: bytes = b"") -> Record:
        record, came = Record(0, perf_counter_ns(), 0), Event()

        def ended(_: Answer) -> None:
            self.ends += 1
            came.set()

        self.wire.send(b"POST /x HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body), Bytes(record), ended)
        assert came.wait(20)
        gevent.sleep(0.005)
        return record


@pytest.fixture
def made() -> Iterator[list[Any]]:
    """What is to be closed in the end."""
    things: list[Any] = []
    yield things
    for each in reversed(things):
        each.wire.close() if isinstance(each, Client) else each.stop()


def both(made: list[Any], *scripts: list[Any], **fields: Any) -> tuple[Server, Client]:
    server = Server(*scripts)
    client = Client(server.url, **fields)
    made += [server, client]
    return server, client


def test_a_connection_is_used_again_and_moments_are_in_order(made: list[Any]) -> None:
    server, client = both(made, [OK])
    records = [client.ask() for _ in range(3)]
    assert server.connections == 1
    for each in records:
        assert (each.status, each.failure, each.bytes_in) == (200, Failure.NONE, len(OK))
        assert each.intended <= each.sent < each.first_byte <= each.ended


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
def test_every_end_has_its_name(made: list[Any], script: list[Any], failure: Failure) -> None:
    _, client = both(made, script)
    record = client.ask()
    assert record.failure is failure
    assert record.ended >= record.sent != NEVER
    assert client.ends == 1


def test_time_runs_out_for_a_piece_and_for_the_whole(made: list[Any]) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    piece = b"1\r\nx\r\n"
    _, client = both(made, [head, 3.0], [head, *([0.1, piece] * 30)], times={"idle": "400ms", "total": "1s"})
    assert client.ask().failure is Failure.IDLE_TIMEOUT
    assert client.ask().failure is Failure.TOTAL_TIMEOUT
    assert client.ends == 2


def test_nobody_there() -> None:
    server = Server([OK])
    server.stop()
    client = Client(server.url)
    record = client.ask()
    client.wire.close()
    assert (record.failure, record.sent, client.ends) == (Failure.CONNECT, NEVER, 1)


def test_a_connection_that_the_server_ended_is_not_used_again(made: list[Any]) -> None:
    server, client = both(made, [OK, "end"], [OK])
    assert [client.ask().failure for _ in range(2)] == [Failure.NONE, Failure.NONE]
    assert server.connections == 2


def test_more_than_was_asked_for_is_not_taken_for_the_next_answer(made: list[Any]) -> None:
    server, client = both(made, [OK + OK], [OK])
    assert client.ask().bytes_in == 2 * len(OK)
    assert client.ask().bytes_in == len(OK)
    assert server.connections == 2


def test_a_request_that_does_not_fit_at_once(made: list[Any]) -> None:
    server, client = both(made, [OK])
    body = bytes(range(256)) * 40_000
    assert client.ask(body).failure is Failure.NONE
    assert server.requests == [body]


def test_a_request_that_leaves_slowly_is_not_taken_for_idle() -> None:
    one, other = socket.socketpair()
    now, ends = 1, list[Answer]()
    connection = Connection(one, lambda: now, lambda _: None, lambda _: None)
    connection.send(bytes(10_000_000), Bytes(Record(0, 0, 0)), ends.append)
    assert (connection.began, connection.moment) == (1, 1)
    now = 2
    for _ in range(100):
        assert other.recv(65536)
    assert (connection.began, connection.moment, ends) == (1, 2, [])
    connection.close()
    other.close()


def until(true: Callable[[], bool]) -> None:
    with gevent.Timeout(20):
        while not true():
            gevent.sleep(0.002)


def test_what_is_due_goes_before_what_has_come_is_read(made: list[Any]) -> None:
    _, client = both(made, [OK])
    seen: list[int] = []
    record = Record(0, 0, 0)
    client.wire._first = lambda _: seen.append(record.status)
    came = Event()
    client.wire.send(b"POST /x HTTP/1.1\r\nContent-Length: 0\r\n\r\n", Bytes(record), lambda _: came.set())
    assert came.wait(20)
    assert seen == [0]
    assert record.status == 200


def test_connections_are_open_before_they_are_needed(made: list[Any]) -> None:
    server, client = both(made, [OK])
    client.wire.keep_ready()
    until(lambda: server.connections > 1 and not client.wire._opening)
    opened = server.connections
    client.ask()
    assert server.connections <= opened + 1


def test_the_end_of_the_test_ends_what_is_under_way(made: list[Any]) -> None:
    _, client = both(made, [5.0])
    record, ends = Record(0, 0, 0), list[Record]()
    client.wire.send(b"POST /x HTTP/1.1\r\nContent-Length: 0\r\n\r\n", Bytes(record), lambda answer: ends.append(answer.record))
    until(lambda: bool(client.wire._busy))
    client.wire.close()
    until(lambda: bool(ends))
    assert ends == [record]
    assert record.failure is Failure.INTERRUPTED


def test_over_a_secure_connection(made: list[Any], tmp_path: Path) -> None:
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
    made += [server, trusting, strange]
    body = bytes(1_000_000)
    for _ in range(2):
        record = trusting.ask(body)
        assert (record.failure, record.bytes_in) == (Failure.NONE, len(answer))
    assert server.connections == 1
    assert server.requests == [body, body]
    assert strange.ask().failure is Failure.TLS
