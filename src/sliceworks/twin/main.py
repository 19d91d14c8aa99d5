"""The twin as a process: certificates, kubeconfig, HTTP servers and graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from sliceworks.base import budget, clock, files, memory
from sliceworks.base.errors import SliceworksError
from sliceworks.base.loops import ScaledLoop
from sliceworks.base.sockets import is_loopback
from sliceworks.base.transport import Request, Response
from sliceworks.base.watchdog import Watchdog
from sliceworks.catalog.labels import DEFAULT_RUN_SECONDS
from sliceworks.kube import kubeconfig
from sliceworks.twin import backup, exposed_services
from sliceworks.twin.apiserver.auth import certificates
from sliceworks.twin.apiserver.auth.authentication import new_token
from sliceworks.twin.apiserver.http_server import Limits, Server
from sliceworks.twin.clock_control import ClockControl
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.store.journal import Journal
from sliceworks.twin.store.recovery import Scrubber
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    import ssl

    from sliceworks.twin.nodes.runtime.image import ImageMap


Companion = Callable[[Cluster], AbstractAsyncContextManager[object]]
_LOOPBACK = "127.0.0.1"
_MAX_SPEED = 3600.0
_RECURSION_LIMIT = 5_000
"""Enough for recursive functions on the deepest document that the API accepts."""


@dataclass(frozen=True, slots=True)
class TwinOptions:
    """The options of one twin. All its files are in `directory`."""

    name: str
    directory: Path
    port: int = 0
    memory: bool = False
    speed: float = 1.0
    host: str = "127.0.0.1"
    workloads: bool = True
    processes: bool = False
    isolate: bool = False
    images: ImageMap | None = None
    config_connector: bool = False
    cloud_port: int = 0
    without: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    job_seconds: float = DEFAULT_RUN_SECONDS  # 0: pods of Jobs run until they are deleted
    watchdog: Watchdog = field(default_factory=Watchdog)


async def serve(options: TwinOptions, companion: Companion | None = None) -> None:
    """Run a twin until SIGTERM or SIGINT. `ready.json` exists while it accepts requests.

    `companion` runs in the same process, inside the cluster.
    """
    sys.setrecursionlimit(_RECURSION_LIMIT)
    directory = options.directory
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    ready = directory / "ready.json"
    ready.unlink(missing_ok=True)
    backup.require_complete(directory)
    certificate_files = certificates.ensure(directory)
    journal = None if options.memory else Journal(directory / "store.db")
    stop = asyncio.Event()
    store = Store(journal)
    failures: list[Exception] = []
    serving = asyncio.current_task()
    assert serving is not None

    def on_failure(error: Exception) -> None:
        failures.append(error)
        stop.set()
        if not ready.exists():
            # The start waits for writes that will never be durable.
            serving.cancel()

    store.broken = on_failure
    try:
        await _serve(options, store, certificate_files, stop, companion)
    except asyncio.CancelledError:
        if not failures:
            raise
    if failures:
        raise SliceworksError(f"the store cannot be written: {failures[0]}", hint="free some disk space and start the twin again")


async def _serve(
    options: TwinOptions,
    store: Store,
    certificate_files: certificates.Certificates,
    stop: asyncio.Event,
    companion: Companion | None,
) -> None:
    """Serve until `stop` is set."""
    directory = options.directory
    ready, token = directory / "ready.json", _token(directory / "token")
    ca = certificate_files.authority()
    key_file = directory / "service-accounts.pem"
    processes = _process_directory(options)
    cluster = Cluster(
        store,
        token=token,
        key_file=key_file,
        ca=ca,
        front_proxy=certificate_files.front_proxy(),
        features=options.features,
        workloads=options.workloads,
        without=options.without,
        processes=processes,
        hidden=(directory.parent.resolve(), Path.home().resolve()) if options.isolate else (),
        images=options.images,
        config_connector=options.config_connector,
        job_seconds=options.job_seconds or None,
    )
    limits = _limits(options.speed)
    server, cloud = Server(cluster.api.handle_remote, limits, admit=cluster.api.admit), Server(cluster.serve_cloud, limits)
    clock_control = _control_clock(options, (server, cloud))
    async with clock_control, cluster:
        port = await _listen(server, options.host, options.port, "--port", certificates.server_context(certificate_files))
        host = f"[{options.host}]" if ":" in options.host else options.host
        url = f"https://{host}:{port}"
        # Written before the first request is served.
        config = kubeconfig.render(name=f"sliceworks-{options.name}", server=url, token=token, ca=ca.encode())
        files.write_atomic(directory / "kubeconfig", config.encode(), mode=files.PRIVATE_MODE)
        # Google's clients and Terraform accept plain HTTP, which is served on loopback only.
        cloud_port = await _listen(cloud, _LOOPBACK, options.cloud_port, "--cloud-port")
        cluster.api.debug.update(clock_control.paths)
        cluster.api.debug[exposed_services.PATH] = exposed_services.ExposedServices(store).handle
        _add_compaction(cluster)
        cluster.set_api_address(url, ca.encode())
        addresses = {"port": port, "url": url, "cloud_port": cloud_port, "cloud": f"http://{_LOOPBACK}:{cloud_port}"}
        about = {"pid": os.getpid(), **addresses, "started": clock.real_timestamp()}
        files.write_atomic(ready, orjson.dumps(about), mode=files.PRIVATE_MODE)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        budget.install()
        scrubber = nullcontext() if options.memory else Scrubber(directory / "store.db")
        with memory.reduced_gc(), options.watchdog, scrubber:
            async with companion(cluster) if companion else nullcontext():
                await stop.wait()
                if isinstance(loop, ScaledLoop):
                    loop.pause(False)  # timeouts of the shutdown need a running clock
        ready.unlink(missing_ok=True)
        await cloud.stop()
        await server.stop()


async def _listen(server: Server, host: str, port: int, option: str, tls: ssl.SSLContext | None = None) -> int:
    """Start a server; returns its port."""
    try:
        return await server.start(host, port, tls)
    except OSError as error:
        raise SliceworksError(f"cannot listen on {host}:{port}: {error.strerror}", hint=f"choose another {option}") from error


def _process_directory(options: TwinOptions) -> Path | None:
    """The directory of container processes; None without them. They are only allowed on loopback."""
    if not options.processes:
        return None
    if not is_loopback(options.host):
        raise SliceworksError(
            f"a twin that listens on {options.host} cannot run processes", hint="its clients could run any command on this machine"
        )
    if not options.workloads:
        raise SliceworksError("a twin without workloads cannot run processes", hint="omit --no-workloads")
    return options.directory / "pods"


def _token(file: Path) -> str:
    """The administrator's token, created on first start."""
    with contextlib.suppress(FileNotFoundError):
        try:
            token = file.read_text(encoding="ascii").strip()
        except UnicodeDecodeError:
            token = ""
        if not token:
            raise SliceworksError(f"{file}: contains no token", hint="delete the file; the next start creates a new token")
        return token
    token = new_token()
    files.write_atomic(file, token.encode(), mode=files.PRIVATE_MODE, fsync=True)
    return token


def _limits(speed: float) -> Limits:
    """Limits of clients, in the twin's time. The handshake timeout cannot change later: it allows for the maximum speed."""
    limits = Limits().at_speed(speed)
    scaled = isinstance(asyncio.get_running_loop(), ScaledLoop)
    return replace(limits, handshake=Limits().handshake * max(speed, _MAX_SPEED)) if scaled else limits


def _control_clock(options: TwinOptions, servers: tuple[Server, ...]) -> ClockControl:
    def set_limits(speed: float) -> None:
        for server in servers:
            server.limits = _limits(speed)

    return ClockControl(None if options.memory else options.directory / "clock.json", set_limits)


def _add_compaction(cluster: Cluster) -> None:
    """The debug path that compacts the history of the store."""

    async def compact(request: Request) -> Response:
        cluster.store.compact()
        return Response(200, {"content-type": "application/json"}, b"{}")

    cluster.api.debug["debug/twin/compact"] = compact
