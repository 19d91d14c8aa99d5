"""What a client of exec, attach and port-forward can make the twin keep, or compute in one turn of the event loop."""

from __future__ import annotations

import asyncio
import gc
import struct
import zlib
from typing import TYPE_CHECKING

import pytest

from sliceworks.base import clock
from sliceworks.base.errors import BadRequest
from sliceworks.twin.apiserver.handlers import connect
from sliceworks.twin.apiserver.streaming import port_forward, remote_command
from sliceworks.twin.apiserver.streaming.remote_command import StreamOptions
from sliceworks.twin.apiserver.streaming.spdy import SpdyConnection, SpdyError, SpdyStream
from sliceworks.twin.apiserver.streaming.spdy_dictionary import DICTIONARY
from sliceworks.twin.apiserver.streaming.websocket import WebSocket

if TYPE_CHECKING:
    from collections.abc import Mapping

HEADERS = {"upgrade": "SPDY/3.1", "x-stream-protocol-version": "portforward.k8s.io"}
RESET = struct.pack(">I", 0x80030003)


class Pipe:
    """A connection whose client sends what `queue` yields, and stays connected until it has sent no bytes."""

    def __init__(self, *data: bytes) -> None:
        self.queue: asyncio.Queue[bytes] = asyncio.Queue()
        self.written: list[bytes] = []
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        for part in data:
            self.queue.put_nowait(part)

    async def read(self) -> bytes:
        return await self.queue.get()

    async def write(self, data: bytes) -> None:
        self.written.append(data)

    def open(self, number: int, fields: list[tuple[bytes, bytes]]) -> bytes:
        """A SYN_STREAM frame."""
        pairs = b"".join(struct.pack(">I", len(part)) + part for pair in fields for part in pair)
        block = self._deflate.compress(struct.pack(">I", len(fields)) + pairs) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return frame(0x80030001, struct.pack(">IIH", number, 0, 0) + block)

    def open_named(self, number: int, headers: Mapping[str, str]) -> bytes:
        return self.open(number, [(name.encode(), value.encode()) for name, value in headers.items()])

    def resets(self) -> int:
        return sum(data.startswith(RESET) for data in self.written)


def frame(number: int, body: bytes) -> bytes:
    return struct.pack(">IBBH", number, 0, len(body) >> 16, len(body) & 0xFFFF) + body


async def idle() -> None:
    """Run until only timers are left."""
    await clock.sleep(0.001)


async def forward_nothing(port: int) -> tuple[str, int]:
    raise OSError("not reachable")


def start_forwarding(pipe: Pipe) -> asyncio.Future[None]:
    response = port_forward.respond("POST", HEADERS, (), forward_nothing)
    assert response.upgrade is not None
    return asyncio.ensure_future(response.upgrade(pipe))


@pytest.mark.parametrize(
    "fields",
    [[(b"", b"")] * 4000, [(b"name", b"x" * 60_000)], [(b"streamtype", b"data")] * 65],
    ids=["empty fields", "long value", "many fields"],
)
def test_headers_that_expand_end_the_connection(fields: list[tuple[bytes, bytes]]) -> None:
    """A frame of a hundred bytes becomes thousands of headers, or megabytes in a few frames."""

    async def main() -> None:
        pipe = Pipe()
        pipe.queue.put_nowait(pipe.open(1, fields))
        with pytest.raises(SpdyError, match="headers"):
            async for _ in SpdyConnection(pipe).streams():
                pass

    clock.run(main(), virtual=True)


def test_data_that_no_stream_reads_is_limited_per_connection() -> None:
    async def main() -> None:
        pipe = Pipe()
        connection = SpdyConnection(pipe)
        streams: list[SpdyStream] = []

        async def accept() -> None:
            async for stream in connection.streams():
                streams.append(stream)  # noqa: PERF401 - one after the other

        accepting = asyncio.create_task(accept())
        for number in range(1, 101, 2):
            pipe.queue.put_nowait(pipe.open_named(number, {"streamtype": "data"}))
            pipe.queue.put_nowait(frame(number, b"x" * 1_000_000))
        await idle()
        assert 8 << 20 < connection.buffered < 10 << 20
        assert pipe.queue.qsize() > 50, "the client waits"
        assert len(await streams[0].read()) == 1_000_000
        await streams[1].close()
        await streams[2].reset()
        await idle()
        assert 8 << 20 < connection.buffered < 10 << 20
        assert len(streams) == 10 + 3
        accepting.cancel()

    clock.run(main(), virtual=True)


