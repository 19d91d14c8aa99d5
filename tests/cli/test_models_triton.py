"""`sliceworks models` with a real Triton on the CPU and a real gateway on a twin: text, tensors, images, and publishing."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from typing import TYPE_CHECKING

import orjson
import pytest
from tests.real import triton
from tests.support.clusters import real_enabled
from tests.support.model_twins import model_twin

from sliceworks.base import clock, yaml_documents
from sliceworks.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not real_enabled() or sys.platform != "linux", reason="needs a real Triton, on Linux: SLICEWORKS_REAL=1"),
]
COLOUR = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        found = []
        for request in requests:
            picture = pb_utils.get_input_tensor_by_name(request, "data_0").as_numpy()
            found.append(pb_utils.InferenceResponse([pb_utils.Tensor("scores", picture.mean(axis=(1, 2)).astype(np.float32))]))
        return found
"""
CONFIG = """
name: "colour"
backend: "python"
max_batch_size: 0
input [{ name: "data_0" data_type: TYPE_FP32 dims: [3, 4, 4] }]
output [{ name: "scores" data_type: TYPE_FP32 dims: [3] label_filename: "labels.txt" }]
instance_group [{ kind: KIND_CPU, count: 1 }]
"""


IMAGE = "tritonserver:1"


@pytest.fixture
def models(tmp_path: Path) -> Iterator[Path]:
    """A model repository on this machine, with a twin that mounts it and Triton in containers of the image."""
    interpreter = triton.python()
    environment = interpreter.parents[1]
    files = {"/models": str(repository(tmp_path / "models")), str(environment): str(environment)}
    settings = {
        "LD_LIBRARY_PATH": str(sysconfig.get_config_var("LIBDIR")),
        "PATH": f"{interpreter.parent}{os.pathsep}{os.environ['PATH']}",
    }
    images = [{"image": IMAGE, "files": files, "env": settings}, {"image": "gateway:1"}]
    document = {
        "apiVersion": "sliceworks.dev/v1alpha1",
        "kind": "ImageMap",
        "metadata": {"name": "triton"},
        "spec": {"images": images},
    }
    (tmp_path / "images.yaml").write_text(yaml_documents.dump(document))
    with model_twin(tmp_path / "home", "--image-map", str(tmp_path / "images.yaml")):
        yield tmp_path / "models"


def repository(folder: Path) -> Path:
    """Two models of the gateway's tests, and one that detects the dominant colour of an image."""
    models = triton.repository(folder)
    (models / "colour" / "1").mkdir(parents=True)
    (models / "colour" / "1" / "model.py").write_text(COLOUR)
    (models / "colour" / "config.pbtxt").write_text(CONFIG)
    (models / "colour" / "labels.txt").write_text("red\ngreen\nblue\n")
    return models


def document() -> str:
    """A service with the server of this machine as its image."""
    home = triton.home(triton.python().parents[1])
    spec = {
        "engine": "triton",
        "image": IMAGE,
        "command": [str(home / "bin" / "tritonserver")],
        "args": [
            f"--backend-directory={home / 'backends'}",
            *(f"--{item}-address=0.0.0.0" for item in ("http", "grpc", "metrics")),
            "--allow-gpu-metrics=false",
            "--http-thread-count=2",
        ],
        "triton": {"repository": "/models", "models": [{"name": "add"}]},
        "gateway": {"image": "gateway:1", "cpu": "100m"},
    }
    metadata = {"name": "served", "namespace": "default"}
    return yaml_documents.dump(
        {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "ModelService", "metadata": metadata, "spec": spec}
    )


def run(*words: str) -> int:
    return main.run(["models", *words, "--twin", "--quiet"])


def call_until_success(*words: str) -> bool:
    """Call until it succeeds: a running gateway reloads a changed document with a delay."""
    return clock.wait_until(lambda: run("invoke", "served", *words) == 0, 90, interval=0.5)


@pytest.mark.timeout(600)  # an environment may have to be created first
def test_real_triton_is_deployed_and_called(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    file = tmp_path / "model.yaml"
    file.write_text(document())
    assert run("deploy", "-f", str(file), "-y", "--timeout", "300s") == 0
    tensors = [{"name": name, "datatype": "FP32", "shape": [2], "data": [1.0, 2.0]} for name in ("A", "B")]
    (tmp_path / "request.json").write_bytes(orjson.dumps({"inputs": tensors}))
    capsys.readouterr()
    assert run("invoke", "served", "--data", str(tmp_path / "request.json")) == 0
    assert orjson.loads(capsys.readouterr().out)["outputs"][0]["data"] == [2.0, 4.0]

    broken = models / "broken"
    shutil.copytree(models / "add", broken)
    (broken / "config.pbtxt").write_text((broken / "config.pbtxt").read_text().replace('"add"', '"broken"'))
    (broken / "1" / "model.py").write_text("raise ValueError('it cannot be loaded')")
    assert run("publish", "served", "broken") == 1
    assert "it cannot be loaded" in capsys.readouterr().err
    # A server that could not load one model serves the others.
    assert run("invoke", "served", "--data", str(tmp_path / "request.json")) == 0
    capsys.readouterr()
    assert run("publish", "served", "missing") == 1
    assert "responded with status 500: failed to load 'missing'" in capsys.readouterr().err
    assert run("publish", "served", "speak") == 0
    assert run("publish", "served", "colour") == 0
    capsys.readouterr()
    assert call_until_success("one two three", "--model", "speak")
    assert capsys.readouterr().out == "onetwothree\n"

    Image.new("RGB", (30, 20), (10, 200, 100)).save(tmp_path / "green.png")
    assert call_until_success("--model", "colour", "--image", str(tmp_path / "green.png"), "--top", "2")
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.split()[1:] == ["1", "green"]
    assert second.split()[1:] == ["2", "blue"]

    assert run("unpublish", "served", "speak") == 0
    assert run("invoke", "served", "one", "--model", "speak") == 2
    assert run("update", "served", "colour") == 0
    assert run("delete", "served", "-y") == 0
