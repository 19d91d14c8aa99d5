"""The Sax cell that echoes: publication with a load time, generation, scores, embeddings, streams, commands, and the gateway."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import orjson
import pytest
from tests.support.gateways import chat, document, gateway

from sliceworks.base import clock, yaml_documents
from sliceworks.cli.main import run
from sliceworks.serving.gateway.echo.sax import SaxCell, SaxSettings
from sliceworks.serving.gateway.sax_cell import CellClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODEL = "/sax/test/llama7b"
CLASS = "saxml.server.pax.lm.params.lm_cloud.LLaMA7BFP16TPUv5e"


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[SaxCell]:
    running = SaxCell(SaxSettings(tmp_path, servers=2))
    running.start()
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def client(cell: SaxCell) -> CellClient:
    return CellClient(str(cell.settings.root))


def test_published_model_generates_scores_embeds_and_streams(cell: SaxCell, client: CellClient) -> None:
    client.publish(MODEL, CLASS, "gs://b/checkpoint", 2)
    assert client.generate(MODEL, "one two", {}, 5) == [("one two", -1.0)]
    assert client.generate(MODEL, "one two", {"per_example_max_decode_steps": 3.0}, 5) == [("one two one", -1.0)]
    assert client.score(MODEL, "a", ["b", "c d"], 5) == [-1.0, -2.0]
    assert len(client.embed(MODEL, "text", 5)) == 8
    received: list[str] = []
    client.generate_stream(MODEL, "one two", {}, 5, lambda _last, items: received.extend(text for text, _, _ in items))
    assert received == ["one", " two"]
    assert [(model["model"], model["active_replicas"]) for model in client.list_models("/sax/test")] == [(MODEL, 2)]
    client.unpublish(MODEL)
    assert client.list_models("/sax/test") == []
    with pytest.raises(RuntimeError, match="not found"):
        client.unpublish(MODEL)


def test_model_is_loaded_after_the_load_time(tmp_path: Path) -> None:
    running = SaxCell(SaxSettings(tmp_path, load_time=0.3))
    running.start()
    try:
        client = CellClient(str(tmp_path))
        client.publish(MODEL, CLASS, "gs://b/checkpoint", 1)
        assert client.details(MODEL)["active_replicas"] == 0
        assert clock.wait_until(lambda: client.details(MODEL)["active_replicas"] == 1, 10)
        assert client.generate(MODEL, "hello", {}, 5) == [("hello", -1.0)]
    finally:
        running.stop()


def test_model_without_its_checkpoint_is_never_loaded(cell: SaxCell, client: CellClient, tmp_path: Path) -> None:
    client.publish(MODEL, CLASS, str(tmp_path / "nothing"), 1)
    with pytest.raises(RuntimeError, match="no model server is ready"):
        client.generate(MODEL, "hello", {}, 5)


@pytest.mark.parametrize(("name", "message"), [("/sax/other/m", "cannot locate"), (MODEL, "already exists")])
def test_refused_publications(name: str, message: str, cell: SaxCell, client: CellClient) -> None:
    client.publish(MODEL, CLASS, "gs://b/c", 1)
    with pytest.raises(RuntimeError, match=message):
        client.publish(name, CLASS, "gs://b/c", 1)


def test_saxutil_commands(cell: SaxCell, capsys: pytest.CaptureFixture[str]) -> None:
    saxutil = ["gateway", "saxutil", "--root", str(cell.settings.root)]
    assert run([*saxutil, "publish", MODEL, CLASS, "gs://b/checkpoint", "1"]) == 0
    assert run([*saxutil, "ls", "/sax/test"]) == 0
    assert MODEL in capsys.readouterr().out
    assert run([*saxutil, "ls", MODEL]) == 0
    assert CLASS in capsys.readouterr().out
    assert run([*saxutil, "lm.generate", MODEL, "hello there"]) == 0
    assert capsys.readouterr().out == "-1\thello there\n"
    assert run([*saxutil, "lm.generate", MODEL, "hello there", "--stream"]) == 0
    assert capsys.readouterr().out == "hello there\n"
    assert run([*saxutil, "lm.score", MODEL, "a", "b c"]) == 0
    assert capsys.readouterr().out == "-2\tb c\n"
    assert run([*saxutil, "lm.embed", MODEL, "abc"]) == 0
    assert len(capsys.readouterr().out.split()) == 8
    assert run([*saxutil, "update", MODEL, CLASS, "gs://b/other", "2"]) == 0
    assert run([*saxutil, "ls", MODEL]) == 0
    assert re.search(r"gs://b/other +2 ", capsys.readouterr().out)
    assert run([*saxutil, "unpublish", MODEL]) == 0
    assert run([*saxutil, "unpublish", MODEL]) == 1
    assert run([*saxutil, "update", MODEL, CLASS, "gs://b/other", "1"]) == 1
    assert run([*saxutil, "ls", "/sax/other"]) == 1
    errors = capsys.readouterr().err
    assert errors.count(f"error: model {MODEL} not found") == 2
    assert "/sax/other/location.proto not found" in errors
    assert run(["gateway", "sax", "--root", str(cell.settings.root), "--cell", "test"]) == 2


def test_gateway_in_front_of_the_cell(cell: SaxCell, client: CellClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAX_ROOT", str(cell.settings.root))
    client.publish(MODEL, CLASS, "gs://b/checkpoint", 2)

    async def main() -> None:
        async with gateway(document(MODEL, kind="sax")) as gate:
            response = await gate.request("POST", "/generate", {"prompt": "hello there", "model_id": MODEL})
            assert response.json == {"completions": [["hello there", -1.0]]}
            assert (await gate.request("GET", f"/listcell?model_id={MODEL}")).json["active_replicas"] == 2
            whole = await gate.request("POST", "/v1/chat/completions", chat("hi", max_tokens=3))
            assert whole.json["choices"][0]["message"]["content"] == "hi hi hi"
            streamed = await gate.request("POST", "/v1/chat/completions", chat("a b c", stream=True))
            assert b"".join(streamed.chunks).count(b'"content"') == 3

    clock.run(main())


def test_load_test_of_a_cell_in_its_own_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SAX_ROOT", str(tmp_path / "root"))
    monkeypatch.chdir(tmp_path)
    port = free_port()
    served = {"name": MODEL, "backends": [{"kind": "sax", "url": MODEL}]}
    spec = {"listen": {"port": port}, "anonymous": True, "models": [served]}
    test = {
        "target": {"url": f"http://127.0.0.1:{port}"},
        "api": "sax",
        "model": MODEL,
        "prompts": {"texts": ["one two three"]},
        "stages": [{"constant": 20, "for": "1s"}],
        "slo": ["errors < 1%"],
        "delivery": {"delay": "10s"},
    }
    for name, kind, body in (("gateway", "Gateway", spec), ("test", "LoadTest", test)):
        head = {"apiVersion": "sliceworks.dev/v1alpha1", "kind": kind, "metadata": {"name": name}}
        (tmp_path / f"{name}.yaml").write_text(yaml_documents.dump({**head, "spec": body}))
    command = [sys.executable, "-m", "sliceworks", "gateway"]
    with ExitStack() as running:
        start(running, [*command, "sax", "--port", "0", "--quiet"])
        assert clock.wait_until((tmp_path / "root" / "sax" / "test" / "location.proto").exists, 30)
        subprocess.run([*command, "saxutil", "publish", MODEL, CLASS, "gs://b/checkpoint", "1"], check=True)
        start(running, [*command, "run", "-f", "gateway.yaml", "--quiet"])
        assert clock.wait_until(lambda: is_listening(port), 30)
        assert run(["load", "run", "-f", "test.yaml", "-o", "json", "--quiet"]) == 0
    result = orjson.loads(capsys.readouterr().out)
    assert (result["summary"]["requests"], result["summary"]["succeeded"]) == (20, 20)


def start(running: ExitStack, command: list[str]) -> None:
    """Run a process until the stack ends."""
    process = running.enter_context(subprocess.Popen(command))
    running.callback(process.terminate)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
