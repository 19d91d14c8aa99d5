"""The gateway as a program: its ports, its checks, a document that may change while it runs, and an end that loses nothing."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sliceworks.base import clock, collector, extras, memory, words
from sliceworks.base.errors import SliceworksError
from sliceworks.base.http.server import Limits, Server
from sliceworks.serving.gateway.admin import Admin
from sliceworks.serving.gateway.app import Application
from sliceworks.serving.gateway.certificates import Certificates
from sliceworks.serving.gateway.gauges import watch
from sliceworks.serving.gateway.health import HealthChecks
from sliceworks.serving.gateway.refusals import no_backend, unknown_model
from sliceworks.serving.gateway.state import State, read_document, secret_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sliceworks.kube import Client
    from sliceworks.serving.gateway.discovery import Discoverer
    from sliceworks.serving.gateway.grpc_port import Listening
    from sliceworks.serving.gateway.tracing import Tracer
    from sliceworks.specs.gateway import GatewaySpec

log = logging.getLogger("sliceworks.gateway")

_SWEEP = 0.25
_LOOK = 1.0
"""How often files are looked at. A volume of Kubernetes changes by a link: nothing tells of it but a look."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a gateway listens."""

    main: int
    admin: int | None = None
    grpc: int | None = None


class Program:
    """One gateway, of a document in memory or of a file that is followed."""

    def __init__(self, spec: GatewaySpec, file: Path | None = None, limits: Limits | None = None, host: str = "") -> None:
        self.file = file
        self._host = host
        self._client: Client | None = None
        self._discoverer: Discoverer | None = None
        self.problem = ""
        """What is wrong with the file, while an older document goes on."""
        self._read = spec
        """The document as it was read last, taken or not: files that it names are looked at, too."""
        self._seen = _stamps(self._files())
        self._tracer = _tracer(spec)
        self._certificates = Certificates(spec.listen.tls) if spec.listen.tls is not None else None
        self.application = Application(State(spec), tracer=self._tracer)
        self.checks = HealthChecks(self.application)
        self.server = Server(self.application, limits or Limits(body=spec.caps.body))
        self.admin: Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._grpc: Listening | None = None
        watch(self.application)

    @classmethod
    def of_file(cls, file: Path, host: str = "") -> Program:
        """A gateway that follows a file; it listens at `host`, whatever the file says, where one is given."""
        return cls(_at(read_document(file).spec, host), file, host=host)

    async def start(self) -> Ports:
        """Listen, and begin all that goes on beside."""
        spec = self.application.state.spec
        shown = self._certificates.context if self._certificates is not None else None
        try:
            main = await self.server.start(spec.listen.host, spec.listen.port, shown)
        except socket.gaierror as error:
            raise SliceworksError(
                f"listen.host {spec.listen.host!r}: {error.strerror}", hint="give an address of this machine"
            ) from error
        admin = None
        if spec.admin is not None:
            self.admin = Server(Admin(self), Limits(body=64 * 1024))
            admin = await self.admin.start(spec.admin.host, spec.admin.port, None)
        passed = await self._start_grpc(spec) if spec.listen.grpc_port is not None else None
        self.checks.follow()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._sweep()), loop.create_task(self._follow())]
        self._discover(self._cluster(spec))
        return Ports(main, admin, passed)

    def _cluster(self, spec: GatewaySpec) -> Client | None:
        """Who is asked for servers, once a model is to be found in the cluster; raises where there is no cluster."""
        if self._client is not None or not any(model.discover is not None for model in spec.models):
            return self._client
        from sliceworks.kube import open_client

        return open_client(field_manager="sliceworks-gateway")

    def _discover(self, client: Client | None) -> None:
        if self._discoverer is not None:
            self._discoverer.refresh()
        elif client is not None:
            from sliceworks.serving.gateway.discovery import Discoverer

            self._client = client
            self._discoverer = Discoverer(self.application, client, self.checks.follow)
            self._tasks.append(asyncio.get_running_loop().create_task(self._discoverer.run()))

    async def _start_grpc(self, spec: GatewaySpec) -> int:
        try:
            from sliceworks.serving.gateway import grpc_port
        except ImportError as error:
            raise SliceworksError("listen.grpcPort needs grpcio", hint=extras.remedy("grpc")) from error
        self._grpc = await grpc_port.start(self.application, spec.listen.host, spec.listen.grpc_port or 0, spec.listen.tls)
        return self._grpc.port

    async def _sweep(self) -> None:
        while True:
            await clock.sleep(_SWEEP)
            self.application.sweep()

    # A document that changes.

    async def _follow(self) -> None:
        while self.file is not None:
            await clock.sleep(_LOOK)
            if _stamps(self._files()) != self._seen:
                await self.reload_quietly()

    def _files(self) -> list[Path]:
        return [self.file, *secret_files(self._read)] if self.file is not None else []

    async def reload_quietly(self) -> None:
        """Read the file again; what goes wrong is told to the log alone."""
        try:
            await self.reload()
        except SliceworksError:
            return  # It was said.
        except Exception:
            log.exception("the changed document could not be read, the old one goes on")

    async def reload(self) -> bool:
        """Read the file again and take it over; raises, says so and keeps the old one when it is wrong."""
        if self.file is None:
            return False
        before = self.application.state
        # Looked at before they are read: what changes meanwhile is then found to have changed.
        self._seen = _stamps(self._files())
        try:
            self._read = spec = _at(read_document(self.file).spec, self._host)
            self._seen = (*self._seen[:1], *_stamps(self._files()[1:]))
            _check_fixed(before.spec, spec)
            state, client = State(spec, before), self._cluster(spec)
            if self._certificates is not None:
                self._certificates.renew()
                if self._grpc is not None and self._grpc.shown is not None:
                    self._grpc.shown.renew()
        except SliceworksError as error:
            self.problem = error.message
            self.application.measures.reloads.add("refused")
            log.error("the changed document was not taken, the old one goes on: %s", error.message)
            raise
        self.problem = ""
        self._take_over(state, client)
        return spec != before.spec

    def _take_over(self, state: State, client: Client | None = None) -> None:
        """All at once: what could fail has been done."""
        before, self.application.state = self.application.state, state
        for server in set(before.servers) - set(state.servers):
            server.close()
        for name, served in before.models.items():
            if (heir := state.models.get(name)) is not None:
                served.group.hand_over(heir.group)
            else:
                served.group.end(unknown_model if state.find(name) is None else no_backend)
        self.server.limits = replace(self.server.limits, body=state.spec.caps.body)
        self.checks.follow()
        self._discover(client)
        self.application.measures.reloads.add("taken")
        log.info("the changed document was taken")

    # The end.

    async def stop(self, grace: float | None = None) -> None:
        """Take no new requests, finish those under way, and let go of everything."""
        self.application.draining = True
        patience = self.application.state.spec.drain if grace is None else grace
        if self._grpc is not None:
            await asyncio.gather(self.server.stop(patience), self._grpc.stop(patience))
        else:
            await self.server.stop(patience)
        if self.admin is not None:
            await self.admin.stop(0.5)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.close()
        await self.checks.stop()
        for server in self.application.state.servers:
            server.close()
        if self._tracer is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._tracer.close)


