"""Requests in every engine protocol, and responses in chunks of any size."""

from __future__ import annotations

import asyncio
import base64
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.base.errors import SliceworksError, Unreachable
from sliceworks.base.transport import Request, Response
from sliceworks.serving import engine_protocol, image_input, service_endpoint
from sliceworks.serving.engine_protocol import SamplingOptions
from sliceworks.serving.service_endpoint import Endpoint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

DOOR = Endpoint("gateway", "models", 8080, tls=False, protocol="vllm")
TEXT = "grüße, 世界"
STREAMS = {
    "vllm": b"".join(b"data: " + orjson.dumps({"choices": [{"delta": {"content": letter}}]}) + b"\n\n" for letter in TEXT)
    + b"data: [DONE]\n\n",
    "jetstream": b"".join(orjson.dumps({"streamContent": {"samples": [{"text": letter}]}}) for letter in TEXT),
    "triton": b"".join(b"data: " + orjson.dumps({"text_output": letter}) + b"\n\n" for letter in TEXT),
    "saxml": orjson.dumps({"response": TEXT}),
}


async def pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def answer(engine: str, data: bytes, size: int) -> str:
    async def main() -> str:
        question = engine_protocol.text_request(engine, "m", "hello", SamplingOptions())
        return "".join([piece async for piece in question.read_text(pieces(data, size))])

    return asyncio.run(main())


@pytest.mark.parametrize("engine", STREAMS)
@given(size=st.integers(1, 400))
def test_response_is_independent_of_chunks(engine: str, size: int) -> None:
    assert answer(engine, STREAMS[engine], size) == TEXT


def test_error_within_a_response_is_reported() -> None:
    data = STREAMS["vllm"][:60] + b"\n" + b'data: {"error": {"message": "out of memory", "type": "server_error"}}\n\n'
    with pytest.raises(SliceworksError, match="the model failed: out of memory"):
        answer("vllm", data, 1000)
    with pytest.raises(SliceworksError, match="the model failed: no such model"):
        answer("triton", b'data: {"error": "no such model"}\n\n', 7)


@pytest.mark.parametrize(
    ("engine", "path", "field"),
    [
        ("vllm", "/v1/chat/completions", "messages"),
        ("jetstream", "/v1/generate", "text_content"),
        ("saxml", "/generate", "prompt"),
        ("triton", "/v2/models/my%20model/generate_stream", "text_input"),
    ],
)
def test_request_of_every_engine(engine: str, path: str, field: str) -> None:
    question = engine_protocol.text_request(engine, "my model", "hello", SamplingOptions(7, 0.5))
    assert question.path == path
    body = orjson.loads(question.body)
    assert field in body
    assert "7" in question.body.decode()


@pytest.mark.parametrize(
    ("data", "kind"),
    [(b"\x89PNG\r\n\x1a\nx", "png"), (b"\xff\xd8\xff\xe0", "jpeg"), (b"GIF89a", "gif"), (b"RIFF\0\0\0\0WEBPVP8 ", "webp")],
)
def test_chat_model_gets_the_image_unchanged(tmp_path: Path, data: bytes, kind: str) -> None:
    (tmp_path / "picture").write_bytes(data)
    url = image_input.data_url(tmp_path / "picture")
    assert url == f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    (message,) = orjson.loads(engine_protocol.text_request("vllm", "m", "What?", SamplingOptions(), [url]).body)["messages"]
    assert message["content"] == [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What?"}]


def test_file_that_is_not_an_image_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("RIFF of words")
    with pytest.raises(SliceworksError, match="not a supported image"):
        image_input.data_url(tmp_path / "notes.txt")


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (404, b'{"error": {"message": "no model x", "type": "not_found"}}', "responded with status 404: no model x"),
        (400, b'{"error": "unexpected shape"}', "responded with status 400: unexpected shape"),
        (502, b"<html>\n<body>Bad gateway</body></html>", "responded with status 502: <html> <body>Bad gateway</body></html>"),
        (500, b"", "responded with status 500: "),
    ],
)
def test_error_has_the_servers_message(status: int, body: bytes, expected: str) -> None:
    assert expected in service_endpoint.response_error(status, body, "service/gateway").message


class RecordingTransport:
    """A transport that records the requests it forwards."""

    def __init__(self, response: Response) -> None:
        self.response, self.seen = response, [Request("", "")]

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        assert stream
        self.seen.append(request)
        return self.response


