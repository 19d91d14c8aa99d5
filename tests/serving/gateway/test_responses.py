"""Every response, also an error: request id, metrics, log line; and HTTP methods."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, Any

from tests.support.gateways import Client, chat, document, gateway, upstream

from sliceworks.base import clock

if TYPE_CHECKING:
    import pytest

KEYS = [{"name": "a", "sha256": hashlib.sha256(b"ka").hexdigest(), "models": ["m"]}]
_REFUSED: list[tuple[str, str, Any, str, int, str]] = [
    ("POST", "/v1/chat/completions", chat(), "wrong", 401, "invalid_api_key"),
    ("POST", "/v1/chat/completions", chat(model="other"), "ka", 404, "model_not_found"),
    ("POST", "/v1/chat/completions", b"{", "ka", 400, "invalid_request"),
    ("GET", "/v1/chat/completions", b"", "ka", 405, "method_not_allowed"),
    ("GET", "/nothing", b"", "ka", 404, "not_found"),
]


def test_error_has_id_metric_and_log_line(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        spec = document("http://127.0.0.1:1", keys=KEYS, accessLog=True)
        async with gateway(spec) as gate:
            for method, path, body, key, status, code in _REFUSED:
                response = await gate.request(method, path, body, f"x-request-id: {code}", key=key)
                assert response.status == status
                assert response.headers["x-request-id"] == code
                assert f'sliceworks_gateway_rejected_requests_total{{code="{code}"}} 1\n' in await gate.metrics()
            async with await Client.open(gate.port) as client:
                client.writer.write(b"GET /v1/models HTTP/1.1\r\n\r\n")
                assert (await client.head()).headers["x-request-id"]

    with caplog.at_level(logging.INFO, "sliceworks.gateway.access"):
        clock.run(main())
    lines = [record.getMessage() for record in caplog.records if record.name == "sliceworks.gateway.access"]
    assert [line.split()[4] for line in lines] == [*(str(status) for *_, status, _ in _REFUSED), "400"]
    assert lines[0].startswith("invalid_api_key - - - 401 ")
    assert lines[1].startswith("model_not_found a - - 404 ")


def test_local_responses_have_ids() -> None:
    async def main() -> None:
        async with upstream() as echo, gateway(document(echo.url)) as gate:
            for method, path in (("GET", "/v1/models"), ("GET", "/v1/models/m"), ("GET", "/v2"), ("POST", "/v2/repository/index")):
                assert (await gate.request(method, path, b"", "x-request-id: mine")).headers["x-request-id"] == "mine"

    clock.run(main())


def test_head_and_unsupported_methods() -> None:
    async def main() -> None:
        async with upstream() as echo, gateway(document(echo.url)) as gate, await Client.open(gate.port) as client:
            for path in ("/healthz", "/v1/models", "/v2"):
                client.send("GET", path)
                whole = await client.get()
                client.send("HEAD", path)
                head = await client.head()
                assert (head.status, head.headers["content-length"]) == (200, whole.headers["content-length"])
            for method, path, allowed in (("HEAD", "/v1/chat/completions", "POST"), ("PUT", "/v2/models/m/ready", "GET, POST")):
                client.send(method, path)
                reported = await client.head()
                assert (reported.status, reported.headers["allow"]) == (405, allowed)
                await client.reader.read(int(reported.headers["content-length"]) if method != "HEAD" else 0)

    clock.run(main())


def test_time_per_token_uses_reported_tokens() -> None:
    """The events that end a stream are not tokens: a token count of the server takes precedence."""

    async def main() -> None:
        async with upstream(token_time=0.05) as echo, gateway(document(echo.url)) as gate:
            body = chat("a b c", stream=True, stream_options={"include_usage": True})
            assert (await gate.request("POST", "/v1/chat/completions", body)).status == 200
            numbers = await gate.metrics()
        for name in ("gen_ai_server_time_per_output_token_seconds_sum", "vllm:request_time_per_output_token_seconds_sum"):
            (line,) = (line for line in numbers.splitlines() if line.startswith(name))
            assert 0.04 < float(line.split()[-1]) < 0.2

    clock.run(main())


def test_failed_requests_have_duration_and_reason() -> None:
    async def main() -> None:
        async with upstream(error_rate=1.0) as echo, gateway(document(echo.url, retries={"attempts": 0})) as gate:
            response = await gate.request("POST", "/v1/chat/completions", chat())
            assert response.status >= 400
            assert f'error_type="{response.status}"' in await gate.metrics()
            assert "gen_ai_server_request_duration_seconds_count" in await gate.metrics()

    clock.run(main())
