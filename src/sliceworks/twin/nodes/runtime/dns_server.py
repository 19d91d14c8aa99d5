"""A DNS server on loopback for pods: answers for the cluster's domain, and forwards other questions."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from sliceworks.base import clock
from sliceworks.twin.nodes.runtime.dns_zone import AAAA, A, Record, Zone, encode_name, is_cluster_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from sliceworks.twin.nodes.runtime.pod_dns import LoopbackNetworks

    Query = Callable[[bytes, str], Awaitable[bytes]]

log = logging.getLogger(__name__)
PORT = 53
_HEADER = struct.Struct("!HHHHHH")
_RESPONSE, _AUTHORITATIVE, _TRUNCATED, _RECURSION_AVAILABLE, _KEPT_FLAGS = 0x8000, 0x0400, 0x0200, 0x0080, 0x7900
_NO_ERROR, _FORMAT_ERROR, _SERVER_FAILURE, _NAME_ERROR, _NOT_IMPLEMENTED = 0, 1, 2, 3, 4
_OPERATION = 0x7800
_RECURSION_DESIRED = 0x0100
_QUESTION_NAME, _POINTER = b"\xc0\x0c", 0xC0
_ADDRESS_BYTES = {A: 4, AAAA: 16}
_INTERNET, _TTL = 1, 5
_UPSTREAM_SECONDS = 3.0
_MAX_QUESTIONS, _MAX_STREAMS, _IDLE_SECONDS = 1000, 200, 10.0
_MAX_DATAGRAM, _MAX_MESSAGE = 512, 0xFFFF
"""Bytes of a response over UDP without EDNS, and over TCP."""


class Question(NamedTuple):
    """The question of a request, and where it ends."""

    name: str
    kind: int
    end: int


def parse_question(request: bytes) -> Question:
    """The only question of a request; raises ValueError."""
    if len(request) < _HEADER.size or _HEADER.unpack_from(request)[2] != 1:
        raise ValueError("a request has one question")
    labels, at = [], _HEADER.size
    while length := _byte(request, at):
        if length > 63:
            raise ValueError("the name of a question is not compressed")
        labels.append(request[at + 1 : at + 1 + length])
        at += 1 + length
    if at + 5 > len(request):
        raise ValueError("the question is incomplete")
    (kind,) = struct.unpack_from("!H", request, at + 1)
    return Question(b".".join(labels).decode("ascii", "replace").lower(), kind, at + 5)


def _byte(data: bytes, at: int) -> int:
    if at >= len(data):
        raise ValueError("the name is incomplete")
    return data[at]


def parse_addresses(response: bytes, kind: int) -> list[bytes]:
    """The addresses of a type (A or AAAA) in the answers of a response; of one that is cut off, those that are complete."""
    addresses: list[bytes] = []
    try:
        _, _, questions, count, *_ = _HEADER.unpack_from(response)
        at = _HEADER.size
        for _ in range(questions):
            at = _skip_name(response, at) + 4
        for _ in range(count):
            at = _skip_name(response, at) + 10
            record_kind, _, _, length = struct.unpack_from("!HHIH", response, at - 10)
            at += length
            if record_kind == kind and length == _ADDRESS_BYTES[kind] and at <= len(response):
                addresses.append(response[at - length : at])
    except (struct.error, ValueError):
        pass
    return addresses


def _skip_name(message: bytes, at: int) -> int:
    """Where a name ends, which may be compressed; raises ValueError."""
    while length := _byte(message, at):
        if length >= _POINTER:
            return at + 2
        at += 1 + length
    return at + 1


def respond(request: bytes, zone: Zone, most: int = _MAX_MESSAGE, outside: Iterable[Record] = ()) -> bytes:
    """The response to a request for a name of the cluster; one of more than `most` bytes is truncated.

    `outside` are the records of the name outside the cluster that the requested name is an alias of.
    """
    try:
        name, kind, end = parse_question(request)
    except ValueError:
        return _reply(request[: _HEADER.size].ljust(_HEADER.size, b"\0"), _HEADER.size, _FORMAT_ERROR, (), 0)
    records = zone.find(name, kind)
    if records is None:
        return _reply(request, end, _NAME_ERROR, (), 1)
    answers = [(_QUESTION_NAME if item.owner == name else encode_name(item.owner), item) for item in (*records, *outside)]
    return _reply(request, end, _NO_ERROR, answers, 1, most=most)


def _reply(
    request: bytes, end: int, code: int, answers: Iterable[tuple[bytes, Record]], questions: int, *, most: int = _MAX_MESSAGE
) -> bytes:
    number, flags, *_ = _HEADER.unpack_from(request)
    records = [owner + struct.pack("!HHIH", item.kind, _INTERNET, _TTL, len(item.data)) + item.data for owner, item in answers]
    flags = _RESPONSE | _AUTHORITATIVE | _RECURSION_AVAILABLE | flags & _KEPT_FLAGS | code
    fitting = sum(size <= most for size in accumulate(map(len, records), initial=end)) - 1
    if fitting < len(records):
        flags, records = flags | _TRUNCATED, records[:fitting]
    return b"".join([_HEADER.pack(number, flags, questions, len(records), 0, 0), request[_HEADER.size : end], *records])


class DnsServer:
    """Answers pods at one address over UDP and TCP, as far as this machine lets it listen on port 53."""

    def __init__(self, networks: LoopbackNetworks, upstreams: Sequence[str], zone: Callable[[], Zone]) -> None:
        self._networks = networks
        self._upstreams = upstreams
        self._zone = zone
        self._transport: asyncio.DatagramTransport | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._streams: set[asyncio.StreamWriter] = set()

    async def open(self, address: str, port: int = PORT) -> bool:
        """Start to listen; returns whether it does."""
        loop = asyncio.get_running_loop()
        try:
            self._transport, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(self), local_addr=(address, port))
            self._server = await asyncio.start_server(self._serve_stream, address, port)
        except OSError as error:
            log.info("pods have no DNS server: %s", error)
            self.close()
            return False
        return True

    def close(self) -> None:
        """Stop listening."""
        if self._transport is not None:
            self._transport.close()
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        for writer in self._streams:
            writer.transport.abort()

    def on_datagram(self, request: bytes, client: tuple[str, int]) -> None:
        """Answer a datagram in the background."""
        if _is_request(request) and len(self._tasks) < _MAX_QUESTIONS:
            task = asyncio.create_task(self._serve_datagram(request, client))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve_datagram(self, request: bytes, client: tuple[str, int]) -> None:
        response = await self._answer(request, _query_over_udp)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(response, client)

    async def _serve_stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._streams) >= _MAX_STREAMS:
            writer.transport.abort()
            return
        self._streams.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                try:
                    async with asyncio.timeout(clock.scale_real_seconds(_IDLE_SECONDS)):
                        await writer.drain()
                        (length,) = struct.unpack("!H", await reader.readexactly(2))
                        request = await reader.readexactly(length)
                except TimeoutError:
                    writer.transport.abort()
                    break
                if not _is_request(request):
                    break
                response = await self._answer(request, _query_over_tcp)
                writer.write(struct.pack("!H", len(response)) + response)
        writer.close()
        self._streams.discard(writer)

    async def _answer(self, request: bytes, query: Query) -> bytes:
        try:
            question = parse_question(request)
        except ValueError:
            return respond(request, Zone())
        if _flags(request) & _OPERATION:
            return _reply(request, question.end, _NOT_IMPLEMENTED, (), 1)
        if is_cluster_name(question.name, self._networks):
            zone, most = self._zone(), _MAX_DATAGRAM if query is _query_over_udp else _MAX_MESSAGE
            return respond(request, zone, most, await self._resolve_alias(zone.alias(question.name), request, question, query))
        return await self._forward(request, query) or _reply(request, question.end, _SERVER_FAILURE, (), 1)

    async def _resolve_alias(self, alias: str, request: bytes, question: Question, query: Query) -> list[Record]:
        """The addresses of a name outside the cluster: resolvers of pods do not follow a CNAME record themselves."""
        if question.kind not in _ADDRESS_BYTES or not alias or is_cluster_name(alias, self._networks):
            return []
        header = _HEADER.pack(_HEADER.unpack_from(request)[0], _RECURSION_DESIRED, 1, 0, 0, 0)
        name = encode_name(alias) + struct.pack("!HH", question.kind, _INTERNET)
        response = await self._forward(header + name, query)
        return [Record(alias, question.kind, data) for data in parse_addresses(response, question.kind)]

    async def _forward(self, request: bytes, query: Query) -> bytes:
        """The response of the first DNS server of this machine that answers; empty if none does."""
        for upstream in self._upstreams:
            with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                async with asyncio.timeout(clock.scale_real_seconds(_UPSTREAM_SECONDS)):
                    return await query(request, upstream)
        return b""


def _flags(message: bytes) -> int:
    return int(_HEADER.unpack_from(message)[1])


def _is_request(message: bytes) -> bool:
    """Whether a message can be answered: two servers that answer responses would never stop."""
    return len(message) >= _HEADER.size and not _flags(message) & _RESPONSE


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, server: DnsServer) -> None:
        self._server = server

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._server.on_datagram(data, addr)


class _Response(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.received: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if not self.received.done():
            self.received.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self.received.done():
            self.received.set_exception(exc)


async def _query_over_udp(request: bytes, upstream: str) -> bytes:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(_Response, remote_addr=(upstream, PORT))
    try:
        transport.sendto(request)
        return await protocol.received
    finally:
        transport.close()


async def _query_over_tcp(request: bytes, upstream: str) -> bytes:
    reader, writer = await asyncio.open_connection(upstream, PORT)
    try:
        writer.write(struct.pack("!H", len(request)) + request)
        (length,) = struct.unpack("!H", await reader.readexactly(2))
        return await reader.readexactly(length)
    finally:
        writer.close()
