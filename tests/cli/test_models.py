"""`sliceworks models` on a twin that runs processes: real servers answer with streamed text and to images."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support.model_twins import model_twin

from sliceworks.base import clock
from sliceworks.cli import main
from sliceworks.kube import open_client
from sliceworks.kube.resources import CONFIG_MAP
from sliceworks.platform import twin_home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="pods have addresses of their own on Linux alone"),
    pytest.mark.long(45),
]
TENSORS: dict[str, Any] = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1.0, 2.0]}]}
ECHO = "exec sliceworks gateway echo --quiet --host $POD_IP --port 8000 --model {model}"
VLLM = """\
apiVersion: sliceworks.dev/v1alpha1
kind: ModelService
metadata: {{name: chat, namespace: default}}
spec:
  engine: vllm
  accelerator: {{type: l4-1}}
  command: [bash, -c, '{command}']
  vllm: {{model: {{name: tiny, source: a/tiny}}}}
"""
TRITON = """\
apiVersion: sliceworks.dev/v1alpha1
kind: ModelService
metadata: {{name: vision, namespace: default}}
spec:
  engine: triton
  command: [bash, -c, '{command}']
  triton: {{repository: /models, models: [{{name: look}}]}}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with model_twin(tmp_path_factory.mktemp("models")) as folder:
        yield folder


def run(*words: str) -> int:
    return main.run(["models", *words, "--twin", "--quiet"])


def deployed(tmp_path: Path, document: str, model: str) -> None:
    file = tmp_path / "model.yaml"
    file.write_text(document.format(command=ECHO.format(model=model)))
    assert run("deploy", "-f", str(file), "-y", "--timeout", "60s") == 0


def add_pending_step(step: str | None) -> None:
    """Add a pending step to the record."""

    async def patch() -> None:
        async with open_client(twin_home.find(os.environ["SLICEWORKS_TWIN"]).state().kubeconfig) as client:
            await client.patch(CONFIG_MAP, "chat-model-service", {"data": {"left": step}}, "default")

    asyncio.run(patch())


