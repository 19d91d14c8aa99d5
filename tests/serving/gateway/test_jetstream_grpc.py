"""JetStream's gRPC through the gateway: the same cases on a stub, and on a real server with its mock engine.

Messages are encoded by hand from JetStream's definitions: text is field 1 of field 5 of a request, tokens are field 4.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest
from tests.real import jetstream
from tests.support.clusters import real_enabled
from tests.support.gateways import Running, document, gateway, until

from sliceworks.base import clock, protobuf_wire
from sliceworks.serving.gateway import grpc_message, state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

pytestmark = pytest.mark.timeout(600)  # an environment may have to be created first
KEYS = [{"name": "a", "sha256": hashlib.sha256(b"right").hexdigest()}]
TIMES = {"firstToken": "400s", "idle": "400s", "total": "500s"}  # the mock engine compiles first
KEY = (("authorization", "Bearer right"),)


def decode_request(text: str) -> bytes:
    """A request for a string of two tokens: the mock engine delays each."""
    inner = protobuf_wire.string(1, text)
    return b"\x20\x02" + b"\x2a" + bytes([len(inner)]) + inner


def decode_response(text: str) -> bytes:
    """A response with one sample."""
    sample = protobuf_wire.string(1, text)
    samples = b"\x0a" + bytes([len(sample)]) + sample
    return b"\x1a" + bytes([len(samples)]) + samples


class Stub(grpc.GenericRpcHandler):
    """A stub that answers as JetStream does for a known string."""

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method

        async def decode(messages: AsyncIterator[bytes], _: Any) -> AsyncIterator[bytes]:
            [message] = [message async for message in messages]
            assert sorted(message) == sorted(decode_request("AB"))
            assert grpc_message.read_number(message, 4) == 2
            for text in ("A", "B"):
                yield decode_response(text)

        async def check(messages: AsyncIterator[bytes], _: Any) -> AsyncIterator[bytes]:
            yield b"\x08\x01"

        return grpc.stream_stream_rpc_method_handler(decode if method.endswith("Decode") else check)


@asynccontextmanager
async def stub() -> AsyncIterator[str]:
    server = grpc.aio.server(handlers=[Stub()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


@pytest.fixture(params=["stand-in", pytest.param("jetstream", marks=pytest.mark.real)])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The address of a server."""
    if request.param == "stand-in":
        yield stub
        return
    if not real_enabled():
        pytest.skip("needs a real JetStream: SLICEWORKS_REAL=1")
    with jetstream.running(tmp_path_factory.mktemp("jetstream")) as address:

        @asynccontextmanager
        async def there() -> AsyncIterator[str]:
            yield address

        yield there


@asynccontextmanager
async def gateway_for(address: str, **model: Any) -> AsyncIterator[tuple[Running, grpc.aio.Channel]]:
    """A gateway in front of a server that only serves gRPC."""
    models = [{"name": "m", "backends": [{"kind": "jetstream", "url": "http://127.0.0.1:1", "grpc": address}], **model}]
    health = {"interval": "1h", "unhealthyThreshold": 1000}
    spec = document(models=models, keys=KEYS, listen={"port": 0, "grpcPort": 0}, timeouts=TIMES, health_check=health)
    async with gateway(spec) as gate, grpc.aio.insecure_channel(f"127.0.0.1:{gate.grpc}") as channel:
        for upstream in gate.program.router.state.upstreams:
            await until(lambda item=upstream: item.checked)  # type: ignore[misc]
            upstream.healthy = True  # its HTTP API does not exist
        yield gate, channel
        await until(gate.idle)


def test_text_is_proxied(served: Callable[[], AbstractAsyncContextManager[str]]) -> None:
    async def main() -> None:
        async with served() as address, gateway_for(address) as (gate, channel):
            live: Any = channel.unary_unary(f"{jetstream.SERVICE}HealthCheck")
            assert await live(b"", metadata=KEY) == b"\x08\x01"
            decode: Any = channel.unary_stream(f"{jetstream.SERVICE}Decode")
            messages = [message async for message in decode(decode_request("AB"), metadata=KEY)]
            assert len(messages) >= 2
            assert all(message[:1] == b"\x1a" for message in messages)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await live(b"")
            assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
            await until(gate.idle)
            assert 'route="Decode",key="a",code="200"' in await gate.metrics()

    clock.run(main())


def test_tokens_are_capped_and_counted() -> None:
    async def main() -> None:
        async with stub() as address, gateway_for(address, maxTokens=2) as (gate, channel):
            decode: Any = channel.unary_stream(f"{jetstream.SERVICE}Decode")
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await anext(aiter(decode(decode_request("AB") + protobuf_wire.varint(4, 3), metadata=KEY)))
            reported = (caught.value.code(), caught.value.details())
            assert reported == (grpc.StatusCode.INVALID_ARGUMENT, "max_tokens: must be at most 2, got 3")
            silent = decode_request("AB").removeprefix(b"\x20\x02")
            assert len([message async for message in decode(silent, metadata=KEY)]) == 2  # the stub expects 2
            await until(gate.idle)
            assert 'sliceworks_gateway_tokens_total{model="m",key="a",type="output"} 2' in await gate.metrics()

    clock.run(main())


def test_running_request_reserves_its_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 5 tokens per minute, a running request reserves two for its prompt and two for its completion."""
    monkeypatch.setattr(state, "_MINUTE", 1e9)

    async def main() -> None:
        received, release = asyncio.Event(), asyncio.Event()

        async def wait(messages: AsyncIterator[bytes], _: Any) -> AsyncIterator[bytes]:
            received.set()
            await release.wait()
            yield decode_response("A")

        monkeypatch.setattr(Stub, "service", lambda _self, _details: grpc.stream_stream_rpc_method_handler(wait))
        async with stub() as address, gateway_for(address, rateLimit={"tokensPerMinute": 5}) as (_, channel):
            decode: Any = channel.unary_stream(f"{jetstream.SERVICE}Decode")
            first = asyncio.ensure_future(_drain(decode(decode_request("AB"), metadata=KEY)))
            await received.wait()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await _drain(decode(decode_request("AB"), metadata=KEY))
            assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            release.set()
            assert await first == 1

    clock.run(main())


async def _drain(stream: Any) -> int:
    return len([message async for message in stream])
