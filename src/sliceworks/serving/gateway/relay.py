"""Passes a request to a server and its answer back, byte for byte, as it comes.

Nothing is sent to the client before the first piece of the answer has come: until then another server can be asked. From then on
each piece goes out when it comes in, within the callback that it came with: no task is woken for it.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.http.refusals import Refusal
from sliceworks.serving.gateway import usage
from sliceworks.serving.gateway.calls import passed_back, request_head
from sliceworks.serving.gateway.deadlines import Deadlines
from sliceworks.serving.gateway.hedging import Race
from sliceworks.serving.gateway.http.exchange import FIRST, WHOLE, Broken, Exchange, Late
from sliceworks.serving.gateway.refusals import broken_backend, slow_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.serving.gateway.calls import Call
    from sliceworks.serving.gateway.measures import Measures
    from sliceworks.serving.gateway.quotas import Budget
    from sliceworks.serving.gateway.servers import Server
    from sliceworks.specs.gateway import Retries

_UNWELL = frozenset({502, 503, 504})
_WORTH_A_TRY = _UNWELL | {429}
_HELD_UP = 1.0
"""Deadlines are looked at several times a second: when that took so long, this process had no processor."""
_GATHERED = 1024 * 1024
"""Answers up to this length are sent whole, so that a server that dies amid one can be replaced by another."""


class Relay:
    """Carries calls. Deadlines are looked at by `sweep`."""

    def __init__(self, measures: Measures) -> None:
        self.measures = measures
        self._deadlines = Deadlines()
        self._swept = 0.0

    async def carry(self, call: Call, retries: Retries, budget: Budget) -> None:
        """Answer a call by a server's answer; raises the Refusal where none can be had."""
        budget.request()
        exchange, server = await self._answered(call, retries, budget)
        failed, judged = True, True
        try:
            await self._deliver(call, exchange)
            # A plain 500 may be the request's own fault, and is at Triton: it must not shut out the requests of others.
            failed = exchange.status in _UNWELL
            judged = failed or exchange.status < 500
        except Refusal as refusal:
            failed = refusal.status in _UNWELL
            raise
        except asyncio.CancelledError:
            judged = False
            raise
        finally:
            server.ended(exchange, failed=failed, judged=judged)
            self._done(exchange)

    async def _answered(self, call: Call, retries: Retries, budget: Budget) -> tuple[Exchange, Server]:
        """The beginning of an answer, and who gives it. The caller ends both."""
        tried: list[Server] = []
        fresh = False
        while True:
            server = await call.another(tried)
            exchange = Exchange()
            server.began(exchange)
            kept, failed, judged = False, True, True
            last = len(tried) >= retries.attempts
            try:
                server, exchange = await self._first(call, (server, exchange), budget, fresh=fresh)
                if last or exchange.status not in _WORTH_A_TRY or not self._may_retry(budget):
                    kept = True
                    return exchange, server
                failed, reason = exchange.status != 429, str(exchange.status)
            except Broken as error:
                if error.clean and not fresh:
                    # The server had ended an idle line just when it was used again.
                    judged, fresh = False, True
                    continue
                if last or not self._may_retry(budget):
                    raise broken_backend(str(error)) from error
                reason = "broken"
            except Late as error:
                judged = not tried or call.left > 0  # Else others took the time.
                raise slow_backend(str(error)) from error
            except asyncio.CancelledError:
                judged = False
                raise
            finally:
                if not kept:
                    server.ended(exchange, failed=failed, judged=judged)
                    self._done(exchange)
            tried.append(server)
            self.measures.retries.add(call.served.name, reason)

    async def _first(self, call: Call, entrant: tuple[Server, Exchange], budget: Budget, *, fresh: bool) -> tuple[Server, Exchange]:
        """Who begins to answer: the server that is asked, or a second one where that is wanted and the budget allows it."""
        after = call.served.group.balancing.hedge_after
        if after is None:
            await self._begin(call, *entrant, fresh=fresh)
            return entrant

        def another() -> Server | None:
            found = call.served.group.pick([entrant[0]])
            if found is None or found is entrant[0] or not self._may_retry(budget):
                return None
            self.measures.retries.add(call.served.name, "hedge")
            return found

        def let_go(server: Server, exchange: Exchange) -> None:
            server.ended(exchange, failed=False, judged=False)
            self._done(exchange)

        race = Race(lambda server, exchange: self._begin(call, server, exchange, fresh=fresh), another, let_go)
        return await race.run(*entrant, after)

    def _may_retry(self, budget: Budget) -> bool:
        if budget.take():
            return True
        self.measures.exhausted.add()
        return False

    @contextmanager
    def watched(self, exchange: Exchange, call: Call) -> Iterator[None]:
        """Look at the deadlines of an exchange, and end it afterwards."""
        self._deadlines.add(exchange, call)
        try:
            yield
        finally:
            self._done(exchange)

    async def _begin(self, call: Call, server: Server, exchange: Exchange, *, fresh: bool) -> None:
        body = call.body_for(server)
        self._deadlines.add(exchange, call)
        head = request_head(call, server, len(body), plain=call.strict)
        await server.pool.begin(head, body, exchange, min(call.served.timeouts.connect, call.left), fresh=fresh)
        if call.request.arrived:
            call.spent += clock.effort() - call.request.arrived
            call.request.arrived = 0.0
        await exchange.wait(FIRST)
        if not exchange.over and not _is_stream(exchange) and _length(exchange) <= _GATHERED:
            await exchange.wait(WHOLE)

    async def _deliver(self, call: Call, exchange: Exchange) -> None:
        if not is_expected(exchange, strict=call.strict):
            raise foreign(exchange)
        if exchange.complete:
            body = exchange.pieces[0] if len(exchange.pieces) == 1 else b"".join(exchange.pieces)
            if _is_stream(exchange):
                call.meter.see(body, exchange.last)
            else:
                call.told = usage.whole(body)
            call.reply.send(exchange.status, passed_back(exchange.headers, call), body)
            call.spent += clock.effort() - exchange.arrived
            return
        await self._stream(call, exchange)

    async def _stream(self, call: Call, exchange: Exchange) -> None:
        reply = call.reply
        reply.begin(exchange.status, passed_back(exchange.headers, call))
        flow = _flow(call, exchange, reply.write)
        reply.on_room = exchange.resume
        call.meter.first = exchange.last
        for piece in exchange.pieces:
            flow(piece)
        exchange.pieces.clear()
        exchange.sink = flow
        if reply.chunked and exchange.header(b"transfer-encoding") == b"chunked":
            exchange.framed = _flow(call, exchange, reply.pass_on)
        call.spent += clock.effort() - exchange.arrived
        try:
            await exchange.wait(WHOLE)
        except (Broken, Late) as error:
            self.measures.broken.add(call.served.name)
            self._break(call, exchange, error)
            raise Interrupted from error
        finally:
            call.meter.last = exchange.last
        reply.end()

    def _break(self, call: Call, exchange: Exchange, error: Exception) -> None:
        """Tell a client amid a stream that no more will come: as an event where there are plain ones, else by dropping the line."""
        refusal = slow_backend(str(error)) if isinstance(error, Late) else broken_backend(str(error))
        if _is_stream(exchange) and not coding(exchange):
            call.reply.write(call.last_words(refusal))
            call.reply.end()
        else:
            call.reply.abort()

    def _done(self, exchange: Exchange) -> None:
        self._deadlines.discard(exchange)
        exchange.cancel()
        # What passes pieces on knows the exchange, and it knows that: apart, both go at once, and a long request with them.
        exchange.let_go()

    @property
    def under_way(self) -> int:
        """Calls that servers are at work on."""
        return len(self._deadlines)

    def sweep(self, now: float) -> None:
        """End what takes too long. Where we were held up ourselves, what came meanwhile is read first."""
        held_up, self._swept = now > self._swept + _HELD_UP, now
        if held_up:
            return
        for exchange, what in self._deadlines.late(now):
            exchange.fail(Late(what))


