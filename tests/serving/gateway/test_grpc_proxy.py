"""gRPC through the gateway: until the first response message, a call is retried on another backend with all messages of the
client.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import subprocess
import sys
import textwrap
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest
from tests.support.certificates import renew, self_signed
from tests.support.gateways import Client, document, gateway, raw_upstream, until

from sliceworks.base import clock, protobuf_wire, yaml_documents
from sliceworks.base.errors import SliceworksError
from sliceworks.base.http.server import Server
from sliceworks.serving.gateway.echo import server as echo_server
from sliceworks.serving.gateway.echo.engine import Settings
from sliceworks.serving.gateway.grpc_message import ReplayableMessages
from sliceworks.serving.gateway.state import State, hash_key, read_document

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping

    from tests.support.certificates import KeyPair
    from tests.support.gateways import Running

    from sliceworks.base.http.server import Application

    Serve = Callable[[AsyncIterator[bytes], Any], AsyncIterator[bytes]]

METHOD = "/inference.GRPCInferenceService/ModelStreamInfer"


def message(text: str) -> bytes:
    return protobuf_wire.string(1, "m") + protobuf_wire.string(4, text)


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
async def gateway_for(*addresses: str, **more: Any) -> AsyncIterator[tuple[Running, Any]]:
    backends = [{"kind": "triton", "url": f"http://127.0.0.1:{number + 1}", "grpc": item} for number, item in enumerate(addresses)]
    models = [{"name": "m", "backends": backends}]
    spec = document(
        models=models, listen={"port": 0, "grpcPort": 0}, health_check={"interval": "1h", "ejectionTime": "50ms"}, **more
    )
    async with gateway(spec) as gate, grpc.aio.insecure_channel(f"127.0.0.1:{gate.grpc}") as channel:
        await _mark_healthy(gate)
        yield gate, channel.stream_stream(METHOD)


async def _mark_healthy(gate: Running) -> None:
    """Mark the backends healthy: they have no HTTP endpoint for health checks."""
    servers = gate.program.router.state.upstreams
    await until(lambda: all(server.checked for server in servers))
    await gate.program.health_checker.stop()
    for server in servers:
        server.healthy = True


async def echo_messages(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    """Echo each message."""
    async for message in messages:
        yield message
    context.set_trailing_metadata((("one", "1"), ("two", "2")))


async def busy(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    """Receive two messages, then answer RESOURCE_EXHAUSTED."""
    await anext(messages)
    await anext(messages)
    await context.abort(grpc.StatusCode.UNAVAILABLE, "too busy")
    yield b""


async def fail_after_first(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    """Start to answer, then fail."""
    yield await anext(messages)
    await context.abort(grpc.StatusCode.UNAVAILABLE, "it died")


SENT = [message(str(number)) for number in range(5)]


async def _several() -> AsyncIterator[bytes]:
    for item in SENT:
        yield item
        await asyncio.sleep(0.005)


def test_busy_or_dead_backend_is_replaced() -> None:
    async def main() -> None:
        async with server(busy) as first, server(echo_messages) as good, gateway_for(first, "127.0.0.1:1", good) as (gate, ask):
            for _ in range(6):
                call = ask(_several())
                assert [item async for item in call] == SENT
                assert dict(await call.trailing_metadata()) == {"one": "1", "two": "2"}
            assert 'retries_total{model="m",reason="unavailable"}' in await gate.metrics()
            await until(gate.idle)

    clock.run(main())


def test_each_request_of_a_stream_counts() -> None:
    """A client cannot pass its rate limit by sending all its requests in one stream."""

    async def main() -> None:
        keys = [{"name": "a", "sha256": hashlib.sha256(b"ka").hexdigest(), "rateLimit": {"requestsPerMinute": 3}}]
        async with server(echo_messages) as address, gateway_for(address, keys=keys) as (gate, ask):
            call = ask(_several(), metadata=(("authorization", "Bearer ka"),))
            received: list[bytes] = []

            async def read() -> None:
                async for item in call:
                    received.append(item)  # noqa: PERF401 (those before the error, too)

            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await read()
            assert refusal.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert received == SENT[: len(received)]
            assert len(received) <= 3
            await until(gate.idle)

    clock.run(main())


def test_tokens_that_parameters_name_count_per_minute() -> None:
    """In the first message of a stream and in each further one."""
    value = protobuf_wire.varint(2, 60)
    parameter = protobuf_wire.length_delimited(4, protobuf_wire.string(1, "max_tokens") + protobuf_wire.length_delimited(2, value))
    request = protobuf_wire.string(1, "m") + parameter

    async def requests() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield request

    async def main() -> None:
        keys = [{"name": "a", "sha256": hashlib.sha256(b"ka").hexdigest(), "rateLimit": {"tokensPerMinute": 200}}]
        limits = {"maxTokens": 60}
        async with server(echo_messages) as address, gateway_for(address, keys=keys, limits=limits) as (gate, ask):
            call, received = ask(requests(), metadata=(("authorization", "Bearer ka"),)), list[bytes]()

            async def read() -> None:
                async for item in call:
                    received.append(item)

            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await read()
            assert (refusal.value.code(), len(received) <= 3) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
            await until(gate.idle)

    clock.run(main())


def test_recovered_backend_is_used_again() -> None:
    async def main() -> None:
        async with server(echo_messages) as address, gateway_for(address) as (_, ask):
            assert [item async for item in ask(_several())] == SENT
        port = int(address.rpartition(":")[2])
        async with gateway_for(address, retries={"attempts": 0}) as (_, ask):
            with pytest.raises(grpc.aio.AioRpcError):
                assert [item async for item in ask(_several())]
            running = grpc.aio.server(handlers=[Handler(echo_messages)])
            running.add_insecure_port(f"127.0.0.1:{port}")
            await running.start()
            try:
                async with asyncio.timeout(60):
                    while True:
                        try:
                            assert [item async for item in ask(_several())] == SENT
                            break
                        except grpc.aio.AioRpcError:
                            await asyncio.sleep(0.1)
            finally:
                await running.stop(0)

    clock.run(main())


def _frame(kind: int, payload: bytes = b"") -> bytes:
    """An HTTP/2 frame for the whole connection."""
    return len(payload).to_bytes(3, "big") + bytes([kind, 0, 0, 0, 0, 0]) + payload


@pytest.mark.parametrize("reason", [0, 2, 11])
def test_goaway_without_calls_is_retried(reason: int) -> None:
    """GOAWAY on shutdown, after an error, or because of too many requests: the server has processed no new call."""
    goodbyes: list[bytes] = []

    async def goodbye(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_frame(4))
        await reader.readexactly(24)
        while True:
            head = await reader.readexactly(9)
            await reader.readexactly(int.from_bytes(head[:3], "big"))
            if head[3] == 1:  # A call begins.
                goodbyes.append(head)
                writer.write(_frame(7, (0).to_bytes(4, "big") + reason.to_bytes(4, "big")))
                await writer.drain()
                return

    async def main() -> None:
        async with (
            raw_upstream(goodbye) as url,
            server(echo_messages) as good,
            gateway_for(url.removeprefix("http://"), good) as (gate, ask),
        ):
            for _ in range(4):
                async with asyncio.timeout(60):
                    assert [item async for item in ask(_several())] == SENT
            await until(gate.idle)

    clock.run(main())
    assert goodbyes


def test_goaway_finishes_active_calls() -> None:
    """As a server does that is replaced at the same address: an active call continues, the next one goes to the new server."""

    async def new_server(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for _ in messages:
            yield b"newer"

    async def main() -> None:
        running = grpc.aio.server(handlers=[Handler(echo_messages)])
        address = f"127.0.0.1:{running.add_insecure_port('127.0.0.1:0')}"
        await running.start()
        following = grpc.aio.server(handlers=[Handler(new_server)])
        try:
            async with gateway_for(address, retries={"attempts": 0}) as (gate, ask):
                queue: asyncio.Queue[bytes] = asyncio.Queue()

                async def send_requests() -> AsyncIterator[bytes]:
                    while message := await queue.get():
                        yield message

                call = ask(send_requests())
                queue.put_nowait(SENT[0])
                assert await call.read() == SENT[0]
                ending = asyncio.ensure_future(running.stop(10))
                following.add_insecure_port(address)
                await following.start()
                of_newer = [b"newer"] * len(SENT)
                async with asyncio.timeout(60):
                    while (received := [item async for item in ask(_several())]) != of_newer:
                        assert received == SENT  # The GOAWAY has not arrived yet.
                    for _ in range(3):
                        assert [item async for item in ask(_several())] == of_newer
                for message in SENT[1:]:
                    queue.put_nowait(message)
                    assert await call.read() == message
                queue.put_nowait(b"")
                assert await call.read() is grpc.aio.EOF
                assert dict(await call.trailing_metadata()) == {"one": "1", "two": "2"}
                await ending
                await until(gate.idle)
        finally:
            await running.stop(0)
            await following.stop(0)

    clock.run(main())


@pytest.mark.parametrize(
    ("serve", "heard", "retries"), [(busy, 0, {"attempts": 0}), (busy, 0, {"attempts": 2}), (fail_after_first, 1, {"attempts": 2})]
)
def test_attempts_are_limited(serve: Serve, heard: int, retries: dict[str, int]) -> None:
    async def main() -> None:
        async with server(serve) as address, gateway_for(address, retries=retries) as (gate, ask):
            responses: list[bytes] = []

            async def listen() -> None:
                async for item in ask(_several()):
                    responses.append(item)  # noqa: PERF401 - what came before the error counts

            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await listen()
            # gRPC's own client reports a message that it writes while the call fails as an internal error.
            is_lost_write = caught.value.details() == "Internal error from Core"
            assert caught.value.code() == grpc.StatusCode.UNAVAILABLE or is_lost_write
            assert len(responses) == heard
            await until(gate.idle)

    clock.run(main())


def test_call_timeout_covers_all_attempts() -> None:
    attempts = 0

    async def slow_failure(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        nonlocal attempts
        attempts += 1
        await asyncio.sleep(0.4)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "too busy")
        yield b""

    async def main() -> None:
        limits = {"timeouts": {"total": "600ms"}, "retries": {"attempts": 10, "minRetriesPerSecond": 100}}
        async with server(slow_failure) as address, gateway_for(address, **limits) as (gate, begin):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await anext(aiter(begin(iter(SENT))))
            assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
            assert attempts <= 2  # of eleven: the second one exceeds the timeout
            await until(gate.idle)

    clock.run(main())


def test_unreadable_message_ends_the_stream_with_a_reason() -> None:
    async def odd() -> AsyncIterator[bytes]:
        yield SENT[0]
        yield b"\xff\xff"

    async def main() -> None:
        async with server(echo_messages) as address, gateway_for(address) as (gate, ask):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                async with asyncio.timeout(60):
                    assert [item async for item in ask(odd())]
            assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            await until(gate.idle)
            assert 'key="anonymous",code="400"} 1\n' in await gate.metrics()
            assert [item async for item in ask(_several())] == SENT

    clock.run(main())


def test_token_limit_holds_for_tensors() -> None:
    """Over gRPC the options of a completion are tensors: in the first message of a stream and in later ones."""

    def asking_for(tokens: int) -> bytes:
        tensor = protobuf_wire.string(1, "request_output_len") + protobuf_wire.string(2, "INT32")
        raw = protobuf_wire.length_delimited(7, tokens.to_bytes(4, "little"))
        return protobuf_wire.string(1, "m") + protobuf_wire.length_delimited(5, tensor) + raw

    async def main() -> None:
        async with server(echo_messages) as address, gateway_for(address, limits={"maxTokens": 12}) as (_, ask):
            assert [item async for item in ask(aiter_of(asking_for(12)))] == [asking_for(12)]
            for messages in ([asking_for(13)], [asking_for(1), asking_for(2**20)]):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    assert [item async for item in ask(aiter_of(*messages))]
                assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
                assert "must be at most 12" in (caught.value.details() or "")

    clock.run(main())


async def aiter_of(*messages: bytes) -> AsyncIterator[bytes]:
    for item in messages:
        yield item


def test_metadata_is_proxied() -> None:
    async def reject(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        given = [pair for pair in context.invocation_metadata() if pair[0].startswith("x-")]
        async for _ in messages:  # gRPC's client loses the status if a write fails at the same time
            pass
        await context.abort(grpc.StatusCode.INTERNAL, "no", tuple(given))
        yield b""

    async def main() -> None:
        sent = (("x-text", "a"), ("x-raw-bin", b"\x00\xff"), ("x-text", "b"), ("x-raw-bin", b"\x01"), ("x-last", ""))
        async with server(reject) as address, gateway_for(address) as (gate, ask):
            for _ in range(6):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    assert [item async for item in ask(_several(), metadata=sent)]
                assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.INTERNAL, "no")
                assert _by_name(caught.value.trailing_metadata()) == _by_name(sent)
            # It may be the fault of the request, and opens no circuit.
            assert not gate.program.router.state.upstreams[0].circuit_open

    clock.run(main())


def _by_name(metadata: Iterable[tuple[str, str | bytes]]) -> dict[str, list[str | bytes]]:
    """Values in their order; gRPC keeps no order between names."""
    result: dict[str, list[str | bytes]] = {}
    for name, value in metadata:
        result.setdefault(name, []).append(value)
    return result


def test_two_keys_are_rejected() -> None:
    async def main() -> None:
        keys = [{"name": name, "sha256": hash_key(name).hex()} for name in ("a", "b")]
        async with server(echo_messages) as address, gateway_for(address, keys=keys) as (_, ask):
            one, two = (("authorization", f"Bearer {name}") for name in ("a", "b"))
            assert [item async for item in ask(_several(), metadata=(one,))] == SENT
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                assert [item async for item in ask(_several(), metadata=(one, two))]
            assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED

    clock.run(main())


def test_client_disconnect_during_responses() -> None:
    async def flood(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 100_000

    async def main() -> None:
        async with server(flood) as address, gateway_for(address) as (gate, ask):
            call = ask(_several())
            await call.read()
            await asyncio.sleep(0.3)  # It stops reading, so that the gateway blocks within a message.
            call.cancel()
            await until(gate.idle)
            assert 'key="anonymous",code="499"} 1\n' in await gate.metrics()

    clock.run(main())


def test_channel_is_closed_after_its_calls() -> None:
    async def main() -> None:
        async with server(echo_messages) as address, gateway_for(address) as (gate, ask):
            program, running = gate.program, asyncio.Event()

            async def waits() -> AsyncIterator[bytes]:
                yield SENT[0]
                await running.wait()
                yield SENT[1]

            call = ask(waits())
            assert await call.read() == SENT[0]
            assert program._grpc is not None
            channels = program._grpc.proxy._channels
            program._apply(State(document("http://127.0.0.1:2"), program.router.state))
            assert len(channels) == 1
            running.set()
            assert await call.read() == SENT[1]
            assert await call.read() is grpc.aio.EOF
            await until(lambda: not channels)

    clock.run(main())


def test_messages_are_buffered_until_a_response() -> None:
    async def rest() -> AsyncIterator[bytes]:
        for text in (b"two", b"three"):
            yield text

    async def main() -> None:
        messages = ReplayableMessages(b"one", rest(), 6)
        first = messages.replay()
        assert [await anext(first), await anext(first)] == [b"one", b"two"]
        assert [item async for item in messages.replay()] == [b"one", b"two", b"three"]
        assert not messages.replayable
        assert not ReplayableMessages(b"long", rest(), 3).replayable
        settled = ReplayableMessages(b"one", rest(), 100)
        assert settled.replayable
        settled.settle()
        assert [item async for item in settled.replay()] == [b"one", b"two", b"three"]

    asyncio.run(main())


def test_message_during_retry_is_not_lost() -> None:
    async def main() -> None:
        queue: asyncio.Queue[bytes] = asyncio.Queue()

        async def rest() -> AsyncIterator[bytes]:
            while True:
                yield await queue.get()

        messages = ReplayableMessages(b"one", rest(), 100)

        async def take(number: int) -> list[bytes]:
            sent = messages.replay()
            return [await anext(sent) for _ in range(number)]

        waiting = asyncio.ensure_future(take(2))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await queue.put(b"two")
        assert await take(2) == [b"one", b"two"]
        messages.close()

    asyncio.run(main())


def test_failed_call_has_metric_and_span() -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from sliceworks.serving.gateway.telemetry import Tracer

    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    parents: list[str] = []

    async def seen(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        parents.append(dict(context.invocation_metadata())["traceparent"])
        async for item in fail_after_first(messages, context):
            yield item

    async def main() -> None:
        async with server(seen) as address, gateway_for(address) as (gate, ask):
            gate.program.router.tracer = Tracer(provider)
            with pytest.raises(grpc.aio.AioRpcError):
                assert [item async for item in ask(_several())]
            await until(gate.idle)
            assert 'route="ModelStreamInfer",key="anonymous",code="503"' in await gate.metrics()

    clock.run(main())
    (span,) = exporter.get_finished_spans()
    assert span.context is not None
    assert [parent.split("-")[1:3] for parent in parents] == [[f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"]]
    assert span.attributes is not None
    assert (span.name, span.attributes["http.response.status_code"]) == ("ModelStreamInfer m", 503)


def test_client_certificates_and_renewed_server_certificate(tmp_path: Path) -> None:
    """Over gRPC as over HTTP: a client needs a certificate of the authority."""
    client = self_signed("client")
    (tmp_path / "clients.crt").write_bytes(client.certificate)

    async def says(port: int | None, trusted: bytes, shown: KeyPair | None) -> bytes:
        pair = (shown.key, shown.certificate) if shown is not None else (None, None)
        credentials = grpc.ssl_channel_credentials(trusted, *pair)
        async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
            live: Any = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
            return bytes(await live(b"", timeout=60))

    async def main() -> None:
        first = renew(tmp_path)
        file = tmp_path / "gateway.yaml"
        tls = {
            "certFile": str(tmp_path / "tls.crt"),
            "keyFile": str(tmp_path / "tls.key"),
            "clientCAFile": str(tmp_path / "clients.crt"),
        }
        listen = {"port": 0, "grpcPort": 0, "tls": tls}
        spec = document("http://127.0.0.1:1", listen=listen)
        body = {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "Gateway", "metadata": {"name": "g"}}
        models = [{"name": "m", "backends": [{"kind": "echo", "url": "http://127.0.0.1:1"}]}]
        file.write_text(yaml_documents.dump({**body, "spec": {"listen": listen, "anonymous": True, "models": models}}))
        async with gateway(spec.model_copy(update={"drain_timeout": 0.1}), file) as gate:
            assert await says(gate.grpc, first, client) == b"\x08\x01"
            for stranger in (None, self_signed("stranger")):
                with pytest.raises(grpc.aio.AioRpcError):
                    await says(gate.grpc, first, stranger)
            with pytest.raises(ssl.SSLError):
                await _over_http(gate.port, first, None)
            assert await _over_http(gate.port, first, (tmp_path, client)) == 200
            second = renew(tmp_path)
            await gate.program.reload()
            assert await says(gate.grpc, second, client) == b"\x08\x01"
            with pytest.raises(grpc.aio.AioRpcError):
                await says(gate.grpc, first, client)
            other = self_signed("other")
            (tmp_path / "clients.crt").write_bytes(other.certificate)
            await gate.program.reload()
            assert await says(gate.grpc, second, other) == b"\x08\x01"
            assert await _over_http(gate.port, second, (tmp_path, other)) == 200
            with pytest.raises(grpc.aio.AioRpcError):
                await says(gate.grpc, second, client)
            with pytest.raises(ssl.SSLError):
                await _over_http(gate.port, second, (tmp_path, client))
            (tmp_path / "clients.crt").write_bytes(b"not a certificate")
            with pytest.raises(SliceworksError, match="cannot load the client CA file"):
                await gate.program.reload()
            assert await _over_http(gate.port, second, (tmp_path, other)) == 200

    clock.run(main())


def test_backends_with_tls_and_credential(tmp_path: Path) -> None:
    created = self_signed()
    (tmp_path / "authority.crt").write_bytes(created.certificate)
    (tmp_path / "credential").write_text("of-the-server")
    received: list[str] = []

    async def seen(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        received.append(dict(context.invocation_metadata())["authorization"])
        async for message in messages:
            yield message

    class Told(echo_server.EchoServer):
        def authenticate(self, method: str, path: str, headers: Mapping[str, str], peer: object = None) -> object:
            received.append(headers.get("authorization", ""))
            return None

    async def main() -> None:
        async with over_tls(created, tmp_path, Told(Settings(models=("m",))), seen) as backend:
            backend["url"] = backend["url"].replace("https:", "HTTPS:")
            models = [{"name": "m", "backends": [{**backend, "credential": {"file": str(tmp_path / "credential")}}]}]
            async with gateway(document(models=models, listen={"port": 0, "grpcPort": 0})) as gate:
                async with grpc.aio.insecure_channel(f"127.0.0.1:{gate.grpc}") as channel:
                    ask: Any = channel.stream_stream(METHOD)
                    key = (("authorization", "Bearer of-the-client"),)
                    assert [item async for item in ask(_several(), metadata=key)] == SENT
                response = await gate.request("POST", "/v2/models/m/generate", {"text_input": "a b"}, key="of-the-client")
                assert response.json["text_output"] == "a b"

    clock.run(main())
    assert set(received) <= {"Bearer of-the-server", ""}
    assert received.count("Bearer of-the-server") >= 2


@asynccontextmanager
async def over_tls(made: KeyPair, folder: Path, application: Application, serve: Serve) -> AsyncIterator[dict[str, Any]]:
    """A backend with TLS over HTTP and gRPC, and its configuration; `authority.crt` is the trusted CA."""
    (folder / "server.pem").write_bytes(made.certificate + made.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    plain = Server(application)
    port = await plain.start("127.0.0.1", 0, context)
    running = grpc.aio.server(handlers=[Handler(serve)])
    over = running.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(made.key, made.certificate)]))
    await running.start()
    try:
        at = {"url": f"https://127.0.0.1:{port}", "grpc": f"127.0.0.1:{over}"}
        yield {"kind": "triton", **at, "caFile": str(folder / "authority.crt")}
    finally:
        await running.stop(0)
        await plain.stop(0)


def test_changed_ca_file_is_reloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over HTTP and gRPC: an unusable file changes nothing, and a backend with an unchanged CA keeps its connections."""
    monkeypatch.setattr("sliceworks.serving.gateway.program._FILE_CHECK_INTERVAL", 0.01)
    created, file, authority = self_signed(), tmp_path / "gateway.yaml", tmp_path / "authority.crt"

    async def main() -> None:
        authority.write_bytes(self_signed("another").certificate)
        async with over_tls(created, tmp_path, echo_server.EchoServer(Settings(models=("m",))), echo_messages) as backend:
            spec = {"listen": {"port": 0, "grpcPort": 0}, "models": [{"name": "m", "backends": [backend]}], "anonymous": True}
            body = {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "Gateway", "metadata": {"name": "g"}}
            file.write_text(yaml_documents.dump({**body, "spec": spec}))
            async with gateway(read_document(file).spec, file) as gate:
                state = gate.program.router.state
                await until(lambda: state.upstreams[0].checked)
                assert not state.upstreams[0].healthy
                authority.write_bytes("of the café\n".encode() + created.certificate)
                await until(lambda: gate.program.router.state is not state)
                state = gate.program.router.state
                response = await gate.request("POST", "/v2/models/m/generate", {"text_input": "a b"})
                assert response.json["text_output"] == "a b"
                async with grpc.aio.insecure_channel(f"127.0.0.1:{gate.grpc}") as channel:
                    ask: Any = channel.stream_stream(METHOD)
                    assert [item async for item in ask(_several())] == SENT
                for wrong in (b"", b"not a certificate"):
                    authority.write_bytes(wrong)
                    with pytest.raises(SliceworksError, match="cannot use the CA file: it contains no certificate"):
                        await gate.program.reload()
                    assert gate.program.router.state is state
                authority.write_bytes("of the café\n".encode() + created.certificate)
                await until(lambda: not gate.program.problem)
                assert gate.program.router.state.upstreams == state.upstreams

    clock.run(main())


