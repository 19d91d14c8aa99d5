"""A table of attempts to evade the gateway: what reaches a backend, read by any parser, is what the key may send.

The key may use the model `m` with at most 12 completion tokens. The model `secret` has the same backend.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
from dataclasses import replace
from typing import Any

import orjson
import pytest
from tests.support.gateways import LIMITS, Client, Running, chat, document, gateway, raw_upstream, read_request, until, upstream

from sliceworks.base import clock
from sliceworks.serving.gateway import state

KEYS = [{"name": "a", "sha256": hashlib.sha256(b"ka").hexdigest(), "models": ["m", "t"]}]
CHAT = "/v1/chat/completions"
LIMIT = 12
DEEP = b"[" * 100_000
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
COMPLETION = orjson.dumps({"object": "chat.completion", "choices": [], "usage": USAGE})
RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(COMPLETION), COMPLETION)


def message(head: str, body: bytes = b"", *, length: bool = True) -> bytes:
    """A request with the key; `head` has the request line and further headers."""
    line, *headers = head.split("\n")
    lines = [
        f"{line} HTTP/1.1",
        "host: x",
        "authorization: Bearer ka",
        *headers,
        *([f"content-length: {len(body)}"] if length else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def call(body: bytes, path: str = CHAT) -> bytes:
    return message(f"POST {path}\ncontent-type: application/json", body)


def chunked(*chunks: bytes, coding: str = "chunked", more: str = "") -> bytes:
    head = f"POST {CHAT}\ntransfer-encoding: {coding}{more}"
    return message(head, b"".join(chunks), length=False)


def named(model: str, **more: Any) -> bytes:
    return orjson.dumps(chat("w", model=model, **more))


def infer(inputs: list[dict[str, Any]], tail: bytes = b"", **more: Any) -> bytes:
    """An inference request; with a tail, binary tensors follow the JSON."""
    text = {"name": "text_input", "datatype": "BYTES", "shape": [1], "data": ["w"]}
    body = orjson.dumps({"inputs": [text, *inputs], **more})
    header = f"\ninference-header-content-length: {len(body)}" if tail else ""
    return message(f"POST /v2/models/t/infer{header}", body + tail)


PROBE = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
GOOD = named("m", max_tokens=1)
SECRET = named("secret", max_tokens=1)
UTF_7 = b'{"model":"m","max_tokens":1,"messages":[],"user":"+ACI-,+ACI-model+ACI-:+ACI-secret"}'
HIDDEN = call(SECRET)  # as the body of another request

EVASIONS: dict[str, bytes] = {
    # Names of the model.
    "other model": call(SECRET),
    "duplicate model": call(b'{"model":"m","model":"secret","messages":[]}'),
    "duplicate model, first": call(b'{"model":"secret","model":"m","messages":[]}'),
    "upper case": call(b'{"model":"m","MODEL":"secret","messages":[]}'),
    "mixed case only": call(b'{"mOdel":"secret","messages":[]}'),
    "escaped name": call(b'{"model":"m","\\u006d\\u006fdel":"secret","messages":[]}'),
    "kelvin sign in a name": call('{"model":"m","max_tokens":1,"max_to\u212aens":99,"messages":[]}'.encode()),
    "trailing space in a name": call(named("secret ")),
    "control character in a name": call(named("secret\x00")),
    "full-width name": call(named("\uff53ecret")),
    "slash in a name": call(named("m/../secret")),
    "model is a list": call(b'{"model":["m","secret"],"messages":[]}'),
    "model is an object": call(b'{"model":{"m":"secret"},"messages":[]}'),
    "byte order mark": call(b"\xef\xbb\xbf" + SECRET),
    "UTF-16": call(SECRET.decode().encode("utf-16")),
    "two documents": call(GOOD + b"\n" + SECRET),
    "comment": call(b'{"model":"m" /* ,"model":"secret" */,"messages":[]}'),
    "trailing comma": call(b'{"model":"m",}'),
    "invalid UTF-8": call(b'{"model":"m\xff","messages":[]}'),
    "lone surrogate": call(b'{"model":"\\ud800m","messages":[]}'),
    "model in the query": message(f"POST {CHAT}?model=secret", SECRET),
    "model in a header": message(f"POST {CHAT}\nx-model: secret\nx-openai-model: secret", SECRET),
    # Numbers and depth.
    "n": call(named("m", n=100)),
    "n and tokens": call(named("m", n=2, max_tokens=LIMIT)),
    "huge number": call(b'{"model":"m","max_tokens":' + b"9" * 5000 + b',"messages":[]}'),
    "huge exponent": call(b'{"model":"m","max_tokens":1e400,"messages":[]}'),
    "integer as float": call(b'{"model":"m","max_tokens":100.0,"messages":[]}'),
    "infinity": call(b'{"model":"m","max_tokens":Infinity,"messages":[]}'),
    "hexadecimal": call(b'{"model":"m","max_tokens":0xff,"messages":[]}'),
    "negative zero": call(b'{"model":"m","max_tokens":-0,"messages":[]}'),
    "reasoning": call(named("m", reasoning={"max_tokens": 99})),
    "reasoning in camel case": call(named("m", reasoning={"maxTokens": 99})),
    "thinking": call(named("m", thinking={"type": "enabled", "budget_tokens": 99})),
    "other names": call(named("m", max_new_tokens=99)),
    "nested": call(named("m", extra_body={"max_tokens": 99})),
    "many prompts": call(orjson.dumps({"model": "m", "prompt": ["a"] * 13}), "/v1/completions"),
    "deep": call(b'{"model":"m","messages":' + DEEP),
    "deep and closed": call(b'{"model":"m","messages":' + DEEP + b"]" * 100_000 + b"}"),
    "deep with a duplicate": call(b'{"model":"m","model":"secret","messages":' + DEEP),
    "several times the number": call(b'{"model":"m","max_tokens":1,"max_tokens":99,"messages":[]}'),
    "string": call(named("m", max_tokens="99")),
    "true": call(named("m", max_tokens=True)),
    "2**64": call(b'{"model":"m","max_tokens":18446744073709551617,"messages":[]}'),
    "camel case": call(b'{"model":"m","max_tokens":1,"maxNewTokens":99,"messages":[]}'),
    "candidates": call(named("m", max_tokens=2, candidate_count=7)),
    "beams": call(named("m", max_tokens=2, num_beams=7)),
    "name of another server": call(named("m", max_tokens=1, request_output_len=99)),
    "container in a container": call(named("m", max_tokens=1, extra_body={"sampling_params": {"max_tokens": 99}})),
    "duplicate in a container": call(b'{"model":"m","options":{"n":1,"n":99},"messages":[]}'),
    "duplicate in a container of a container": call(b'{"model":"m","options":{"reasoning":{"n":1,"N":99}},"messages":[]}'),
    "options in a string": call(named("m", max_tokens=1, sampling_parameters='{"max_tokens": 99}')),
    "options in a string, duplicate": call(named("m", sampling_parameters='{"max_tokens": 1, "max_tokens": 99}')),
    "options in a string, mixed case": call(named("m", sampling_parameters='{"max_tokens": 1, "Max_Tokens": 99}')),
    "options in a string without a limit": call(named("m", max_tokens=1, sampling_parameters="{}")),
    "prompts of tokens": call(orjson.dumps({"model": "m", "prompt": [[1, 2]] * 13, "max_tokens": 1}), "/v1/completions"),
    "prompts and candidates": call(orjson.dumps({"model": "m", "prompt": ["a"] * 4, "n": 4, "max_tokens": 1}), "/v1/completions"),
    # Tensors.
    "tensor": infer([{"name": "max_tokens", "datatype": "INT32", "shape": [1], "data": [99]}]),
    "nested tensor": infer([{"name": "request_output_len", "datatype": "INT32", "shape": [1, 1], "data": [[99]]}]),
    "batch of tensors": infer([{"name": "max_tokens", "datatype": "INT32", "shape": [13, 1], "data": [[1]] * 13}]),
    "tensor in another case": infer([{"name": "Max_Tokens", "datatype": "INT32", "shape": [1], "data": [99]}]),
    "binary tensor": infer([{"name": "max_tokens", "datatype": "INT32", "shape": [1], "parameters": {"binary_data_size": 4}}]),
    "binary tensor behind the JSON": infer(
        [{"name": "max_tokens", "datatype": "INT32", "shape": [1], "parameters": {"binary_data_size": 4}}], tail=b"\x63\0\0\0"
    ),
    "options in a tensor": infer(
        [{"name": "sampling_parameters", "datatype": "BYTES", "shape": [1], "data": ['{"max_tokens": 99}']}]
    ),
    "parameter of an inference": infer([], parameters={"max_tokens": 99}),
    "parameters that are a list": infer([], parameters=["max_tokens"]),
    "beams of a tensor": infer(
        [{"name": name, "datatype": "INT32", "shape": [1], "data": [4]} for name in ("request_output_len", "beam_width")]
    ),
    # Encodings of the body.
    "compressed": message(f"POST {CHAT}\ncontent-encoding: gzip", gzip.compress(SECRET)),
    "form": message(f"POST {CHAT}\ncontent-type: application/x-www-form-urlencoded", b"model=secret&prompt=w"),
    "multipart": message(f"POST {CHAT}\ncontent-type: multipart/form-data; boundary=x", b'--x\r\nname="model"\r\n\r\nsecret\r\n'),
    # Paths.
    "path of the admin port": message("GET /admin/status"),
    "metrics": message("GET /metrics"),
    "dot segments": message(f"POST {CHAT}/../../admin/drain", GOOD),
    "encoded dot segments": message("GET /v1/%2e%2e/admin/status"),
    "double slash": message(f"POST /{CHAT}", SECRET),
    "upper case path": message("POST /V1/Chat/Completions", SECRET),
    "path parameter": message(f"POST {CHAT};model=secret", SECRET),
    "encoded slash": message("POST /v1%2fchat/completions", SECRET),
    "NUL in the path": message(f"POST {CHAT}%00", SECRET),
    "absolute URL": message(f"POST http://secret{CHAT}", SECRET),
    "model in a path": message("POST /v2/models/secret/generate", b'{"text_input":"w"}'),
    "encoded model in a path": message("POST /v2/models/%73ecret/generate", b'{"text_input":"w"}'),
    "two models in a path": message("POST /v2/models/m/versions/1/../../../secret/generate", b'{"text_input":"w"}'),
    "model behind a model": message("POST /v2/models/m%2f..%2fsecret/generate", b'{"text_input":"w"}'),
    "other model listed": message("GET /v1/models/secret"),
    "CONNECT": message("CONNECT secret:443"),
    "TRACE": message(f"TRACE {CHAT}"),
    "method in a header": message(f"GET {CHAT}\nx-http-method-override: POST", SECRET),
    # Framing and headers.
    "two lengths": message(f"POST {CHAT}\ncontent-length: {len(GOOD)}", GOOD + HIDDEN),
    "length and chunks": message(f"POST {CHAT}\ntransfer-encoding: chunked", b"0\r\n\r\n" + HIDDEN),
    "signed length": message(f"POST {CHAT}\ncontent-length: +5", GOOD, length=False),
    "length list": message(f"POST {CHAT}\ncontent-length: 5, 5", GOOD, length=False),
    "length in hexadecimal": message(f"POST {CHAT}\ncontent-length: 0x5", GOOD, length=False),
    "other coding": chunked(b"0\r\n\r\n" + HIDDEN, coding="xchunked"),
    "coding twice": chunked(b"0\r\n\r\n" + HIDDEN, coding="chunked, chunked"),
    "coding in two headers": chunked(b"0\r\n\r\n" + HIDDEN, coding="identity", more="\ntransfer-encoding: chunked"),
    "vertical tab before the coding": chunked(b"0\r\n\r\n" + HIDDEN, coding="\x0bchunked"),
    "space before the colon": message(f"POST {CHAT}\ntransfer-encoding : chunked", b"0\r\n\r\n" + HIDDEN),
    "folded header": message(f"POST {CHAT}\nx: y\n transfer-encoding: chunked", b"0\r\n\r\n" + HIDDEN),
    "negative chunk": chunked(b"-1\r\n" + GOOD + b"\r\n0\r\n\r\n"),
    "chunk in 0x": chunked(b"0x5\r\nabcde\r\n0\r\n\r\n"),
    "chunk of 2**64": chunked(b"10000000000000005\r\nabcde\r\n0\r\n\r\n"),
    "chunk that is longer than it says": chunked(b"1\r\n" + GOOD + b"\r\n0\r\n\r\n"),
    "chunk with a bare LF": chunked(b"%x\n" % len(SECRET), SECRET, b"\n0\n\n"),
    "NUL in a header": message(f"POST {CHAT}\nx: a\x00b", SECRET),
    "CR in a header": message(f"POST {CHAT}\nx: a\rtransfer-encoding: chunked", b"0\r\n\r\n" + HIDDEN),
    "second key": message(f"POST {CHAT}\nauthorization: Bearer kb", SECRET),
    "two hosts": message(f"POST {CHAT}\nhost: secret", SECRET),
    "upgrade": message(f"POST {CHAT}\nconnection: upgrade\nupgrade: h2c\nhttp2-settings: AAMAAABkAAQAAP__", SECRET),
    "request after an unfinished body": message(f"POST {CHAT}\ncontent-length: 4", b"{}\r\n" + HIDDEN, length=False),
}  # fmt: skip

ACCEPTED: dict[str, bytes] = {
    "plain": call(GOOD),
    "no limit": call(named("m")),
    "chunks": chunked(b"".join(b"1\r\n%c\r\n" % byte for byte in GOOD), b"0\r\n\r\n"),
    "chunk extension and trailer": chunked(b"%x;a=b\r\n" % len(GOOD), GOOD, b"\r\n0\r\nauthorization: Bearer kb\r\n\r\n"),
    "another character set": message(f"POST {CHAT}\ncontent-type: application/json; charset=utf-7", UTF_7),
    "an encoding that the body does not have": message(f"POST {CHAT}\ncontent-encoding: secret", GOOD),
    "other paths and methods in headers": message(
        f"POST {CHAT}\nx-original-url: /v1/models/secret\nx-rewrite-url: /secret\nx-http-method-override: secret"
        "\nx-gateway-model-name: secret\nx-envoy-original-path: /secret",
        GOOD,
    ),
    "options in a string": call(named("m", max_tokens=1, sampling_parameters='{"max_tokens": 3}')),
    "null limits": call(named("m", max_tokens=None, max_completion_tokens=None, n=None)),
    "model in a prompt": call(orjson.dumps(chat('{"model":"secret"} "Model": "secret"', max_tokens=1))),
    "model in a tool": call(named("m", tools=[{"type": "function", "function": {"parameters": {"model": 1, "n": 99}}}])),
    "hop-by-hop headers": message(f"POST {CHAT}\nconnection: close, x-model\nx-model: secret\nte: trailers", GOOD),
}


def reads(body: bytes) -> list[dict[str, Any]]:
    """The fields as parsers read them: the last, the first, and the last in any case."""

    def first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(reversed(pairs))

    def folded(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name.casefold(): value for name, value in pairs}

    return [json.loads(body, object_pairs_hook=hook) for hook in (dict, first, folded)]


class Backend:
    """Records the requests for completions that reach it."""

    def __init__(self) -> None:
        self.received: list[tuple[bytes, bytes]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, body = await read_request(reader)
            if head.startswith(b"POST"):
                self.received.append((head, body))
            writer.write(RESPONSE)

    def check(self) -> None:
        """Every request that arrived is one that the key may send."""
        for head, body in self.received:
            assert b"Bearer ka" not in head, "the key of a client is not passed on"
            assert b"secret" not in head
            assert b"utf-7" not in head
            for fields in reads(body):
                assert fields["model"] == "m"
                assert 1 <= fields["max_tokens"] * (fields.get("n") or 1) <= LIMIT


def spec(url: str) -> Any:
    models = [{"name": name, "backends": [{"kind": "openai", "url": url}]} for name in ("m", "secret")]
    models.append({"name": "t", "backends": [{"kind": "triton", "url": url}]})
    return document(url, keys=KEYS, limits={"maxTokens": LIMIT}, models=models)


async def exchange(gate: Running, data: bytes) -> list[int]:
    """Send bytes and then a probe that closes the connection; returns the statuses of all responses."""
    async with await Client.open(gate.port) as client:
        client.writer.write(data + PROBE)
        received = b""
        try:
            while piece := await client.reader.read(1 << 16):
                received += piece
        except ConnectionError:
            pass
    return [int(part.split(b" ")[0]) for part in received.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.parametrize("data", EVASIONS.values(), ids=EVASIONS)
def test_evasion_is_rejected(data: bytes) -> None:
    backend = Backend()

    async def main() -> None:
        async with raw_upstream(backend.serve) as url, gateway(spec(url), limits=replace(LIMITS, body=1 << 20)) as gate:
            first, *others = await exchange(gate, data)
            assert 400 <= first < 500 or first == 501
            assert others.count(200) <= 1, "only the probe"
            assert backend.received == []
            assert await exchange(gate, call(GOOD)) == [200, 200]
            await until(gate.idle)
            backend.check()

    clock.run(main())


@pytest.mark.parametrize("data", ACCEPTED.values(), ids=ACCEPTED)
def test_similar_request_is_served(data: bytes) -> None:
    """The table rejects evasions, not requests that only look like one."""
    backend = Backend()

    async def main() -> None:
        async with raw_upstream(backend.serve) as url, gateway(spec(url)) as gate:
            assert (await exchange(gate, data))[0] == 200
            assert len(backend.received) == 1
            backend.check()

    clock.run(main())


@pytest.mark.parametrize(
    ("limits", "allowed"),
    [
        ({"requestsPerMinute": 1}, 1),
        ({"requestsPerMinute": 7}, 7),
        ({"maxParallelRequests": 1}, 1),
        ({"tokensPerMinute": 100}, 2),
        ({"tokensPerMinute": 1}, 1),
    ],
)
def test_concurrent_requests_do_not_exceed_a_limit(limits: dict[str, int], allowed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """50 requests at once; each reserves its prompt (18 tokens by its size) and its 30 completion tokens."""
    monkeypatch.setattr(state, "_MINUTE", 1e9)  # no allowance is refilled, however busy the machine is

    async def main() -> None:
        keys = [{**KEYS[0], "rateLimit": limits}]
        async with upstream(ttft=3600.0) as echo, gateway(document(echo.url, keys=keys)) as gate:
            clients = [await Client.open(gate.port) for _ in range(50)]
            for client in clients:
                client.send("POST", CHAT, chat("w", max_tokens=30), key="ka")
            rejected = asyncio.as_completed([client.get() for client in clients])
            statuses = [(await next(rejected)).status for _ in range(50 - allowed)]
            assert statuses == [429] * (50 - allowed)
            await until(lambda: echo.engine.received == allowed)
            for client in clients:
                client.writer.transport.abort()
            await until(gate.idle)

    clock.run(main())


def test_reserved_tokens_are_returned() -> None:
    """A request that used few of its tokens, and one that failed, leave the rest to others."""

    async def main() -> None:
        keys = [{**KEYS[0], "rateLimit": {"tokensPerMinute": 200}}]
        async with upstream() as echo, gateway(document(echo.url, keys=keys, retries={"attempts": 0})) as gate:
            short = chat("w", max_tokens=100, stop=["w"])
            for _ in range(3):
                assert (await gate.request("POST", CHAT, short, key="ka")).status == 200
            await echo.kill()
            assert (await gate.request("POST", CHAT, short, key="ka")).status >= 502

    clock.run(main())


SSE = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n'


def test_stream_that_ends_at_any_byte_is_reported() -> None:
    """A backend that ends its chunked stream anywhere: the client gets an error event or an error response, never a hang."""
    whole = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    whole += b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (SSE, b"data: [DONE]\n\n")) + b"0\r\n\r\n"
    cut = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, _ = await read_request(reader)
        writer.write(RESPONSE if head.startswith(b"GET") else whole[:cut])

    async def main() -> None:
        nonlocal cut
        once = {"retries": {"attempts": 0}, "health_check": {"consecutiveFailures": 1_000_000}}
        async with raw_upstream(serve) as url, gateway(document(url, kind="openai", **once)) as gate:
            for cut in range(len(whole)):
                response = await gate.request("POST", CHAT, chat("w", stream=True))
                assert response.status == 502 or b'"error"' in response.body, cut
            await until(gate.idle)

    clock.run(main())