def test_incomplete_pairs_are_limited_and_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams of which a client never opens the second one, and that it resets again."""
    monkeypatch.setattr(port_forward, "_MAX_INCOMPLETE", 5)

    async def main() -> None:
        pipe = Pipe()
        serving = start_forwarding(pipe)
        for number in range(1, 21, 2):
            pipe.queue.put_nowait(pipe.open_named(number, {"streamtype": "error", "port": "80", "requestid": str(number)}))
            pipe.queue.put_nowait(frame(0x80030003, struct.pack(">II", number, 5)))
        await idle()
        assert pipe.resets() == 5
        await clock.sleep(31)
        assert pipe.resets() == 10
        for number, kind in ((21, "error"), (23, "data")):
            pipe.queue.put_nowait(pipe.open_named(number, {"streamtype": kind, "port": "80", "requestid": "r"}))
        await idle()
        assert any(b"error forwarding port 80 to pod: not reachable" in data for data in pipe.written)
        pipe.queue.put_nowait(b"")
        await serving

    clock.run(main(), virtual=True)


def test_rejected_streams_are_not_remembered() -> None:
    async def main() -> None:
        pipe, forwarder = Pipe(), port_forward._Forwarder(forward_nothing)
        serving = asyncio.create_task(forwarder.serve(pipe))
        for number in range(1, 401, 2):
            pipe.queue.put_nowait(pipe.open_named(number, {"streamtype": "other", "port": "80", "requestid": f"{number}"}))
        await idle()
        assert pipe.resets() == 200
        assert forwarder._incomplete == {}
        pipe.queue.put_nowait(b"")
        await serving

    clock.run(main(), virtual=True)


def test_empty_fragments_of_a_message_are_not_kept() -> None:
    async def main() -> None:
        first, empty, last = (
            bytes((head, 0x80 | len(data), 0, 0, 0, 0)) + data for head, data in ((2, b"a"), (0, b""), (0x80, b"b"))
        )
        pipe = Pipe(first + empty * 10_000)
        socket = WebSocket(pipe)
        receiving = asyncio.create_task(socket.receive())
        await idle()
        assert socket._parts == [b"a"]
        pipe.queue.put_nowait(last)
        assert await receiving == b"ab"

    clock.run(main(), virtual=True)


@pytest.mark.parametrize("port", ["65536", "9" * 5000])
def test_port_of_a_proxy_request_is_limited(port: str) -> None:
    """Python does not convert thousands of digits to a number."""
    with pytest.raises(BadRequest, match="must be at most 65535"):
        connect._pod_port({"spec": {"containers": []}}, port)


class EndlessSession:
    """A command that runs until it is killed, without output."""

    async def write_input(self, data: bytes) -> None:
        raise AssertionError(data)

    async def read_output(self, channel: int) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError(channel)

    def resize(self, columns: int, rows: int) -> None:
        raise AssertionError(columns, rows)

    async def wait(self) -> int:
        await asyncio.Event().wait()
        return 0

    async def close(self) -> None:
        await asyncio.sleep(1)


def test_session_that_is_cancelled_twice_logs_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """The server cancels a session whose client has left; the session may just be closing."""

    async def main() -> None:
        pipe = Pipe()
        key = {"sec-websocket-key": "eA==", "sec-websocket-version": "13", "sec-websocket-protocol": "v5.channel.k8s.io"}
        headers = {"upgrade": "websocket", "connection": "upgrade", **key}

        async def open_session() -> EndlessSession:
            return EndlessSession()

        response = remote_command.respond("GET", headers, StreamOptions(stdout=True), open_session)
        assert response.upgrade is not None
        task = asyncio.ensure_future(response.upgrade(pipe))
        for _ in range(2):
            await asyncio.sleep(0.1)
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(2)
        gc.collect()

    clock.run(main(), virtual=True)
    assert not caplog.records
