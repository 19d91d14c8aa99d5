"""The controller manager: leader election, health probes, metrics endpoint, client-side rate limit, shutdown on a signal."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sliceworks.base import clock
from sliceworks.base.errors import UsageError
from sliceworks.base.http.flow_control import FairApplication
from sliceworks.base.http.messages import HttpError
from sliceworks.base.http.server import Limits, Server
from sliceworks.kube.leader_election import LeaderElection, LeaseTiming

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from sliceworks.base.http.messages import Request as HttpRequest
    from sliceworks.base.http.response_writer import ResponseWriter
    from sliceworks.base.metrics import Registry
    from sliceworks.base.transport import Request, Response, Transport
    from sliceworks.kube.client import Client
    from sliceworks.kube.workqueue import QueueStatus

    Page = Callable[[], "PageResponse"]

DISABLED_ADDRESSES = ("", "0")
_PAGE_LIMITS = Limits(head=16 * 1024, body=0, request=10.0, idle=10.0, connections=256)
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class RateLimitedTransport:
    """A token bucket (client-go's QPS and burst) in front of a transport. Watches are not counted: each kind has only one."""

    def __init__(self, transport: Transport, qps: float, burst: int) -> None:
        self._transport = transport
        self._qps, self._burst = qps, float(max(burst, 1))
        self._tokens = self._burst
        self._refilled: float | None = None

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        """Send a request as soon as the rate limit allows it."""
        if not stream:
            wait = self._take()
            if wait > 0:
                await clock.sleep(wait)
        return await self._transport.send(request, stream=stream)

    async def close(self) -> None:
        """Close the transport."""
        await self._transport.close()

    def _take(self) -> float:
        """Take a token, possibly a future one; returns the seconds until it is available."""
        now = clock.loop_time()
        if self._refilled is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._refilled) * self._qps)
        self._refilled = now
        self._tokens -= 1
        return -self._tokens / self._qps if self._tokens < 0 else 0.0


@dataclass(frozen=True, slots=True)
class PageResponse:
    """The response of a page."""

    text: str
    status: int = 200
    type: str = "text/plain; charset=utf-8"


class Pages(FairApplication):
    """An HTTP application of read-only pages, by path."""

    unlimited = frozenset({"/healthz", "/readyz"})

    def __init__(self, pages: Mapping[str, Page]) -> None:
        super().__init__()
        self._pages = pages

    async def respond(self, request: HttpRequest, reply: ResponseWriter) -> None:
        """Respond with the page of the path."""
        page = self._pages.get(request.path)
        if page is None:
            raise HttpError(404, "not_found", f"page {request.path} not found")
        if request.method not in ("GET", "HEAD"):
            raise HttpError(405, "method_not_allowed", f"method {request.method} not allowed")
        response = page()
        reply.send(response.status, [(b"content-type", response.type.encode())], response.text.encode())

    def write_error(self, path: str, refusal: HttpError, reply: ResponseWriter) -> None:
        """Respond with an error as plain text."""
        headers = [(b"content-type", b"text/plain; charset=utf-8"), *refusal.headers]
        reply.send(refusal.status, headers, f"{refusal.message}\n".encode())


@asynccontextmanager
async def serve_pages(address: str, pages: Mapping[str, Page]) -> AsyncIterator[int]:
    """Serve pages at `host:port`; yields the port."""
    server = Server(Pages(pages), _PAGE_LIMITS)
    port = await server.start(*parse_address(address))
    try:
        yield port
    finally:
        await server.stop()


def health_pages(ready: Callable[[], bool], stalled: Callable[[], str] = str) -> dict[str, Page]:
    """`/healthz` and `/readyz`. Both fail while `stalled` returns a message, so that the kubelet restarts the container."""

    def health() -> PageResponse:
        message = stalled()
        return PageResponse(f"{message}\n", 500) if message else PageResponse("ok")

    def readiness() -> PageResponse:
        return health() if ready() else PageResponse("not ready\n", 500)

    return {"/healthz": health, "/readyz": readiness}


