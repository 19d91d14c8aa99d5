"""A gateway that runs: its document changes, its certificate, its end; and what it tells while it does."""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from tests.support.certificates import renew
from tests.support.gateways import Client, ask, chat, document, gateway, raw_upstream, read_request, until, upstream

from sliceworks.base import clock, yamls
from sliceworks.base.errors import SliceworksError, Unreachable
from sliceworks.cli.main import run
from sliceworks.serving import reaching
from sliceworks.serving.doors import Door
from sliceworks.serving.gateway.program import Program
from sliceworks.serving.gateway.state import read_document

if TYPE_CHECKING:
    from pathlib import Path


def write(file: Path, spec: dict[str, Any]) -> None:
    head = {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "Gateway", "metadata": {"name": "g"}}
    file.write_text(yamls.dump({**head, "spec": {"listen": {"port": 0}, "anonymous": True, **spec}}))


def model(url: str, name: str = "m") -> dict[str, Any]:
    return {"name": name, "backends": [{"kind": "echo", "url": url}]}


def test_a_changed_document_is_taken_and_requests_under_way_go_on(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"

    async def main() -> None:
        async with upstream(token_time=0.02, models=("*",)) as one, upstream(models=("*",)) as two:
            write(file, {"models": [model(one.url)]})
            async with gateway(read_document(file).spec, file) as gate, await Client.open(gate.port) as client:
                client.send("POST", "/v1/chat/completions", chat("a b c d e f g h i j", stream=True))
                await client.head()
                write(file, {"models": [model(two.url), model(two.url, "n")]})
                assert await gate.program.reload()
                assert (await gate.ask("POST", "/v1/chat/completions", chat(model="n"))).status == 200
                assert (await gate.ask("POST", "/v1/chat/completions", chat())).status == 200
                assert (one.engine.received, two.engine.received) == (1, 2)
                pieces = [piece async for piece in _rest(client)]
                assert pieces[-1].endswith(b"[DONE]\n\n")
                await until(lambda: not one.server.connections)

    clock.run(main())


def test_who_waits_for_a_server_gets_one_of_the_changed_document(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"

    async def main() -> None:
        async with upstream(models=("*",)) as two:
            times = {"timeouts": {"connect": "20s"}}
            write(file, {"models": [model("http://127.0.0.1:1")], **times})
            async with gateway(read_document(file).spec, file) as gate, await Client.open(gate.port) as client:
                served = gate.program.application.state.models["m"]
                await until(lambda: not served.group.servers[0].well)
                client.send("POST", "/v1/chat/completions", chat())
                await until(lambda: served.group.waiting == 1)
                for _ in range(2):
                    write(file, {"models": [model("http://127.0.0.1:2")], **times})
                    await gate.program.reload()
                write(file, {"models": [model(two.url)], **times})
                await gate.program.reload()
                async with asyncio.timeout(5):
                    assert (await client.get()).status == 200

    clock.run(main())


def test_who_waits_for_a_model_that_a_changed_document_drops_is_told_so(tmp_path: Path) -> None:
    """At once. Who began to be served goes on, and a name that another model has now is not said to be unknown."""
    file = tmp_path / "gateway.yaml"
    times = {"timeouts": {"connect": "20s"}}

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
                models = gate.program.application.state.models
                await until(lambda: not models["m"].group.servers[0].well and not models["o"].group.servers[0].well)
                waiting.send("POST", "/v1/chat/completions", chat())
                other.send("POST", "/v1/chat/completions", chat(model="o"))
                served.send("POST", "/v1/chat/completions", chat("a b c d e f g h i j k l", model="n", stream=True))
                await served.head()
                await until(lambda: models["m"].group.waiting == models["o"].group.waiting == 1)
                write(file, {"models": [m, n, o], **times, "drain": "1s"})
                await gate.program.reload()
                write(file, {"models": [{**model(well.url, "p"), "aliases": ["o"]}], **times})
                await gate.program.reload()
                async with asyncio.timeout(5):
                    got = await waiting.get()
                    assert (await other.get()).status == 503
                assert (got.status, got.json["error"]["code"]) == (404, "model_not_found")
                assert (await gate.ask("POST", "/v1/chat/completions", chat(model="o"))).status == 200
                assert [piece async for piece in _rest(served)][-1].endswith(b"[DONE]\n\n")

    clock.run(main())


async def _rest(client: Client) -> Any:
    while piece := await client.chunk():
        yield piece


def test_what_did_not_change_goes_on_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"

    async def main() -> None:
        async with upstream(models=("*",)) as one:
            rate = {"requestsPerMinute": 2}
            write(file, {"models": [{**model(one.url), "rate": rate}]})
            async with gateway(read_document(file).spec, file) as gate:
                before = gate.program.application.state.servers[0]
                assert (await gate.ask("POST", "/v1/chat/completions", chat())).status == 200
                write(file, {"models": [{**model(one.url), "rate": rate}, model(one.url, "n")]})
                write(file, {"models": [{**model(one.url), "rate": rate}, model(one.url, "n")], "caps": {"body": "1Ki"}})
                await gate.program.reload()
                assert (await gate.ask("POST", "/v1/chat/completions", b"x" * 1025)).status == 413
                assert gate.program.application.state.models["m"].group.servers[0] is before
                assert (await gate.ask("POST", "/v1/chat/completions", chat())).status == 200
                assert (await gate.ask("POST", "/v1/chat/completions", chat())).status == 429

    clock.run(main())


def test_models_on_one_server_are_counted_apart_and_the_server_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"

    async def main() -> None:
        async with upstream(models=("*",), ttft=10.0) as one:
            write(file, {"models": [model(one.url), model(one.url, "n")]})
            async with gateway(read_document(file).spec, file) as gate:
                for drain in ("1s", "2s"):
                    async with await Client.open(gate.port) as client:
                        client.send("POST", "/v1/chat/completions", chat())
                        await until(lambda: one.engine.under_way == 1)
                        numbers = await gate.numbers()
                        assert 'vllm:num_requests_running{model_name="m"} 1\n' in numbers
                        assert 'vllm:num_requests_running{model_name="n"} 0\n' in numbers
                        assert f'sliceworks_gateway_backend_outstanding{{backend="{one.url}"}} 1\n' in numbers
                    await until(gate.idle)
                    write(file, {"models": [model(one.url), model(one.url, "n")], "drain": drain})
                    await gate.program.reload()

    clock.run(main())


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("models: [", "gateway.yaml:"),
        ({"models": []}, "spec.models"),
        ({"models": [{"name": "m"}]}, "give backends"),
        ({"models": [model("ftp://x")]}, "a url is such as"),
        ({"models": [model("http://x")], "kyes": []}, "did you mean keys"),
        ({"models": [model("http://x")], "listen": {"port": 1}}, "with a new start only"),
        ({"models": [{"name": "m", "backends": [{"kind": "openai", "url": "https://x", "authority": "/no/ca"}]}]}, "/no/ca"),
        (
            {"models": [{"name": "m", "backends": [{"kind": "openai", "url": "http://x", "credential": {"file": "/no/where"}}]}]},
            "/no/where",
        ),
        ({"models": [{"name": "m", "discover": {"kind": "echo", "labels": {"app": "a"}}}]}, "context"),
    ],
)
def test_a_broken_document_is_not_taken_and_that_is_said(
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
                got = await ask(gate.admin, "POST", "/admin/reload", key="boss")
                assert got.status == 422
                assert says in got.json["error"]["message"]
                assert "the old one goes on" in caplog.text
                assert says in (await ask(gate.admin, "GET", "/admin/status", key="boss")).json["problem"]
                assert (await gate.ask("POST", "/v1/chat/completions", chat())).status == 200
                assert 'reloads_total{result="refused"}' in await gate.numbers()
                write(file, {"models": [model(one.url)], "admin": admin, "drain": "1s"})
                assert (await ask(gate.admin, "POST", "/admin/reload", key="boss")).json == {"changed": True}

    with caplog.at_level(logging.ERROR):
        clock.run(main())


def test_the_file_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sliceworks.serving.gateway.program._LOOK", 0.01)
    file, key = tmp_path / "gateway.yaml", tmp_path / "key"

    async def main() -> None:
        async with upstream(models=("*",)) as one:
            key.write_text("first")
            keys = [{"name": "a", "secret": {"file": str(key)}}]
            write(file, {"models": [model(one.url)], "anonymous": False, "keys": keys})
            async with gateway(read_document(file).spec, file) as gate:
                write(file, {"models": [model(one.url), model(one.url, "n")], "anonymous": False, "keys": keys})
                await until(lambda: "n" in gate.program.application.state.models)
                key.write_text("second one")
                while (await gate.ask("GET", "/v1/models", key="second one")).status != 200:
                    await asyncio.sleep(0.01)
                assert (await gate.ask("GET", "/v1/models", key="first")).status == 401

    clock.run(main())


def test_a_document_is_taken_when_the_secret_that_it_lacked_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sliceworks.serving.gateway.program._LOOK", 0.01)
    file, key = tmp_path / "gateway.yaml", tmp_path / "key"

    async def main() -> None:
        write(file, {"models": [model("http://127.0.0.1:1")]})
        async with gateway(read_document(file).spec, file) as gate:
            write(file, {"models": [model("http://127.0.0.1:1")], "keys": [{"name": "a", "secret": {"file": str(key)}}]})
            await until(lambda: "the secret cannot be read" in gate.program.problem)
            key.write_text("late")
            await until(lambda: not gate.program.problem, 5)
            assert (await gate.ask("GET", "/v1/models", key="late")).status == 200

    clock.run(main())


def test_what_changes_while_a_document_is_read_is_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sliceworks.serving.gateway.program._LOOK", 0.01)
    file = tmp_path / "gateway.yaml"

    def read(path: Path) -> Any:
        found = read_document(path)
        if len(found.spec.models) == 2:
            write(path, {"models": [model("http://127.0.0.1:1", name) for name in "mno"]})
        return found

    async def main() -> None:
        write(file, {"models": [model("http://127.0.0.1:1")]})
        async with gateway(read_document(file).spec, file) as gate:
            monkeypatch.setattr("sliceworks.serving.gateway.program.read_document", read)
            write(file, {"models": [model("http://127.0.0.1:1", name) for name in "mn"]})
            await until(lambda: len(gate.program.application.state.models) == 3, 5)

    clock.run(main())


def test_tls_with_a_certificate_that_is_renewed(tmp_path: Path) -> None:
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
            tls = {"certificate": str(tmp_path / "tls.crt"), "key": str(tmp_path / "tls.key")}
            write(file, {"models": [model(one.url)], "listen": {"port": 0, "tls": tls}})
            async with gateway(read_document(file).spec, file) as gate:
                assert await trusting(first, gate.port) == 200
                near = reaching.to_service(Mock(), Door("gateway", "default", gate.port, tls=True, protocol="vllm"), ["127.0.0.1"])
                assert await reaching.whole(near, "GET", "/v1/models")  # as through an API server, which does not look either
                with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
                    await reaching.whole(reaching.Direct(near.place), "GET", "/v1/models")
                second = renew(tmp_path)
                await gate.program.reload()
                assert await trusting(second, gate.port) == 200
                with pytest.raises(ssl.SSLCertVerificationError):
                    await trusting(first, gate.port)

    clock.run(main())


def test_an_ending_gateway_finishes_what_it_began() -> None:
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


def test_no_word_of_a_prompt_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with upstream(error_rate=0.5) as one, gateway(document(one.url, accessLog=True)) as gate:
            for _ in range(8):
                await gate.ask("POST", "/v1/chat/completions", chat("a-secret-word"))
            await gate.ask("POST", "/v1/chat/completions", b'{"model": "m", "a-secret-word": ')

    with caplog.at_level(logging.DEBUG):
        clock.run(main())
    assert "m chat 200" in caplog.text
    assert "a-secret-word" not in caplog.text


def test_a_span_for_each_request() -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from sliceworks.serving.gateway.tracing import Tracer

    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"

    async def main() -> None:
        async with upstream() as one, gateway(document(one.url, models=[{**model(one.url), "rate": {"concurrent": 1}}])) as gate:
            gate.program.application.tracer = Tracer(provider)
            await gate.ask("POST", "/v1/chat/completions", chat("a b"), f"traceparent: 00-{trace}-00f067aa0ba902b7-01")
            await gate.ask("POST", "/v1/chat/completions", chat("a b", model="m"))
            gate.program.application.state.models["m"].quota.under_way = 1
            assert (await gate.ask("POST", "/v1/chat/completions", chat("a b"))).status == 429

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
    """As the document has it, over OTLP: the client's trace, our span in it, and the server's below ours; no word of the prompt."""
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
            tracing = {"endpoint": f"{collector}/v1/traces", "sample": 1.0}
            async with gateway(document(server, kind="openai", tracing=tracing)) as gate:
                got = await gate.ask("POST", "/v1/chat/completions", chat("a-secret-word"), f"traceparent: 00-{trace}-{parent}-01")
                assert got.status == 200

    clock.run(main())
    told = ExportTraceServiceRequest.FromString(b"".join(received))
    (resource,) = told.resource_spans
    names = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert names["service.name"] == "sliceworks-gateway"
    (span,) = resource.scope_spans[0].spans
    assert (span.name, span.trace_id.hex(), span.parent_span_id.hex()) == ("chat m", trace, parent)
    passed = next(line for head in heads for line in head.split(b"\r\n") if line.startswith(b"traceparent: "))
    assert passed.split(b"-")[1:3] == [trace.encode(), span.span_id.hex().encode()]
    assert b"a-secret-word" not in received[0]


def test_the_command_runs_until_it_is_told_to_end(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    write(file, {"models": [model("http://127.0.0.1:1")]})
    command = [sys.executable, "-m", "sliceworks", "gateway", "run", "-f", str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = process.stderr.readline()
        assert told.startswith("Serving m at http://127.0.0.1:")
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_a_wrong_document_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "gateway.yaml"
    write(file, {"models": [model("http://127.0.0.1:1")], "anonymous": False})
    assert run(["gateway", "run", "-f", str(file)]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"error: {file}:")
    assert "there are no keys" in told
    assert told.count("\n") == 1


def test_a_file_with_no_gateway(tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    file.write_text("kind: Pod\n")
    with pytest.raises(SliceworksError, match="has no Gateway"):
        read_document(file)
