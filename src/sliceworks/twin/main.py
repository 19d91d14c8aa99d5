"""The twin as a process: certificates, kubeconfig, the server, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import orjson

from sliceworks.base import clock, collector, files
from sliceworks.base.errors import BadRequest, SliceworksError
from sliceworks.kube import kubeconfig
from sliceworks.kube.transport import Request, Response
from sliceworks.twin.api.server import Limits, Server
from sliceworks.twin.auth import certificates
from sliceworks.twin.auth.tokens import new_token
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.store.journal import Journal
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    import ssl
    from pathlib import Path


Beside = Callable[[Cluster], AbstractAsyncContextManager[None]]
_LOOPBACK = "127.0.0.1"
_FASTEST = 3600.0
_RECURSION = 5_000
"""Enough for every walk over the deepest document that is let in."""


@dataclass(frozen=True, slots=True)
class TwinOptions:
    """How one twin is run. Everything it keeps is in `directory`."""

    name: str
    directory: Path
    port: int = 0
    memory: bool = False
    speed: float = 1.0
    host: str = "127.0.0.1"
    workloads: bool = True
    processes: bool = False
    config_connector: bool = False
    cloud_port: int = 0


async def serve(options: TwinOptions, beside: Beside | None = None) -> None:
    """Run a twin until SIGTERM or SIGINT. `ready.json` appears once it answers, and is gone again when it does not.

    What is to run in its process with it is given as `beside`.
    """
    sys.setrecursionlimit(_RECURSION)
    directory = options.directory
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    ready = directory / "ready.json"
    ready.unlink(missing_ok=True)
    made = certificates.ensure(directory)
    journal = None if options.memory else Journal(directory / "store.db")
    stop = asyncio.Event()
    store = Store(journal)
    failures: list[Exception] = []
    serving = asyncio.current_task()
    assert serving is not None

    def broken(error: Exception) -> None:
        failures.append(error)
        stop.set()
        if not ready.exists():
            # Starting waits for things that will never come now.
            serving.cancel()

    store.broken = broken
    try:
        await _serve(options, store, made, stop, beside)
    except asyncio.CancelledError:
        if not failures:
            raise
    if failures:
        raise SliceworksError(f"the store cannot be written: {failures[0]}", hint="free some disk space and start the twin again")


async def _serve(
    options: TwinOptions, store: Store, made: certificates.Certificates, stop: asyncio.Event, beside: Beside | None
) -> None:
    """Answer until `stop` is set."""
    directory = options.directory
    ready, token = directory / "ready.json", _token(directory / "token")
    ca = made.authority()
    key_file = directory / "service-accounts.pem"
    processes = _folder_of_processes(options)
    cluster = Cluster(
        store,
        token=token,
        key_file=key_file,
        ca=ca,
        workloads=options.workloads,
        processes=processes,
        config_connector=options.config_connector,
    )
    async with cluster:
        limits = _limits(options.speed)
        server, cloud = Server(cluster.api.handle, limits), Server(cluster.serve_cloud, limits)
        port = await _listening(server, options.host, options.port, "--port", certificates.server_context(made))
        host = f"[{options.host}]" if ":" in options.host else options.host
        url = f"https://{host}:{port}"
        # Before anybody gets an answer.
        config = kubeconfig.render(name=f"sliceworks-{options.name}", server=url, token=token, ca=ca.encode())
        files.put(directory / "kubeconfig", config.encode(), mode=files.PRIVATE)
        # Google's clients and Terraform take plain HTTP, which is never offered to other machines.
        cloud_port = await _listening(cloud, _LOOPBACK, options.cloud_port, "--cloud-port")
        _debug(cluster, (server, cloud))
        cluster.reached_at(url, ca.encode())
        where = {"port": port, "url": url, "cloud_port": cloud_port, "cloud": f"http://{_LOOPBACK}:{cloud_port}"}
        about = {"pid": os.getpid(), **where, "started": clock.timestamp()}
        files.put(ready, orjson.dumps(about), mode=files.PRIVATE)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        with collector.rested():
            async with beside(cluster) if beside else nullcontext():
                await stop.wait()
                if isinstance(loop, clock.ScaledLoop):
                    loop.pause(False)  # what ends within a time would never end
        ready.unlink(missing_ok=True)
        await cloud.stop()
        await server.stop()


async def _listening(server: Server, host: str, port: int, option: str, tls: ssl.SSLContext | None = None) -> int:
    """Have a server listen; returns its port."""
    try:
        return await server.start(host, port, tls)
    except OSError as error:
        raise SliceworksError(f"cannot listen on {host}:{port}: {error.strerror}", hint=f"choose another {option}") from error


def _folder_of_processes(options: TwinOptions) -> Path | None:
    """Where containers' commands run, if they are to run at all: never for a twin that others can reach."""
    if not options.processes:
        return None
    if not _is_loopback(options.host):
        raise SliceworksError(
            f"a twin that listens on {options.host} does not run processes", hint="whoever reaches it could run anything here"
        )
    if not options.workloads:
        raise SliceworksError("a twin without workloads does not run processes", hint="leave out --no-workloads")
    return options.directory / "pods"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _token(file: Path) -> str:
    """The administrator's token, made once for a twin."""
    with contextlib.suppress(FileNotFoundError):
        return file.read_text().strip()
    token = new_token()
    files.put(file, token.encode(), mode=files.PRIVATE)
    return token


