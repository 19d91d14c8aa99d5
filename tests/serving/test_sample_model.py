"""The sample model of Triton: its files, and the same answers from ONNX Runtime and from the echo server."""

from __future__ import annotations

import asyncio
import http.client
from pathlib import Path
from typing import Any

import orjson
import pytest

from sliceworks.base import clock
from sliceworks.base.protobuf_wire import read_fields
from sliceworks.cli import main
from sliceworks.serving import image_input, sample_model
from sliceworks.serving.gateway.echo import server
from sliceworks.serving.gateway.echo.engine import Settings


def pixels(color: tuple[float, float, float]) -> list[float]:
    return [value for value in color for _ in range(sample_model.SIZE**2)]


def parts(message: bytes, field: int) -> list[bytes]:
    return [message[result.start : result.end] for result in read_fields(message) if result.field == field]


def test_command_writes_a_model_repository(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["models", "sample", str(tmp_path / "models")]) == 0
    printed = capsys.readouterr().out.split()
    assert [Path(path).relative_to(tmp_path / "models").as_posix() for path in printed] == [
        "densenet_onnx/1/model.onnx",
        "densenet_onnx/config.pbtxt",
        "densenet_onnx/labels.txt",
        "red.png",
    ]
    assert main.run(["models", "sample", str(tmp_path / "models")]) == 1
    assert "exists" in capsys.readouterr().err


def test_model_has_a_graph_with_four_operators() -> None:
    [graph] = parts(sample_model.model(), 7)
    operators = [name.decode() for node in parts(graph, 1) for name in parts(node, 4)]
    assert operators == ["GlobalAveragePool", "Reshape", "MatMul", "Softmax"]


@pytest.mark.parametrize("label", sample_model.CLASSES)
def test_each_color_has_its_class(label: str) -> None:
    assert sample_model.classify(pixels(sample_model.CLASSES[label]))[0][2] == label


def test_onnx_runtime_gives_the_same_answer() -> None:
    runtime, numpy = pytest.importorskip("onnxruntime"), pytest.importorskip("numpy")
    session = runtime.InferenceSession(sample_model.model())
    given = pixels((0.4, -0.7, 0.1))
    shaped = numpy.array(given, dtype="float32").reshape(1, 3, sample_model.SIZE, sample_model.SIZE)
    [[scores]] = session.run([sample_model.OUTPUT], {sample_model.INPUT: shaped})
    expected = {index: score for score, index, _label in sample_model.classify(given)}
    assert scores.tolist() == pytest.approx([expected[index] for index in range(len(expected))], abs=1e-3)


def test_echo_server_classifies_an_image(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    (tmp_path / "red.png").write_bytes(sample_model.image((230, 20, 30)))
    metadata = sample_model.metadata("densenet_onnx")
    body = image_input.infer_body(metadata, tmp_path / "red.png", "inception", 2)
    answer = _infer(body)
    assert [words.split(":")[1:] for words in answer["outputs"][0]["data"]] == [["0", "red"], ["5", "magenta"]]
    assert "expected 150528 numbers" in str(_infer({"inputs": [{"name": "data_0", "data": [1]}]}))


def _infer(body: dict[str, Any]) -> dict[str, Any]:
    """The answer of an echo server to an inference request."""

    async def main() -> dict[str, Any]:
        running, port = await server.start(Settings(models=("densenet_onnx",), classifier="densenet_onnx"))

        def ask() -> dict[str, Any]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=90)
            connection.request("POST", "/v2/models/densenet_onnx/infer", orjson.dumps(body))
            result: dict[str, Any] = orjson.loads(connection.getresponse().read())
            connection.close()
            return result

        try:
            return await asyncio.to_thread(ask)
        finally:
            await running.stop()

    return clock.run(main())
