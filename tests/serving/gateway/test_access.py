"""Who may ask, for what, and how much."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError
from tests.support.gateways import Client, ask, chat, document, gateway, until, upstream

from sliceworks.base import clock
from sliceworks.serving.gateway.keys import new_key

if TYPE_CHECKING:
    from pathlib import Path


def key(name: str, secret: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "sha256": hashlib.sha256(secret.encode()).hexdigest(), **more}


def test_a_gateway_without_keys_must_say_so() -> None:
    with pytest.raises(ValidationError, match="there are no keys"):
        document("http://127.0.0.1:1", anonymous=False)


def test_only_a_known_key_is_served() -> None:
    async def main() -> None:
        async with upstream() as echo, gateway(document(echo.url, keys=[key("a", "right")])) as gate:
            assert (await gate.ask("POST", "/v1/chat/completions", chat(), key="right")).status == 200
            for wrong in ("", "wrong", "right ", "Right", "right\u00e9"):
                got = await gate.ask("POST", "/v1/chat/completions", chat(), key=wrong.strip() + ("x" if wrong == "right " else ""))
                assert got.status == 401
                assert got.json["error"]["code"] == "invalid_api_key"
                assert got.headers["www-authenticate"] == "Bearer"
            assert (await gate.ask("GET", "/v2/models/m")).json == {"error": got.json["error"]["message"]}
            assert (await gate.ask("GET", "/v1/models", b"", "x-api-key: right")).status == 200
            assert (await gate.ask("GET", "/health")).status == 200
            assert echo.engine.received == 1

    clock.run(main())


def test_who_has_no_key_cannot_make_the_gateway_read_much() -> None:
    async def main() -> None:
        async with (
            upstream() as echo,
            gateway(document(echo.url, keys=[key("a", "right")])) as gate,
            await Client.open(gate.port) as client,
        ):
            client.writer.write(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 60000000\r\n\r\n" + b"x" * 100_000
            )
            got = await client.get()
            assert got.status == 401
            assert got.headers["connection"] == "close"
            assert await client.gone()

    clock.run(main())


def test_a_key_sees_its_own_models_alone() -> None:
    async def main() -> None:
        async with upstream(models=("*",)) as echo:
            models = [{"name": name, "backends": [{"kind": "echo", "url": echo.url}]} for name in ("team-a/x", "team-a/y", "other")]
            keys = [key("a", "ka", models=["team-a/*"]), key("b", "kb", models=["other"]), key("all", "kc")]
            async with gateway(document(models=models, keys=keys)) as gate:
                seen = {who: (await gate.ask("GET", "/v1/models", key=who)).json["data"] for who in ("ka", "kb", "kc")}
                assert {who: [each["id"] for each in listed] for who, listed in seen.items()} == {
                    "ka": ["team-a/x", "team-a/y"],
                    "kb": ["other"],
                    "kc": ["team-a/x", "team-a/y", "other"],
                }
                assert (await gate.ask("POST", "/v1/chat/completions", chat(model="team-a/x"), key="ka")).status == 200
                hidden = await gate.ask("POST", "/v1/chat/completions", chat(model="other"), key="ka")
                missing = await gate.ask("POST", "/v1/chat/completions", chat(model="nothing"), key="ka")
                assert (hidden.status, missing.status) == (404, 404)
                assert hidden.json["error"]["message"] == missing.json["error"]["message"].replace("nothing", "other")
                assert (await gate.ask("POST", "/v2/models/other/generate", {"text_input": "x"}, key="ka")).status == 404

    clock.run(main())


def test_requests_are_limited_and_told_when_to_come_back() -> None:
    async def main() -> None:
        async with upstream() as echo:
            spec = document(echo.url, keys=[key("a", "ka", rate={"requestsPerMinute": 3}), key("b", "kb")])
            async with gateway(spec) as gate:
                got = [await gate.ask("POST", "/v1/chat/completions", chat(), key="ka") for _ in range(4)]
                assert [each.status for each in got] == [200, 200, 200, 429]
                assert [each.headers.get("x-ratelimit-remaining-requests") for each in got] == ["2", "1", "0", "0"]
                assert 50 < float(got[3].headers["x-ratelimit-reset-requests"].rstrip("s")) <= 60
                assert got[3].json["error"]["code"] == "rate_limit_exceeded"
                assert 5 <= int(got[3].headers["retry-after"]) <= 20
                assert (await gate.ask("POST", "/v1/chat/completions", chat(), key="kb")).status == 200
                assert gate.idle()

    clock.run(main())


def test_tokens_are_limited_by_what_was_really_used() -> None:
    async def main() -> None:
        async with upstream() as echo:
            spec = document(echo.url, keys=[key("a", "ka", rate={"tokensPerMinute": 200})])
            async with gateway(spec) as gate:
                for stream in (False, True):
                    body = chat("word", max_tokens=97, stream=stream, stream_options={"include_usage": True})
                    assert (await gate.ask("POST", "/v1/chat/completions", body, key="ka")).status == 200
                got = await gate.ask("POST", "/v1/chat/completions", chat("word"), key="ka")
                assert got.status == 429
                assert "tokens a minute" in got.json["error"]["message"]

    clock.run(main())


def test_tensors_are_no_tokens() -> None:
    async def main() -> None:
        async with upstream() as echo, gateway(document(echo.url, keys=[key("a", "ka", rate={"tokensPerMinute": 10})])) as gate:
            tensor = {"name": "INPUT", "datatype": "FP32", "shape": [500], "data": [0.0] * 500}
            for _ in range(3):
                assert (await gate.ask("POST", "/v2/models/m/infer", {"inputs": [tensor]}, key="ka")).status == 200

    clock.run(main())


def test_requests_at_once_are_limited() -> None:
    async def main() -> None:
        async with upstream(ttft=0.2) as echo, gateway(document(echo.url, keys=[key("a", "ka", rate={"concurrent": 1})])) as gate:
            async with await Client.open(gate.port) as client:
                client.send("POST", "/v1/chat/completions", chat(), key="ka")
                await until(lambda: echo.engine.under_way == 1)
                assert (await gate.ask("POST", "/v1/chat/completions", chat(), key="ka")).status == 429
                assert (await client.get()).status == 200
            assert (await gate.ask("POST", "/v1/chat/completions", chat(), key="ka")).status == 200

    clock.run(main())


def test_answers_are_capped() -> None:
    async def main() -> None:
        async with upstream() as echo, gateway(document(echo.url, caps={"maxTokens": 5})) as gate:
            over = await gate.ask("POST", "/v1/chat/completions", chat(max_tokens=6))
            assert (over.status, over.json["error"]["param"]) == (400, "max_tokens")
            for body in (chat("w"), chat("w", max_tokens=None), chat("w", max_completion_tokens=None), chat("w" * 2000)):
                got = await gate.ask("POST", "/v1/chat/completions", body)
                assert got.json["usage"]["completion_tokens"] == 5
            generate = "/v2/models/m/generate"
            for body in ({"max_tokens": 6}, {"parameters": {"max_tokens": 6}}, {"max_tokens": 1, "parameters": {"max_tokens": 6}}):
                over = await gate.ask("POST", generate, {"text_input": "w", **body})
                assert (over.status, over.json) == (400, {"error": "max_tokens is at most 5 here, asked for 6"})
            assert (await gate.ask("POST", generate, {"text_input": "w"})).json["text_output"] == "w w w w w"

    clock.run(main())


def test_keys_may_be_kept_in_files(tmp_path: Path) -> None:
    secret, digest = new_key()
    (tmp_path / "key").write_text(secret + "\n")
    assert hashlib.sha256(secret.encode()).hexdigest() == digest

    async def main() -> None:
        async with upstream() as echo:
            spec = document(echo.url, keys=[{"name": "a", "secret": {"file": str(tmp_path / "key")}}])
            async with gateway(spec) as gate:
                assert (await gate.ask("GET", "/v1/models", key=secret)).status == 200
                assert (await gate.ask("GET", "/v1/models", key=digest)).status == 401

    clock.run(main())


def test_admin_has_a_port_and_a_key_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("boss")

    async def main() -> None:
        async with upstream() as echo:
            admin = {"port": 0, "key": {"file": str(tmp_path / "key")}}
            async with gateway(document(echo.url, keys=[key("a", "ka")], admin=admin)) as gate:
                assert gate.admin is not None
                assert (await gate.ask("POST", "/v1/chat/completions", chat(), key="ka")).status == 200
                for wrong in ("", "ka", "bos"):
                    assert (await ask(gate.admin, "GET", "/metrics", key=wrong)).status == 401
                    assert (await ask(gate.admin, "POST", "/admin/reload", key=wrong)).status == 401
                numbers = (await ask(gate.admin, "GET", "/metrics", key="boss")).body.decode()
                assert 'sliceworks_gateway_requests_total{model="m",route="chat",key="a",code="200"} 1' in numbers
                assert 'vllm:request_success_total{model_name="m"} 1' in numbers
                assert 'sliceworks_gateway_overhead_seconds_count{route="chat"} 1' in numbers
                labels = 'gen_ai_operation_name="chat",gen_ai_provider_name="sliceworks",gen_ai_request_model="m"'
                assert f'gen_ai_client_token_usage_sum{{{labels},gen_ai_token_type="input"}} 3' in numbers
                status = (await ask(gate.admin, "GET", "/admin/status", key="boss")).json
                assert status["models"][0]["backends"][0]["well"] is True
                assert (await ask(gate.admin, "GET", "/healthz")).status == 200
                assert (await ask(gate.admin, "GET", "/readyz")).status == 200
                assert (await ask(gate.admin, "POST", "/admin/drain", key="boss")).status == 202
                assert (await ask(gate.admin, "GET", "/readyz")).status == 503
                assert (await gate.ask("GET", "/health")).status == 503
                for path in ("/metrics", "/admin/status"):
                    assert (await gate.ask("GET", path, key="boss")).status == 401
                    assert (await gate.ask("GET", path, key="ka")).status == 404

    clock.run(main())
