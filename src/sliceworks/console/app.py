"""The server of the console: one port, one token, and all pages behind the guard."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import secrets
import signal
import socket
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING

from sliceworks.base import clock, collector
from sliceworks.base.errors import SliceworksError
from sliceworks.console.fleet import fleet_of
from sliceworks.console.views import overview

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import uvicorn
    from fastapi import FastAPI
    from starlette.types import ASGIApp

    from sliceworks.console.here import Console
    from sliceworks.console.world import World

_READING = 120.0  # seconds that a cluster may take to be read
_TIDY_EVERY = 600.0
_GRACE = 2  # seconds that open pages have to end
_MESSAGES = 200  # that a browser has missed are sent to it again
_RECONNECT = 30.0  # seconds for which a browser that was away finds its page as it left it


@dataclass(frozen=True, slots=True)
class Door:
    """Where the console listens, and what opens it."""

    listening: socket.socket
    host: str
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    @property
    def port(self) -> int:
        return int(self.listening.getsockname()[1])

    @property
    def url(self) -> str:
        """The address with the token: its fragment never leaves the browser on its own."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        name = f"[{host}]" if ":" in host else host
        return f"http://{name}:{self.port}/#token={self.token}"


def open_door(host: str, port: int) -> Door:
    """Listen; one line and a remedy where that cannot be."""
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
            raise SliceworksError(f"port {port} needs more rights than you have", hint="choose a --port above 1023") from error
        raise SliceworksError(
            f"cannot listen on {host}: {error.strerror or error}", hint="--host is an address of this machine"
        ) from error
    return Door(listening, host)


async def serve(console: Console, door: Door, *, names: Iterable[str] = (), ready: Callable[[], None]) -> None:
    """Serve pages until Ctrl-C or SIGTERM. `names` are those by which browsers may ask for them, besides addresses."""
    import uvicorn

    _quiet_logs()
    app = _guarded(_application(console), door, names)
    config = uvicorn.Config(
        app, access_log=False, log_config=None, server_header=False, ws="websockets-sansio", timeout_graceful_shutdown=_GRACE
    )
    server = _unsignalled(uvicorn.Server(config))
    loop = asyncio.get_running_loop()

    def end() -> None:
        server.should_exit = True

    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, end)
    serving = asyncio.create_task(server.serve([door.listening]))
    warming = asyncio.create_task(_warm(console.world), name="what is ready and what is left")
    try:
        while not server.started and not serving.done():
            await asyncio.sleep(0.02)
        if not server.should_exit:  # who gave up before it answered is not told where it would have
            ready()
        await serving
    finally:
        warming.cancel()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)


async def _warm(world: World) -> None:
    """When everything is read: have pages of many rows ready for whoever comes, and leave what was read alone. After that, clear
    away now and then what pages that were closed have left."""
    await world.settled(_READING)
    world.once(overview.overview, *overview.KINDS)
    await asyncio.sleep(0)
    fleet_of(world).all()
    collector.spare_what_is_there()
    while True:
        await clock.sleep(_TIDY_EVERY)
        collector.look_now()


def _unsignalled(server: uvicorn.Server) -> uvicorn.Server:
    """A server that leaves signals to us: it would raise them again when it has ended."""
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
    return server


def _application(console: Console) -> FastAPI:
    """NiceGUI on an application of our own: nothing is served but pages and what they are made of."""
    from fastapi import FastAPI
    from nicegui import app as pages
    from nicegui import ui

    from sliceworks.console.shell import add_shell

    own = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    pages.add_static_files("/assets", str(files(__package__).joinpath("assets")))
    add_shell(console)
    ui.run_with(
        own,
        title="Sliceworks",
        favicon=_FAVICON,
        dark=None,
        tailwind=False,
        binding_refresh_interval=None,
        reconnect_timeout=_RECONNECT,
        message_history_length=_MESSAGES,
        show_welcome_message=False,
    )
    return own


def _guarded(app: FastAPI, door: Door, names: Iterable[str]) -> ASGIApp:
    from sliceworks.console.guard import Guard

    # Cookies know no ports: the name tells consoles on one machine apart.
    return Guard(app, token=door.token, cookie=f"sliceworks-{door.port}", hosts=(door.host, *names))


def _quiet_logs() -> None:
    """What goes wrong between us and the cluster is shown on the pages; of the server's own, only errors are worth a line."""
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=logging.ERROR)
    logging.getLogger("sliceworks.kube.reflector").setLevel(logging.CRITICAL)


_FAVICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#2459c9"/>'
    '<path d="M8 11l8-4 8 4-8 4zM8 16l8 4 8-4M8 21l8 4 8-4" fill="none" stroke="#fff" stroke-width="2.2"/></svg>'
)
