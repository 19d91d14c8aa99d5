"""The gateway as an application: who may ask, which route it is, what it costs, and what is counted afterwards."""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from typing import TYPE_CHECKING, Protocol, cast

from sliceworks.base.http.refusals import Refusal, malformed
from sliceworks.base.http.server import Application as HttpApplication
from sliceworks.serving.gateway import shapes, usage
from sliceworks.serving.gateway.measures import PROVIDER, Measures
from sliceworks.serving.gateway.refusals import no_route, unknown_model, wrong_method
from sliceworks.serving.gateway.relay import Interrupted, Relay
from sliceworks.serving.gateway.sax import Saxes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.reply import Reply
    from sliceworks.serving.gateway.calls import Call, Served
    from sliceworks.serving.gateway.keys import Caller
    from sliceworks.serving.gateway.state import State
    from sliceworks.serving.gateway.tracing import Span, Tracer

access = logging.getLogger("sliceworks.gateway.access")

_ID = b"x-request-id"

OPEN = frozenset({"/health", "/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"})
"""Paths that tell nothing and ask for nothing."""


class Face(Protocol):
    """The routes of one protocol."""

    def routes(self) -> Mapping[str, str]:
        """Paths that it serves, and the method of each. A path that ends in / stands for all that begin with it."""
        ...

    async def answer(self, request: Request, reply: Reply, caller: Caller) -> None:
        """Answer a request of one of its routes."""
        ...


