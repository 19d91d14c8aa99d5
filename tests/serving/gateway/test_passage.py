"""gRPC through the gateway: until a server's first message another one is asked, with all that the client has sent."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest
from tests.support.gateways import document, gateway, until

from sliceworks.base import clock
from sliceworks.serving.gateway import wire
from sliceworks.serving.gateway.resending import Messages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support.gateways import Running

    Serve = Callable[[AsyncIterator[bytes], Any], AsyncIterator[bytes]]

METHOD = "/inference.GRPCInferenceService/ModelStreamInfer"


def message(text: str) -> bytes:
    return wire.text_field(1, "m") + wire.text_field(4, text)


class Handler(grpc.GenericRpcHandler):
    def __init__(self, serve: Serve) -> None:
        self._serve = serve

    def service(self, handler_call_details: Any) -> Any:
        return grpc.stream_stream_rpc_method_handler(self._serve)


@asynccontextmanager
async def server(serve: Serve) -> AsyncIterator[str]:
    running = grpc.aio.server(handlers=[Handler(serve)])
    port = running.add_insecure_port("127.0.0.1:0")
    await running.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await running.stop(0)


@asynccontextmanager
async def before(*addresses: str, **more: Any) -> AsyncIterator[tuple[Running, Any]]:
    backends = [{"kind": "triton", "url": f"http://127.0.0.1:{number + 1}", "grpc": each} for number, each in enumerate(addresses)]
    models = [{"name": "m", "backends": backends}]
    spec = document(models=models, listen={"port": 0, "grpcPort": 0}, health={"every": "1h", "open": "50ms"}, **more)
    async with gateway(spec) as gate, grpc.aio.insecure_channel(f"127.0.0.1:{gate.grpc}") as channel:
        for each in gate.program.application.state.servers:
            await until(lambda each=each: each.checked)  # type: ignore[misc]
            each.well = True  # its HTTP side is not there
        yield gate, channel.stream_stream(METHOD)


async def every(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    """Says each message again."""
    async for each in messages:
        yield each
    context.set_trailing_metadata((("one", "1"), ("two", "2")))


async def busy(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    """Takes two messages, and then has no time."""
    await anext(messages)
    await anext(messages)
    await context.abort(grpc.StatusCode.UNAVAILABLE, "too busy")
    yield b""


async def stops(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    """Begins to answer, and fails."""
    yield await anext(messages)
    await context.abort(grpc.StatusCode.UNAVAILABLE, "it died")


SENT = [message(str(number)) for number in range(5)]


async def _several() -> AsyncIterator[bytes]:
    for each in SENT:
        yield each
        await asyncio.sleep(0.005)


def test_a_server_without_time_or_without_life_is_replaced_by_another() -> None:
    async def main() -> None:
        async with server(busy) as first, server(every) as good, before(first, "127.0.0.1:1", good) as (gate, ask):
            for _ in range(6):
                call = ask(_several())
                assert [each async for each in call] == SENT
                assert dict(await call.trailing_metadata()) == {"one": "1", "two": "2"}
            assert 'retries_total{model="m",reason="unavailable"}' in await gate.numbers()
            await until(gate.idle)

    clock.run(main())


def test_a_server_that_comes_back_is_asked_again_soon() -> None:
    async def main() -> None:
        async with server(every) as address, before(address) as (_, ask):
            assert [each async for each in ask(_several())] == SENT
        port = int(address.rpartition(":")[2])
        async with before(address, retries={"attempts": 0}) as (_, ask):
            with pytest.raises(grpc.aio.AioRpcError):
                assert [each async for each in ask(_several())]
            running = grpc.aio.server(handlers=[Handler(every)])
            running.add_insecure_port(f"127.0.0.1:{port}")
            await running.start()
            try:
                async with asyncio.timeout(10):
                    while True:
                        try:
                            assert [each async for each in ask(_several())] == SENT
                            break
                        except grpc.aio.AioRpcError:
                            await asyncio.sleep(0.1)
            finally:
                await running.stop(0)

    clock.run(main())


@pytest.mark.parametrize(
    ("serve", "heard", "retries"), [(busy, 0, {"attempts": 0}), (busy, 0, {"attempts": 2}), (stops, 1, {"attempts": 2})]
)
def test_there_is_an_end_to_trying(serve: Serve, heard: int, retries: dict[str, int]) -> None:
    async def main() -> None:
        async with server(serve) as address, before(address, retries=retries) as (gate, ask):
            got: list[bytes] = []

            async def listen() -> None:
                async for each in ask(_several()):
                    got.append(each)  # noqa: PERF401 - what came before the error counts

            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await listen()
            assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
            assert len(got) == heard
            await until(gate.idle)

    clock.run(main())


def test_messages_are_kept_up_to_a_size_and_until_an_answer_begins() -> None:
    async def rest() -> AsyncIterator[bytes]:
        for text in (b"two", b"three"):
            yield text

    async def main() -> None:
        messages = Messages(b"one", rest(), 6)
        first = messages.sent()
        assert [await anext(first), await anext(first)] == [b"one", b"two"]
        assert [each async for each in messages.sent()] == [b"one", b"two", b"three"]
        assert not messages.repeatable
        assert not Messages(b"long", rest(), 3).repeatable
        settled = Messages(b"one", rest(), 100)
        assert settled.repeatable
        settled.settle()
        assert [each async for each in settled.sent()] == [b"one", b"two", b"three"]

    asyncio.run(main())


def test_a_message_that_comes_while_servers_change_is_not_lost() -> None:
    async def main() -> None:
        queue: asyncio.Queue[bytes] = asyncio.Queue()

        async def rest() -> AsyncIterator[bytes]:
            while True:
                yield await queue.get()

        messages = Messages(b"one", rest(), 100)

        async def take(number: int) -> list[bytes]:
            sent = messages.sent()
            return [await anext(sent) for _ in range(number)]

        waiting = asyncio.ensure_future(take(2))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await queue.put(b"two")
        assert await take(2) == [b"one", b"two"]
        messages.close()

    asyncio.run(main())
