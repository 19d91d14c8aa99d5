"""The servers of a model: how each does, and which one gets the next request."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sliceworks.base import clock
from sliceworks.base.errors import InvalidDocument
from sliceworks.serving.gateway.http.pool import Pool
from sliceworks.serving.gateway.refusals import no_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.base.http.refusals import Refusal
    from sliceworks.specs.gateway import Backend, Balancing, Health

    Traits = tuple[Backend, Health, float, bytes, bytes | None]

_LEAST_SHARE = 0.1
_MOMENT = 0.04


class Server:
    """One server. `well` is what its health checks say; its circuit opens when requests fail in a row."""

    def __init__(
        self, backend: Backend, health: Health, slow_start: float, credential: str = "", trusted: bytes | None = None
    ) -> None:
        self.backend, self.health, self.slow_start = backend, health, slow_start
        self.trusted = trusted
        """The certificates of its authority; the system's where there is none."""
        self.pool = _pool(backend, trusted)
        self.prefix = urlsplit(backend.url).path.rstrip("/") if backend.kind != "sax" else ""
        self.host_line = f"host: {urlsplit(backend.url).netloc.rpartition('@')[2]}\r\n".encode()
        self.authorization = f"authorization: Bearer {credential}\r\n".encode() if credential else b""
        self.outstanding = 0
        self.well = True
        self.checked = False
        self._wrong = self._right = self._failures = 0
        self._open_until = 0.0
        self._trial: object = None
        """The request that sees whether the server does well again."""
        self.failing = asyncio.Event()
        """Set while its circuit is open: whoever looks after it looks sooner."""
        self._well_since = asyncio.get_running_loop().time() - slow_start

    @property
    def name(self) -> str:
        return self.backend.url

    @property
    def traits(self) -> Traits:
        """What makes it the same server in another document."""
        return self.backend, self.health, self.slow_start, self.authorization, self.trusted

    def usable(self, now: float) -> bool:
        """Whether it may get a request now. A circuit that was open lets one through to see."""
        if not self.well:
            return False
        if self._failures < self.health.failures:
            return True
        return now >= self._open_until and self._trial is None

    def share(self, now: float) -> float:
        """What part of its weight it gets: less just after it has come."""
        age = now - self._well_since
        if age >= self.slow_start:
            return self.backend.weight
        return self.backend.weight * max(_LEAST_SHARE, age / self.slow_start)

    @property
    def circuit_open(self) -> bool:
        return self._failures >= self.health.failures

    def began(self, request: object) -> None:
        """A request goes there; whatever stands for it is told again at its end."""
        self.outstanding += 1
        if self.circuit_open and self._trial is None:
            self._trial = request

    def ended(self, request: object, *, failed: bool, judged: bool = True) -> None:
        """A request is over. Not every one tells how the server does: a client may have left."""
        self.outstanding -= 1
        if self._trial is request:
            self._trial = None
        if not judged:
            return
        now = asyncio.get_running_loop().time()
        if failed:
            self._failures += 1
            self._open_until = now + self.health.open
            if self.circuit_open:
                self.failing.set()
        elif self._failures:
            if self.circuit_open:
                self._well_since = now
            self._close_circuit()

    def _close_circuit(self) -> None:
        self._failures = 0
        self.failing.clear()

    def seen(self, *, good: bool) -> bool:
        """The result of a health check; tells whether that changed how it stands."""
        self._right, self._wrong = (self._right + 1, 0) if good else (0, self._wrong + 1)
        first, self.checked, before = not self.checked, True, self.well
        if good and not self.well and self._right >= self.health.healthy_after:
            self.well = True
            self._close_circuit()
            self._well_since = asyncio.get_running_loop().time()
        elif not good and self.well and (first or self._wrong >= self.health.unhealthy_after):
            self.well = False
        if good:
            # It may have started anew: one request is let through now.
            self._open_until = 0.0
        return self.well != before

    def close(self) -> None:
        self.pool.close()


