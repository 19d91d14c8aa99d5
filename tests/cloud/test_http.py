"""The HTTP transport and the metadata server, on loopback."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from tests.support.real_time import RealTime

from sliceworks.base import clock
from sliceworks.base.errors import Unreachable, UsageError
from sliceworks.base.http_transport import HttpTransport
from sliceworks.base.retry import NEVER
from sliceworks.base.transport import Request
from sliceworks.cloud.credentials import Token
from sliceworks.cloud.metadata_server import InstanceMetadata, read_metadata
from sliceworks.cloud.session import Session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


@asynccontextmanager
async def serving(handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """Runs a server on loopback; yields its address."""
    runner = web.ServerRunner(web.Server(handler))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def test_request_and_response() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        body = await request.json()
        return web.json_response({"path": request.path_qs, "who": request.headers["Authorization"], "body": body})

    async def main() -> None:
        async with serving(handler) as url, Session(url, Token("t"), retry=NEVER) as session:
            result = await session.call("POST", "/v1/a%2Fb", {"x": 1}, {"q": "1"})
            assert result == {"path": "/v1/a%2Fb?q=1", "who": "Bearer t", "body": {"x": 1}}

    clock.run(main())


def test_refused_connection_is_unreachable() -> None:
    async def main() -> None:
        transport = HttpTransport("http://127.0.0.1:1")
        with pytest.raises(Unreachable, match=r"cannot connect to http://127\.0\.0\.1:1"):
            await transport.send(Request("GET", "/"))
        await transport.close()
        with pytest.raises(Unreachable, match="is closed"):
            await transport.send(Request("GET", "/"))

    clock.run(main())


def test_header_that_cannot_be_sent_is_an_error() -> None:
    async def main() -> None:
        transport = HttpTransport("http://127.0.0.1:1")
        with pytest.raises(UsageError, match=r"cannot send a request to .*: a request header contains a line break"):
            await transport.send(Request("GET", "/", headers={"authorization": "Bearer token\n"}))
        await transport.close()

    clock.run(main())


def test_proxy_of_the_environment_may_lack_its_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    async def proxy(request: web.BaseRequest) -> web.Response:
        return web.Response(text=f"{request.host}{request.path}")

    async def main() -> None:
        async with serving(proxy) as url:
            monkeypatch.setenv("http_proxy", url.removeprefix("http://"))
            transport = HttpTransport("http://example.test")
            assert (await transport.send(Request("GET", "/a"))).body == b"example.test/a"
            await transport.close()

    clock.run(main())


def test_timeout_is_in_real_seconds_at_any_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    real_time = RealTime(monkeypatch)
    listener = socket.create_server(("127.0.0.1", 0))

    async def main() -> float:
        transport = HttpTransport(f"http://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(Unreachable, match="timed out"):
            await transport.send(Request("GET", "/"))
        ended = real_time.seconds
        await transport.close()
        return ended

    with listener:
        assert clock.run(main(), speed=240) == pytest.approx(65, abs=5)


def test_closed_connection_is_unreachable() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async def main() -> None:
        async with serving(handler) as url, Session(url, retry=NEVER) as session:
            with pytest.raises(Unreachable):
                await session.call("GET", "/v1/a")

    clock.run(main())


def test_metadata_server_is_read() -> None:
    reported = {
        "project/project-id": "p",
        "instance/attributes/cluster-name": "c",
        "instance/attributes/cluster-location": "us-central2",
        "instance/zone": "projects/123/zones/us-central2-b",
    }

    async def handler(request: web.BaseRequest) -> web.Response:
        assert request.headers["Metadata-Flavor"] == "Google"
        text = reported[request.path.removeprefix("/computeMetadata/v1/")]
        return web.Response(text=text, headers={"Metadata-Flavor": "Google"})

    async def main() -> None:
        async with serving(handler) as url:
            assert await read_metadata(url.removeprefix("http://")) == InstanceMetadata("p", "c", "us-central2", "us-central2-b")

    clock.run(main())


def test_server_without_metadata_flavor_is_ignored() -> None:
    async def handler(_: web.BaseRequest) -> web.Response:
        return web.Response(text="anything")

    async def main() -> None:
        async with serving(handler) as url:
            assert await read_metadata(url.removeprefix("http://")) == InstanceMetadata()
        assert await read_metadata("127.0.0.1:1") == InstanceMetadata()
        await asyncio.sleep(0)

    clock.run(main())
