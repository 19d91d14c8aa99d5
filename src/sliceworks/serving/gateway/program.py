"""The gateway process: listeners and their TLS certificates, background tasks, config reload and graceful shutdown."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sliceworks.base import budget, clock, imports, memory, names
from sliceworks.base.errors import InvalidDocument, SliceworksError
from sliceworks.base.http.server import Limits, Server
from sliceworks.serving.gateway.admin import LIMITS as ADMIN_LIMITS
from sliceworks.serving.gateway.admin import AdminApplication
from sliceworks.serving.gateway.app import Application
from sliceworks.serving.gateway.errors import model_not_found, no_healthy_backend
from sliceworks.serving.gateway.health_check import HealthChecker
from sliceworks.serving.gateway.router import Router
from sliceworks.serving.gateway.state import State, read_document, referenced_files
from sliceworks.serving.gateway.telemetry import register_gauges

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sliceworks.kube import Client
    from sliceworks.serving.gateway.discovery import BackendDiscovery
    from sliceworks.serving.gateway.grpc_proxy import GrpcListener
    from sliceworks.serving.gateway.telemetry import Tracer
    from sliceworks.specs.gateway import GatewaySpec, Tls

log = logging.getLogger("sliceworks.gateway")

_EXPIRY_INTERVAL = 0.25
_READ_SECONDS = 10.0
_FILE_CHECK_INTERVAL = 1.0
"""Files are polled: a mounted Kubernetes volume changes by replacing a symlink."""


class Certificates:
    """TLS certificates of a port. Each new connection uses the files as last read."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self.context = self._current = _create_tls_context(tls)
        # A context cannot drop a CA that it trusts, so each connection gets the newest context.
        self.context.sni_callback = self._use_current

    def reload(self) -> None:
        """Read the files again; if they are invalid, raises and keeps the previous certificates."""
        self._current = _create_tls_context(self._tls)

    def _use_current(self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._current


def _create_tls_context(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(tls.cert_file, tls.key_file)
    except OSError as error:
        reason = (error.reason or error) if isinstance(error, ssl.SSLError) else error.strerror
        hint = "both files must be PEM, and the key must belong to the certificate"
        message = f"cannot load the certificate with the key {tls.key_file}: {reason}"
        raise InvalidDocument(message, place=tls.cert_file, hint=hint) from error
    if tls.client_ca_file:
        _require_client_certificate(context, tls.client_ca_file)
    return context


def _require_client_certificate(context: ssl.SSLContext, client_ca_file: str) -> None:
    context.verify_mode = ssl.CERT_REQUIRED
    # A resumed session would not present a certificate.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    try:
        context.load_verify_locations(client_ca_file)
    except (OSError, ssl.SSLError) as error:
        raise InvalidDocument(f"cannot load the client CA file: {error}", place=client_ca_file) from error


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of a running gateway."""

    main: int
    admin: int | None = None
    grpc: int | None = None


class Program:
    """One gateway, configured by a document in memory or by a file whose changes it follows."""

    def __init__(self, spec: GatewaySpec, file: Path | None = None, limits: Limits | None = None, host: str = "") -> None:
        self.file = file
        self._host = host
        self._client: Client | None = None
        self._discovery: BackendDiscovery | None = None
        self.problem = ""
        """Why the last reload failed."""
        self._reloading = asyncio.Lock()
        self._last_read = spec
        """The document as last read, valid or not: the files that it refers to are polled, too."""
        self._stamps = _file_stamps(self._files())
        self._tracer = _open_tracer(spec)
        self._certificates = Certificates(spec.listen.tls) if spec.listen.tls is not None else None
        self.router = Router(State(spec), tracer=self._tracer)
        self.application = Application(self.router)
        self.health_checker = HealthChecker(self._read_state)
        self.server = Server(self.application, limits or Limits(body=spec.limits.max_body_size))
        self.admin: Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._grpc: GrpcListener | None = None
        register_gauges(self.router.metrics, self._read_state, lambda: self.router.in_flight)

    @classmethod
    def from_file(cls, file: Path, host: str = "") -> Program:
        """A gateway that follows a file. `host` overrides the addresses that the file listens on."""
        return cls(_override_host(read_document(file).spec, host), file, host=host)

    def _read_state(self) -> State:
        return self.router.state

    async def start(self) -> Ports:
        """Start the listeners and the background tasks."""
        spec = self.router.state.spec
        tls = self._certificates.context if self._certificates is not None else None
        try:
            main = await self.server.start(spec.listen.host, spec.listen.port, tls)
        except socket.gaierror as error:
            message = f"listen.host: cannot resolve {spec.listen.host!r}: {error.strerror}"
            raise SliceworksError(message, hint="use an address of this machine") from error
        admin = None
        if spec.admin is not None:
            self.admin = Server(AdminApplication(self.application, self.reload, lambda: self.problem), ADMIN_LIMITS)
            admin = await self.admin.start(spec.admin.host, spec.admin.port, None)
        grpc = await self._start_grpc(spec) if spec.listen.grpc_port is not None else None
        self.health_checker.update()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._expire()), loop.create_task(self._follow_files())]
        self._update_discovery(self._open_client(spec))
        return Ports(main, admin, grpc)

    def _open_client(self, spec: GatewaySpec) -> Client | None:
        """A client for discovery, if a model needs one; raises without a cluster."""
        if self._client is not None or not any(model.discovery is not None for model in spec.models):
            return self._client
        from sliceworks.kube import open_client

        return open_client(field_manager="sliceworks-gateway")

    def _update_discovery(self, client: Client | None) -> None:
        if self._discovery is not None:
            self._discovery.refresh()
        elif client is not None:
            from sliceworks.serving.gateway.discovery import BackendDiscovery

            self._client = client
            self._discovery = BackendDiscovery(self._read_state, client, self.health_checker.update)
            self._tasks.append(asyncio.get_running_loop().create_task(self._discovery.run()))

    async def _start_grpc(self, spec: GatewaySpec) -> int:
        try:
            from sliceworks.serving.gateway import grpc_proxy
        except ImportError as error:
            raise SliceworksError("listen.grpcPort: requires grpcio", hint=imports.install_command("grpc")) from error
        self._grpc = await grpc_proxy.start(self.router, spec.listen.host, spec.listen.grpc_port or 0, spec.listen.tls)
        return self._grpc.port

    async def _expire(self) -> None:
        while True:
            await clock.sleep(_EXPIRY_INTERVAL)
            self.router.expire(asyncio.get_running_loop().time())

    # Reload of the document.

    async def _follow_files(self) -> None:
        while self.file is not None:
            await clock.sleep(_FILE_CHECK_INTERVAL)
            if _file_stamps(self._files()) != self._stamps:
                await self.reload_and_log()

    def _files(self) -> list[Path]:
        return [self.file, *referenced_files(self._last_read)] if self.file is not None else []

    async def reload_and_log(self) -> None:
        """Reload the document; errors are only logged."""
        try:
            await self.reload()
        except SliceworksError:
            return  # `reload` has logged it.
        except Exception:
            log.exception("config reload failed; keeping the previous configuration")

    async def reload(self) -> bool:
        """Reload the document and return whether it changed; if it is invalid, raises and keeps the previous configuration."""
        if self.file is None:
            return False
        async with self._reloading:
            return await self._reload(self.file)

    async def _reload(self, file: Path) -> bool:
        before = self.router.state
        # Taken before the files are read, so that a change in between is noticed later.
        self._stamps = _file_stamps(self._files())
        try:
            self._last_read = spec = _override_host(
                (await budget.run_in_thread(partial(read_document, file), _READ_SECONDS)).spec, self._host
            )
            self._stamps = (*self._stamps[:1], *_file_stamps(self._files()[1:]))
            _check_immutable(before.spec, spec)
            state, client = State(spec, before), self._open_client(spec)
            if self._certificates is not None:
                self._certificates.reload()
                if self._grpc is not None and self._grpc.credentials is not None:
                    self._grpc.credentials.reload()
        except SliceworksError as error:
            self.problem = error.message
            self.router.metrics.reloads.inc("failure")
            log.error("config reload failed; keeping the previous configuration: %s", error.message)
            raise
        self.problem = ""
        self._apply(state, client)
        return spec != before.spec

    def _apply(self, state: State, client: Client | None = None) -> None:
        """Switch to a new state. Everything that can fail has been done before."""
        before, self.router.state = self.router.state, state
        for upstream in set(before.upstreams) - set(state.upstreams):
            upstream.close()
        for name, served in before.models.items():
            if (successor := state.models.get(name)) is not None:
                served.balancer.set_successor(successor.balancer)
            else:
                served.balancer.close(model_not_found if state.find(name) is None else no_healthy_backend)
        self.server.limits = replace(self.server.limits, body=state.spec.limits.max_body_size)
        self.health_checker.update()
        self._update_discovery(client)
        self.router.metrics.reloads.inc("success")
        log.info("config reloaded")

    # Shutdown.

    async def stop(self, grace: float | None = None) -> None:
        """Reject new requests, wait for those in flight, and release all resources."""
        self.application.draining = True
        timeout = self.router.state.spec.drain_timeout if grace is None else grace
        if self._grpc is not None:
            await asyncio.gather(self.server.stop(timeout), self._grpc.stop(timeout))
        else:
            await self.server.stop(timeout)
        if self.admin is not None:
            await self.admin.stop(0.5)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.close()
        await self.health_checker.stop()
        for upstream in self.router.state.upstreams:
            upstream.close()
        if self._tracer is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._tracer.close)


async def run(program: Program, on_start: Callable[[Ports], None], *, drain_delay: float = 0.0) -> None:
    """Run until SIGTERM or SIGINT; SIGHUP reloads. Readiness probes fail for `drain_delay` before the port closes."""
    loop = asyncio.get_running_loop()
    memory.retain_freed_memory()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    loop.add_signal_handler(signal.SIGHUP, lambda: _spawn_reload(program))
    try:
        on_start(await program.start())
        with memory.reduced_gc():
            await stopping.wait()
        program.application.draining = True
        log.info("shutting down: %s in flight", names.pluralize(program.router.in_flight, "request"))
        await clock.sleep(drain_delay)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.remove_signal_handler(number)
        await program.stop()


_reloads: set[asyncio.Task[None]] = set()


def _spawn_reload(program: Program) -> None:
    task = asyncio.get_running_loop().create_task(program.reload_and_log())
    _reloads.add(task)
    task.add_done_callback(_reloads.discard)


def _file_stamps(files: list[Path]) -> tuple[tuple[int, int], ...]:
    """Modification time and size of each file; zeros for a missing one."""
    stamps = []
    for file in files:
        try:
            status = file.stat()
            stamps.append((status.st_mtime_ns, status.st_size))
        except OSError:
            stamps.append((0, 0))
    return tuple(stamps)


def _override_host(spec: GatewaySpec, host: str) -> GatewaySpec:
    """The document with another address to listen on."""
    if not host:
        return spec
    admin = spec.admin.model_copy(update={"host": host}) if spec.admin is not None else None
    return spec.model_copy(update={"listen": spec.listen.model_copy(update={"host": host}), "admin": admin})


def _check_immutable(before: GatewaySpec, after: GatewaySpec) -> None:
    for name in ("listen", "admin", "tracing"):
        if getattr(before, name) != getattr(after, name):
            raise SliceworksError(f"spec.{name}: cannot change while the gateway runs", hint="restart the gateway")


def _open_tracer(spec: GatewaySpec) -> Tracer | None:
    if spec.tracing is None:
        return None
    from sliceworks.serving.gateway.telemetry import open_tracer

    return open_tracer(spec.tracing)
