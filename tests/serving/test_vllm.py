"""vLLM pods: valid flags, a drain period, and no environment variables that vLLM interprets.

The flags and responses of a real vLLM were recorded by `tests/heavy/test_vllm.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support import goldens
from tests.support.gateways import document, gateway, raw_upstream, read_request, send_request, upstream
from tests.support.model_services import service
from tests.support.vllm_goldens import ASKED

from sliceworks.base import clock
from sliceworks.console.views import latency_view
from sliceworks.serving import validation, vllm
from sliceworks.serving.compiler import manifests

if TYPE_CHECKING:
    import asyncio

MODEL = "vllm: {{model: {{name: a, source: a/b}}, quantization: {method}}}, accelerator: {{type: {on}}}"


def pod(text: str, name: str = "served") -> dict[str, Any]:
    [result] = [obj for obj in manifests(service("vllm", text, name)) if obj["kind"] == "Deployment"]
    spec: dict[str, Any] = result["spec"]["template"]["spec"]
    return spec


def test_grace_period_covers_responses() -> None:
    created = pod("vllm: {model: {name: a, source: a/b}}, accelerator: {type: l4-1}, drainTimeout: 90s")
    [container] = created["containers"]
    assert "--shutdown-timeout=90" in container["args"]
    waits = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert created["terminationGracePeriodSeconds"] > waits + 90


def test_service_name_may_collide_with_vllm_variables() -> None:
    assert pod("vllm: {model: {name: a, source: a/b}}, accelerator: {type: l4-1}", name="vllm")["enableServiceLinks"] is False


@pytest.mark.parametrize(("method", "flag"), [("int8", "int8_per_channel_weight_only"), ("gptq", "gptq")])
def test_quantization_flag(method: str, flag: str) -> None:
    [container] = pod(MODEL.format(method=method, on="l4-1"))["containers"]
    assert f"--quantization={flag}" in container["args"]


@pytest.mark.parametrize("method", ["int8", "gptq"])
def test_unsupported_quantization_on_tpu_is_an_error(method: str) -> None:
    [finding] = validation.validate(service("vllm", MODEL.format(method=method, on="v6e-1")))
    assert finding.message == f"spec.vllm.quantization: vLLM does not support {method} on TPUs"
    assert finding.hint == "supported: fp8, awq"


ALL_FIELDS = (
    "model: {name: a, source: 'gs://b/a'}, dtype: bfloat16, quantization: fp8, maxModelLen: 9, maxNumSeqs: 9, cache: cached"
)


@pytest.mark.parametrize("kind", ["l4-1", "v6e-1"])
def test_every_flag_exists(kind: str) -> None:
    [container] = pod(f"vllm: {{{ALL_FIELDS}}}, accelerator: {{type: {kind}}}")["containers"]
    given = {item.partition("=")[0] for item in container["args"]}
    assert len(given) > 10
    assert given <= set(goldens.recorded("vllm", "flags"))


def test_every_quantization_exists() -> None:
    response = {name for kind in vllm.QUANTIZATIONS.values() for name in kind.values()}
    assert response <= set(goldens.recorded("vllm", "quantizations"))


def test_image_version_equals_the_recorded_one() -> None:
    images = {image.partition(":")[2] for image in vllm.IMAGES.values()}
    assert images == {f"v{goldens.recorded('vllm', 'version')}"}


def test_metrics_have_vllms_types() -> None:
    known = goldens.recorded("vllm", "numbers")
    assert known[vllm.METRIC] == "gauge"
    assert known[latency_view.REQUEST_LATENCY] == known[latency_view.TIME_TO_FIRST_TOKEN] == "histogram"

    async def main() -> None:
        async with gateway(document("http://127.0.0.1:1")) as ours:
            lines = [line.split() for line in (await ours.metrics()).splitlines() if line.startswith("# TYPE vllm:")]
        assert len(lines) > 6
        assert {name: kind for _, _, name, kind in lines} == {name: known.get(name) for _, _, name, _ in lines}

    clock.run(main())


@pytest.mark.parametrize(
    ("case", "tokens"), [("chat in events", 5), ("text in events", 5), ("chat in events with usage", 5), ("several answers", 10)]
)
def test_gateway_counts_vllm_tokens(case: str, tokens: int) -> None:
    path, body = ASKED[case]
    recorded = goldens.recorded("vllm", case)

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_request(reader)
            text = recorded["text"].encode() if head.startswith(b"POST") else b""
            kind = recorded["type"] if text else "application/json"
            writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(text)}\r\n\r\n".encode() + text)

    async def main() -> None:
        async with raw_upstream(respond) as url, gateway(document(url, kind="openai")) as ours:
            response = await ours.request("POST", path, {**body, "model": "m"})
            assert response.body.decode() == recorded["text"]
            assert f'vllm:generation_tokens_total{{model_name="m"}} {tokens}\n' in await ours.metrics()

    clock.run(main())


ALIKE = (
    "chat",
    "text",
    "several texts",
    "several answers",
    "no answers",
    "no messages",
    "messages left out",
    "tokens that are not a number",
)


@pytest.mark.parametrize("case", ALIKE)
def test_echo_model_has_vllms_format(case: str) -> None:
    path, body = ASKED[case]
    recorded = goldens.recorded("vllm", case)
    real = orjson.loads(recorded["text"])

    async def main() -> None:
        async with upstream(models=("tiny",)) as echo:
            response = await send_request(echo.port, "POST", path, body)
        assert response.status == recorded["status"]
        assert shape(response.json, real) == shape(real, response.json)

    clock.run(main())


def shape(response: Any, other: Any) -> Any:
    """The common fields of two responses and their types, ignoring null values."""
    if isinstance(response, dict) and isinstance(other, dict):
        shared = [
            name for name in sorted(response) if response[name] is not None and other.get(name) is not None and name != "code"
        ]
        assert shared
        return {name: shape(response[name], other[name]) for name in shared}
    if isinstance(response, list) and isinstance(other, list):
        return [shape(*both) for both in zip(response, other, strict=True)]
    return type(response).__name__


@pytest.mark.parametrize("case", ["chat in events with usage", "text in events"])
def test_echo_model_streams_like_vllm(case: str) -> None:
    path, body = ASKED[case]

    async def main() -> None:
        async with upstream(models=("tiny",)) as echo:
            ours = read((await send_request(echo.port, "POST", path, body)).body.decode())
        theirs = read(goldens.recorded("vllm", case)["text"])
        assert {name: len(value) for name, value in ours.items()} == {name: len(value) for name, value in theirs.items()}
        assert ours["why"] == theirs["why"] == ["length"]

    clock.run(main())


def read(stream: str) -> dict[str, list[Any]]:
    """What a client parses from a stream."""
    lines = [line.removeprefix("data: ") for line in stream.split("\n\n") if line]
    assert lines.pop() == "[DONE]"
    events = [orjson.loads(line) for line in lines]
    choices = [choice for event in events for choice in event["choices"]]
    deltas = [choice.get("delta", choice) for choice in choices]
    return {
        "roles": [delta["role"] for delta in deltas if "role" in delta],
        "content": [text for delta in deltas if (text := delta.get("content") or delta.get("text"))],
        "why": [choice["finish_reason"] for choice in choices if choice["finish_reason"]],
        "usage": [event["usage"] for event in events if event.get("usage")],
    }


def test_echo_model_honors_stop_sequences() -> None:
    async def main() -> None:
        async with upstream() as echo:
            request = {"model": "m", "prompt": "one two three", "stop": [" tw"], "stream": True, "n": 2}
            response = read((await send_request(echo.port, "POST", "/v1/completions", request)).body.decode())
            assert (response["content"], response["why"]) == (["one", "one"], ["stop", "stop"])

    clock.run(main())
