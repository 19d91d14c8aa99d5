"""`sliceworks models` on a twin that runs processes: real servers answer, in text that streams and to pictures."""

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
from sliceworks.kube.well_known import CONFIG_MAP
from sliceworks.rehearsal import homes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pods have addresses of their own on Linux alone")
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


def leave(step: str | None) -> None:
    """Have the record say that a step is left to do."""

    async def patch() -> None:
        async with open_client(homes.find(os.environ["SLICEWORKS_TWIN"]).state().kubeconfig) as client:
            await client.patch(CONFIG_MAP, "chat-model-service", {"data": {"left": step}}, "default")

    asyncio.run(patch())


def say(key: str) -> None:
    """Keep a key in a Secret."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": "default"}}

    async def apply() -> None:
        async with open_client(homes.find(os.environ["SLICEWORKS_TWIN"]).state().kubeconfig) as client:
            await client.apply({**secret, "stringData": {"me": key}})

    asyncio.run(apply())


@pytest.mark.timeout(120)
def test_a_model_is_deployed_called_and_deleted(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deployed(tmp_path, VLLM, "tiny")
    capsys.readouterr()
    assert run("list") == 0
    assert "chat   vllm     tiny     1 × l4-1   1/1     ready" in capsys.readouterr().out
    leave("remove service/chat-canary\n")
    assert run("list") == 0
    assert "chat   vllm     tiny     1 × l4-1   1/1     unfinished" in capsys.readouterr().out
    assert run("list", "-o", "json") == 0
    assert orjson.loads(capsys.readouterr().out)[0]["left"] == ["remove service/chat-canary"]
    leave(None)
    assert run("invoke", "chat", "one two three", "--max-tokens", "3") == 0
    assert capsys.readouterr().out == "one two three\n"
    assert run("show", "chat") == 0
    assert "deployment/chat   1/1     ready" in capsys.readouterr().out
    assert run("invoke", "chat", "hello", "--model", "tinny") == 2
    assert "chat does not serve 'tinny'" in capsys.readouterr().err
    assert run("invoke", "chat", "hello", "--url", "http://127.0.0.1:9") == 1
    assert "http://127.0.0.1:9 does not answer" in capsys.readouterr().err
    assert run("invoke", "chat") == 2
    assert "give a prompt, --image or --data" in capsys.readouterr().err
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n")
    assert run("invoke", "chat", "a b", "--image", str(picture), "--image", str(picture), "--max-tokens", "2") == 0
    assert capsys.readouterr().out.split() == ["a", "b"]
    assert run("invoke", "chat", "--data", str(picture)) == 2
    assert "--data is for Triton, chat runs on vllm" in capsys.readouterr().err
    for wrong, told in (("", "the prompt is empty"), ("\udcff", "the prompt is no text")):
        assert run("invoke", "chat", wrong) == 2
        assert told in capsys.readouterr().err
    assert run("invoke", "chat", "x", "--url", "nowhere") == 2
    assert "'nowhere' is no address" in capsys.readouterr().err
    assert run("publish", "chat", "other", "--class", "A") == 2
    assert "vllm takes no --class" in capsys.readouterr().err
    assert run("delete", "chat", "-y") == 0
    assert capsys.readouterr().out == "modelservice/chat is deleted\n"
    assert run("show", "chat") == 1
    assert "there is no model service 'chat' in default" in capsys.readouterr().err


@pytest.mark.timeout(180)
def test_a_real_gateway_stands_in_front(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    say("first")
    keys = "[{name: me, secret: {secret: keys, key: me}}]"
    front = f"  cpu: '1'\n  memory: 1Gi\n  gateway: {{image: 'gateway:1', cpu: 100m, keys: {keys}}}\n"
    file = tmp_path / "model.yaml"
    for document, model in ((VLLM, "tiny"), (TRITON, "look")):
        file.write_text(document.format(command=ECHO.format(model=model)) + front)
        assert run("deploy", "-f", str(file), "-y", "--timeout", "60s") == 0
    capsys.readouterr()
    assert run("invoke", "chat", "one two three", "--max-tokens", "3") == 1
    assert "answered 401" in capsys.readouterr().err
    assert run("invoke", "chat", "one two three", "--max-tokens", "3", "--key", "first") == 0
    assert capsys.readouterr().out == "one two three\n"
    say("second")
    call = ("invoke", "chat", "one two three", "--max-tokens", "3", "--key")
    assert clock.wait_until(lambda: run(*call, "second") == 0, 30, every=0.5)  # a changed Secret is seen within seconds
    assert run(*call, "first") == 1
    capsys.readouterr()
    (tmp_path / "request.json").write_bytes(orjson.dumps(TENSORS))
    request = ("invoke", "vision", "--data", str(tmp_path / "request.json"), "--key", "second")
    assert clock.wait_until(lambda: run(*request) == 0, 30, every=0.5)  # a changed document reaches the gateway a little later
    assert orjson.loads(capsys.readouterr().out)["outputs"][0]["data"] == [1.0, 2.0]
    assert run("delete", "vision", "-y") == 0
    assert run("delete", "chat", "-y") == 0


@pytest.mark.timeout(120)
def test_tensors_are_sent_and_a_refusal_is_told(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deployed(tmp_path, TRITON, "look")
    capsys.readouterr()
    (tmp_path / "request.json").write_bytes(orjson.dumps(TENSORS))
    assert run("invoke", "vision", "--data", str(tmp_path / "request.json")) == 0
    assert orjson.loads(capsys.readouterr().out)["outputs"][0]["data"] == [1.0, 2.0]
    (tmp_path / "wrong.json").write_text("no json")
    assert run("invoke", "vision", "--data", str(tmp_path / "wrong.json")) == 2
    (tmp_path / "empty.json").write_text('{"inputs": []}')
    assert run("invoke", "vision", "--data", str(tmp_path / "empty.json")) == 1
    assert "answered 400: inputs must be a list of tensors" in capsys.readouterr().err
    assert run("invoke", "vision", "a prompt", "--data", str(tmp_path / "request.json")) == 2
    assert "give a prompt or --image, or --data alone" in capsys.readouterr().err
    assert run("list", "-o", "name") == 0
    assert capsys.readouterr().out == "modelservice/vision\n"
    assert run("publish", "vision", "another") == 0
    assert capsys.readouterr().out == "another is published by modelservice/vision\n"
    assert run("update", "vision", "another") == 0
    assert capsys.readouterr().out == "another is served anew by modelservice/vision\n"
    assert run("invoke", "vision", "--data", str(tmp_path / "request.json"), "--model", "another") == 0
    assert orjson.loads(capsys.readouterr().out)["model_name"] == "another"
    assert run("unpublish", "vision", "another") == 0
    assert run("invoke", "vision", "--data", str(tmp_path / "request.json"), "--model", "another") == 2
    assert run("delete", "vision", "-y") == 0


def test_nobody_is_asked_where_nobody_is(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "model.yaml"
    file.write_text(TRITON.format(command=ECHO.format(model="look")))
    assert run("deploy", "-f", str(file)) == 2
    assert "there is nobody to ask" in capsys.readouterr().err
    assert run("list") == 0
    assert capsys.readouterr().out == ""
