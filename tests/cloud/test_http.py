"""Over real HTTP, on the loopback: what is sent and read, and what is said when nobody answers; and the metadata server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from sliceworks.base import clock
from sliceworks.base.errors import Unreachable
from sliceworks.cloud.credentials import Token
from sliceworks.cloud.http import HttpTransport
from sliceworks.cloud.metadata import Whereabouts, whereabouts
from sliceworks.cloud.retrying import NEVER
from sliceworks.cloud.session import Session
from sliceworks.cloud.transport import Request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


@asynccontextmanager
async def serving(handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """A server on the loopback; its address."""
    runner = web.ServerRunner(web.Server(handler))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def test_a_request_and_its_answer() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        body = await request.json()
        return web.json_response({"path": request.path_qs, "who": request.headers["Authorization"], "body": body})

    async def main() -> None:
        async with serving(handler) as url, Session(url, Token("t"), retry=NEVER) as session:
            found = await session.call("POST", "/v1/a%2Fb", {"x": 1}, {"q": "1"})
            assert found == {"path": "/v1/a%2Fb?q=1", "who": "Bearer t", "body": {"x": 1}}

    clock.run(main())


def test_nobody_there() -> None:
    async def main() -> None:
        transport = HttpTransport("http://127.0.0.1:1")
        with pytest.raises(Unreachable, match=r"cannot reach http://127\.0\.0\.1:1"):
            await transport.send(Request("GET", "/"))
        await transport.close()
        with pytest.raises(Unreachable, match="is closed"):
            await transport.send(Request("GET", "/"))

    clock.run(main())


def test_one_who_hangs_up() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async def main() -> None:
        async with serving(handler) as url, Session(url, retry=NEVER) as session:
            with pytest.raises(Unreachable):
                await session.call("GET", "/v1/a")

    clock.run(main())


def test_the_metadata_server_tells_where_we_are() -> None:
    told = {
        "project/project-id": "p",
        "instance/attributes/cluster-name": "c",
        "instance/attributes/cluster-location": "us-central2",
        "instance/zone": "projects/123/zones/us-central2-b",
    }

    async def handler(request: web.BaseRequest) -> web.Response:
        assert request.headers["Metadata-Flavor"] == "Google"
        text = told[request.path.removeprefix("/computeMetadata/v1/")]
        return web.Response(text=text, headers={"Metadata-Flavor": "Google"})

    async def main() -> None:
        async with serving(handler) as url:
            assert await whereabouts(url.removeprefix("http://")) == Whereabouts("p", "c", "us-central2", "us-central2-b")

    clock.run(main())


def test_another_server_is_not_believed() -> None:
    async def handler(_: web.BaseRequest) -> web.Response:
        return web.Response(text="anything")

    async def main() -> None:
        async with serving(handler) as url:
            assert await whereabouts(url.removeprefix("http://")) == Whereabouts()
        assert await whereabouts("127.0.0.1:1") == Whereabouts()
        await asyncio.sleep(0)

    clock.run(main())
