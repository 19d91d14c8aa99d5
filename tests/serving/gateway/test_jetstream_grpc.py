"""JetStream's gRPC through the gateway: the same cases on a server that stands in for it, and on a real one with its mock engine.

Messages are written by hand from JetStream's definitions: text is field 1 of field 5 of a request, tokens are field 4.
"""

from __future__ import annotations

import hashlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest
from tests.real import jetstream
from tests.support.clusters import real_wanted
from tests.support.gateways import Running, document, gateway, until

from sliceworks.base import clock
from sliceworks.schemas import wire_writer
from sliceworks.serving.gateway import wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

pytestmark = pytest.mark.timeout(600)  # an environment may have to be made first
KEYS = [{"name": "a", "sha256": hashlib.sha256(b"right").hexdigest()}]
TIMES = {"firstToken": "400s", "idle": "400s", "total": "500s"}  # the mock engine compiles itself first
KEY = (("authorization", "Bearer right"),)


def asked(text: str) -> bytes:
    """A request for a text of two tokens: the mock engine takes its time for each."""
    inner = wire_writer.text(1, text)
    return b"\x20\x02" + b"\x2a" + bytes([len(inner)]) + inner


def said(text: str) -> bytes:
    """An answer with one sample."""
    sample = wire_writer.text(1, text)
    samples = b"\x0a" + bytes([len(sample)]) + sample
    return b"\x1a" + bytes([len(samples)]) + samples


class StandIn(grpc.GenericRpcHandler):
    """What JetStream answers, for a text that is known."""

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method

        async def decode(messages: AsyncIterator[bytes], _: Any) -> AsyncIterator[bytes]:
            [message] = [message async for message in messages]
            assert sorted(message) == sorted(asked("AB"))
            assert wire.number_of(message, 4) == 2
            for text in ("A", "B"):
                yield said(text)

        async def check(messages: AsyncIterator[bytes], _: Any) -> AsyncIterator[bytes]:
            yield b"\x08\x01"

        return grpc.stream_stream_rpc_method_handler(decode if method.endswith("Decode") else check)


@asynccontextmanager
async def stand_in() -> AsyncIterator[str]:
    server = grpc.aio.server(handlers=[StandIn()])
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
        yield stand_in
        return
    if not real_wanted():
        pytest.skip("needs a real JetStream: SLICEWORKS_REAL=1")
    with jetstream.running(tmp_path_factory.mktemp("jetstream")) as address:

        @asynccontextmanager
        async def there() -> AsyncIterator[str]:
            yield address

        yield there


@asynccontextmanager
async def before(address: str, **model: Any) -> AsyncIterator[tuple[Running, grpc.aio.Channel]]:
    """A gateway before a server of which there is only the gRPC side."""
    models = [{"name": "m", "backends": [{"kind": "jetstream", "url": "http://127.0.0.1:1", "grpc": address}], **model}]
    health = {"every": "1h", "unhealthyAfter": 1000}
    spec = document(models=models, keys=KEYS, listen={"port": 0, "grpcPort": 0}, timeouts=TIMES, health=health)
    async with gateway(spec) as gate, grpc.aio.insecure_channel(f"127.0.0.1:{gate.grpc}") as channel:
        for each in gate.program.application.state.servers:
            await until(lambda each=each: each.checked)  # type: ignore[misc]
            each.well = True  # its HTTP side is not there
        yield gate, channel
        await until(gate.idle)


def test_text_passes_both_ways(served: Callable[[], AbstractAsyncContextManager[str]]) -> None:
    async def main() -> None:
        async with served() as address, before(address) as (gate, channel):
            live: Any = channel.unary_unary(f"{jetstream.SERVICE}HealthCheck")
            assert await live(b"", metadata=KEY) == b"\x08\x01"
            decode: Any = channel.unary_stream(f"{jetstream.SERVICE}Decode")
            answers = [message async for message in decode(asked("AB"), metadata=KEY)]
            assert len(answers) >= 2
            assert all(message[:1] == b"\x1a" for message in answers)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await live(b"")
            assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
            await until(gate.idle)
            assert 'route="Decode",key="a",code="200"' in await gate.numbers()

    clock.run(main())


def test_tokens_are_capped_and_counted() -> None:
    async def main() -> None:
        async with stand_in() as address, before(address, maxTokens=2) as (gate, channel):
            decode: Any = channel.unary_stream(f"{jetstream.SERVICE}Decode")
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await anext(aiter(decode(asked("AB") + wire_writer.number(4, 3), metadata=KEY)))
            told = (caught.value.code(), caught.value.details())
            assert told == (grpc.StatusCode.INVALID_ARGUMENT, "max_tokens is at most 2 here, asked for 3")
            silent = asked("AB").removeprefix(b"\x20\x02")
            assert len([message async for message in decode(silent, metadata=KEY)]) == 2  # the stand-in wants to be told of 2
            await until(gate.idle)
            assert 'sliceworks_gateway_tokens_total{model="m",key="a",type="output"} 2' in await gate.numbers()

    clock.run(main())
