"""Chunked streams: any segmentation by the backend or the network gives the same well-formed response."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.gateways import Client, chat, document, gateway, raw_upstream, read_request

from sliceworks.base import clock
from sliceworks.serving.gateway import http_client as upstreams

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@given(st.binary(max_size=600))
def test_single_chunk_is_detected(data: bytes) -> None:
    for start in (b"%x\r\n", b"%X\r\n"):
        assert upstreams._is_single_chunk(start % len(data) + data + b"\r\n") == bool(data)
    assert not upstreams._is_single_chunk(b"%x\r\n" % (len(data) + 1) + data + b"\r\n")
    assert not upstreams._is_single_chunk(b"0%x\r\n" % len(data) + data + b"\r\n")
    assert not upstreams._is_single_chunk(b"%x;a=b\r\n" % len(data) + data + b"\r\n")
    assert not upstreams._is_single_chunk(b"%x\r\n" % len(data) + data + b"..")


def test_several_or_long_chunks_are_not_single() -> None:
    assert not upstreams._is_single_chunk(b"1\r\na\r\n1\r\nb\r\n")
    assert not upstreams._is_single_chunk(b"2710\r\n" + b"x" * 10_000 + b"\r\n")


def _chunked(pieces: list[bytes], chance: random.Random) -> bytes:
    written = bytearray()
    for piece in pieces:
        length = chance.choice([f"{len(piece):x}", f"{len(piece):X}", f"0{len(piece):x}", f"{len(piece):x};name=value"])
        written += f"{length}\r\n".encode() + piece + b"\r\n"
    return bytes(written)


@pytest.mark.parametrize("seed", range(6))
def test_segmentation_does_not_matter(seed: int) -> None:
    chance = random.Random(seed)
    # Text that looks like chunk headers must not be parsed as such.
    texts = [b"data: word\n\n", b"data: 5\r\nabcde\r\n\n\n", b"5\r\nabcde\r\n", b"\n", b"data: " + b"x" * 300 + b"\n\n"]
    pieces = [chance.choice(texts) for _ in range(40)]
    whole = _chunked(pieces, chance)
    if seed % 2:
        cuts = sorted(chance.sample(range(1, len(whole)), 60))
    else:
        cuts = [at + 1 for at in range(len(whole) - 1) if whole[at : at + 1] == b"\n"]

    requests: list[str] = []
    lines: set[asyncio.StreamWriter] = set()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            path = (await read_request(reader))[0].split()[1].decode()
            if path != "/v1/chat/completions":
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                continue
            requests.append(path)
            lines.add(writer)
            writer.write(_HEAD)
            for start, end in pairwise([0, *cuts, len(whole)]):
                writer.write(whole[start:end])
                await asyncio.sleep(0.001)
            writer.write(b"0\r\n\r\n")

    async def main() -> None:
        async with (
            raw_upstream(respond) as url,
            gateway(document(url, kind="openai")) as gate,
            await Client.open(gate.port) as client,
        ):
            for _ in range(2):  # The connection to the backend is reusable.
                client.send("POST", "/v1/chat/completions", chat(stream=True))
                assert (await client.get()).body == b"".join(pieces)
            assert requests == 2 * ["/v1/chat/completions"]
            assert len(lines) == 1

    clock.run(main())


def test_stream_truncated_in_a_chunk_is_an_error() -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(_HEAD)
        for text in (b"c\r\ndata: first\n\r\n", b"d\r\ndata: second\n\r\n"):
            writer.write(text)
            await asyncio.sleep(0.01)
        writer.write(b"20\r\ndata: th")

    async def main() -> None:
        async with raw_upstream(respond) as url, gateway(document(url, kind="openai")) as gate:
            response = await gate.request("POST", "/v1/chat/completions", chat(stream=True))
            assert response.chunks[:2] == [b"data: first\n", b"data: second\n"]
            events = response.body.removesuffix(b"\n\n").split(b"\n\n")
            assert orjson.loads(events[-1].removeprefix(b"data: "))["error"]["code"] == "backend_failed"

    clock.run(main())


_JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (_JSON % 2 + b"{}{}", 200),
        (_JSON % 2 + b"{}" + _JSON % 400 + b'{"to": "another client', 200),
        (_JSON % 2 + b"{}HTTP/1.1 200 OK\r\nset-cookie: of-another-client", 200),
        (b"HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\n{}", 204),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 2\r\n\r\n{}", 304),
    ],
)
def test_bytes_after_a_response_are_discarded(answer: bytes, status: int) -> None:
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, body = await read_request(reader)
            if head.startswith(b"GET"):
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                continue
            requests.append(body)
            writer.write(answer if len(requests) == 1 else _JSON % 9 + b'{"of": 2}')

    async def main() -> None:
        none = {"attempts": 0}
        async with raw_upstream(serve) as url, gateway(document(url, kind="openai", retries=none)) as gate:
            first, second = [await gate.request("POST", "/v1/chat/completions", chat()) for _ in range(2)]
            assert (first.status, second.status) == (status, 200)
            assert second.json == {"of": 2}
            assert len(requests) == 2

    clock.run(main())
