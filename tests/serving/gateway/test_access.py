"""API keys: authentication, allowed models, and rate limits."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError
from tests.support.gateways import Client, chat, document, gateway, send_request, until, upstream

from sliceworks.base import clock
from sliceworks.base.http.flow_control import FairApplication, FlowControl
from sliceworks.serving.gateway.state import generate_key

if TYPE_CHECKING:
    from pathlib import Path


def key(name: str, secret: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "sha256": hashlib.sha256(secret.encode()).hexdigest(), **more}


def test_anonymous_access_must_be_explicit() -> None:
    with pytest.raises(ValidationError, match="keys: required, unless anonymous is true"):
        document("http://127.0.0.1:1", anonymous=False)


def test_unknown_key_is_rejected() -> None:
    async def main() -> None:
        async with upstream() as echo, gateway(document(echo.url, keys=[key("a", "right")])) as gate:
            assert (await gate.request("POST", "/v1/chat/completions", chat(), key="right")).status == 200
            for wrong in ("", "wrong", "right ", "Right", "right\u00e9"):
                response = await gate.request(
                    "POST", "/v1/chat/completions", chat(), key=wrong.strip() + ("x" if wrong == "right " else "")
                )
                assert response.status == 401
                assert response.json["error"]["code"] == "invalid_api_key"
                assert response.headers["www-authenticate"] == "Bearer"
            assert (await gate.request("GET", "/v2/models/m")).json == {"error": response.json["error"]["message"]}
            assert (await gate.request("GET", "/v1/models", b"", "x-api-key: right")).status == 200
            assert (await gate.request("GET", "/health")).status == 200
            assert echo.engine.received == 1

    clock.run(main())


def test_body_is_not_read_without_a_key() -> None:
    async def main() -> None:
        async with (
            upstream() as echo,
            gateway(document(echo.url, keys=[key("a", "right")])) as gate,
            await Client.open(gate.port) as client,
        ):
            client.writer.write(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 60000000\r\n\r\n" + b"x" * 100_000
            )
            response = await client.get()
            assert response.status == 401
            assert response.headers["connection"] == "close"
            assert await client.gone()

    clock.run(main())


def test_key_sees_only_its_models() -> None:
    async def main() -> None:
        async with upstream(models=("*",)) as echo:
            models = [{"name": name, "backends": [{"kind": "echo", "url": echo.url}]} for name in ("team-a/x", "team-a/y", "other")]
            keys = [key("a", "ka", models=["team-a/*"]), key("b", "kb", models=["other"]), key("all", "kc")]
            async with gateway(document(models=models, keys=keys)) as gate:
                seen = {who: (await gate.request("GET", "/v1/models", key=who)).json["data"] for who in ("ka", "kb", "kc")}
                assert {who: [item["id"] for item in listed] for who, listed in seen.items()} == {
                    "ka": ["team-a/x", "team-a/y"],
                    "kb": ["other"],
                    "kc": ["team-a/x", "team-a/y", "other"],
                }
                assert (await gate.request("POST", "/v1/chat/completions", chat(model="team-a/x"), key="ka")).status == 200
                hidden = await gate.request("POST", "/v1/chat/completions", chat(model="other"), key="ka")
                missing = await gate.request("POST", "/v1/chat/completions", chat(model="nothing"), key="ka")
                assert (hidden.status, missing.status) == (404, 404)
                assert hidden.json["error"]["message"] == missing.json["error"]["message"].replace("nothing", "other")
                assert (await gate.request("POST", "/v2/models/other/generate", {"text_input": "x"}, key="ka")).status == 404

    clock.run(main())


def test_request_limit_has_retry_after() -> None:
    async def main() -> None:
        async with upstream() as echo:
            spec = document(echo.url, keys=[key("a", "ka", rateLimit={"requestsPerMinute": 3}), key("b", "kb")])
            async with gateway(spec) as gate:
                responses = [await gate.request("POST", "/v1/chat/completions", chat(), key="ka") for _ in range(4)]
                assert [response.status for response in responses] == [200, 200, 200, 429]
                assert [response.headers.get("x-ratelimit-remaining-requests") for response in responses] == ["2", "1", "0", "0"]
                assert 50 < float(responses[3].headers["x-ratelimit-reset-requests"].rstrip("s")) <= 60
                assert responses[3].json["error"]["code"] == "rate_limit_exceeded"
                assert 5 <= int(responses[3].headers["retry-after"]) <= 20
                assert (await gate.request("POST", "/v1/chat/completions", chat(), key="kb")).status == 200
                assert gate.idle()

    clock.run(main())


def test_token_limit_counts_used_tokens() -> None:
    async def main() -> None:
        async with upstream() as echo:
            spec = document(echo.url, keys=[key("a", "ka", rateLimit={"tokensPerMinute": 300})])
            async with gateway(spec) as gate:
                for stream in (False, True):
                    body = chat("word", max_tokens=97, stream=stream, stream_options={"include_usage": True})
                    assert (await gate.request("POST", "/v1/chat/completions", body, key="ka")).status == 200
                response = await gate.request("POST", "/v1/chat/completions", chat("word", max_tokens=97), key="ka")
                assert response.status == 429
                assert "tokens per minute" in response.json["error"]["message"]

    clock.run(main())


def test_tensors_do_not_count_as_tokens() -> None:
    async def main() -> None:
        async with (
            upstream() as echo,
            gateway(document(echo.url, keys=[key("a", "ka", rateLimit={"tokensPerMinute": 10})])) as gate,
        ):
            tensor = {"name": "INPUT", "datatype": "FP32", "shape": [500], "data": [0.0] * 500}
            for _ in range(3):
                assert (await gate.request("POST", "/v2/models/m/infer", {"inputs": [tensor]}, key="ka")).status == 200

    clock.run(main())


def test_concurrency_limit() -> None:
    async def main() -> None:
        async with (
            upstream(ttft=0.2) as echo,
            gateway(document(echo.url, keys=[key("a", "ka", rateLimit={"maxParallelRequests": 1})])) as gate,
        ):
            async with await Client.open(gate.port) as client:
                client.send("POST", "/v1/chat/completions", chat(), key="ka")
                await until(lambda: echo.engine.in_flight == 1)
                assert (await gate.request("POST", "/v1/chat/completions", chat(), key="ka")).status == 429
                assert (await client.get()).status == 200
            assert (await gate.request("POST", "/v1/chat/completions", chat(), key="ka")).status == 200

    clock.run(main())


def test_max_tokens_is_capped() -> None:
    async def main() -> None:
        async with upstream() as echo, gateway(document(echo.url, limits={"maxTokens": 5})) as gate:
            over = await gate.request("POST", "/v1/chat/completions", chat(max_tokens=6))
            assert (over.status, over.json["error"]["param"]) == (400, "max_tokens")
            for body in (chat("w"), chat("w", max_tokens=None), chat("w", max_completion_tokens=None), chat("w" * 2000)):
                response = await gate.request("POST", "/v1/chat/completions", body)
                assert response.json["usage"]["completion_tokens"] == 5
            generate = "/v2/models/m/generate"
            for body in ({"max_tokens": 6}, {"parameters": {"max_tokens": 6}}, {"max_tokens": 1, "parameters": {"max_tokens": 6}}):
                over = await gate.request("POST", generate, {"text_input": "w", **body})
                assert (over.status, over.json) == (400, {"error": "max_tokens: must be at most 5, got 6"})
            assert (await gate.request("POST", generate, {"text_input": "w"})).json["text_output"] == "w w w w w"

    clock.run(main())


CHAT, TEXT, TRITON, JETSTREAM = "/v1/chat/completions", "/v1/completions", "/v2/models/m/generate", "/v1/generate"
EVASIONS: list[tuple[str, dict[str, Any], str]] = [
    (CHAT, {"n": 100}, "max_tokens: must be at most 12 for all completions, got 100 completions of 1"),
    (CHAT, {"n": 2, "max_tokens": 7}, "max_tokens: must be at most 12 for all completions, got 2 completions of 7"),
    (CHAT, {"n": 2, "max_completion_tokens": 7}, "max_tokens: must be at most 12 for all completions, got 2 completions of 7"),
    (CHAT, {"best_of": 13}, "max_tokens: must be at most 12 for all completions, got 13 completions of 1"),
    (CHAT, {"n": 1, "best_of": 7, "max_tokens": 2}, "max_tokens: must be at most 12 for all completions, got 7 completions of 2"),
    (TEXT, {"prompt": ["a"] * 13}, "max_tokens: must be at most 12 for all completions, got 13 completions of 1"),
    (TEXT, {"prompt": [[1, 2]] * 3, "n": 5}, "max_tokens: must be at most 12 for all completions, got 15 completions of 1"),
    (TEXT, {"prompt": ["a", "b"], "max_tokens": 7}, "max_tokens: must be at most 12 for all completions, got 2 completions of 7"),
    (CHAT, {"max_tokens": 0}, "max_tokens: must be at least 1, got 0"),
    (CHAT, {"max_tokens": -1}, "max_tokens: must be at least 1, got -1"),
    (CHAT, {"max_completion_tokens": 0}, "max_completion_tokens: must be at least 1, got 0"),
    (CHAT, {"max_tokens": 5, "max_completion_tokens": 0}, "max_completion_tokens: must be at least 1, got 0"),
    (CHAT, {"max_tokens": 1, "max_completion_tokens": 13}, "max_tokens: must be at most 12, got 13"),
    (CHAT, {"max_tokens": "100"}, "max_tokens: must be an integer"),
    (CHAT, {"max_tokens": 1e3}, "max_tokens: must be an integer"),
    (CHAT, {"max_tokens": [100]}, "max_tokens: must be an integer"),
    (CHAT, {"max_tokens": True}, "max_tokens: must be an integer"),
    (CHAT, {"n": 0}, "n: must be at least 1, got 0"),
    (CHAT, {"n": -3}, "n: must be at least 1, got -3"),
    (CHAT, {"n": "3"}, "n: must be an integer"),
    (CHAT, {"n_predict": -1}, "n_predict: must be at least 1, got -1"),
    (CHAT, {"max_new_tokens": 100}, "max_tokens: must be at most 12, got 100"),
    (CHAT, {"max_output_tokens": 100}, "max_tokens: must be at most 12, got 100"),
    (CHAT, {"options": {"num_predict": 100}}, "max_tokens: must be at most 12, got 100"),
    (CHAT, {"reasoning": {"max_tokens": 100}}, "max_tokens: must be at most 12, got 100"),
    (CHAT, {"thinking": {"type": "enabled", "budget_tokens": 100}}, "max_tokens: must be at most 12, got 100"),
    (CHAT, {"thinking_token_budget": 100}, "max_tokens: must be at most 12, got 100"),
    (CHAT, {"sampling_params": {"n": 13}}, "max_tokens: must be at most 12 for all completions, got 13 completions of 1"),
    (CHAT, {"Max_Tokens": 100}, "Max_Tokens: unknown field, did you mean 'max_tokens'?"),
    (CHAT, {"maxTokens": 100}, "maxTokens: unknown field, did you mean 'max_tokens'?"),
    (CHAT, {"N": 100}, "N: unknown field, did you mean 'n'?"),
    (CHAT, {"max_tokens": 1, "Max_tokens": 100}, "Max_tokens: duplicate field"),
    (CHAT, {"parameters": {"Max_Tokens": 100}}, "parameters.Max_Tokens: unknown field, did you mean 'max_tokens'?"),
    (TRITON, {"max_tokens": 0}, "max_tokens: must be at least 1, got 0"),
    (TRITON, {"n": 13}, "max_tokens: must be at most 12 for all completions, got 13 completions of 1"),
    (TRITON, {"parameters": {"max_tokens": 0}}, "parameters.max_tokens: must be at least 1, got 0"),
    (TRITON, {"parameters": {"Max_tokens": 13}}, "parameters.Max_tokens: unknown field, did you mean 'max_tokens'?"),
    (JETSTREAM, {"max_tokens": 0}, "max_tokens: must be at least 1, got 0"),
    (JETSTREAM, {"max_tokens": 13}, "max_tokens: must be at most 12, got 13"),
    (JETSTREAM, {"num_samples": 13}, "max_tokens: must be at most 12 for all completions, got 13 completions of 1"),
]  # fmt: skip


PROMPTS: dict[str, dict[str, Any]] = {
    TRITON: {"text_input": "w"},
    JETSTREAM: {"text_content": {"text": "w"}},
    TEXT: {"prompt": "w"},
}


def test_token_limit_cannot_be_evaded() -> None:
    async def main() -> None:
        async with upstream() as echo, gateway(document(echo.url, limits={"maxTokens": 12})) as gate:
            for path, fields, message in EVASIONS:
                body = {"model": "m", **(chat("w") if path == CHAT else PROMPTS[path]), **fields}
                response = await gate.request("POST", path, body)
                error = response.json.get("detail") or response.json["error"]
                assert (response.status, error["message"] if isinstance(error, dict) else error) == (400, message), fields
            assert echo.engine.received == 0

    clock.run(main())


@pytest.mark.parametrize(
    ("path", "fields", "tokens"),
    [
        (CHAT, {}, 12),
        (CHAT, {"n": 3}, 12),
        (CHAT, {"n": 5}, 10),
        (CHAT, {"n": 2, "max_tokens": 6}, 12),
        (CHAT, {"n": 2, "max_completion_tokens": 6}, 12),
        (CHAT, {"n": None, "max_tokens": None}, 12),
        (CHAT, {"max_new_tokens": 3}, 12),
        (CHAT, {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"n": 100}}}], "max_tokens": 3}, 3),
        (TEXT, {"prompt": ["a", "b", "c"]}, 12),
        (TEXT, {"prompt": ["a", "b"], "n": 2}, 12),
    ],
)
def test_token_limit_is_shared_by_all_completions(path: str, fields: dict[str, Any], tokens: int) -> None:
    async def main() -> None:
        async with upstream() as echo, gateway(document(echo.url, limits={"maxTokens": 12})) as gate:
            body = {**(chat("w") if path == CHAT else {"model": "m", "prompt": "w"}), **fields}
            response = await gate.request("POST", path, body)
            assert (response.status, response.json["usage"]["completion_tokens"]) == (200, tokens)

    clock.run(main())


def test_model_cannot_be_named_twice() -> None:
    """A Go backend takes the last field in any case: it would run a model that the key may not use."""

    async def main() -> None:
        keys = [key("a", "ka", models=["m"])]
        async with upstream(models=("*",)) as echo:
            spec = document(echo.url, keys=keys)
            async with gateway(spec) as gate:
                for extra in ('"Model":"other"', '"model":"other"', '"MODEL":"m"', '"mod\\u0065l":"other"'):
                    raw = '{"model":"m","messages":[{"role":"user","content":"w"}],' + extra + "}"
                    response = await gate.request("POST", CHAT, raw.encode(), key="ka")
                    assert response.status == 400, extra
                assert echo.engine.received == 0

    clock.run(main())


def test_keys_from_files(tmp_path: Path) -> None:
    secret, digest = generate_key()
    (tmp_path / "key").write_text(secret + "\n")
    assert hashlib.sha256(secret.encode()).hexdigest() == digest

    async def main() -> None:
        async with upstream() as echo:
            spec = document(echo.url, keys=[{"name": "a", "secret": {"file": str(tmp_path / "key")}}])
            async with gateway(spec) as gate:
                assert (await gate.request("GET", "/v1/models", key=secret)).status == 200
                assert (await gate.request("GET", "/v1/models", key=digest)).status == 401

    clock.run(main())


def test_admin_port_rejects_a_flood_and_keeps_its_probes(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("boss")

    async def main() -> None:
        async with (
            upstream() as echo,
            gateway(document(echo.url, admin={"port": 0, "key": {"file": str(tmp_path / "key")}})) as gate,
        ):
            assert gate.admin is not None
            server = gate.program.admin
            assert server is not None
            application, server.limits = server.application, replace(server.limits, connections=2)
            assert isinstance(application, FairApplication)
            busy = application._flow_control = FlowControl(lambda: 1.0, queue_length=0)
            busy._turn_start = 0.0  # this turn of the loop has no time left
            async with await Client.open(gate.admin), await Client.open(gate.admin) as second:
                second.send("GET", "/metrics", key="boss")
                response = await second.get()
                assert (response.status, response.headers["retry-after"], response.json["error"]["code"]) == (
                    429,
                    "1",
                    "too_many_requests",
                )
                assert (
                    await send_request(gate.admin, "GET", "/healthz")
                ).status == 200  # replaces the first connection, which is unused
                application._flow_control = FlowControl()
                second.send("GET", "/metrics", key="boss")
                assert (await second.get()).status == 200

    clock.run(main())


def test_admin_api_has_its_own_port_and_key(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("boss")

    async def main() -> None:
        async with upstream() as echo:
            admin = {"port": 0, "key": {"file": str(tmp_path / "key")}}
            async with gateway(document(echo.url, keys=[key("a", "ka")], admin=admin)) as gate:
                assert gate.admin is not None
                assert (await gate.request("POST", "/v1/chat/completions", chat(), key="ka")).status == 200
                for wrong in ("", "ka", "bos"):
                    assert (await send_request(gate.admin, "GET", "/metrics", key=wrong)).status == 401
                    assert (await send_request(gate.admin, "POST", "/admin/reload", key=wrong)).status == 401
                numbers = (await send_request(gate.admin, "GET", "/metrics", key="boss")).body.decode()
                assert 'sliceworks_gateway_requests_total{model="m",route="chat",key="a",code="200"} 1' in numbers
                assert 'vllm:request_success_total{model_name="m"} 1' in numbers
                assert 'sliceworks_gateway_overhead_seconds_count{route="chat"} 1' in numbers
                labels = 'gen_ai_operation_name="chat",gen_ai_provider_name="sliceworks",gen_ai_request_model="m"'
                assert f'gen_ai_client_token_usage_sum{{{labels},gen_ai_token_type="input"}} 3' in numbers
                status = (await send_request(gate.admin, "GET", "/admin/status", key="boss")).json
                assert status["models"][0]["backends"][0]["healthy"] is True
                assert (await send_request(gate.admin, "GET", "/healthz")).status == 200
                assert (await send_request(gate.admin, "GET", "/readyz")).status == 200
                assert (await send_request(gate.admin, "POST", "/admin/drain", key="boss")).status == 202
                assert (await send_request(gate.admin, "GET", "/readyz")).status == 503
                assert (await gate.request("GET", "/health")).status == 503
                for path in ("/metrics", "/admin/status"):
                    assert (await gate.request("GET", path, key="boss")).status == 401
                    assert (await gate.request("GET", path, key="ka")).status == 404

    clock.run(main())