def store_key(key: str) -> None:
    """Store a key in a Secret."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": "default"}}

    async def apply() -> None:
        async with open_client(twin_home.find(os.environ["SLICEWORKS_TWIN"]).state().kubeconfig) as client:
            await client.apply({**secret, "stringData": {"me": key}})

    asyncio.run(apply())


def test_model_is_deployed_called_and_deleted(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deployed(tmp_path, VLLM, "tiny")
    capsys.readouterr()
    assert run("list") == 0
    assert "chat   vllm     tiny     1 × l4-1   1/1     ready" in capsys.readouterr().out
    add_pending_step("remove service/chat-canary\n")
    assert run("list") == 0
    assert "chat   vllm     tiny     1 × l4-1   1/1     unfinished" in capsys.readouterr().out
    assert run("list", "-o", "json") == 0
    assert orjson.loads(capsys.readouterr().out)[0]["pendingSteps"] == ["remove service/chat-canary"]
    add_pending_step(None)
    assert run("invoke", "chat", "one two three", "--max-tokens", "3") == 0
    assert capsys.readouterr().out == "one two three\n"
    assert run("show", "chat") == 0
    assert "deployment/chat   1/1     ready" in capsys.readouterr().out
    assert run("invoke", "chat", "hello", "--model", "tinny") == 2
    assert "model service chat has no model 'tinny'" in capsys.readouterr().err
    assert run("invoke", "chat", "hello", "--url", "http://127.0.0.1:9") == 1
    assert "cannot connect to http://127.0.0.1:9" in capsys.readouterr().err
    assert run("invoke", "chat") == 2
    assert "a prompt, --image or --data is required" in capsys.readouterr().err
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n")
    assert run("invoke", "chat", "a b", "--image", str(picture), "--image", str(picture), "--max-tokens", "2") == 0
    assert capsys.readouterr().out.split() == ["a", "b"]
    assert run("invoke", "chat", "--data", str(picture)) == 2
    assert "--data requires Triton, chat uses vllm" in capsys.readouterr().err
    for wrong, reported in (("", "the prompt is empty"), ("\udcff", "the prompt is not valid UTF-8")):
        assert run("invoke", "chat", wrong) == 2
        assert reported in capsys.readouterr().err
    assert run("invoke", "chat", "x", "--url", "nowhere") == 2
    assert "'nowhere' is not a valid URL" in capsys.readouterr().err
    assert run("publish", "chat", "other", "--class", "A") == 2
    assert "vllm does not support --class" in capsys.readouterr().err
    assert run("delete", "chat", "-y") == 0
    assert capsys.readouterr().out == "modelservice/chat deleted\n"
    assert run("show", "chat") == 1
    assert "model service 'chat' not found in namespace default" in capsys.readouterr().err


def test_model_behind_a_real_gateway(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store_key("first")
    keys = "[{name: me, secret: {secret: keys, key: me}}]"
    front = f"  cpu: '1'\n  memory: 1Gi\n  gateway: {{image: 'gateway:1', cpu: 100m, keys: {keys}}}\n"
    file = tmp_path / "model.yaml"
    for document, model in ((VLLM, "tiny"), (TRITON, "look")):
        file.write_text(document.format(command=ECHO.format(model=model)) + front)
        assert run("deploy", "-f", str(file), "-y", "--timeout", "60s") == 0
    capsys.readouterr()
    assert run("invoke", "chat", "one two three", "--max-tokens", "3") == 1
    assert "responded with status 401" in capsys.readouterr().err
    assert run("invoke", "chat", "one two three", "--max-tokens", "3", "--key", "first") == 0
    assert capsys.readouterr().out == "one two three\n"
    store_key("second")
    call = ("invoke", "chat", "one two three", "--max-tokens", "3", "--key")
    assert clock.wait_until(lambda: run(*call, "second") == 0, 30, interval=0.5)  # a changed Secret is mounted within seconds
    assert run(*call, "first") == 1
    capsys.readouterr()
    (tmp_path / "request.json").write_bytes(orjson.dumps(TENSORS))
    request = ("invoke", "vision", "--data", str(tmp_path / "request.json"), "--key", "second")
    assert clock.wait_until(lambda: run(*request) == 0, 30, interval=0.5)  # the gateway reloads a changed document with a delay
    assert orjson.loads(capsys.readouterr().out)["outputs"][0]["data"] == [1.0, 2.0]
    assert run("delete", "vision", "-y") == 0
    assert run("delete", "chat", "-y") == 0


def test_tensors_are_sent_and_errors_reported(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deployed(tmp_path, TRITON, "look")
    capsys.readouterr()
    (tmp_path / "request.json").write_bytes(orjson.dumps(TENSORS))
    assert run("invoke", "vision", "--data", str(tmp_path / "request.json")) == 0
    assert orjson.loads(capsys.readouterr().out)["outputs"][0]["data"] == [1.0, 2.0]
    (tmp_path / "wrong.json").write_text("no json")
    assert run("invoke", "vision", "--data", str(tmp_path / "wrong.json")) == 2
    (tmp_path / "empty.json").write_text('{"inputs": []}')
    assert run("invoke", "vision", "--data", str(tmp_path / "empty.json")) == 1
    assert "responded with status 400: inputs: must be a non-empty list of tensors" in capsys.readouterr().err
    assert run("invoke", "vision", "a prompt", "--data", str(tmp_path / "request.json")) == 2
    assert "--data cannot be combined with a prompt or --image" in capsys.readouterr().err
    assert run("list", "-o", "name") == 0
    assert capsys.readouterr().out == "modelservice/vision\n"
    assert run("publish", "vision", "another") == 0
    assert capsys.readouterr().out == "another is published by modelservice/vision\n"
    assert run("update", "vision", "another") == 0
    assert capsys.readouterr().out == "another is reloaded by modelservice/vision\n"
    assert run("invoke", "vision", "--data", str(tmp_path / "request.json"), "--model", "another") == 0
    assert orjson.loads(capsys.readouterr().out)["model_name"] == "another"
    assert run("unpublish", "vision", "another") == 0
    assert run("invoke", "vision", "--data", str(tmp_path / "request.json"), "--model", "another") == 2
    assert run("delete", "vision", "-y") == 0


def test_missing_terminal_needs_yes_option(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "model.yaml"
    file.write_text(TRITON.format(command=ECHO.format(model="look")))
    assert run("deploy", "-f", str(file)) == 2
    assert "stdin is not a terminal" in capsys.readouterr().err
    assert run("list") == 0
    assert capsys.readouterr().out == ""
