"""JetStream behind the gateway: its native API, and OpenAI's protocol on top of it, as for Triton's text."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import orjson
import pytest
from tests.support.gateways import Client, chat, document, gateway, raw_upstream, read_request, until, upstream

from sliceworks.base import clock


def objects(body: bytes) -> list[dict[str, Any]]:
    result, rest = [], body.decode()
    while rest:
        value, end = json.JSONDecoder().raw_decode(rest)
        result.append(value)
        rest = rest[end:].lstrip()
    return result


def test_native_stream_passes_unchanged() -> None:
    async def main() -> None:
        async with upstream(token_time=0.002) as echo, gateway(document(echo.url, kind="jetstream")) as gate:
            for body in ({"text_content": {"text": "a b c"}}, {"model": "m", "text_content": {"text": "a b c"}, "max_tokens": 3}):
                response = await gate.request("POST", "/v1/generate", body)
                assert [obj["streamContent"]["samples"][0]["text"] for obj in objects(response.body)] == ["a", " b", " c"]
                assert len(response.chunks) == 3
            wrong = await gate.request("POST", "/v1/generate", {"model": "other", "text_content": {"text": "x"}})
            assert (wrong.status, list(wrong.json)) == (404, ["detail"])

    clock.run(main())


def test_model_must_be_named_among_several() -> None:
    async def main() -> None:
        async with upstream() as echo:
            models = [{"name": name, "backends": [{"kind": "jetstream", "url": echo.url}]} for name in ("one", "two")]
            async with gateway(document(models=models)) as gate:
                body = {"text_content": {"text": "x"}}
                assert (await gate.request("POST", "/v1/generate", body)).status == 400
                assert (await gate.request("POST", "/v1/generate", body, "x-sliceworks-model: two")).status == 200
                assert (await gate.request("POST", "/v1/generate?model=one", body)).status == 200

    clock.run(main())


ODD: list[dict[str, Any]] = [
    {"max_tokens": 0},
    {"temperature": "hot"},
    {"n": 2},
    {"best_of": [1]},
    {"stop": 5},
    {"stop": [5]},
    {"prompt": ["a", "b"]},
    {"logprobs": 1},
    {"tools": [{}]},
    {"response_format": {"type": "json_object"}},
]


@pytest.mark.parametrize("kind", ["jetstream", "triton"])
def test_openai_protocol(kind: str) -> None:
    async def main() -> None:
        async with upstream(token_time=0.002) as echo, gateway(document(echo.url, kind=kind)) as gate:
            whole = await gate.request("POST", "/v1/chat/completions", chat("one two three", max_tokens=3))
            assert whole.json["choices"][0]["message"]["content"] == "one two three"
            assert whole.json["usage"]["completion_tokens"] == 3
            assert whole.json["choices"][0]["finish_reason"] == "length"
            body = chat("one two", max_tokens=2, stream=True, stream_options={"include_usage": True})
            stream = await gate.request("POST", "/v1/chat/completions", body)
            output = [orjson.loads(event[6:])["choices"][0] for event in stream.body.split(b"\n\n")[:3]]
            assert [item["delta"] for item in output] == [{"role": "assistant", "content": "one"}, {"content": " two"}, {}]
            assert output[2]["finish_reason"] == "length"
            assert b'"completion_tokens":2' in stream.body
            text = await gate.request("POST", "/v1/completions", {"model": "m", "prompt": "x", "max_tokens": 1})
            assert text.json["choices"][0]["text"] == "x"
            body = {"model": "m", "prompt": "a b c d e", "max_tokens": 5, "stop": ["x", " c d"]}
            for streamed in (False, True):
                until_then = await gate.request("POST", "/v1/completions", {**body, "stream": streamed})
                events = [until_then.body] if not streamed else [item[6:] for item in until_then.body.split(b"\n\n")[:-2]]
                output = [orjson.loads(event)["choices"][0] for event in events]
                assert ("".join(item["text"] for item in output), output[-1]["finish_reason"]) == ("a b", "stop")
            for odd in ODD:
                refused = await gate.request("POST", "/v1/completions", {**body, **odd})
                assert (refused.status, refused.json["error"]["param"]) == (400, next(iter(odd)))
            image = [{"type": "image_url", "image_url": {"url": "data:"}}]
            refused = await gate.request("POST", "/v1/chat/completions", chat(image))  # type: ignore[arg-type]
            assert (refused.status, refused.json["error"]["message"]) == (
                400,
                "content: must be text, other content is not supported by this model's backend",
            )
            await until(gate.idle)

    clock.run(main())


@pytest.mark.parametrize("kind", ["jetstream", "triton"])
def test_backend_crash_in_a_response(kind: str) -> None:
    async def main() -> None:
        async with upstream(token_time=0.01) as echo, upstream() as other:
            async with (
                gateway(document(echo.url, kind=kind, retries={"attempts": 0})) as gate,
                await Client.open(gate.port) as client,
            ):
                client.send("POST", "/v1/chat/completions", chat("word", max_tokens=1000, stream=True))
                await client.head()
                await client.chunk()
                for connection in list(echo.server.connections):
                    connection.abort()
                rest = b"".join([piece async for piece in _rest(client)])
                assert b"the backend failed" in rest
                await until(gate.idle)
            await echo.kill()
            async with gateway(document(echo.url, other.url, kind=kind)) as gate:
                for _ in range(4):
                    assert (await gate.request("POST", "/v1/chat/completions", chat("word"))).status == 200

    clock.run(main())


async def _rest(client: Client) -> Any:
    while piece := await client.chunk():
        yield piece


def test_client_disconnect_cancels_the_request() -> None:
    async def main() -> None:
        async with upstream(ttft=10.0) as echo, gateway(document(echo.url, kind="jetstream")) as gate:
            async with await Client.open(gate.port) as client:
                client.send("POST", "/v1/chat/completions", chat())
                await until(lambda: echo.engine.in_flight == 1)
            await until(lambda: echo.engine.in_flight == 0)
            await until(gate.idle)

    clock.run(main())


def test_split_objects() -> None:
    """Network segments are not message boundaries."""
    output = [
        {"initialContent": {}},
        *({"streamContent": {"samples": [{"text": text}]}} for text in ("é" * 20, "}{", '"\\', "end")),
    ]
    written = "".join(json.dumps(item, indent=2, ensure_ascii=False) for item in output).encode()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_request(reader)
            if head.startswith(b"GET"):
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                continue
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            for place in range(0, len(written), 5):
                piece = written[place : place + 5]
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await asyncio.sleep(0)
            writer.write(b"0\r\n\r\n")

    async def main() -> None:
        async with raw_upstream(respond) as url, gateway(document(url, kind="jetstream")) as gate:
            response = await gate.request("POST", "/v1/chat/completions", chat())
            assert response.json["choices"][0]["message"]["content"] == "é" * 20 + '}{"\\end'

    clock.run(main())


def test_closed_idle_connection_is_retried() -> None:
    answer = b'{"streamContent": {"samples": [{"text": "hi"}]}}'
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_request(reader)
            requests.extend([head] if head.startswith(b"POST") else [])
            if head.startswith(b"POST") and len(requests) == 2:
                return  # It receives the second request and closes the connection, as a server does with idle connections.
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(answer) + answer)

    async def main() -> None:
        spec: dict[str, Any] = {
            "kind": "jetstream",
            "retries": {"attempts": 0},
            "healthCheck": {"interval": "1h", "consecutiveFailures": 1},
        }
        async with raw_upstream(serve) as url, gateway(document(url, **spec)) as gate:
            await until(lambda: gate.program.router.state.upstreams[0].checked)
            responses = [await gate.request("POST", "/v1/chat/completions", chat()) for _ in range(2)]
            assert [response.json["choices"][0]["message"]["content"] for response in responses] == ["hi", "hi"]
            assert len(requests) == 3
            await until(gate.idle)

    clock.run(main())


def test_invalid_response_closes_the_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (await read_request(reader))[0].startswith(b"GET"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.write(b'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{"error": "out of memory"}')
        await reader.read()
        left.set()

    left = asyncio.Event()

    async def main() -> None:
        async with raw_upstream(serve) as url, gateway(document(url, kind="jetstream", retries={"attempts": 0})) as gate:
            gc.disable()
            try:
                response = await gate.request("POST", "/v1/chat/completions", chat())
                async with asyncio.timeout(60):
                    await left.wait()
            finally:
                gc.enable()
            assert (response.status, "out of memory" in response.json["error"]["message"]) == (502, True)
            await until(gate.idle)

    clock.run(main())
