"""A running gateway: configuration reload, certificates, shutdown, logs and traces."""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
import subprocess
import sys
import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from tests.support.certificates import renew
from tests.support.gateways import Client, chat, document, gateway, raw_upstream, read_request, send_request, until, upstream

from sliceworks.base import clock, yaml_documents
from sliceworks.base.errors import SliceworksError, Unreachable
from sliceworks.cli.main import run
from sliceworks.serving import service_endpoint
from sliceworks.serving.gateway.program import Program
from sliceworks.serving.gateway.state import read_document
from sliceworks.serving.service_endpoint import Endpoint

if TYPE_CHECKING:
    from pathlib import Path


def write(file: Path, spec: dict[str, Any]) -> None:
    head = {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "Gateway", "metadata": {"name": "g"}}
    file.write_text(yaml_documents.dump({**head, "spec": {"listen": {"port": 0}, "anonymous": True, **spec}}))


def model(url: str, name: str = "m") -> dict[str, Any]:
    return {"name": name, "backends": [{"kind": "echo", "url": url}]}


def test_reload_keeps_active_requests(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"

    async def main() -> None:
        async with upstream(token_time=0.02, models=("*",)) as one, upstream(models=("*",)) as two:
            write(file, {"models": [model(one.url)]})
            async with gateway(read_document(file).spec, file) as gate, await Client.open(gate.port) as client:
                client.send("POST", "/v1/chat/completions", chat("a b c d e f g h i j", stream=True))
                await client.head()
                write(file, {"models": [model(two.url), model(two.url, "n")]})
                assert await gate.program.reload()
                assert (await gate.request("POST", "/v1/chat/completions", chat(model="n"))).status == 200
                assert (await gate.request("POST", "/v1/chat/completions", chat())).status == 200
                assert (one.engine.received, two.engine.received) == (1, 2)
                pieces = [piece async for piece in _rest(client)]
                assert pieces[-1].endswith(b"[DONE]\n\n")
                await until(lambda: not one.server.connections)

    clock.run(main())


HOSTILE_DOCUMENTS = {
    "deep": "[" * 100_000,
    "deep field": "spec: " + "[" * 100_000,
    "deep block": "- " * 50_000,
    "aliases": "a: &a [1,1,1,1,1,1,1,1,1]\n"
    + "".join(f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in pairwise("abcdefghijk")),
    "cycle": "spec: &a [*a]",
    "binary": "spec: \0",
    "huge number": "spec: " + "9" * 100_000,
    "other kinds": "a: 1\n---\n" * 1000,
    "empty": "",
}


@pytest.mark.parametrize("text", HOSTILE_DOCUMENTS.values(), ids=HOSTILE_DOCUMENTS)
def test_hostile_document_keeps_the_configuration_and_the_streams(tmp_path: Path, text: str) -> None:
    file = tmp_path / "gateway.yaml"

    async def main() -> None:
        async with upstream(token_time=0.02, models=("*",)) as one:
            write(file, {"models": [model(one.url)]})
            async with gateway(read_document(file).spec, file) as gate, await Client.open(gate.port) as client:
                state = gate.program.router.state
                client.send("POST", "/v1/chat/completions", chat("a b c d e f g h i j", stream=True))
                await client.head()
                file.write_text(text)
                with pytest.raises(SliceworksError) as refusal:
                    await gate.program.reload()
                assert "\n" not in refusal.value.message
                assert gate.program.router.state is state
                assert [piece async for piece in _rest(client)][-1].endswith(b"[DONE]\n\n")

    clock.run(main())


def test_queued_request_gets_a_backend_after_reload(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"

    async def main() -> None:
        async with upstream(models=("*",)) as two:
            times = {"timeouts": {"connect": "200s"}}
            write(file, {"models": [model("http://127.0.0.1:1")], **times})
            async with gateway(read_document(file).spec, file) as gate, await Client.open(gate.port) as client:
                served = gate.program.router.state.models["m"]
                await until(lambda: not served.balancer.upstreams[0].healthy)
                client.send("POST", "/v1/chat/completions", chat())
                await until(lambda: served.balancer.waiting == 1)
                for _ in range(2):
                    write(file, {"models": [model("http://127.0.0.1:2")], **times})
                    await gate.program.reload()
                write(file, {"models": [model(two.url)], **times})
                await gate.program.reload()
                async with asyncio.timeout(60):
                    assert (await client.get()).status == 200

    clock.run(main())


def test_queued_request_of_removed_model_is_rejected(tmp_path: Path) -> None:
    """Immediately. Requests that were started continue, and a name that another model now has is not unknown."""
    file = tmp_path / "gateway.yaml"
    times = {"timeouts": {"connect": "200s"}}

    async def main() -> None:
        async with upstream(models=("*",), token_time=0.02) as well:
            m, n, o = model("http://127.0.0.1:1"), model(well.url, "n"), model("http://127.0.0.1:1", "o")
            write(file, {"models": [m, n, o], **times})
            async with (
                gateway(read_document(file).spec, file) as gate,
                await Client.open(gate.port) as waiting,
                await Client.open(gate.port) as served,
                await Client.open(gate.port) as other,
            ):
                models = gate.program.router.state.models
                await until(lambda: not models["m"].balancer.upstreams[0].healthy and not models["o"].balancer.upstreams[0].healthy)
                waiting.send("POST", "/v1/chat/completions", chat())
                other.send("POST", "/v1/chat/completions", chat(model="o"))
                served.send("POST", "/v1/chat/completions", chat("a b c d e f g h i j k l", model="n", stream=True))
                await served.head()
                await until(lambda: models["m"].balancer.waiting == models["o"].balancer.waiting == 1)
                write(file, {"models": [m, n, o], **times, "drainTimeout": "1s"})
                await gate.program.reload()
                write(file, {"models": [{**model(well.url, "p"), "aliases": ["o"]}], **times})
                await gate.program.reload()
                async with asyncio.timeout(60):
                    response = await waiting.get()
                    assert (await other.get()).status == 503
                assert (response.status, response.json["error"]["code"]) == (404, "model_not_found")
                assert (await gate.request("POST", "/v1/chat/completions", chat(model="o"))).status == 200
                assert [piece async for piece in _rest(served)][-1].endswith(b"[DONE]\n\n")

    clock.run(main())


async def _rest(client: Client) -> Any:
    while piece := await client.chunk():
        yield piece


def test_unchanged_backends_keep_their_state(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"

    async def main() -> None:
        async with upstream(models=("*",)) as one:
            rate = {"requestsPerMinute": 2}
            write(file, {"models": [{**model(one.url), "rateLimit": rate}]})
            async with gateway(read_document(file).spec, file) as gate:
                before = gate.program.router.state.upstreams[0]
                assert (await gate.request("POST", "/v1/chat/completions", chat())).status == 200
                write(file, {"models": [{**model(one.url), "rateLimit": rate}, model(one.url, "n")]})
                write(
                    file, {"models": [{**model(one.url), "rateLimit": rate}, model(one.url, "n")], "limits": {"maxBodySize": "1Ki"}}
                )
                await gate.program.reload()
                assert (await gate.request("POST", "/v1/chat/completions", b"x" * 1025)).status == 413
                assert gate.program.router.state.models["m"].balancer.upstreams[0] is before
                assert (await gate.request("POST", "/v1/chat/completions", chat())).status == 200
                assert (await gate.request("POST", "/v1/chat/completions", chat())).status == 429

    clock.run(main())


def test_models_of_one_backend_share_its_limits(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"

    async def main() -> None:
        async with upstream(models=("*",), ttft=10.0) as one:
            write(file, {"models": [model(one.url), model(one.url, "n")]})
            async with gateway(read_document(file).spec, file) as gate:
                for drain in ("1s", "2s"):
                    async with await Client.open(gate.port) as client:
                        client.send("POST", "/v1/chat/completions", chat())
                        await until(lambda: one.engine.in_flight == 1)
                        numbers = await gate.metrics()
                        assert 'vllm:num_requests_running{model_name="m"} 1\n' in numbers
                        assert 'vllm:num_requests_running{model_name="n"} 0\n' in numbers
                        assert f'sliceworks_gateway_backend_outstanding{{backend="{one.url}"}} 1\n' in numbers
                    await until(gate.idle)
                    write(file, {"models": [model(one.url), model(one.url, "n")], "drainTimeout": drain})
                    await gate.program.reload()

    clock.run(main())


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("models: [", "gateway.yaml:"),
        ({"models": []}, "spec.models"),
        ({"models": [{"name": "m"}]}, "backends or discovery is required"),
        ({"models": [model("ftp://x")]}, "url must be an HTTP URL such as"),
        ({"models": [model("http://x")], "kyes": []}, "did you mean keys"),
        ({"models": [model("http://x")], "listen": {"port": 1}}, "cannot change while the gateway runs"),
        ({"models": [{"name": "m", "backends": [{"kind": "openai", "url": "https://x", "caFile": "/no/ca"}]}]}, "/no/ca"),
        (
            {"models": [{"name": "m", "backends": [{"kind": "openai", "url": "http://x", "credential": {"file": "/no/where"}}]}]},
            "/no/where",
        ),
        ({"models": [{"name": "m", "discovery": {"kind": "echo", "labels": {"app": "a"}}}]}, "context"),
    ],
)
def test_invalid_document_is_rejected_and_reported(
    tmp_path: Path, spec: Any, says: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "of-no-cluster"))
    (tmp_path / "of-no-cluster").write_text("apiVersion: v1\nkind: Config\n")
    file = tmp_path / "gateway.yaml"
    (tmp_path / "key").write_text("boss")

    async def main() -> None:
        async with upstream() as one:
            admin = {"port": 0, "key": {"file": str(tmp_path / "key")}}
            write(file, {"models": [model(one.url)], "admin": admin})
            async with gateway(read_document(file).spec, file) as gate:
                assert gate.admin is not None
                if isinstance(spec, str):
                    file.write_text(spec)
                else:
                    write(file, {"admin": admin, **spec})
                response = await send_request(gate.admin, "POST", "/admin/reload", key="boss")
                assert response.status == 422
                assert says in response.json["error"]["message"]
                assert "keeping the previous configuration" in caplog.text
                assert says in (await send_request(gate.admin, "GET", "/admin/status", key="boss")).json["problem"]
                assert (await gate.request("POST", "/v1/chat/completions", chat())).status == 200
                assert 'reloads_total{result="failure"}' in await gate.metrics()
                write(file, {"models": [model(one.url)], "admin": admin, "drainTimeout": "1s"})
                assert (await send_request(gate.admin, "POST", "/admin/reload", key="boss")).json == {"changed": True}

    with caplog.at_level(logging.ERROR):
        clock.run(main())


def test_file_changes_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sliceworks.serving.gateway.program._FILE_CHECK_INTERVAL", 0.01)
    file, key = tmp_path / "gateway.yaml", tmp_path / "key"

    async def main() -> None:
        async with upstream(models=("*",)) as one:
            key.write_text("first")
            keys = [{"name": "a", "secret": {"file": str(key)}}]
            write(file, {"models": [model(one.url)], "anonymous": False, "keys": keys})
            async with gateway(read_document(file).spec, file) as gate:
                write(file, {"models": [model(one.url), model(one.url, "n")], "anonymous": False, "keys": keys})
                await until(lambda: "n" in gate.program.router.state.models)
                key.write_text("second one")
                while (await gate.request("GET", "/v1/models", key="second one")).status != 200:
                    await asyncio.sleep(0.01)
                assert (await gate.request("GET", "/v1/models", key="first")).status == 401

    clock.run(main())


def test_document_is_loaded_when_its_secret_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sliceworks.serving.gateway.program._FILE_CHECK_INTERVAL", 0.01)
    file, key = tmp_path / "gateway.yaml", tmp_path / "key"

    async def main() -> None:
        write(file, {"models": [model("http://127.0.0.1:1")]})
        async with gateway(read_document(file).spec, file) as gate:
            write(file, {"models": [model("http://127.0.0.1:1")], "keys": [{"name": "a", "secret": {"file": str(key)}}]})
            await until(lambda: "cannot read the secret" in gate.program.problem)
            key.write_text("late")
            await until(lambda: not gate.program.problem)
            assert (await gate.request("GET", "/v1/models", key="late")).status == 200

    clock.run(main())


def test_change_during_reload_is_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sliceworks.serving.gateway.program._FILE_CHECK_INTERVAL", 0.01)
    file = tmp_path / "gateway.yaml"

    def read(path: Path) -> Any:
        result = read_document(path)
        if len(result.spec.models) == 2:
            write(path, {"models": [model("http://127.0.0.1:1", name) for name in "mno"]})
        return result

    async def main() -> None:
        write(file, {"models": [model("http://127.0.0.1:1")]})
        async with gateway(read_document(file).spec, file) as gate:
            monkeypatch.setattr("sliceworks.serving.gateway.program.read_document", read)
            write(file, {"models": [model("http://127.0.0.1:1", name) for name in "mn"]})
            await until(lambda: len(gate.program.router.state.models) == 3, 5)

    clock.run(main())


def test_tls_with_renewed_certificate(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"

    async def trusting(certificate: bytes, port: int) -> int:
        context = ssl.create_default_context(cadata=certificate.decode())
        async with await Client.open(port, ssl=context, server_hostname="localhost") as client:
            client.send("POST", "/v1/chat/completions", chat("word " * 60_000, max_tokens=1))
            assert (await client.get()).json["usage"]["prompt_tokens"] > 59_000
            client.send("POST", "/v1/chat/completions", chat(stream=True))
            return (await client.get()).status

    async def main() -> None:
        async with upstream() as one:
            first = renew(tmp_path)
            tls = {"certFile": str(tmp_path / "tls.crt"), "keyFile": str(tmp_path / "tls.key")}
            write(file, {"models": [model(one.url)], "listen": {"port": 0, "tls": tls}})
            async with gateway(read_document(file).spec, file) as gate:
                assert await trusting(first, gate.port) == 200
                near = service_endpoint.connect_service(
                    Mock(), Endpoint("gateway", "default", gate.port, tls=True, protocol="vllm"), ["127.0.0.1"]
                )
                assert await service_endpoint.read_all(
                    near, "GET", "/v1/models"
                )  # as through an API server, which does not verify either
                with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
                    await service_endpoint.read_all(service_endpoint.DirectConnection(near.name), "GET", "/v1/models")
                second = renew(tmp_path)
                await gate.program.reload()
                assert await trusting(second, gate.port) == 200
                with pytest.raises(ssl.SSLCertVerificationError):
                    await trusting(first, gate.port)

    clock.run(main())


def test_shutdown_finishes_active_requests() -> None:
    async def main() -> None:
        async with upstream(token_time=0.01) as one:
            program = Program(document(one.url))
            port = (await program.start()).main
            async with await Client.open(port) as client, await Client.open(port) as idle:
                client.send("POST", "/v1/chat/completions", chat("a b c d e f g h", stream=True))
                await client.head()
                stopping = asyncio.ensure_future(program.stop(2.0))
                assert await idle.gone()
                with pytest.raises(OSError, match="Connect"):
                    await Client.open(port)
                pieces = [piece async for piece in _rest(client)]
                assert pieces[-1].endswith(b"[DONE]\n\n")
                await stopping

    clock.run(main())


def test_prompts_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with upstream(error_rate=0.5) as one, gateway(document(one.url, accessLog=True)) as gate:
            for _ in range(8):
                await gate.request("POST", "/v1/chat/completions", chat("a-secret-word"))
            await gate.request("POST", "/v1/chat/completions", b'{"model": "m", "a-secret-word": ')

    with caplog.at_level(logging.DEBUG):
        clock.run(main())
    assert "m chat 200" in caplog.text
    assert "a-secret-word" not in caplog.text


def test_each_request_has_a_span() -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from sliceworks.serving.gateway.telemetry import Tracer

    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"

    async def main() -> None:
        async with (
            upstream() as one,
            gateway(document(one.url, models=[{**model(one.url), "rateLimit": {"maxParallelRequests": 1}}])) as gate,
        ):
            gate.program.router.tracer = Tracer(provider)
            await gate.request("POST", "/v1/chat/completions", chat("a b"), f"traceparent: 00-{trace}-00f067aa0ba902b7-01")
            await gate.request("POST", "/v1/chat/completions", chat("a b", model="m"))
            gate.program.router.state.models["m"].rate_limit.in_flight = 1
            assert (await gate.request("POST", "/v1/chat/completions", chat("a b"))).status == 429

    clock.run(main())
    first, second, refused = exporter.get_finished_spans()
    assert first.context is not None
    assert first.name == "chat m"
    assert f"{first.context.trace_id:032x}" == trace
    assert first.attributes is not None
    assert first.attributes["gen_ai.usage.output_tokens"] == 2
    assert first.attributes["http.response.status_code"] == 200
    assert second.parent is None
    assert refused.attributes is not None
    assert refused.attributes["http.response.status_code"] == 429


def test_spans_reach_the_collector() -> None:
    """As configured, over OTLP: the client's trace, our span in it, and the backend's below ours; no content of the prompt."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    received: list[bytes] = []
    heads: list[bytes] = []
    trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"

    async def collect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            _, body = await read_request(reader)
            received.append(body)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_request(reader)
            heads.append(head)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")

    async def main() -> None:
        async with raw_upstream(collect) as collector, raw_upstream(serve) as server:
            tracing = {"endpoint": f"{collector}/v1/traces", "samplingRatio": 1.0}
            async with gateway(document(server, kind="openai", tracing=tracing)) as gate:
                response = await gate.request(
                    "POST", "/v1/chat/completions", chat("a-secret-word"), f"traceparent: 00-{trace}-{parent}-01"
                )
                assert response.status == 200

    clock.run(main())
    reported = ExportTraceServiceRequest.FromString(b"".join(received))
    (resource,) = reported.resource_spans
    names = {item.key: item.value.string_value for item in resource.resource.attributes}
    assert names["service.name"] == "sliceworks-gateway"
    (span,) = resource.scope_spans[0].spans
    assert (span.name, span.trace_id.hex(), span.parent_span_id.hex()) == ("chat m", trace, parent)
    passed = next(line for head in heads for line in head.split(b"\r\n") if line.startswith(b"traceparent: "))
    assert passed.split(b"-")[1:3] == [trace.encode(), span.span_id.hex().encode()]
    assert b"a-secret-word" not in received[0]


def test_command_runs_until_sigterm(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    write(file, {"models": [model("http://127.0.0.1:1")]})
    command = [sys.executable, "-m", "sliceworks", "gateway", "run", "-f", str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        reported = process.stderr.readline()
        assert reported.startswith("Serving m at http://127.0.0.1:")
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_invalid_document_is_a_one_line_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "gateway.yaml"
    write(file, {"models": [model("http://127.0.0.1:1")], "anonymous": False})
    assert run(["gateway", "run", "-f", str(file)]) == 1
    reported = capsys.readouterr().err
    assert reported.startswith(f"error: {file}:")
    assert "keys: required, unless anonymous is true" in reported
    assert reported.count("\n") == 1


def test_file_without_gateway_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    file.write_text("kind: Pod\n")
    with pytest.raises(SliceworksError, match="expected one document of kind Gateway, found 0"):
        read_document(file)


def test_large_document_is_read_beside_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading takes up to half a second: streams go on, and a second reload waits for the first."""
    file, reading, read = tmp_path / "gateway.yaml", list[str](), threading.Event()

    def wait(path: Path) -> Any:
        reading.append(threading.current_thread().name)
        assert read.wait(30)
        return read_document(path)

    async def main() -> None:
        async with upstream() as one:
            write(file, {"models": [model(one.url)]})
            async with gateway(read_document(file).spec, file) as gate:
                monkeypatch.setattr("sliceworks.serving.gateway.program.read_document", wait)
                reloads = [asyncio.create_task(gate.program.reload()) for _ in range(2)]
                await until(lambda: len(reading) == 1)
                assert (await gate.request("POST", "/v1/chat/completions", chat())).status == 200
                read.set()
                assert await asyncio.gather(*reloads) == [False, False]
                assert len(reading) == 2
                assert "worker" in reading[0]

    clock.run(main())