class Application(HttpApplication):
    """What the gateway's own port serves. `state` is replaced as a whole when the document changes."""

    def __init__(self, state: State, measures: Measures | None = None, tracer: Tracer | None = None) -> None:
        from sliceworks.serving.gateway.faces import all_faces

        self.state = state
        self.measures = measures or Measures()
        self.relay = Relay(self.measures)
        self.saxes = Saxes()
        self.draining = False
        self.tracer = tracer
        self._serial, self._process = itertools.count(1), uuid.uuid4().hex[:12]
        self._exact: dict[str, tuple[str, Face]] = {}
        self._starts: list[tuple[str, str, Face]] = []
        for face in all_faces(self):
            for path, method in face.routes().items():
                if path.endswith("/"):
                    self._starts.append((path, method, face))
                else:
                    self._exact[path] = (method, face)

    # What the server asks.

    def screen(self, method: str, path: str, headers: Mapping[str, str]) -> object:
        """Who asks; raises the Refusal of one who may not, or who asks for what is not there."""
        caller = None
        try:
            if path not in OPEN:
                caller = self.state.keys.find(headers)
            allowed = self._route(method, path)[0]
            if method not in allowed.split() and not (method == "HEAD" and "GET" in allowed):
                raise wrong_method(method, path, allowed)
        except Refusal as refusal:
            self._note(refusal, headers, caller)
            raise
        return caller

    def _route(self, method: str, path: str) -> tuple[str, Face]:
        found = self._exact.get(path)
        if found is not None:
            return found
        for start, allowed, face in self._starts:
            if path.startswith(start):
                return allowed, face
        raise no_route(method, path)

    async def handle(self, request: Request, reply: Reply) -> None:
        """Answer a request."""
        _, face = self._route(request.method, request.path)
        caller = cast("Caller", request.who)
        try:
            await face.answer(request, reply, caller)
        except Refusal as refusal:
            self._note(refusal, request.headers, caller)
            raise

    def refuse(self, path: str, refusal: Refusal, reply: Reply) -> None:
        """A Refusal in the words of its route."""
        self._note(refusal, {}, None)
        self.measures.refused.add(refusal.code)
        shapes.send(path, refusal, reply)

    def _note(self, refusal: Refusal, headers: Mapping[str, str], caller: Caller | None) -> None:
        """Give a request that never became a call its name and its line in the log. Those of a call are there already."""
        if _ID in refusal.more:
            return
        name = refusal.more[_ID] = self.id_of(headers)
        if self.state.spec.access_log:
            who = caller.name if caller is not None else "-"
            access.info("%s %s - - %d 0.000s in=0 out=0", name.decode("latin-1"), who, refusal.status)

    # What faces ask.

    def model(self, name: str | None, caller: Caller) -> Served:
        """The model that is asked for. One that a caller may not use looks like one that is not there."""
        if not name:
            raise malformed("say which model: the field model is missing", param="model")
        served = self.state.find(name)
        if served is None or not caller.may(served.name):
            raise unknown_model(name)
        return served

    def ready(self) -> bool:
        """Whether requests should come here."""
        return not self.draining

    async def carry(self, call: Call, act: Callable[[], Awaitable[None]] | None = None) -> None:
        """Check what the call costs, have a server answer it, and count. `act` answers it in another way than by passing it on."""
        call.began = asyncio.get_running_loop().time()
        call.id = self.id_of(call.request.headers)
        quotas = (call.caller.quota, call.served.quota)
        call.guess = usage.guess(call.body) if call.counted else 0
        span = self.span(call.request.headers, call.operation, call.served, call.caller, call.request.path)
        entered = False
        try:
            for quota in quotas:
                quota.check(call.guess)
            for quota in quotas:
                quota.enter(call.guess)
            entered = True
            await (act() if act is not None else self.relay.carry(call, self.state.spec.retries, self.state.budget))
        except Refusal as refusal:
            call.outcome = refusal.status
            refusal.more.update(call.told_back())
            raise
        except Interrupted:
            pass
        except asyncio.CancelledError:
            self.measures.left.add(call.served.name)
            raise
        finally:
            status, tokens = self._count(call)
            for quota in quotas if entered else ():
                quota.leave(call.guess, sum(tokens) if tokens is not None else None)
            if span is not None:
                span.end(status, tokens)

    def span(self, headers: dict[str, str], operation: str, served: Served, caller: Caller, path: str) -> Span | None:
        """A span for a call that begins, where somebody wants to know."""
        return self.tracer.begin(headers, operation, served.name, caller.name, path) if self.tracer is not None else None

    def named(self, request: Request) -> tuple[bytes, bytes]:
        """The header that says what a request is called, for answers that no server gives."""
        return _ID, self.id_of(request.headers)

    def id_of(self, headers: Mapping[str, str]) -> bytes:
        """The name of a request: its own, if it has one."""
        given = headers.get("x-request-id", "")
        if 0 < len(given) <= 128 and given.isascii() and given.isprintable() and " " not in given:
            return given.encode()
        return f"{self._process}-{next(self._serial):x}".encode()

    def _count(self, call: Call) -> tuple[int, tuple[int, int] | None]:
        """Numbers of a call that is over; returns its status, and the tokens in and out where they are known."""
        name, operation, meter = call.served.name, call.operation, call.meter
        status = call.reply.status or call.outcome or 499
        if call.spent:
            self.measures.overhead.observe(call.spent, operation)
        tokens = call.told or (meter.tokens(call.guess, operation) if meter.events else None)
        self.over(call.served, operation, call.caller, status, name=call.id, began=call.began, tokens=tokens)
        if status == 200:
            if meter.events:
                self._count_stream(call, tokens[1] if tokens is not None else 0)
            if tokens is not None:
                self.measures.used(operation, name, call.caller.name, *tokens)
        return status, tokens

    def over(
        self,
        served: Served,
        operation: str,
        caller: Caller,
        status: int,
        *,
        name: bytes,
        began: float,
        tokens: tuple[int, int] | None,
    ) -> None:
        """Count a call that is over, and tell the log of it: never what was said."""
        measures, took = self.measures, asyncio.get_running_loop().time() - began
        measures.requests.add(served.name, operation, caller.name, str(status))
        measures.duration.observe(took, operation, PROVIDER, served.name, "" if status == 200 else str(status))
        if status == 200:
            measures.vllm_whole.observe(took, served.name)
            measures.success.add(served.name)
        if self.state.spec.access_log:
            access.info(
                "%s %s %s %s %d %.3fs in=%d out=%d",
                name.decode("latin-1"), caller.name, served.name, operation, status, took, *(tokens or (0, 0)),
            )  # fmt: skip

    def _count_stream(self, call: Call, tokens: int) -> None:
        meter, operation, name = call.meter, call.operation, call.served.name
        self.measures.first.observe(meter.first - call.began, operation, PROVIDER, name)
        self.measures.vllm_first.observe(meter.first - call.began, name)
        if tokens > 1:
            pace = (meter.last - meter.first) / (tokens - 1)
            self.measures.per_token.observe(pace, operation, PROVIDER, name)
            self.measures.vllm_per_token.observe(pace, name)

    def sweep(self) -> None:
        """End what takes too long, and lines that nobody uses."""
        now = asyncio.get_running_loop().time()
        self.relay.sweep(now)
        for server in self.state.servers:
            server.pool.sweep(now)