async def run(program: Program, told: Callable[[Ports], None], *, notice: float = 0.0) -> None:
    """Run until a signal; SIGHUP reads the document again. `notice` is how long probes say no before the port closes."""
    loop = asyncio.get_running_loop()
    memory.keep_freed()
    ending = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    loop.add_signal_handler(signal.SIGHUP, lambda: _spawn(program))
    try:
        told(await program.start())
        with collector.rested():
            await ending.wait()
        program.application.draining = True
        log.info("ending: %s under way", words.counted(program.application.relay.under_way, "request"))
        await clock.sleep(notice)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.remove_signal_handler(number)
        await program.stop()


_reloads: set[asyncio.Task[None]] = set()


def _spawn(program: Program) -> None:
    task = asyncio.get_running_loop().create_task(program.reload_quietly())
    _reloads.add(task)
    task.add_done_callback(_reloads.discard)


def _stamps(files: list[Path]) -> tuple[tuple[int, int], ...]:
    """When files changed, and how long they are."""
    found = []
    for each in files:
        try:
            status = each.stat()
            found.append((status.st_mtime_ns, status.st_size))
        except OSError:
            found.append((0, 0))
    return tuple(found)


def _at(spec: GatewaySpec, host: str) -> GatewaySpec:
    """The document at another address."""
    if not host:
        return spec
    admin = spec.admin.model_copy(update={"host": host}) if spec.admin is not None else None
    return spec.model_copy(update={"listen": spec.listen.model_copy(update={"host": host}), "admin": admin})


def _check_fixed(before: GatewaySpec, after: GatewaySpec) -> None:
    """What only a new start can change."""
    if before.listen != after.listen or before.admin != after.admin or before.tracing != after.tracing:
        raise SliceworksError("listen, admin and tracing change with a new start only")


def _tracer(spec: GatewaySpec) -> Tracer | None:
    if spec.tracing is None:
        return None
    from sliceworks.serving.gateway.tracing import open_tracer

    return open_tracer(spec.tracing)
