"""A model server that records what it received and sent, and injects configured failures.

It streams chat completions chunk by chunk and identifies a request by the number in its X-Request-Id.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import orjson
from aiohttp import web

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True)
class RecordedRequest:
    """One request: when it arrived, and when each chunk of its response was written."""

    number: int
    came: float
    body: dict[str, Any]
    headers: dict[str, str]
    chunks: list[float] = field(default_factory=list)


class RecordingServer:
    """`async with Golden(tokens=5, first=0.05) as server`: chunks, seconds to the first chunk, seconds between chunks."""

    def __init__(
        self,
        *,
        tokens: int = 1,
        first: float = 0.0,
        gap: float = 0.0,
        stall: tuple[float, float] | None = None,
        behave: Mapping[int, str] | None = None,
        key: str = "",
        dies_after: int = 0,
        text: str = "word ",
        reports: bool = True,
    ) -> None:
        self.tokens, self.first, self.gap, self.stall = tokens, first, gap, stall
        self.behave = behave or {}
        self.text, self.reports = text, reports
        """The content of each chunk, and whether the server reports the token count."""
        self.key, self.dies_after = key, dies_after
        """The only API key that it accepts, and the number of requests after which it dies, if any."""
        self.seen: dict[int, RecordedRequest] = {}
        self.most_at_once = 0
        self.refuse = False
        self.got = 0
        self._now = 0
        self._started = 0.0
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._chat)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        address = self._runner.addresses[0]
        self.url = f"http://127.0.0.1:{address[1]}"
        if self.refuse:
            await self._runner.cleanup()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        received = clock.loop_time()
        self._started = self._started or received
        headers = {name.lower(): value for name, value in request.headers.items()}
        number = int(headers["x-request-id"])
        self.got += 1
        if self.dies_after and self.got > self.dies_after:
            await self._die(request)
        seen = self.seen[self.got] = RecordedRequest(number, received, orjson.loads(await request.read()), headers)
        if self.key and headers.get("authorization") != f"Bearer {self.key}":
            return web.json_response({"error": {"message": "who are you?"}}, status=401)
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            return await self._answer(request, seen)
        finally:
            self._now -= 1

    async def _die(self, request: web.Request) -> None:
        assert self._runner is not None
        for site in list(self._runner.sites):
            await site.stop()
        assert request.transport is not None
        request.transport.abort()
        raise ConnectionResetError

    async def _answer(self, request: web.Request, seen: RecordedRequest) -> web.StreamResponse:
        how = self.behave.get(seen.number, "")
        if how == "503":
            return web.json_response({"error": {"message": "busy"}}, status=503)
        if how == "html":
            return web.Response(text="<html>It works!</html>", content_type="text/html")
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        await asyncio.sleep(self.first)
        if self.stall is not None:
            begins, ends = (self._started + item for item in self.stall)
            if begins <= clock.loop_time() < ends:
                await asyncio.sleep(ends - clock.loop_time())
        for chunk in range(self.tokens):
            if chunk:
                await asyncio.sleep(self.gap)
            seen.chunks.append(clock.loop_time())
            await answer.write(_event({"choices": [{"index": 0, "delta": {"content": self.text}}]}))
            if how == "slow":
                await asyncio.sleep(3)
        if how == "cut":
            assert request.transport is not None
            request.transport.abort()
        elif how == "garbled":
            await answer.write(b"data: {no json\n\n")
        elif how == "reported":
            await answer.write(_event({"error": {"message": "out of memory"}}))
        usage = {"prompt_tokens": 3, "completion_tokens": self.tokens}
        await answer.write((_event({"choices": [], "usage": usage}) if self.reports else b"") + b"data: [DONE]\n\n")
        return answer


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(data) + b"\n\n"
