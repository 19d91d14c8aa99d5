"""Requests that upgrade their connection, such as exec of an aggregated API: bytes are passed on in both directions."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.transport import Response
from sliceworks.twin.apiserver.aggregation.backend import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.base.http.upgrade import ByteStream
    from sliceworks.base.transport import Request
    from sliceworks.twin.apiserver.aggregation.backend import Backend

_MAX_HEAD_BYTES = 64 * 1024
_MAX_ERROR_BYTES = 1024 * 1024
_ERROR_SECONDS = 10.0
_READ_BYTES = 64 * 1024
_SWITCHING_PROTOCOLS = 101
_DROPPED = frozenset({"connection", "content-length", "keep-alive", "transfer-encoding"})


def is_upgrade(request: Request) -> bool:
    """Whether a request asks to upgrade its connection."""
    return "upgrade" in request.headers.get("connection", "").lower() and bool(request.headers.get("upgrade"))


async def open_upgraded(backend: Backend, request: Request, target: str, headers: Iterable[tuple[str, str]]) -> Response:
    """The response of the backend: 101 with the connection, or an error. Raises what `Backend.connect` raises, and Unavailable."""
    reader, writer, host = await backend.connect()
    lines = [
        f"{request.method} {target} HTTP/1.1",
        f"Host: {host}",
        f"Upgrade: {request.headers['upgrade']}",
        "Connection: Upgrade",
    ]
    lines += [f"{name}: {value}" for name, value in headers]
    if any("\r" in line or "\n" in line for line in lines):
        writer.transport.abort()
        raise Unavailable("net/http: invalid header field value")
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode("utf-8", "replace") + request.body)
        head = await reader.readuntil(b"\r\n\r\n")
        status, received = _parse_head(head)
        if status == _SWITCHING_PROTOCOLS:
            return Response(status, received, upgrade=_Bridge(reader, writer).serve)
        body = await _read_error(reader, received) if status >= 400 else b""
    except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
        writer.transport.abort()
        raise Unavailable("unexpected EOF" if isinstance(error, EOFError) else "malformed HTTP response") from error
    except BaseException:
        writer.transport.abort()
        raise
    writer.transport.abort()
    if status < 400:
        raise Unavailable(f"invalid upgrade response: status code {status}")
    return Response(status, {name: value for name, value in received.items() if name not in _DROPPED}, body)


def _parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    version, status, *_ = first.split(" ", 2)
    if not version.startswith("HTTP/1."):
        raise ValueError(first)
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError(line)
        key = name.strip().lower()
        headers[key] = f"{headers[key]}\n{value.strip()}" if key in headers else value.strip()
    return int(status), headers


async def _read_error(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    """The body of an error, as far as the backend sends it in time."""
    body = bytearray()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(clock.scale_real_seconds(_ERROR_SECONDS)):
            if "chunked" in headers.get("transfer-encoding", "").lower():
                while len(body) < _MAX_ERROR_BYTES and (size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16)):
                    body += await reader.readexactly(min(size, _MAX_ERROR_BYTES))
                    await reader.readuntil(b"\r\n")
            else:
                left = min(int(headers.get("content-length") or _MAX_ERROR_BYTES), _MAX_ERROR_BYTES)
                while left and (chunk := await reader.read(min(left, _READ_BYTES))):
                    body += chunk
                    left -= len(chunk)
    return bytes(body)


class _Bridge:
    """Two connections; when one ends, so does the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def serve(self, client: ByteStream) -> None:
        """Pass bytes on until one side has closed its connection."""
        pumps = [asyncio.create_task(self._to_backend(client)), asyncio.create_task(self._to_client(client))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self._writer.transport.abort()

    async def _to_backend(self, client: ByteStream) -> None:
        while data := await client.read():
            self._writer.write(data)
            await self._writer.drain()

    async def _to_client(self, client: ByteStream) -> None:
        while data := await self._reader.read(_READ_BYTES):
            await client.write(data)