class Interrupted(Exception):
    """A stream ended before its end; the client has been told."""


def _flow(call: Call, exchange: Exchange, write: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """What passes a piece on. It runs for every token of every stream: all that it needs is at hand, and no more is done."""
    connection, meter = call.reply.connection, call.meter
    # Between events there may be signs of life, and a long one comes in several pieces: those are no events.
    least = 0 if _is_stream(exchange) else 1

    def flow(piece: bytes) -> None:
        write(piece)
        meter.events += piece.count(b"data:") or least
        if b'"usage"' in piece:
            meter.hear(piece)
        if connection.full:
            exchange.pause()

    return flow


def _is_stream(exchange: Exchange) -> bool:
    return exchange.header(b"content-type").startswith(b"text/event-stream")


def coding(exchange: Exchange) -> bytes:
    """The coding of an answer that nobody asked for. Who cannot read it here or beyond must not take it for plain text."""
    found = exchange.header(b"content-encoding").lower()
    return b"" if found == b"identity" else found


def is_expected(exchange: Exchange, *, strict: bool = True) -> bool:
    """Whether an answer may be a model server's: JSON or events, or with tensors anything that is not a page for people."""
    kind = exchange.header(b"content-type")
    if not strict:
        return not kind.startswith(b"text/html")
    return b"json" in kind or kind.startswith(b"text/event-stream") or (not kind and not exchange.size)


def foreign(exchange: Exchange) -> Refusal:
    """What to say of an answer that no model's server gives, such as the page of a proxy on the way."""
    kind = exchange.header(b"content-type").decode("latin-1") or "nothing"
    status = exchange.status if 400 <= exchange.status < 500 else 502
    exchange.cancel()
    return Refusal(status, "backend_failed", f"the model's server answered {exchange.status} with {kind[:100]}, not with JSON")


def _length(exchange: Exchange) -> int:
    text = exchange.header(b"content-length")
    return int(text) if text.isdigit() else _GATHERED + 1
