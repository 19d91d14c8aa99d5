"""The upstreams of a model: health, circuit breaker, slow start, and least-request load balancing.

Health has two sources, as in Envoy: active health checks, and outlier detection, which opens an upstream's circuit after
consecutive failed requests and then admits one probe request at a time.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sliceworks.base import clock
from sliceworks.base.errors import InvalidDocument
from sliceworks.serving.gateway.errors import no_healthy_backend
from sliceworks.serving.gateway.http_client import ConnectionPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.base.http.messages import HttpError
    from sliceworks.specs.gateway import Backend, HealthCheck, LoadBalancing

    UpstreamIdentity = tuple[Backend, HealthCheck, float, bytes, bytes | None]

_MIN_WEIGHT = 0.1
_RETRY_DELAY = 0.04


class Upstream:
    """One server of a model."""

    def __init__(
        self,
        backend: Backend,
        health_check: HealthCheck,
        slow_start: float,
        credential: str = "",
        ca_bundle: bytes | None = None,
    ) -> None:
        self.backend, self.health_check, self.slow_start = backend, health_check, slow_start
        self.ca_bundle = ca_bundle
        """Certificates to trust; the system's if None."""
        self.pool = _create_pool(backend, ca_bundle)
        self.prefix = urlsplit(backend.url).path.rstrip("/") if backend.kind != "sax" else ""
        self.host_header = f"host: {urlsplit(backend.url).netloc.rpartition('@')[2]}\r\n".encode()
        self.authorization = f"authorization: Bearer {credential}\r\n".encode() if credential else b""
        self.outstanding = 0
        self.healthy = True
        self.checked = False
        self._failed_checks = self._passed_checks = self._failures = 0
        self._open_until = 0.0
        self._probe_request: object = None
        """The request that an open circuit has admitted."""
        self.circuit_opened = asyncio.Event()
        """Set while the circuit is open, so that the health checker checks sooner."""
        self._healthy_since = asyncio.get_running_loop().time() - slow_start

    @property
    def name(self) -> str:
        return self.backend.url

    @property
    def identity(self) -> UpstreamIdentity:
        """What an upstream of a reloaded document must have in common to be this one."""
        return self.backend, self.health_check, self.slow_start, self.authorization, self.ca_bundle

    def is_available(self, now: float) -> bool:
        """Whether it can take a request now."""
        if not self.healthy:
            return False
        if self._failures < self.health_check.consecutive_failures:
            return True
        return now >= self._open_until and self._probe_request is None

    def effective_weight(self, now: float) -> float:
        """Its weight, reduced during slow start."""
        age = now - self._healthy_since
        if age >= self.slow_start:
            return self.backend.weight
        return self.backend.weight * max(_MIN_WEIGHT, age / self.slow_start)

    @property
    def circuit_open(self) -> bool:
        return self._failures >= self.health_check.consecutive_failures

    def request_started(self, request: object) -> None:
        """Count a request; pass the same object to `request_finished`."""
        self.outstanding += 1
        if self.circuit_open and self._probe_request is None:
            self._probe_request = request

    def request_finished(self, request: object, *, failed: bool, counts: bool = True) -> None:
        """Record the outcome of a request, unless it says nothing about the upstream (`counts=False`)."""
        self.outstanding -= 1
        if self._probe_request is request:
            self._probe_request = None
        if not counts:
            return
        now = asyncio.get_running_loop().time()
        if failed:
            self._failures += 1
            self._open_until = now + self.health_check.ejection_time
            if self.circuit_open:
                self.circuit_opened.set()
        elif self._failures:
            if self.circuit_open:
                self._healthy_since = now
            self._close_circuit()

    def _close_circuit(self) -> None:
        self._failures = 0
        self.circuit_opened.clear()

    def record_health_check(self, *, passed: bool) -> bool:
        """Record the result of a health check; returns whether the upstream became healthy or unhealthy."""
        self._passed_checks, self._failed_checks = (self._passed_checks + 1, 0) if passed else (0, self._failed_checks + 1)
        is_first, self.checked, was_healthy = not self.checked, True, self.healthy
        if passed and not self.healthy and self._passed_checks >= self.health_check.healthy_threshold:
            self.healthy = True
            self._close_circuit()
            self._healthy_since = asyncio.get_running_loop().time()
        elif not passed and self.healthy and (is_first or self._failed_checks >= self.health_check.unhealthy_threshold):
            self.healthy = False
        if passed:
            # It may have restarted: admit a probe request now.
            self._open_until = 0.0
        return self.healthy != was_healthy

    def close(self) -> None:
        self.pool.close()


