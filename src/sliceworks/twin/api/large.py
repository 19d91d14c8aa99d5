"""Answers that are too large to be made in one piece: a list of many objects goes out as it is put together.

The server then never holds the whole text, other requests get their turn in between, and the client reads the beginning while the
end is still being made. What a connection encrypts in one go it keeps room for as long as it lives: pieces are small for that, too.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING

from sliceworks.kube.transport import Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

PIECE = 64 * 1024
LARGE = 1024 * 1024
_GZIP = 16 + zlib.MAX_WBITS


def joined(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces worth sending."""
    gathered: list[bytes] = []
    size = 0
    for line in lines:
        gathered.append(line)
        size += len(line)
        if size >= PIECE:
            yield b"".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield b"".join(gathered)


def answer(headers: Mapping[str, str], parts: Iterable[bytes], *, compress: bool) -> Response:
    """A response that sends these parts, compressed if the client takes that."""
    if compress:
        headers = {**headers, "content-encoding": "gzip", "vary": "Accept-Encoding"}
        return Response(200, headers, stream=_in_turns(_compressed(joined(parts))))
    return Response(200, headers, stream=_in_turns(joined(parts)))


async def _in_turns(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
        await asyncio.sleep(0)


def _compressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
    for piece in pieces:
        if packed := packer.compress(piece):
            yield packed
    yield packer.flush()