def metrics_pages(text: Callable[[], str]) -> dict[str, Page]:
    """`/metrics`, in Prometheus' text format."""
    return {"/metrics": lambda: PageResponse(text(), type="text/plain; version=0.0.4; charset=utf-8")}


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`. An empty host means every address of this machine."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"invalid address {address!r}: must be host:port, such as 127.0.0.1:8078, 0.0.0.0:8078 or :8078")
    return host.strip("[]"), int(port)


class Runnable(Protocol):
    """A controller that the manager runs."""

    @property
    def ready(self) -> bool:
        """Whether its caches are synced."""
        ...

    def queues(self) -> Mapping[str, QueueStatus]:
        """The status of each work queue by name."""
        ...

    async def run(self) -> None:
        """Run until cancelled."""
        ...


@dataclass(frozen=True, slots=True)
class ManagerOptions:
    """Options of the manager. An address of `` or `0` disables its server."""

    metrics_address: str = "127.0.0.1:8078"
    probe_address: str = "127.0.0.1:8079"
    stall_timeout: float = 600.0
    """Seconds after which a reconcile counts as stuck; 0 for no limit."""
    elect: bool = False
    lease_name: str = "controller.kro.run"
    lease_namespace: str = ""
    timing: LeaseTiming = field(default_factory=LeaseTiming)


async def run(client: Client, controllers: Sequence[Runnable], registry: Registry, options: ManagerOptions) -> None:
    """Run the controllers until a signal arrives or one of them fails."""
    group = ControllerGroup(controllers, options.stall_timeout)
    group.register_metrics(registry, options.lease_name)
    async with AsyncExitStack() as stack:
        if options.metrics_address not in DISABLED_ADDRESSES:
            await stack.enter_async_context(serve_pages(options.metrics_address, metrics_pages(registry.render)))
        if options.probe_address not in DISABLED_ADDRESSES:
            await stack.enter_async_context(serve_pages(options.probe_address, health_pages(group.ready, group.stalled)))
        task = asyncio.ensure_future(_lead(client, group, options))
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)


class ControllerGroup:
    """The controllers of this process, running or on standby for the leader."""

    def __init__(self, controllers: Sequence[Runnable], stall_timeout: float = 0.0) -> None:
        self._controllers, self._stall_timeout = controllers, stall_timeout
        self._standby = False

    def register_metrics(self, registry: Registry, lease: str) -> None:
        """Register the metrics of work queues and of leader election, with client-go's names."""
        registry.gauge_vec(
            "workqueue_depth",
            "Current depth of the work queue.",
            "name",
            lambda: {name: queue.depth for name, queue in self.queues().items()},
        )
        registry.gauge_vec(
            "workqueue_longest_running_processor_seconds",
            "How long the longest running reconcile has been running, in seconds.",
            "name",
            lambda: {name: queue.longest_running for name, queue in self.queues().items()},
        )
        registry.gauge_vec(
            "leader_election_master_status",
            "Whether this replica is the leader of the Lease: 1 for the leader, 0 for a standby.",
            "name",
            lambda: {lease: 0.0 if self._standby else 1.0},
        )

    def queues(self) -> dict[str, QueueStatus]:
        """The status of all work queues by name."""
        return {name: queue for controller in self._controllers for name, queue in controller.queues().items()}

    def stalled(self) -> str:
        """A message about a reconcile that has been running for longer than the limit; empty if there is none."""
        for name, queue in self.queues().items():
            if 0 < self._stall_timeout < queue.longest_running:
                return f"reconcile of {queue.key or name} in work queue {name} has been running for {queue.longest_running:.0f} s"
        return ""

    def ready(self) -> bool:
        """Whether all controllers are ready. A standby replica is ready too: it can take over immediately."""
        return self._standby or all(controller.ready for controller in self._controllers)

    async def run(self) -> None:
        self._standby = False
        async with asyncio.TaskGroup() as tasks:
            for controller in self._controllers:
                tasks.create_task(controller.run())

    def stand_by(self) -> None:
        self._standby = True


async def _lead(client: Client, group: ControllerGroup, options: ManagerOptions) -> None:
    if not options.elect:
        await group.run()
        return
    group.stand_by()
    namespace = options.lease_namespace or client.namespace
    election = LeaderElection(client, options.lease_name, namespace, timing=options.timing)
    await election.run(group.run, on_lost=group.stand_by)