def _create_pool(backend: Backend, ca_bundle: bytes | None) -> ConnectionPool:
    if backend.kind == "sax":
        return ConnectionPool("", 0)
    parts = urlsplit(backend.url)
    tls = _create_tls_context(backend.ca_file, ca_bundle) if backend.uses_tls else None
    return ConnectionPool(str(parts.hostname), parts.port or (443 if tls else 80), tls)


def _create_tls_context(ca_file: str, ca_bundle: bytes | None) -> ssl.SSLContext:
    if ca_bundle is None:
        return ssl.create_default_context()
    try:
        # Comments between certificates may be in any encoding. Given an empty bundle, Python would trust the system's.
        return ssl.create_default_context(cadata=ca_bundle.decode("ascii", "ignore") or "nothing")
    except ssl.SSLError as error:
        raise InvalidDocument(f"cannot use the CA file: {error.reason or 'it contains no certificate'}", place=ca_file) from error


class LoadBalancer:
    """Picks an upstream of one model for each request."""

    def __init__(self, model: str, upstreams: Iterable[Upstream], settings: LoadBalancing) -> None:
        self.model = model
        self.upstreams = list(upstreams)
        self.settings = settings
        self._turn = 0
        self._changed = asyncio.Event()
        self.waiting = 0
        self._successor: LoadBalancer | None = None
        """The model's load balancer after a reload; requests that still wait here use it."""
        self._closed_error: Callable[[str], HttpError] | None = None
        """The error for waiting requests after a reload removed the model."""

    def pick(self, avoid: Iterable[Upstream] = ()) -> Upstream | None:
        """The available upstream with the fewest requests for its weight; equal ones take turns."""
        if self._successor is not None:
            return self._successor.pick(avoid)
        now = asyncio.get_running_loop().time()
        available = [upstream for upstream in self.upstreams if upstream.is_available(now)]
        others = [upstream for upstream in available if upstream not in avoid] if avoid else available
        available = others or available
        if len(available) <= 1:
            return available[0] if available else None
        self._turn += 1
        turn = self._turn % len(available)
        available = available[turn:] + available[:turn]
        return min(available, key=lambda upstream: (upstream.outstanding + 1) / upstream.effective_weight(now))

    async def wait_for_upstream(self, avoid: Iterable[Upstream], timeout: float) -> Upstream:
        """Pick an upstream; waits for one to become available, and raises `no_healthy_backend` after the timeout."""
        upstream = self.pick(avoid)
        if upstream is not None:
            return upstream
        self._check_open()
        if self.waiting >= self.settings.max_pending_requests or timeout <= 0:
            raise no_healthy_backend(self.model)
        self.waiting += 1
        try:
            async with asyncio.timeout(timeout):
                while upstream is None:
                    await self._wait_for_change()
                    self._check_open()
                    upstream = self.pick(avoid)
        except TimeoutError:
            raise no_healthy_backend(self.model) from None
        finally:
            self.waiting -= 1
        return upstream

    def _check_open(self) -> None:
        if self._successor is not None:
            self._successor._check_open()
        elif self._closed_error is not None:
            raise self._closed_error(self.model)

    async def next_upstream(self, tried: list[Upstream], timeout: float) -> Upstream:
        """The next upstream to try. If only one that has just failed is available, back off first."""
        upstream = await self.wait_for_upstream(tried, timeout)
        if upstream in tried:
            await clock.sleep(_RETRY_DELAY * min(len(tried), 4) * (0.5 + clock.rng().random()))
            upstream = await self.wait_for_upstream(tried, timeout)
        return upstream

    async def _wait_for_change(self) -> None:
        """Wait for `notify`, but not longer than 0.1 s: a circuit may admit a probe request meanwhile."""
        try:
            async with asyncio.timeout(0.1):
                await self._changed.wait()
        except TimeoutError:
            return

    def notify(self) -> None:
        """Resume waiting requests: an upstream became healthy or was added."""
        self._changed.set()
        self._changed = asyncio.Event()

    def set_successor(self, successor: LoadBalancer) -> None:
        """Pass requests that still wait here to the load balancer of the reloaded document."""
        self._successor = successor
        self.notify()

    def close(self, error: Callable[[str], HttpError]) -> None:
        """Fail waiting requests with an error: the reloaded document does not contain the model."""
        self._closed_error, self.upstreams = error, []
        self.notify()

    def set_upstreams(self, upstreams: Iterable[Upstream]) -> list[Upstream]:
        """Replace the upstreams; returns the removed ones."""
        before, self.upstreams = self.upstreams, list(upstreams)
        self.notify()
        return [upstream for upstream in before if upstream not in self.upstreams]
