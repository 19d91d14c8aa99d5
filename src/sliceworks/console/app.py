"""The console's HTTP server: one port, one token, NiceGUI behind the authentication middleware."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import itertools
import logging
import secrets
import signal
import socket
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.console.slice_cache import get_slice_cache
from sliceworks.console.views import cluster_summary, team_usage
from sliceworks.console.views.start_forecast import StartForecasts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import uvicorn
    from fastapi import FastAPI
    from starlette.types import ASGIApp

    from sliceworks.console.cluster_cache import ClusterCache
    from sliceworks.console.page import Console

_SYNC_TIMEOUT = 120.0  # seconds
_GC_INTERVAL = 600.0
_MAX_CONNECTIONS = 512
_GRACE = 2  # seconds for open pages to close
_MESSAGES = 200  # missed messages that are sent again to a browser
_RECONNECT = 30.0  # seconds for which the page of a disconnected browser is kept


@dataclass(frozen=True, slots=True)
class Listener:
    """The listening socket and the login token."""

    listening: socket.socket
    host: str
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    @property
    def port(self) -> int:
        return int(self.listening.getsockname()[1])

    @property
    def url(self) -> str:
        """The URL with the token in its fragment, which browsers do not send to servers."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        name = f"[{host}]" if ":" in host else host
        return f"http://{name}:{self.port}/#token={self.token}"


def listen(host: str, port: int) -> Listener:
    """Listen on an address; raises an error with a hint if that fails."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise SliceworksError(f"port {port} is in use", hint="choose another --port; 0 takes any free one") from error
        if error.errno == errno.EACCES:
            raise SliceworksError(f"permission denied for port {port}", hint="choose a --port above 1023") from error
        raise SliceworksError(
            f"cannot listen on {host}: {error.strerror or error}", hint="--host must be an address of this machine"
        ) from error
    return Listener(listening, host)


async def serve(console: Console, listener: Listener, *, names: Iterable[str] = (), ready: Callable[[], None]) -> None:
    """Serve pages until Ctrl-C or SIGTERM. `names` are allowed Host headers besides IP addresses."""
    import uvicorn

    _quiet_logs()
    app = _with_auth(_application(console), listener, names)
    config = uvicorn.Config(
        app,
        http=_limit_connections(_MAX_CONNECTIONS),
        access_log=False,
        log_config=None,
        server_header=False,
        ws="websockets-sansio",
        timeout_graceful_shutdown=_GRACE,
    )
    server = _without_signals(uvicorn.Server(config))
    loop = asyncio.get_running_loop()

    def end() -> None:
        server.should_exit = True

    for item in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(item, end)
    serving = asyncio.create_task(server.serve([listener.listening]))
    warming = asyncio.create_task(_warm_up(console.cache), name="console warm-up")
    recording = asyncio.create_task(_record_usage(console.cache), name="usage by team")
    try:
        while not server.started and not serving.done():
            await asyncio.sleep(0.02)
        if not server.should_exit:  # interrupted before it was ready
            ready()
        await serving
    finally:
        warming.cancel()
        recording.cancel()
        for item in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(item)


async def _warm_up(cache: ClusterCache) -> None:
    """Compute large views once the cache has synced and exclude the cache from garbage collection; then collect the garbage of
    closed pages periodically."""
    await cache.settled(_SYNC_TIMEOUT)
    cache.compute(cluster_summary.build_overview, *cluster_summary.KINDS)
    await asyncio.sleep(0)
    get_slice_cache(cache).all()
    cache.shared(StartForecasts).starts()
    gc.freeze()
    while True:
        await clock.sleep(_GC_INTERVAL)
        gc.collect()


async def _record_usage(cache: ClusterCache) -> None:
    await cache.settled(_SYNC_TIMEOUT)
    await team_usage.record_usage(cache)


def _limit_connections(limit: int) -> type[asyncio.Protocol]:
    """Uvicorn's protocol with a limit of connections: a further one replaces the oldest one without a request, or is closed."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    serial = itertools.count()

    class LimitedProtocol(HttpToolsProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.serial = next(serial)
            if len(self.connections) > limit:
                others = (item for item in self.connections if isinstance(item, LimitedProtocol) and item is not self)
                unused = (item for item in others if item.cycle is None or item.cycle.response_complete)
                min(unused, key=lambda item: item.serial, default=self).transport.abort()

    return LimitedProtocol


def _without_signals(server: uvicorn.Server) -> uvicorn.Server:
    """Disable uvicorn's signal handling, which raises signals again after shutdown."""
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
    return server


def _application(console: Console) -> FastAPI:
    """NiceGUI on a FastAPI application without API docs."""
    from fastapi import FastAPI
    from nicegui import app as pages
    from nicegui import ui

    from sliceworks.console.layout import add_pages

    _add_nonces()
    application = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    pages.add_static_files("/assets", str(files(__package__).joinpath("assets")))
    add_pages(console)
    ui.run_with(
        application,
        title="Sliceworks",
        favicon=_FAVICON,
        dark=None,
        tailwind=False,
        binding_refresh_interval=None,
        reconnect_timeout=_RECONNECT,
        message_history_length=_MESSAGES,
        show_welcome_message=False,
    )
    return application


def _add_nonces() -> None:
    """Give each inline script of NiceGUI's page template the nonce of the request, for the Content-Security-Policy."""
    from jinja2 import DictLoader
    from nicegui.client import templates

    environment = templates.env
    assert environment.loader is not None
    source, _, _ = environment.loader.get_source(environment, _PAGE_TEMPLATE)
    if _NONCE not in source:
        environment.loader = DictLoader({_PAGE_TEMPLATE: source.replace("<script", f"<script {_NONCE}")})


def _with_auth(app: FastAPI, listener: Listener, names: Iterable[str]) -> ASGIApp:
    from sliceworks.console.auth import AuthMiddleware

    # Cookies ignore ports, so the name includes it to separate consoles on one machine.
    return AuthMiddleware(app, token=listener.token, cookie=f"sliceworks-{listener.port}", hosts=(listener.host, *names))


def _quiet_logs() -> None:
    """Log errors only; pages show connection errors of the cluster."""
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=logging.ERROR)
    logging.getLogger("sliceworks.kube.reflector").setLevel(logging.CRITICAL)


_PAGE_TEMPLATE, _NONCE = "index.html", "nonce=\"{{ request.scope['nonce'] }}\""
_FAVICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#2459c9"/>'
    '<path d="M8 11l8-4 8 4-8 4zM8 16l8 4 8-4M8 21l8 4 8-4" fill="none" stroke="#fff" stroke-width="2.2"/></svg>'
)
