"""The in-process transport."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.scripted_transport import Feed, line, pod, refusal, stream

from sliceworks.base import clock
from sliceworks.base.errors import Forbidden, NotFound, Unreachable
from sliceworks.base.transport import InProcess, Request, Response
from sliceworks.kube.client import Client
from sliceworks.kube.resources import POD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def server(request: Request) -> Response:
    if request.headers.get("authorization") != "Bearer secret":
        return refusal(Forbidden("who are you"))
    if dict(request.query).get("watch"):
        return stream(Feed(line("ADDED", pod("a")), ended=True))
    if request.path.endswith("/log"):
        return Response(200, {}, stream=_chunks())
    return refusal(NotFound(request.headers["user-agent"]))


async def _chunks() -> AsyncIterator[bytes]:
    yield b"one\n"
    await clock.sleep(3600)
    yield b"two\n"


def test_token_is_sent_with_each_request() -> None:
    with pytest.raises(NotFound, match="tester"):
        clock.run(Client(InProcess(server, token="secret", user_agent="tester")).get(POD, "a"), virtual=True)
    with pytest.raises(Forbidden):
        clock.run(Client(InProcess(server)).get(POD, "a"), virtual=True)


def test_streams_are_passed_on_or_read_to_the_end() -> None:
    async def main() -> None:
        client = Client(InProcess(server, token="secret"))
        assert [event.type async for event in client.watch(POD)] == ["ADDED"]
        assert await client.logs("a", "d") == "one\ntwo\n"
        assert [piece async for piece in client.follow_logs("a", "d")] == [b"one\n", b"two\n"]
        assert clock.loop_time() == 7200

    clock.run(main(), virtual=True)


def test_closed_transport_is_unreachable() -> None:
    async def main() -> None:
        transport = InProcess(server)
        await transport.close()
        with pytest.raises(Unreachable):
            await transport.send(Request("GET", "/"))

    clock.run(main(), virtual=True)
