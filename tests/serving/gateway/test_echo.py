"""The echo model: configured behaviour, reproducible by seed, with a record of requests."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from tests.support.gateways import chat, send_request, upstream

from sliceworks.base import clock
from sliceworks.base.http.messages import HttpError
from sliceworks.serving.gateway.echo.engine import Engine, Settings


def test_same_seed_fails_the_same_requests() -> None:
    async def outcomes(seed: int) -> list[str]:
        engine = Engine(Settings(error_rate=0.3, seed=seed))
        for _ in range(50):
            with contextlib.suppress(HttpError):
                await engine.wait_for_response(engine.start_request("chat", "m", "a b", 3), 2)
        return [record.outcome for record in engine.records]

    async def main() -> None:
        first = await outcomes(7)
        assert first == await outcomes(7)
        assert first != await outcomes(8)
        assert 5 < first.count("error") < 25

    clock.run(main(), virtual=True)


def test_latency_grows_beyond_the_knee() -> None:
    async def seconds(at_once: int) -> float:
        engine = Engine(Settings(ttft=1.0, token_time=0.1, knee=4))
        started = clock.loop_time()
        engine.in_flight = at_once - 1
        await engine.wait_for_response(engine.start_request("chat", "m", "x", 1), 11)
        return clock.loop_time() - started

    async def main() -> None:
        assert await seconds(1) == pytest.approx(2.0)
        assert await seconds(4) == pytest.approx(2.0)
        assert await seconds(8) == pytest.approx(4.0)

    clock.run(main(), virtual=True)


def test_requests_are_recorded() -> None:
    async def main() -> None:
        async with upstream(ttft=0.02, token_time=0.01) as echo:
            await send_request(echo.port, "POST", "/v1/chat/completions", chat("a b c", stream=True))
            await send_request(echo.port, "POST", "/v1/completions", {"model": "m", "prompt": "x"})
            reported = (await send_request(echo.port, "GET", "/echo/records")).json
            assert reported["received"] == 2
            first, second = reported["records"]
            assert (first["route"], first["prompt_tokens"], first["tokens"], first["outcome"]) == (
                "/v1/chat/completions",
                3,
                3,
                "done",
            )
            due = [first["arrived"] + after for after in (0.02, 0.03, 0.04)]
            assert all(sent >= at - 0.002 for sent, at in zip(first["sent"], due, strict=True))
            assert second["sent"] == []

    clock.run(main())


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (chat("a b"), "a b"),
        (chat("a b", max_tokens=5), "a b a b a"),
        (chat([{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "u"}}]), "x"),  # type: ignore[arg-type]
        (chat(""), "…"),
    ],
)
def test_prompt_is_echoed(body: Any, text: str) -> None:
    async def main() -> None:
        async with upstream() as echo:
            response = await send_request(echo.port, "POST", "/v1/chat/completions", body)
            assert response.json["choices"][0]["message"]["content"] == text
            assert response.json["choices"][0]["finish_reason"] == ("length" if "max_tokens" in body else "stop")

    clock.run(main())


def test_invalid_requests_have_openai_errors() -> None:
    async def main() -> None:
        async with upstream() as echo:
            wrong = [b"{", {"model": "m"}, {"model": "m", "messages": []}, {"messages": []}, {"model": "n", "messages": [{}]}]
            wrong += [chat(max_tokens=-1), chat(max_tokens="5")]
            responses = await asyncio.gather(*(send_request(echo.port, "POST", "/v1/chat/completions", body) for body in wrong))
            assert [response.status for response in responses] == [400, 400, 400, 400, 404, 400, 400]
            assert all(response.json["error"]["message"] for response in responses)

    clock.run(main())


def test_triton_load_and_unload() -> None:
    async def main() -> None:
        async with upstream(models=("m",)) as echo:

            async def listed() -> list[str]:
                reported = (await send_request(echo.port, "POST", "/v2/repository/index")).json
                return [item["name"] for item in reported]

            assert await listed() == ["m"]
            assert (await send_request(echo.port, "GET", "/v2/models/ara/ready")).status == 404
            assert (await send_request(echo.port, "POST", "/v2/repository/models/ara/load", {})).status == 200
            assert await listed() == ["m", "ara"]
            assert (await send_request(echo.port, "GET", "/v2/models/ara/ready")).status == 200
            for _ in range(2):  # a second load has no effect, as with Triton
                assert (await send_request(echo.port, "POST", "/v2/repository/models/m/unload", {})).status == 200
            assert await listed() == ["ara"]
            assert (await send_request(echo.port, "POST", "/v1/completions", {"model": "m", "prompt": "x"})).status == 404
            assert (await send_request(echo.port, "POST", "/v2/repository/models/m/lose", {})).status == 404

    clock.run(main())
