"""Existing clients work through the gateway unchanged: OpenAI's client and curl.

Tests import OpenAI's client themselves: it has a thousand modules, and every worker imports this file.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.gateways import document, gateway, upstream

from sliceworks.base import clock

if TYPE_CHECKING:
    import openai

KEYS = [{"name": "a", "sha256": hashlib.sha256(b"sk-right").hexdigest()}]


def test_official_openai_client() -> None:
    import openai

    async def main() -> None:
        async with upstream() as echo, gateway(document(echo.url, keys=KEYS)) as gate:
            url = f"http://127.0.0.1:{gate.port}/v1"
            async with openai.AsyncOpenAI(base_url=url, api_key="sk-right", max_retries=0) as client:
                await _use(client)
            async with openai.AsyncOpenAI(base_url=url, api_key="sk-wrong", max_retries=0) as client:
                with pytest.raises(openai.AuthenticationError):
                    await client.models.list()

    clock.run(main())


async def _use(client: openai.AsyncOpenAI) -> None:
    import openai

    message: Any = {"role": "user", "content": "one two three"}
    whole = await client.chat.completions.create(model="m", messages=[message])
    assert whole.choices[0].message.content == "one two three"
    wants: Any = {"include_usage": True}
    stream = await client.chat.completions.create(model="m", messages=[message], stream=True, stream_options=wants)
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "one two three"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 3
    texts = [chunk.choices[0].text async for chunk in await client.completions.create(model="m", prompt="a b", stream=True)]
    assert "".join(texts) == "a b"
    embedded = await client.embeddings.create(model="m", input=["a", "b"])
    assert len(embedded.data[1].embedding) == 8
    assert [model.id async for model in client.models.list()] == ["m"]
    with pytest.raises(openai.NotFoundError):
        await client.chat.completions.create(model="other", messages=[message])
    with pytest.raises(openai.BadRequestError):
        await client.chat.completions.create(model="m", messages=[])


def test_official_client_reports_a_truncated_stream() -> None:
    import openai

    async def main() -> None:
        async with (
            upstream(token_time=0.01, tokens=1000) as echo,
            gateway(document(echo.url)) as gate,
            openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{gate.port}/v1", api_key="none", max_retries=0) as client,
        ):
            message: Any = {"role": "user", "content": "x"}
            stream = await client.chat.completions.create(model="m", messages=[message], stream=True)
            assert (await anext(aiter(stream))).choices[0].delta.content == "x"
            for connection in list(echo.server.connections):
                connection.abort()
            with pytest.raises(openai.APIError, match="the backend failed"):
                assert len([chunk async for chunk in stream]) == 0

    clock.run(main())


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not here")
@pytest.mark.parametrize("stream", ["true", "false"])
def test_curl(stream: str) -> None:
    async def main() -> None:
        async with upstream() as echo, gateway(document(echo.url, keys=KEYS)) as gate:
            body = f'{{"model": "m", "stream": {stream}, "messages": [{{"role": "user", "content": "hello there"}}]}}'
            process = await asyncio.create_subprocess_exec(
                "curl", "-sSN", f"http://127.0.0.1:{gate.port}/v1/chat/completions",
                "-H", "Authorization: Bearer sk-right", "-H", "Content-Type: application/json", "-d", body,
                stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            printed, _ = await process.communicate()
            assert b'"content":"hello' in printed
            assert printed.endswith(b"data: [DONE]\n\n") == (stream == "true")

    clock.run(main())
