"""Requests and responses are proxied unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
from tests.support.gateways import Client, chat, document, gateway, raw_upstream, read_request, until, upstream

from sliceworks.base import clock

if TYPE_CHECKING:
    import asyncio


def test_chat_is_proxied() -> None:
    async def main() -> None:
        async with upstream() as echo, gateway(document(echo.url)) as gate:
            response = await gate.request("POST", "/v1/chat/completions", chat("hello there"))
            assert response.status == 200
            assert response.json["choices"][0]["message"]["content"] == "hello there"
            assert response.json["usage"] == {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}
            assert response.headers["x-request-id"]
            assert gate.idle()

    clock.run(main())


def test_connections_are_reused() -> None:
    async def main() -> None:
        async with upstream() as echo, gateway(document(echo.url)) as gate, await Client.open(gate.port) as client:
            for number in range(20):
                client.send("POST", "/v1/completions", {"model": "m", "prompt": f"word{number}"})
                assert (await client.get()).json["choices"][0]["text"] == f"word{number}"
            assert gate.program.router.state.upstreams[0].pool.open_connections <= 2

    clock.run(main())


def test_connection_is_reused_after_a_stream() -> None:
    async def main() -> None:
        async with upstream(tokens=5, token_time=0.001) as echo, gateway(document(echo.url)) as gate:
            [server] = gate.program.router.state.upstreams
            lines = set()
            for _ in range(3):
                response = await gate.request("POST", "/v1/chat/completions", chat(stream=True))
                assert response.body.rstrip().endswith(b"data: [DONE]")
                await until(gate.idle)
                await until(lambda: bool(server.pool._idle))
                lines.add(server.pool._idle[-1])
            assert len(lines) == 1
            await echo.kill()
            await until(lambda: server.pool.open_connections == 0)

    clock.run(main())


def test_pipelined_requests_are_answered_in_order() -> None:
    async def main() -> None:
        async with upstream() as echo, gateway(document(echo.url)) as gate, await Client.open(gate.port) as client:
            for number in range(30):
                client.send("POST", "/v1/completions", {"model": "m", "prompt": f"word{number}"})
            for number in range(30):
                assert (await client.get()).json["choices"][0]["text"] == f"word{number}"

    clock.run(main())


def test_each_token_is_a_separate_chunk() -> None:
    async def main() -> None:
        async with upstream(token_time=0.002) as echo, gateway(document(echo.url)) as gate:
            response = await gate.request("POST", "/v1/chat/completions", chat("a b c d", stream=True))
            assert response.headers["content-type"].startswith("text/event-stream")
            output = [orjson.loads(piece[6:])["choices"][0]["delta"]["content"] for piece in response.chunks[:4]]
            assert output == ["a", " b", " c", " d"]
            assert response.body.endswith(b"data: [DONE]\n\n")
            assert len(echo.engine.records[0].sent) == 4

    clock.run(main())


def test_bytes_are_unchanged() -> None:
    seen: list[tuple[bytes, bytes]] = []

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            seen.append(await read_request(reader))
            writer.write(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-own: 1\r\ncontent-length: 9\r\n\r\n{"a" : 1}')

    async def main() -> None:
        async with raw_upstream(respond) as url, gateway(document(url, kind="openai")) as gate:
            odd = b'{ "messages" : [ {"content":"\xc3\xa9 \\"model\\": \\"other\\""} ] ,\n "model" : "m", "new_field": 1e3 }'
            response = await gate.request(
                "POST", "/v1/chat/completions", odd, "x-custom: yes", "cookie: secret", "authorization: Bearer mine"
            )
            assert response.body == b'{"a" : 1}'
            assert response.headers["x-own"] == "1"
            head, body = next(item for item in seen if item[0].startswith(b"POST"))
            assert body == odd
            assert b"x-custom: yes" in head
            assert b"secret" not in head
            assert b"mine" not in head

    clock.run(main())


def test_request_line_is_normalised() -> None:
    """Several spaces are accepted, because they are unambiguous; backends receive a normalised request line."""
    heads: list[bytes] = []

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            heads.append((await read_request(reader))[0])
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")

    async def main() -> None:
        async with (
            raw_upstream(respond) as url,
            gateway(document(url, kind="openai")) as gate,
            await Client.open(gate.port) as client,
        ):
            body = b'{"model": "m"}'
            head = b"POST   /v1/chat/completions?a=b   HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
            client.writer.write((head + body) * 2)
            assert [(await client.get()).status for _ in range(2)] == [200, 200]

    clock.run(main())
    lines = [head.partition(b"\r\n")[0] for head in heads if head.startswith(b"POST")]
    assert lines == [b"POST /v1/chat/completions?a=b HTTP/1.1"] * 2


def test_model_name_is_mapped_for_the_backend() -> None:
    async def main() -> None:
        async with upstream(models=("its-own-name",)) as echo:
            backend = {"kind": "echo", "url": echo.url, "model": "its-own-name"}
            spec = document(models=[{"name": "m", "aliases": ["n"], "backends": [backend]}])
            async with gateway(spec) as gate:
                long = "word " * 2000
                for model in ("m", "n"):
                    assert (await gate.request("POST", "/v1/chat/completions", chat(model=model))).status == 200
                    body = chat(long, model=model, max_tokens=2)
                    assert (await gate.request("POST", "/v1/chat/completions", body)).status == 200
                generated = await gate.request("POST", "/v2/models/n/generate", {"text_input": "x y"})
                assert generated.json["text_output"] == "x y"

    clock.run(main())


def test_client_disconnect_cancels_the_request() -> None:
    async def main() -> None:
        async with upstream(ttft=5.0) as echo, gateway(document(echo.url, timeouts={"firstToken": "30s"})) as gate:
            async with await Client.open(gate.port) as client:
                client.send("POST", "/v1/chat/completions", chat(stream=True))
                await until(lambda: echo.engine.in_flight == 1)
            await until(lambda: echo.engine.in_flight == 0)
            assert gate.idle()
            assert "sliceworks_gateway_client_disconnects_total" in await gate.metrics()

    clock.run(main())


def test_client_disconnect_cancels_the_stream() -> None:
    async def main() -> None:
        async with upstream(token_time=0.02, tokens=1000) as echo, gateway(document(echo.url)) as gate:
            async with await Client.open(gate.port) as client:
                client.send("POST", "/v1/chat/completions", chat(stream=True))
                await client.head()
                await client.chunk()
            await until(lambda: echo.engine.in_flight == 0)
            assert gate.idle()
            assert echo.engine.records[0].outcome == "left"

    clock.run(main())


def test_slow_reader_gets_backpressure() -> None:
    async def main() -> None:
        async with upstream(tokens=30_000) as echo, gateway(document(echo.url)) as gate:
            async with await Client.open_narrow(gate.port) as slow:
                slow.send("POST", "/v1/chat/completions", chat("word" * 20, stream=True))
                await slow.head()
                await until(lambda: any(connection.is_backlogged for connection in gate.program.server.connections))
                assert (await gate.request("POST", "/v1/chat/completions", chat(max_tokens=1))).status == 200
                pieces = 0
                while await slow.chunk():
                    pieces += 1
                assert pieces >= 30_000
            await until(gate.idle)

    clock.run(main())


def test_embeddings_and_models() -> None:
    async def main() -> None:
        async with upstream() as echo, gateway(document(echo.url)) as gate:
            response = await gate.request("POST", "/v1/embeddings", {"model": "m", "input": ["a", "b"]})
            assert [len(item["embedding"]) for item in response.json["data"]] == [8, 8]
            assert [item["id"] for item in (await gate.request("GET", "/v1/models")).json["data"]] == ["m"]
            assert (await gate.request("GET", "/v1/models/m")).json["id"] == "m"
            assert (await gate.request("GET", "/v1/models/other")).status == 404
            backends = [{"kind": "echo", "url": echo.url}]
            async with gateway(document(models=[{"name": "org/m", "aliases": ["short"], "backends": backends}])) as named:
                for path, name in (("org/m", "org/m"), ("org%2Fm", "org/m"), ("short", "short")):
                    assert (await named.request("GET", f"/v1/models/{path}")).json["id"] == name

    clock.run(main())