def _limits(speed: float) -> Limits:
    """What clients may take, in the twin's time. How long a handshake may take is fixed once: for the fastest that time may run."""
    limits = Limits().at_speed(speed)
    steered = isinstance(asyncio.get_running_loop(), clock.ScaledLoop)
    return replace(limits, handshake=Limits().handshake * max(speed, _FASTEST)) if steered else limits


def _debug(cluster: Cluster, servers: tuple[Server, ...]) -> None:
    """Paths of the twin's own, for its administrator: forget history; wait in the twin's time, move it on, stop it."""

    async def compact(request: Request) -> Response:
        cluster.store.compact()
        return Response(200, {"content-type": "application/json"}, b"{}")

    async def sleep(request: Request) -> Response:
        await clock.sleep(_seconds(request))
        return _moment()

    async def advance(request: Request) -> Response:
        seconds = _seconds(request)
        _scaled().advance(seconds)
        await clock.sleep(seconds)
        return _moment()

    async def pace(request: Request) -> Response:
        if request.method != "GET":
            _set_pace(request)
            for each in servers:
                each.limits = _limits(_scaled().speed)
        return _moment()

    debug = {"compact": compact, "sleep": sleep, "advance": advance, "clock": pace}
    cluster.api.debug.update({f"debug/twin/{name}": handle for name, handle in debug.items()})


def _scaled() -> clock.ScaledLoop:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, clock.ScaledLoop):
        raise BadRequest("this twin keeps the machine's own time: start it with --speed to move it on")
    return loop


def _set_pace(request: Request) -> None:
    """How fast time runs from now on, and whether it stands still; what is left out stays."""
    try:
        wanted = orjson.loads(request.body)
        speed, paused = wanted.get("speed"), wanted.get("paused")
        loop = _scaled()
        if speed is not None:
            loop.set_speed(float(speed))
        if paused is not None:
            loop.pause(bool(paused))
    except (orjson.JSONDecodeError, AttributeError, TypeError, ValueError) as error:
        raise BadRequest('the body must be such as {"speed": 60, "paused": false}') from error


def _seconds(request: Request) -> float:
    try:
        seconds = float(orjson.loads(request.body)["seconds"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise BadRequest('the body must be such as {"seconds": 60}') from error
    if not 0 <= seconds < float("inf"):
        raise BadRequest("seconds must be a number from 0")
    return seconds


def _moment() -> Response:
    """What the clock shows. A speed of nothing: it is the machine's own, and cannot be changed."""
    loop = asyncio.get_running_loop()
    shown: dict[str, object] = {"now": clock.timestamp(), "speed": None, "paused": False}
    if isinstance(loop, clock.ScaledLoop):
        shown |= {"speed": loop.speed, "paused": loop.paused}
    return Response(200, {"content-type": "application/json"}, orjson.dumps(shown))
