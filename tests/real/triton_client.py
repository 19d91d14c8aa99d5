"""Uses a server with Triton's clients over HTTP and gRPC. Run it with the interpreter that has them:

python triton_client.py HTTP_ADDRESS GRPC_ADDRESS KEY
"""

from __future__ import annotations

import queue
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

# By name: the project's environment does not have them.
over_http: Any = import_module("tritonclient.http")
over_grpc: Any = import_module("tritonclient.grpc")
refusal: Any = import_module("tritonclient.utils").InferenceServerException


def tensors(module: Any) -> list[Any]:
    """Two tensors to add."""
    result = []
    for name in ("A", "B"):
        tensor = module.InferInput(name, [3], "FP32")
        tensor.set_data_from_numpy(np.array([1, 2, 3], dtype=np.float32))
        result.append(tensor)
    return result


def use_http(address: str, headers: dict[str, str] | None) -> None:
    """All calls of the HTTP client."""
    client = over_http.InferenceServerClient(address, concurrency=2)
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.get_server_metadata(headers=headers)["name"]
    assert client.is_model_ready("add", headers=headers)
    assert client.get_model_metadata("add", headers=headers)["inputs"][0]["datatype"] == "FP32"
    assert client.get_model_config("add", headers=headers)["backend"] == "python"
    result = client.infer("add", tensors(over_http), headers=headers)
    assert result.as_numpy("SUM").tolist() == [2, 4, 6]
    waiting = [client.async_infer("add", tensors(over_http), headers=headers) for _ in range(10)]
    assert all(item.get_result().as_numpy("SUM").tolist() == [2, 4, 6] for item in waiting)
    # The client modifies its arguments, here to compress everything.
    own, gzip = dict(headers or {}), {"request_compression_algorithm": "gzip", "response_compression_algorithm": "gzip"}
    squeezed = client.infer("add", tensors(over_http), headers=own, **gzip)
    assert squeezed.as_numpy("SUM").tolist() == [2, 4, 6]
    plain = [over_http.InferRequestedOutput("SUM", binary_data=False)]
    assert client.infer("add", tensors(over_http), outputs=plain, headers=headers).as_numpy("SUM").tolist() == [2, 4, 6]
    assert "add" in {item["name"] for item in client.get_model_repository_index(headers=headers)}
    assert client.get_inference_statistics("add", headers=headers)["model_stats"][0]["name"] == "add"
    refused(lambda: client.infer("nothing", tensors(over_http), headers=headers))
    refused(lambda: client.infer("add", tensors(over_http)[:1], headers=headers))
    client.close()


def use_grpc(address: str, headers: dict[str, str] | None) -> None:
    """The same over gRPC, and a stream."""
    client = over_grpc.InferenceServerClient(address)
    assert client.is_server_live(headers=headers)
    assert client.is_server_ready(headers=headers)
    assert client.is_model_ready("add", headers=headers)
    assert client.get_model_metadata("add", headers=headers).inputs[0].datatype == "FP32"
    result = client.infer("add", tensors(over_grpc), headers=headers)
    assert result.as_numpy("SUM").tolist() == [2, 4, 6]
    assert client.get_model_config("add", headers=headers).config.backend == "python"
    assert "add" in {model.name for model in client.get_model_repository_index(headers=headers).models}
    assert client.get_inference_statistics("add", headers=headers).model_stats[0].name == "add"
    answers: queue.Queue[Any] = queue.Queue()
    for _ in range(10):
        client.async_infer("add", tensors(over_grpc), lambda result, error: answers.put(error or result), headers=headers)
    assert all(answers.get(timeout=90).as_numpy("SUM").tolist() == [2, 4, 6] for _ in range(10))
    assert speak(client, headers) == [b"one", b"two", b"three"]
    refused(lambda: client.infer("nothing", tensors(over_grpc), headers=headers))
    client.close()


def speak(client: Any, headers: dict[str, str] | None) -> list[bytes]:
    """The streamed response of a model."""
    output: queue.Queue[Any] = queue.Queue()
    client.start_stream(lambda result, error: output.put(error or result), headers=headers)
    text = over_grpc.InferInput("text_input", [1], "BYTES")
    text.set_data_from_numpy(np.array([b"one two three"], dtype=object))
    client.async_stream_infer("speak", [text])
    actual: list[bytes] = []
    while len(actual) < 3:
        result = output.get(timeout=90)
        assert not isinstance(result, Exception), result
        actual.append(result.as_numpy("text_output")[0])
    client.stop_stream()
    return actual


def refused(act: Callable[[], Any]) -> None:
    """Check that a call fails."""
    try:
        act()
    except refusal:
        return
    raise AssertionError("it was not refused")


if __name__ == "__main__":
    http_address, grpc_address, key = sys.argv[1:]
    for use, address in ((use_http, http_address), (use_grpc, grpc_address)):
        # The clients modify their arguments.
        use(address, {"authorization": f"Bearer {key}"} if key else None)
    print("ok")