def proxied(response: Response, path: str = "/v1/models?limit=2") -> tuple[bytes, Request]:
    transport = RecordingTransport(response)
    client = SimpleNamespace(transport=transport)
    way = service_endpoint.connect_service(client, DOOR, ["10.0.0.1"])  # type: ignore[arg-type]
    answered = asyncio.run(service_endpoint.read_all(way, "POST", path, b"{}", {"x-api-key": "mine"}))
    return answered, transport.seen[-1]


def test_remote_pod_is_reached_through_the_api_server() -> None:
    async def stream() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"b"

    answered, request = proxied(Response(200, {}, stream=stream()))
    assert answered == b"ab"
    assert request.path == "/api/v1/namespaces/models/services/gateway:8080/proxy/v1/models"
    assert (request.query, request.headers, request.body) == ((("limit", "2"),), {"x-api-key": "mine"}, b"{}")
    assert proxied(Response(200, {}, b"whole"), "/health")[0] == b"whole"


def test_source_of_an_error_is_reported() -> None:
    status = b'{"kind": "Status", "apiVersion": "v1", "message": "error trying to reach service", "code": 503}'
    with pytest.raises(Unreachable, match="the API server cannot connect to service/gateway: error trying to reach service"):
        proxied(Response(503, {}, status))
    with pytest.raises(SliceworksError, match="service/gateway responded with status 429: slower") as caught:
        proxied(Response(429, {}, b'{"error": {"message": "slower"}}'))
    assert not isinstance(caught.value, Unreachable)
    with pytest.raises(SliceworksError, match="has no ready server"):
        service_endpoint.connect_service(SimpleNamespace(), DOOR, [])  # type: ignore[arg-type]


DENSENET: dict[str, Any] = {
    "name": "densenet_onnx",
    "inputs": [{"name": "data_0", "datatype": "FP32", "shape": [3, 224, 224]}],
    "outputs": [{"name": "fc6_1", "datatype": "FP32", "shape": [1000]}],
}


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    from PIL import Image

    file = tmp_path / "red.png"
    Image.new("RGBA", (10, 20), (255, 0, 127, 255)).save(file)
    return file


def test_image_is_converted_to_the_models_tensor(picture: Path) -> None:
    body = image_input.infer_body(DENSENET, picture, "inception", 3)
    [tensor] = body["inputs"]
    assert (tensor["name"], tensor["shape"], len(tensor["data"])) == ("data_0", [3, 224, 224], 3 * 224 * 224)
    size = 224 * 224
    assert [tensor["data"][place] for place in (0, size - 1, size, 2 * size)] == [1.0, 1.0, -1.0, pytest.approx(127 / 127.5 - 1)]
    assert body["outputs"] == [{"name": "fc6_1", "parameters": {"classification": 3}}]


def test_channels_last_and_integer_tensors(picture: Path) -> None:
    rows = {"name": "m", "inputs": [{"name": "x", "datatype": "UINT8", "shape": [-1, 2, 1, 3]}], "outputs": [{"name": "y"}]}
    [tensor] = image_input.infer_body(rows, picture, "none", 1)["inputs"]
    assert (tensor["shape"], tensor["data"]) == ([1, 2, 1, 3], [255, 0, 127, 255, 0, 127])


def test_invalid_image_is_an_error(tmp_path: Path, picture: Path) -> None:
    words = {"name": "m", "inputs": [{"name": "ids", "datatype": "INT64", "shape": [-1, 128]}], "outputs": [{"name": "y"}]}
    with pytest.raises(SliceworksError, match="input ids: expected the shape of an image"):
        image_input.infer_body(words, picture, "none", 1)
    file = tmp_path / "text.png"
    file.write_text("no picture")
    with pytest.raises(SliceworksError, match="not an image that Pillow can read"):
        image_input.infer_body(DENSENET, file, "none", 1)


def test_classes_have_scores_and_labels() -> None:
    reported = {"outputs": [{"data": ["15.349563:504:COFFEE MUG", "13.227461:968:CUP", "3.5:7"]}]}
    assert image_input.read_classes(reported) == [(15.349563, "504", "COFFEE MUG"), (13.227461, "968", "CUP"), (3.5, "7", "")]
