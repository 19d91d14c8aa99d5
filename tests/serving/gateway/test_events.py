"""Unusual streams: other line endings, comments between events, and encoded responses."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

import orjson
import pytest
from tests.support.gateways import Client, chat, document, gateway, raw_upstream, read_request

from sliceworks.base import clock

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\n"
_EVENTS = _HEAD % b"text/event-stream"
_LONG = "x" * 300_000


def _event(text: str) -> bytes:
    return b"data: " + orjson.dumps({"text_output": text, "choices": [{"index": 0, "delta": {"content": text}}]}) + b"\n\n"


def _serve(answer: list[bytes], heads: list[bytes] | None = None) -> Any:
    """A backend that answers each request with these chunks and then closes the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_request(reader)
            if head.startswith(b"GET"):
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                continue
            if heads is not None:
                heads.append(head)
            for piece in answer:
                writer.write(piece)
                await asyncio.sleep(0.005)
            return

    return serve


_ODD = {
    "lines end with both": [_event(word).replace(b"\n", b"\r\n") for word in ("one", "two")],
    "lines end with CR": [_event(word).replace(b"\n", b"\r") for word in ("one", "two")],
    "cut between both": [b'data: {"text_output":\r', b'\ndata: "one"}\r\n\r', b'\ndata: {"text_output": "two"}\r\n\r\n'],
    "data in several lines": [b'data: {\ndata:  "text_output":\ndata:  "one"\ndata: }\n\n', _event("two")],
    "signs of life": [b": still here\n\n", _event("one"), b":\n\n", _event("two"), b": still here\n\n"],
    "other fields": [b"retry: 10\n\nid: 1\nevent: x\n" + _event("one"), _event("two")],
}


@pytest.mark.parametrize("pieces", _ODD.values(), ids=_ODD)
def test_events_pass_unchanged(pieces: list[bytes]) -> None:
    async def main() -> None:
        async with raw_upstream(_serve([_EVENTS + b"\r\n", *pieces])) as url:
            async with gateway(document(url, kind="openai")) as gate:
                response = await gate.request("POST", "/v1/chat/completions", chat(stream=True))
                assert response.body == b"".join(pieces)
            async with gateway(document(url, kind="triton")) as gate:
                response = await gate.request("POST", "/v1/chat/completions", chat())
                assert response.json["choices"][0]["message"]["content"] == "onetwo"

    clock.run(main())


@pytest.mark.parametrize(
    "pieces", [[b": still here\n\n"] * 20 + [_event("a")] * 5, [_event("a")] * 4 + [_event(_LONG)]], ids=["signs of life", "long"]
)
def test_only_events_are_counted(pieces: list[bytes]) -> None:
    """A comment is not a token, and neither is a fragment of a long event; the last two events end a chat."""

    async def main() -> None:
        async with raw_upstream(_serve([_EVENTS + b"\r\n", *pieces])) as url, gateway(document(url, kind="openai")) as gate:
            response = await gate.request("POST", "/v1/chat/completions", chat(stream=True))
            assert response.body == b"".join(pieces)
            numbers = await gate.metrics()
            assert 'gen_ai_client_token_usage_sum{gen_ai_operation_name="chat"' in numbers
            assert [line.split()[-1] for line in numbers.splitlines() if "generation_tokens_total{" in line] == ["3"]

    clock.run(main())


def test_long_line_is_one_event() -> None:
    async def main() -> None:
        answer = [_EVENTS + b"\r\n", _event("y" * 8_000_000), _event("z")]
        async with raw_upstream(_serve(answer)) as url, gateway(document(url, kind="triton")) as gate:
            response = await gate.request("POST", "/v1/chat/completions", chat())
            assert len(response.json["choices"][0]["message"]["content"]) == 8_000_001

    clock.run(main())


def _zipped(*pieces: bytes) -> list[bytes]:
    packer = zlib.compressobj(wbits=31)
    return [*(packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH) for piece in pieces), packer.flush()]


_CODED = b"content-encoding: gzip\r\n"


def test_content_encoding_passes_unchanged() -> None:
    heads: list[bytes] = []
    events = [_event("one"), _event("two")]
    whole = orjson.dumps({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}})
    zipped = b"".join(_zipped(whole))
    length = b"content-length: %d\r\n\r\n" % len(zipped)

    async def main() -> None:
        for answer, output in (
            ([_EVENTS + _CODED + b"\r\n", *_zipped(*events)], b"".join(events)),
            ([_HEAD % b"application/json" + _CODED + length, zipped], whole),
        ):
            async with raw_upstream(_serve(answer, heads)) as url, gateway(document(url, kind="openai")) as gate:
                response = await gate.request("POST", "/v1/chat/completions", chat(), "accept-encoding: br")
                assert response.headers["content-encoding"] == "gzip"
                assert zlib.decompress(response.body, wbits=31) == output

    clock.run(main())
    assert all(head.count(b"accept-encoding:") == head.count(b"accept-encoding: identity\r\n") == 1 for head in heads)


def test_no_plain_error_in_an_encoded_stream() -> None:
    answer = [_EVENTS + _CODED + b"transfer-encoding: chunked\r\n\r\n"]
    answer += [b"%x\r\n" % len(piece) + piece + b"\r\n" for piece in _zipped(_event("one"))[:1]]

    async def main() -> None:
        async with (
            raw_upstream(_serve(answer)) as url,
            gateway(document(url, kind="openai")) as gate,
            await Client.open(gate.port) as client,
        ):
            client.send("POST", "/v1/chat/completions", chat(stream=True))
            await client.head()
            assert zlib.decompressobj(wbits=31).decompress(await client.chunk()) == _event("one")
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await client.chunk()

    clock.run(main())


def test_encoded_stream_is_not_empty() -> None:
    heads: list[bytes] = []
    answer = [_EVENTS + _CODED + b"\r\n", *_zipped(_event("one"))]

    async def main() -> None:
        async with raw_upstream(_serve(answer, heads)) as url, gateway(document(url, kind="triton")) as gate:
            response = await gate.request("POST", "/v1/chat/completions", chat())
            assert (response.status, response.json["error"]["code"]) == (502, "backend_failed")
            assert "gzip" in response.json["error"]["message"]

    clock.run(main())
    assert all(b"accept-encoding: identity\r\n" in head for head in heads)