def _pool(backend: Backend, trusted: bytes | None) -> Pool:
    if backend.kind == "sax":
        return Pool("", 0)
    parts = urlsplit(backend.url)
    tls = _trusting(backend.authority, trusted) if backend.secure else None
    return Pool(str(parts.hostname), parts.port or (443 if tls else 80), tls)


def _trusting(authority: str, trusted: bytes | None) -> ssl.SSLContext:
    if trusted is None:
        return ssl.create_default_context()
    try:
        # People write notes between certificates, in any letters. Of a file without a word the library would trust the system's.
        return ssl.create_default_context(cadata=trusted.decode("ascii", "ignore") or "nothing")
    except ssl.SSLError as error:
        raise InvalidDocument(
            f"the authority cannot be used: {error.reason or 'there is no certificate in it'}", place=authority
        ) from error


class Group:
    """All servers of one model."""

    def __init__(self, model: str, servers: Iterable[Server], balancing: Balancing) -> None:
        self.model = model
        self.servers = list(servers)
        self.balancing = balancing
        self._turn = 0
        self._changed = asyncio.Event()
        self.waiting = 0
        self._heir: Group | None = None
        """Who has the model's servers since the document changed."""
        self._end: Callable[[str], Refusal] | None = None
        """What is said since the document has the model no more."""

    def pick(self, avoid: Iterable[Server] = ()) -> Server | None:
        """The server with the fewest requests for its share; of several alike each in its turn."""
        if self._heir is not None:
            return self._heir.pick(avoid)
        now = asyncio.get_running_loop().time()
        usable = [server for server in self.servers if server.usable(now)]
        others = [server for server in usable if server not in avoid] if avoid else usable
        usable = others or usable
        if len(usable) <= 1:
            return usable[0] if usable else None
        self._turn += 1
        turn = self._turn % len(usable)
        usable = usable[turn:] + usable[:turn]
        return min(usable, key=lambda server: (server.outstanding + 1) / server.share(now))

    async def choose(self, avoid: Iterable[Server], patience: float) -> Server:
        """The same, waiting a while for a server to become well; raises the Refusal."""
        server = self.pick(avoid)
        if server is not None:
            return server
        self._check()
        if self.waiting >= self.balancing.waiting or patience <= 0:
            raise no_backend(self.model)
        self.waiting += 1
        try:
            async with asyncio.timeout(patience):
                while server is None:
                    await self._news()
                    self._check()
                    server = self.pick(avoid)
        except TimeoutError:
            raise no_backend(self.model) from None
        finally:
            self.waiting -= 1
        return server

    def _check(self) -> None:
        """Raise the Refusal where no server will come."""
        if self._heir is not None:
            self._heir._check()
        elif self._end is not None:
            raise self._end(self.model)

    async def another(self, tried: list[Server], patience: float) -> Server:
        """The next server to ask. One that has just failed is given a moment, where there is no other."""
        server = await self.choose(tried, patience)
        if server in tried:
            await clock.sleep(_MOMENT * min(len(tried), 4) * (0.5 + clock.randomness().random()))
            server = await self.choose(tried, patience)
        return server

    async def _news(self) -> None:
        """Wait for news, or for a circuit that may be tried again meanwhile."""
        try:
            async with asyncio.timeout(0.1):
                await self._changed.wait()
        except TimeoutError:
            return

    def tell(self) -> None:
        """A server became well, or came."""
        self._changed.set()
        self._changed = asyncio.Event()

    def hand_over(self, heir: Group) -> None:
        """Have requests of an older document that still want a server get one of the newer."""
        self._heir = heir
        self.tell()

    def end(self, words: Callable[[str], Refusal]) -> None:
        """Have no servers any more, for nobody: who wants one is told these words."""
        self._end, self.servers = words, []
        self.tell()

    def replace(self, servers: Iterable[Server]) -> list[Server]:
        """Have these servers from now on; returns those that are no longer among them."""
        before, self.servers = self.servers, list(servers)
        self.tell()
        return [server for server in before if server not in self.servers]
