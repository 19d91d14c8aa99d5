"""`sliceworks load run` against a real Triton on the CPU: the image model example, and a model that streams words."""

from __future__ import annotations

import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.real import triton
from tests.real.programs import cache_folder
from tests.support.clusters import real_enabled
from tests.support.polling import eventually

from sliceworks.base import yaml_documents
from sliceworks.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not real_enabled() or sys.platform != "linux", reason="needs a real Triton, on Linux: SLICEWORKS_REAL=1"),
    pytest.mark.timeout(600),  # an environment may have to be created first
]
EXAMPLE = Path(__file__).parents[2] / "examples" / "load-tests" / "densenet.yaml"
LOOK = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        found = []
        for request in requests:
            picture = pb_utils.get_input_tensor_by_name(request, "data_0").as_numpy()
            assert picture.shape == (3, 224, 224) and 0.4 < picture.mean() < 0.6
            found.append(pb_utils.InferenceResponse([pb_utils.Tensor("fc6_1", np.resize(picture, 1000).astype(np.float32))]))
        return found
"""
CONFIG = """
name: "densenet_onnx"
backend: "python"
max_batch_size: 0
input [{ name: "data_0" data_type: TYPE_FP32 dims: [3, 224, 224] }]
output [{ name: "fc6_1" data_type: TYPE_FP32 dims: [1000] }]
instance_group [{ kind: KIND_CPU, count: 1 }]
"""


@pytest.fixture(scope="module")
def server() -> Iterator[triton.Triton]:
    """Serve a model with DenseNet's tensors and one that streams; the server sees no folder below /tmp."""
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        models = triton.repository(Path(folder) / "models")
        (models / "densenet_onnx" / "1").mkdir(parents=True)
        (models / "densenet_onnx" / "1" / "model.py").write_text(LOOK)
        (models / "densenet_onnx" / "config.pbtxt").write_text(CONFIG)
        with triton.running(models, Path(folder) / "log") as running:
            yield running


def answered(server: triton.Triton, model: str) -> int:
    """The number of requests that Triton has counted."""
    with urllib.request.urlopen(f"{server.url}/v2/models/{model}/stats") as response:
        return int(orjson.loads(response.read())["model_stats"][0]["inference_stats"]["success"]["count"])


def performed(folder: Path, server: triton.Triton, spec: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    file = folder / "test.yaml"
    kind = {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "LoadTest", "metadata": {"name": "triton"}}
    free = {"delivery": {"share": 0.0, "delay": "1h"}, "results": {"folder": str(folder / "runs")}}
    file.write_text(yaml_documents.dump({**kind, "spec": {**spec, **free}}))
    code = main.run(["load", "run", "-f", str(file), "--url", server.url, "-q", "-o", "json"])
    reported = capsys.readouterr()
    assert code == 0, reported
    result: dict[str, Any] = orjson.loads(reported.out)
    return result


def test_image_model_example(server: triton.Triton, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (given,) = yaml_documents.load_path(EXAMPLE)
    spec = {**given.data["spec"], "warmUp": "0s", "stages": [{"constant": 10, "for": "2s"}], "slo": ["errors < 0.1%"]}
    spec["target"] = {"modelService": {"file": str(EXAMPLE.parent / spec["target"]["modelService"]["file"])}}
    before = answered(server, "densenet_onnx")
    summary = performed(tmp_path, server, spec, capsys)["summary"]
    assert (summary["requests"], summary["succeeded"]) == (20, 20)
    # Triton counts a request after it has answered it.
    eventually(lambda: answered(server, "densenet_onnx") - before >= 20, what="Triton has counted all requests")
    assert answered(server, "densenet_onnx") - before == 20
    assert summary["latencies"]["e2e"]["p50"] > 0


def test_streaming_model(server: triton.Triton, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = {
        "target": {"url": server.url},
        "api": "oip-generate",
        "model": "speak",
        "prompts": {"texts": ["one two three four"]},
        "stages": [{"constant": 10, "for": "1s"}],
    }
    result = performed(tmp_path, server, spec, capsys)
    assert result["summary"]["succeeded"] == 10
    assert result["tokens"] == {"server": 0, "tokenizer": 0, "unknown": 10}
    assert result["summary"]["latencies"]["itl"]["count"] == 30  # three gaps between the four words of each response
