"""Watches over HTTP: clients that disconnect or do not read, and the shutdown of the server."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support.stores import obj
from tests.support.twin_server import Running, echo, serving

from sliceworks.twin.apiserver.http_server import Limits
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.store.store import Store
from sliceworks.twin.store.watch_cache import HistoryWindow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.twin_server import Client

    from sliceworks.base.transport import Request, Response
    from sliceworks.twin.apiserver.auth import certificates
    from sliceworks.twin.apiserver.auth.authentication import User

MAPS = "/api/v1/namespaces/default/configmaps"
KEY = "/configmaps"


class Twin:
    """A cluster behind a server."""

    def __init__(self, running: Running, cluster: Cluster) -> None:
        self.running, self.cluster, self.store = running, cluster, cluster.store

    def get(self, path: str, *headers: str) -> Client:
        return self.running.connect().get(path, f"Authorization: Bearer {self.cluster.token}", *headers)

    def watch(self, options: str = "") -> Client:
        client = self.get(f"{MAPS}?watch=1&resourceVersion={self.store.announced}{options}")
        assert client.head().status == 200
        return client

    def write(self, name: str, value: Any = None) -> None:
        async def write() -> None:
            self.store.put(KEY, "default", name, {"kind": "ConfigMap", "apiVersion": "v1", **obj(f"default/{name}", value)})

        self.running.inside(write())

    def wait(self, watchers: int) -> None:
        self.running.wait(lambda: self.store.watchers(KEY) == watchers)


@contextmanager
def twin(pki: certificates.Certificates, limits: Limits | None = None, window: HistoryWindow | None = None) -> Iterator[Twin]:
    cluster: list[Cluster] = []

    async def handle(request: Request, user: User | None) -> Response:
        return await cluster[0].api.handle(request, user)

    async def start() -> None:
        cluster.append(Cluster(Store(window=window), ca="the authority"))
        await cluster[0].__aenter__()

    with serving(handle, pki, limits) as running:
        running.inside(start())
        yield Twin(running, cluster[0])
        running.inside(running.server.stop())
        running.inside(cluster[0].__aexit__())


@pytest.fixture(scope="module")
def shared(pki: certificates.Certificates) -> Iterator[Twin]:
    with twin(pki, Limits(stalled=0.3, sweep=0.02)) as shared:
        yield shared


@pytest.fixture
def patient(pki: certificates.Certificates) -> Iterator[Twin]:
    """A twin with the usual limits: a client may be slow because the machine is busy."""
    with twin(pki) as patient:
        yield patient


@pytest.mark.usefixtures("silence")
class TestWatches:
    """The life of a watch."""

    def test_changes_are_sent_at_once(self, shared: Twin) -> None:
        with shared.watch() as client:
            for number in range(3):
                shared.write("x", number)
                event = orjson.loads(client.chunk())
                assert event["object"]["value"] == number
        shared.wait(0)

    @pytest.mark.parametrize("how", ["closed", "reset", "half closed"])
    def test_disconnect_closes_the_watch(self, shared: Twin, how: str) -> None:
        client = shared.watch()
        shared.wait(1)
        if how == "half closed":
            client.hang_up()
        else:
            if how == "reset":
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            client.socket.close()
        shared.wait(0)
        client.socket.close()

    def test_disconnect_during_an_event(self, shared: Twin) -> None:
        clients = [shared.watch() for _ in range(20)]
        shared.wait(20)
        for number, client in enumerate(clients):
            shared.write("x", "y" * 50_000 * (number % 3))
            client.socket.close()
            shared.write("x", number)
        shared.wait(0)

    def test_disconnect_with_a_pipelined_request(self, shared: Twin) -> None:
        head = f"Host: x\r\nAuthorization: Bearer {shared.cluster.token}\r\n\r\n"
        for more in (1, 15, 16, 17, 40):
            with shared.running.connect() as client:
                client.send(f"GET {MAPS}?watch=1&resourceVersion=1 HTTP/1.1\r\n{head}".encode())
                client.send(*[f"GET /version HTTP/1.1\r\n{head}".encode()] * more)
                assert client.head().status == 200
            shared.wait(0)

    def test_watch_timeout_keeps_the_connection(self, shared: Twin) -> None:
        with shared.watch("&timeoutSeconds=1") as client:
            assert client.chunk() == b""
            client.get("/version", f"Authorization: Bearer {shared.cluster.token}")
            assert client.answer().json["minor"] == "35"

    def test_client_that_does_not_read_is_disconnected(self, pki: certificates.Certificates) -> None:
        with twin(pki, Limits(stalled=0.3, sweep=0.02), HistoryWindow(changes=100)) as small:
            deaf, well = small.watch(), small.watch()
            deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            received: list[bytes] = []
            ear = threading.Thread(target=lambda: received.extend(iter(well.line, b"")))
            ear.start()
            small.wait(2)
            watches = small.store._cache(KEY).watches._all()
            for number in range(3_000):
                small.write("x", f"{number} " + "y" * 5_000)
                assert all(len(watch.changes) <= 126 for watch in watches)
                if small.store.watchers(KEY) == 1:
                    break
            else:
                small.wait(1)
            small.write("x", "the end")
            small.running.wait(lambda: received and b"the end" in b"".join(received[-5:]))
            well.hang_up()
            ear.join(120)
            small.wait(0)
            deaf.socket.close()
            well.socket.close()

    def test_a_thousand_watches(self, patient: Twin) -> None:
        count, received = 1_000, 0
        port, tls = patient.running.port, ssl.create_default_context(cadata=patient.running.made.authority())
        request = f"GET {MAPS}?watch=1&resourceVersion={patient.store.announced} HTTP/1.1\r\nHost: x\r\n"
        request += f"Authorization: Bearer {patient.cluster.token}\r\n\r\n"

        async def listen() -> asyncio.StreamReader:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname="localhost")
            writers.append(writer)
            writer.write(request.encode())
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            await reader.readuntil(b"\r\n\r\n")
            return reader

        async def main() -> None:
            nonlocal received
            readers: list[asyncio.StreamReader] = []
            try:
                # A few at a time: the server limits how long a TLS handshake may take.
                for _ in range(0, count, 10):
                    readers += await asyncio.gather(*(listen() for _ in range(10)))
                assert patient.store.watchers(KEY) == count
                await asyncio.to_thread(patient.write, "x", "for all")
                for reader in readers:
                    await reader.readline()
                    received += b"for all" in await reader.readline()
            finally:
                for writer in writers:
                    writer.transport.abort()

        writers: list[asyncio.StreamWriter] = []
        asyncio.run(main())
        assert received == count
        patient.wait(0)


@pytest.mark.usefixtures("silence")
class TestStop:
    """Graceful shutdown."""

    def test_watches_end_normally(self, pki: certificates.Certificates) -> None:
        with twin(pki) as ending:
            clients = [ending.watch() for _ in range(10)]
            ending.wait(10)
            ending.running.inside(ending.running.server.stop())
            for client in clients:
                assert client.rest() == b"0\r\n\r\n"
                client.socket.close()
            assert ending.store.watchers(KEY) == 0
            assert not ending.running.server.connections

    def test_running_requests_complete_and_new_ones_are_rejected(self, pki: certificates.Certificates) -> None:
        with serving(echo, pki) as running:
            busy, idle = running.connect().get("/sleep/300").get("/never"), running.connect()
            idle.get("/").answer()
            running.wait(lambda: len(running.server.connections) == 2 and any(c._task for c in running.server.connections))
            running.inside(running.server.stop())
            answer = busy.answer()
            assert (answer.json["path"], answer.headers["connection"]) == ("/sleep/300", "close")
            assert busy.gone()
            assert idle.gone()
            with pytest.raises(ConnectionRefusedError):
                running.connect()
            busy.socket.close()
            idle.socket.close()

    def test_shutdown_has_a_grace_period(self, pki: certificates.Certificates) -> None:
        with serving(echo, pki, Limits(grace=0.1)) as running:
            slow, deaf = running.connect().get("/sleep/60000"), running.connect().get("/bytes/100000000")
            running.wait(lambda: sum(1 for c in running.server.connections if c._task) == 2)
            running.inside(running.server.stop())
            assert not running.server.connections
            assert slow.gone()
            slow.socket.close()
            deaf.socket.close()

    def test_shutdown_leaves_no_tasks(self, pki: certificates.Certificates) -> None:
        with serving(echo, pki) as running:
            for _ in range(5):
                with running.connect() as client:
                    client.get("/").answer()

            async def left() -> int:
                return len(asyncio.all_tasks() - {asyncio.current_task()})

            running.inside(running.server.stop())
            running.wait(lambda: running.inside(left()) == 1)  # the task that holds the server


def test_log_contains_no_secrets(shared: Twin, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(call: Any) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(shared.cluster.api_server.reader, "get", broken)
    monkeypatch.setattr(shared.cluster.api_server.writer, "create", broken)
    with caplog.at_level(logging.DEBUG), shared.get(f"{MAPS}/x?labelSelector=query-secret", "X-Note: header-secret") as client:
        assert client.answer().status == 500
        client.post(MAPS, b'{"data":"body-secret"}', f"Authorization: Bearer {shared.cluster.token}")
        answer = client.answer()
        client.get(MAPS, "Authorization: Bearer wrong-secret").answer()
        client.send(b"GET /path HTTP/1.1\r\nbad bytes-secret\r\n\r\n").answer()
    assert (answer.status, answer.json["reason"]) == (500, "InternalError")
    assert "a fault" not in answer.json["message"]
    assert caplog.text.count("RuntimeError: a fault of ours") == 2
    assert "secret" not in caplog.text
    assert shared.cluster.token not in caplog.text


def test_failing_handler_gets_an_internal_error(pki: certificates.Certificates, caplog: pytest.LogCaptureFixture) -> None:
    async def fails(request: Request, user: User | None) -> Response:
        if request.path == "/fail":
            raise RuntimeError("a fault of ours")
        return await echo(request, user)

    with serving(fails, pki) as running, running.connect() as other:
        with running.connect() as client:
            answer = client.get("/fail?token=secret").answer()
            assert (answer.status, answer.json["reason"]) == (500, "InternalError")
            assert "a fault" not in answer.json["message"]
        assert other.get("/").answer().status == 200
    assert "request handler failed" in caplog.text
    assert "secret" not in caplog.text


def test_large_events_are_not_copied_for_clients_that_do_not_read(pki: certificates.Certificates) -> None:
    """Each of many idle clients costs a slice of the event, not the event. The event is larger than the buffers of a socket."""
    with twin(pki) as running, ExitStack() as stack:
        running.write("large", "x" * 20_000_000)
        clients = [
            stack.enter_context(running.get(f"{MAPS}?watch=1{since}")) for since in ("", "&resourceVersion=1") for _ in range(3)
        ]
        running.wait(6)
        connections = running.running.server.connections
        running.running.wait(lambda: all(connection.is_backlogged for connection in connections))
        sizes = [connection._transport.get_write_buffer_size() for connection in connections]
        assert len(sizes) == 6
        assert max(sizes) < 1_000_000
        for client in (clients[0], clients[-1]):
            assert client.head().status == 200
            received = bytearray()
            while len(received) < 20_000_000 or not received.endswith(b"\n"):
                received += client.chunk()
            event = orjson.loads(received.splitlines()[-1])
            assert (event["type"], len(event["object"]["value"])) == ("ADDED", 20_000_000)