async def _over_http(port: int, trusted: bytes, shown: tuple[Path, KeyPair] | None) -> int:
    context = ssl.create_default_context(cadata=trusted.decode())
    if shown is not None:
        (shown[0] / "client.pem").write_bytes(shown[1].certificate + shown[1].key)
        context.load_cert_chain(shown[0] / "client.pem")
    async with await Client.open(port, ssl=context, server_hostname="localhost") as client:
        client.send("GET", "/v1/models")
        try:
            return (await client.get()).status
        except ValueError:
            raise ssl.SSLError("the line dropped") from None


def test_unstopped_grpc_server_does_not_block() -> None:
    """grpc waits for its calls when Python collects its last object, which may happen at any time."""
    script = """
        import gc, grpc, grpc.aio
        from tests.serving.gateway.test_grpc_proxy import METHOD, Handler
        from tests.support.gateways import document, gateway
        from sliceworks.base import clock

        async def silent(messages, context):
            async for message in messages:
                yield message
            await clock.sleep(1000)

        async def one():
            yield b""

        async def main():
            async with gateway(document("http://127.0.0.1:1", listen={"port": 0, "grpcPort": 0})):
                pass
            left = grpc.aio.server(handlers=[Handler(silent)])
            port = left.add_insecure_port("127.0.0.1:0")
            await left.start()
            channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
            await channel.stream_stream(METHOD)(one()).read()
            kept = [left, channel]
            kept.append(kept)

        gc.disable()
        clock.run(main())
        gc.collect()
        print("collected")
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.returncode) == ("collected\n", 0), done.stderr
