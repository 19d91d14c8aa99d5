"""Triton behind the gateway: the same cases on the echo model and on a real Triton."""

from __future__ import annotations

import asyncio
import hashlib
import urllib.request
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.real import triton
from tests.support.clusters import real_enabled
from tests.support.gateways import Running, document, gateway, until, upstream

from sliceworks.base import clock
from sliceworks.serving.triton import METRIC

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager

pytestmark = pytest.mark.timeout(600)  # an environment may have to be created first
KEYS = [{"name": "a", "sha256": hashlib.sha256(b"right").hexdigest()}]
MODELS = ("add", "speak")
TIMES = {"connect": "60s", "firstToken": "90s", "idle": "90s", "total": "90s"}  # the machine may be busy
SCRIPT = Path(triton.__file__).with_name("triton_client.py")


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[triton.Triton]:
    if not real_enabled():
        pytest.skip("needs a real Triton: SLICEWORKS_REAL=1")
    folder = tmp_path_factory.mktemp("triton")
    with triton.running(triton.repository(folder / "models"), folder / "log") as running:
        yield running


def gateway_for(url: str, kind: str, grpc: str = "", **more: Any) -> AbstractAsyncContextManager[Running]:
    backend = {"kind": kind, "url": url, "grpc": grpc}
    models = [{"name": name, "aliases": [f"{name}-alias"], "backends": [{**backend, "model": name}]} for name in MODELS]
    return gateway(document(models=models, timeouts=TIMES, **more))


@asynccontextmanager
async def gateway_for_echo() -> AsyncIterator[Running]:
    async with upstream(models=MODELS) as echo, gateway_for(echo.url, "echo") as gate:
        yield gate


@pytest.fixture(params=["echo", pytest.param("triton", marks=pytest.mark.real)])
def served(request: pytest.FixtureRequest) -> Callable[[], AbstractAsyncContextManager[Running]]:
    """A gateway with a server behind it."""
    if request.param == "echo":
        return gateway_for_echo
    running: triton.Triton = request.getfixturevalue("real")
    return lambda: gateway_for(running.url, "triton")


def test_model_metadata(served: Callable[[], AbstractAsyncContextManager[Running]]) -> None:
    async def main() -> None:
        async with served() as gate:
            assert (await gate.request("GET", "/v2")).json["name"] == "sliceworks"
            for path in (
                "/v2/health/live",
                "/v2/health/ready",
                "/v2/models/speak/ready",
                "/v2/models/speak-alias/versions/1/ready",
            ):
                response = await gate.request("GET", path)
                assert (response.status, response.body) == (200, b"")
            metadata = (await gate.request("GET", "/v2/models/speak")).json
            assert metadata["inputs"][0]["name"] == "text_input"
            assert metadata["inputs"][0]["datatype"] == "BYTES"
            index = (await gate.request("POST", "/v2/repository/index")).json
            assert [(item["name"], item["state"]) for item in index] == [("add", "READY"), ("speak", "READY")]

    clock.run(main())


def test_tensors_as_json(served: Callable[[], AbstractAsyncContextManager[Running]]) -> None:
    async def main() -> None:
        async with served() as gate:
            inputs = [{"name": name, "datatype": "FP32", "shape": [2], "data": [1.0, 2.0]} for name in ("A", "B")]
            response = await gate.request("POST", "/v2/models/add/infer", {"id": "7", "inputs": inputs})
            assert response.status == 200
            assert response.json["id"] == "7"
            assert response.json["model_name"] == "add"
            assert response.json["outputs"][0]["shape"] == [2]

    clock.run(main())


def test_streamed_text(served: Callable[[], AbstractAsyncContextManager[Running]]) -> None:
    async def main() -> None:
        async with served() as gate:
            response = await gate.request("POST", "/v2/models/speak/generate_stream", {"text_input": "one two three"})
            assert response.status == 200
            assert response.headers["content-type"].startswith("text/event-stream")
            events = [orjson.loads(event[6:]) for event in response.body.split(b"\n\n") if event]
            assert [event["text_output"].strip() for event in events] == ["one", "two", "three"]
            assert {event["model_name"] for event in events} == {"speak"}

    clock.run(main())


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v2/models/nothing/generate", {"text_input": "x"}, 404),
        ("/v2/models/add/infer", {"inputs": []}, 400),
        ("/v2/models/add/infer", b"{", 500),
        ("/v2/models/speak/generate_stream", b"{", 500),
        ("/v2/models/speak/nothing", b"{}", 404),
    ],
)
def test_errors_have_tritons_format(
    served: Callable[[], AbstractAsyncContextManager[Running]], path: str, body: Any, status: int
) -> None:
    async def main() -> None:
        async with served() as gate:
            response = await gate.request("POST", path, body)
            assert response.status == status
            assert isinstance(response.json["error"], str)
            await until(gate.idle)

    clock.run(main())


@pytest.mark.real
def test_triton_clients_work_through_the_gateway(real: triton.Triton) -> None:
    async def main() -> None:
        listen = {"port": 0, "grpcPort": 0}
        async with gateway_for(real.url, "triton", f"127.0.0.1:{real.grpc}", keys=KEYS, listen=listen) as gate:
            await _use_clients(f"127.0.0.1:{gate.port}", f"127.0.0.1:{gate.grpc}", "right")
            with pytest.raises(Failed, match="missing or invalid API key"):
                await _use_clients(f"127.0.0.1:{gate.port}", f"127.0.0.1:{gate.grpc}", "wrong")
            await until(gate.idle)
            assert 'route="ModelStreamInfer",key="a",code="200"' in await gate.metrics()

    clock.run(main())


class Failed(Exception):
    """The output of the failed script."""


async def _use_clients(*arguments: str) -> None:
    """Run the script of Triton's clients."""
    process = await asyncio.create_subprocess_exec(
        str(triton.python()), str(SCRIPT), *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    printed, _ = await process.communicate()
    if process.returncode:
        raise Failed(printed.decode())


@pytest.mark.real
def test_triton_clients_work_on_triton(real: triton.Triton) -> None:
    """The script's expectations hold on Triton itself; otherwise the other test would prove nothing."""
    clock.run(_use_clients(f"127.0.0.1:{real.http}", f"127.0.0.1:{real.grpc}", ""))


@pytest.mark.real
def test_triton_has_the_autoscaler_metric(real: triton.Triton) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{real.metrics}/metrics", timeout=90) as response:
        reported = response.read().decode()
    assert f"# TYPE {METRIC} gauge" in reported
    for name in MODELS:
        assert f'{METRIC}{{model="{name}",version="1"}} 0' in reported


def test_tokens_that_tensors_name_count_per_minute() -> None:
    async def main() -> None:
        keys = [{"name": "a", "sha256": hashlib.sha256(b"ka").hexdigest(), "rateLimit": {"tokensPerMinute": 100}}]
        async with upstream(models=("*",)) as echo:
            models = [{"name": "t", "backends": [{"kind": "triton", "url": echo.url}], "maxTokens": 60}]
            async with gateway(document(echo.url, keys=keys, models=models)) as gate:
                tensor = {"name": "max_tokens", "datatype": "INT32", "shape": [1], "data": [60]}
                statuses = [
                    (await gate.request("POST", "/v2/models/t/infer", {"inputs": [tensor]}, key="ka")).status for _ in range(3)
                ]
                assert statuses == [200, 429, 429]

    clock.run(main())
