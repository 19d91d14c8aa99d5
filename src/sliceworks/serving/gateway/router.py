"""Routes a call to an upstream and streams the response back: rate limits, retries, hedging, timeouts and accounting."""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.http.messages import HttpError, bad_request
from sliceworks.serving.gateway import payload, token_limit
from sliceworks.serving.gateway.call import IDENTITY_ENCODING, Deadlines, request_head, response_headers
from sliceworks.serving.gateway.errors import backend_failed, backend_timeout, model_not_found
from sliceworks.serving.gateway.http_client import COMPLETE, FIRST_CHUNK, ConnectionBroken, DeadlineExceeded, Exchange
from sliceworks.serving.gateway.sax_client import SaxExecutor
from sliceworks.serving.gateway.telemetry import PROVIDER, GatewayMetrics

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping

    from sliceworks.base.http.messages import Request
    from sliceworks.serving.engine_protocol import EngineRequest
    from sliceworks.serving.gateway.call import Call
    from sliceworks.serving.gateway.load_balancer import Upstream
    from sliceworks.serving.gateway.state import Caller, RateLimit, ServedModel, State
    from sliceworks.serving.gateway.telemetry import Span, Tracer

    Attempt = tuple[Upstream, Exchange]

access_log = logging.getLogger("sliceworks.gateway.access")

REQUEST_ID = b"x-request-id"
UNHEALTHY_STATUSES = frozenset({502, 503, 504})
_RETRYABLE_STATUSES = UNHEALTHY_STATUSES | {429}
_MAX_PAUSE = 1.0
"""Deadlines are inspected several times a second. A longer pause means that this process had no CPU time."""
_MAX_BUFFERED = 1024 * 1024
"""Responses up to this size are sent as a whole, so that a call can be retried when an upstream fails in the middle of one."""


class StreamInterrupted(Exception):
    """A stream ended early; the client has received the error."""


class RetryState:
    """The upstreams that a call has tried, under the retry policy and the retry budget."""

    __slots__ = ("_attempts", "_budget", "_metrics", "_model", "tried")

    def __init__(self, state: State, metrics: GatewayMetrics, model: str) -> None:
        self._attempts, self._budget = state.spec.retries.attempts, state.retry_budget
        self._metrics, self._model = metrics, model
        self.tried: list[Upstream] = []
        self._budget.record_request()

    def may_retry(self, reason: str) -> bool:
        """Whether the call may be retried; takes the retry from the budget and counts it."""
        return len(self.tried) < self._attempts and self.may_send_another(reason)

    def may_send_another(self, reason: str) -> bool:
        """Whether the budget allows another request, whatever the number of attempts; takes and counts it."""
        if self._budget.take():
            self._metrics.retries.inc(self._model, reason)
            return True
        self._metrics.retry_budget_exhausted.inc()
        return False


class HedgedRequest:
    """Sends a request to a second upstream if the first is slow. `start` returns at the first chunk of the response."""

    def __init__(
        self,
        start: Callable[[Upstream, Exchange], Awaitable[None]],
        pick_another: Callable[[], Upstream | None],
        abandon: Callable[[Upstream, Exchange], None],
    ) -> None:
        self._start, self._pick_another, self._abandon = start, pick_another, abandon

    async def run(self, upstream: Upstream, exchange: Exchange, delay: float) -> Attempt:
        """The attempt that responds first. The caller finishes it, or the first one if this raises."""
        first = asyncio.ensure_future(self._start(upstream, exchange))
        try:
            await asyncio.wait({first}, timeout=delay)
            other = None if first.done() else self._pick_another()
            if other is not None and (winner := await self._race(first, (upstream, exchange), (other, Exchange()))) is not None:
                return winner
            await first
            return upstream, exchange
        finally:
            first.cancel()
            del first  # Its exception refers to this frame; avoid a reference cycle.

    async def _race(self, first: asyncio.Future[None], primary: Attempt, hedge: Attempt) -> Attempt | None:
        """The attempt that responds first; None if both fail."""
        hedge[0].request_started(hedge[1])
        second = asyncio.ensure_future(self._start(*hedge))
        loser = hedge
        try:
            pending = {first, second}
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                if first in done and first.exception() is None:
                    return primary
                if second in done and second.exception() is None:
                    loser = primary
                    return hedge
            return None
        finally:
            second.cancel()
            self._abandon(*loser)


class Router:
    """Forwards calls. A reload replaces `state`; call `expire` several times a second to enforce timeouts."""

    def __init__(self, state: State, metrics: GatewayMetrics | None = None, tracer: Tracer | None = None) -> None:
        self.state = state
        self.metrics = metrics or GatewayMetrics()
        self.tracer = tracer
        self.sax_executor = SaxExecutor()
        self._deadlines = Deadlines()
        self._expired_at = 0.0
        self._serial, self._id_prefix = itertools.count(1), uuid.uuid4().hex[:12]

    def find_model(self, name: str | None, caller: Caller) -> ServedModel:
        """The model that a request names; raises `model_not_found` also for a model that the caller may not use."""
        if not name:
            raise bad_request("model: required field is missing", param="model")
        served = self.state.find(name)
        if served is None or not caller.may_use(served.name):
            raise model_not_found(name)
        return served

    async def forward(self, call: Call, respond: Callable[[], Awaitable[None]] | None = None) -> None:
        """Enforce rate limits, have an upstream respond (or `respond`, for calls that are translated), and record the call."""
        call.started_at = asyncio.get_running_loop().time()
        call.id = self.request_id(call.request.headers)
        rate_limits = (call.caller.rate_limit, call.served.rate_limit)
        call.estimated_tokens = payload.estimate_tokens(call.body) if call.counts_tokens else 0
        span = self.start_span(call.request.headers, call.operation, call.served, call.caller, call.request.path)
        is_acquired = False
        try:
            reserved = call.estimated_tokens + _reserve_completion(call, rate_limits)
            for rate_limit in rate_limits:
                rate_limit.check(reserved)
            for rate_limit in rate_limits:
                rate_limit.acquire(reserved)
            is_acquired = True
            await (respond() if respond is not None else self._proxy(call))
        except HttpError as error:
            call.error_status = error.status
            error.extra_headers.update(call.common_headers())
            raise
        except StreamInterrupted:
            pass
        except asyncio.CancelledError:
            self.metrics.client_disconnects.inc(call.served.name)
            raise
        finally:
            status, tokens = self._record(call)
            # A failed request is charged for its prompt.
            used = sum(tokens) if tokens is not None else None if status == 200 else call.estimated_tokens
            for rate_limit in rate_limits if is_acquired else ():
                rate_limit.release(reserved, used)
            if span is not None:
                span.end(status, tokens)

    # Accounting.

    def start_span(self, headers: dict[str, str], operation: str, served: ServedModel, caller: Caller, path: str) -> Span | None:
        """The span of a call, if tracing is enabled."""
        return self.tracer.start(headers, operation, served.name, caller.name, path) if self.tracer is not None else None

    def request_id_header(self, request: Request) -> tuple[bytes, bytes]:
        """The request ID header of a response that needs no upstream."""
        return REQUEST_ID, self.request_id(request.headers)

    def request_id(self, headers: Mapping[str, str]) -> bytes:
        """The ID that the client gave the request, or a new one."""
        given = headers.get("x-request-id", "")
        if 0 < len(given) <= 128 and given.isascii() and given.isprintable() and " " not in given:
            return given.encode()
        return f"{self._id_prefix}-{next(self._serial):x}".encode()

    def _record(self, call: Call) -> tuple[int, tuple[int, int] | None]:
        """Record a finished call; returns its status, and its prompt and completion tokens if known."""
        model, operation, meter = call.served.name, call.operation, call.meter
        status = call.response.status or call.error_status or 499
        if call.overhead:
            self.metrics.overhead.observe(call.overhead, operation)
        tokens = call.usage or (meter.tokens(call.estimated_tokens, operation) if meter.events else None)
        self.record_request(
            call.served, operation, call.caller, status, request_id=call.id, started_at=call.started_at, tokens=tokens
        )
        if status == 200:
            if meter.events:
                self._record_stream(call, tokens[1] if tokens is not None else 0)
            if tokens is not None:
                self.metrics.record_tokens(operation, model, call.caller.name, *tokens)
        return status, tokens

    def record_request(
        self,
        served: ServedModel,
        operation: str,
        caller: Caller,
        status: int,
        *,
        request_id: bytes,
        started_at: float,
        tokens: tuple[int, int] | None,
    ) -> None:
        """Record a finished call in the metrics and the access log, which never contains prompts or completions."""
        metrics, duration = self.metrics, asyncio.get_running_loop().time() - started_at
        metrics.requests.inc(served.name, operation, caller.name, str(status))
        metrics.duration.observe(duration, operation, PROVIDER, served.name, "" if status == 200 else str(status))
        if status == 200:
            metrics.vllm_e2e_latency.observe(duration, served.name)
            metrics.success.inc(served.name)
        if self.state.spec.access_log:
            access_log.info(
                "%s %s %s %s %d %.3fs in=%d out=%d",
                request_id.decode("latin-1"), caller.name, served.name, operation, status, duration, *(tokens or (0, 0)),
            )  # fmt: skip

    def _record_stream(self, call: Call, tokens: int) -> None:
        meter, operation, model = call.meter, call.operation, call.served.name
        ttft = meter.first - call.started_at
        self.metrics.ttft.observe(ttft, operation, PROVIDER, model)
        self.metrics.vllm_ttft.observe(ttft, model)
        if tokens > 1:
            tpot = (meter.last - meter.first) / (tokens - 1)
            self.metrics.tpot.observe(tpot, operation, PROVIDER, model)
            self.metrics.vllm_tpot.observe(tpot, model)

    # Passing a call through to an upstream that speaks its protocol.

    async def _proxy(self, call: Call) -> None:
        """Respond with an upstream's response; raises HttpError if none can be had."""
        exchange, upstream = await self._start_response(call)
        failed, counts = True, True
        try:
            await self._deliver(call, exchange)
            # A plain 500 may be the request's fault, and is with Triton: it must not make the upstream unavailable to others.
            failed = exchange.status in UNHEALTHY_STATUSES
            counts = failed or exchange.status < 500
        except HttpError as error:
            failed = error.status in UNHEALTHY_STATUSES
            raise
        except asyncio.CancelledError:
            counts = False
            raise
        finally:
            upstream.request_finished(exchange, failed=failed, counts=counts)
            self._finish(exchange)

    async def _start_response(self, call: Call) -> tuple[Exchange, Upstream]:
        """The started response of one upstream, after retries. The caller finishes both."""
        retry = RetryState(self.state, self.metrics, call.served.name)
        fresh = False
        while True:
            upstream = await call.next_upstream(retry.tried)
            exchange = Exchange()
            upstream.request_started(exchange)
            is_kept, failed, counts = False, True, True
            try:
                upstream, exchange = await self._start_attempt(call, (upstream, exchange), retry, fresh=fresh)
                if exchange.status not in _RETRYABLE_STATUSES or not retry.may_retry(str(exchange.status)):
                    is_kept = True
                    return exchange, upstream
                failed = exchange.status != 429
            except ConnectionBroken as error:
                if error.is_stale and not fresh:
                    # The upstream closed an idle connection just when it was reused.
                    counts, fresh = False, True
                    continue
                if not retry.may_retry("broken"):
                    raise backend_failed(str(error)) from error
            except DeadlineExceeded as error:
                counts = not retry.tried or call.time_left > 0  # Otherwise earlier attempts used up the time.
                raise backend_timeout(str(error)) from error
            except asyncio.CancelledError:
                counts = False
                raise
            finally:
                if not is_kept:
                    upstream.request_finished(exchange, failed=failed, counts=counts)
                    self._finish(exchange)
            retry.tried.append(upstream)

    async def _start_attempt(self, call: Call, attempt: Attempt, retry: RetryState, *, fresh: bool) -> Attempt:
        """Start a request, hedged by a second one where configured; returns the attempt that responds first."""
        delay = call.served.balancer.settings.hedging_delay
        if delay is None:
            await self._start_request(call, *attempt, fresh=fresh)
            return attempt

        def pick_another() -> Upstream | None:
            other = call.served.balancer.pick([attempt[0]])
            return other if other is not None and other is not attempt[0] and retry.may_send_another("hedge") else None

        def abandon(upstream: Upstream, exchange: Exchange) -> None:
            upstream.request_finished(exchange, failed=False, counts=False)
            self._finish(exchange)

        hedged = HedgedRequest(
            lambda upstream, exchange: self._start_request(call, upstream, exchange, fresh=fresh), pick_another, abandon
        )
        return await hedged.run(*attempt, delay)

    async def _start_request(self, call: Call, upstream: Upstream, exchange: Exchange, *, fresh: bool) -> None:
        """Send a request and wait for the first chunk of its response, or for all of it if it is short."""
        body = call.body_for(upstream)
        self._deadlines.add(exchange, call)
        head = request_head(call, upstream, len(body))
        await upstream.pool.start(head, body, exchange, min(call.served.timeouts.connect, call.time_left), fresh=fresh)
        if call.request.arrived:
            call.overhead += clock.perf_counter() - call.request.arrived
            call.request.arrived = 0.0
        await exchange.wait(FIRST_CHUNK)
        if not exchange.is_over and not _is_stream(exchange) and _content_length(exchange) <= _MAX_BUFFERED:
            await exchange.wait(COMPLETE)

    async def _deliver(self, call: Call, exchange: Exchange) -> None:
        if not _is_expected(exchange, requires_json=call.requires_json):
            raise _unexpected_response(exchange)
        if exchange.complete:
            body = exchange.chunks[0] if len(exchange.chunks) == 1 else b"".join(exchange.chunks)
            if _is_stream(exchange):
                call.meter.observe(body, exchange.last_activity)
            else:
                call.usage = payload.read_usage(body)
            call.response.send(exchange.status, response_headers(exchange.headers, call), body)
            call.overhead += clock.perf_counter() - exchange.head_received_at
            return
        await self._deliver_stream(call, exchange)

    async def _deliver_stream(self, call: Call, exchange: Exchange) -> None:
        response = call.response
        response.start(exchange.status, response_headers(exchange.headers, call))
        pass_on = _chunk_sink(call, exchange, response.write)
        response.on_drain = exchange.resume
        call.meter.first = exchange.last_activity
        for chunk in exchange.chunks:
            pass_on(chunk)
        exchange.chunks.clear()
        exchange.sink = pass_on
        if response.chunked and exchange.header(b"transfer-encoding") == b"chunked":
            exchange.raw_sink = _chunk_sink(call, exchange, response.write_raw)
        call.overhead += clock.perf_counter() - exchange.head_received_at
        try:
            await exchange.wait(COMPLETE)
        except (ConnectionBroken, DeadlineExceeded) as error:
            self.metrics.interrupted_streams.inc(call.served.name)
            # Only an event stream in plain text can carry the error; other responses end with an aborted connection.
            if _is_stream(exchange) and not _content_encoding(exchange):
                response.write(call.stream_error(upstream_error(error)))
                response.end()
            else:
                response.abort()
            raise StreamInterrupted from error
        finally:
            call.meter.last = exchange.last_activity
        response.end()

    # Calls that an adapter translates.

    async def stream_response(self, call: Call, upstream: Upstream, request: EngineRequest) -> AsyncGenerator[bytes, None]:
        """Send a translated request to an upstream and yield the chunks of its response; raises HttpError for an error response."""
        fields = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items()).encode()
        start = f"POST {upstream.prefix}{request.path} HTTP/1.1\r\n".encode()
        length = b"content-length: %d\r\nx-request-id: %b\r\n\r\n" % (len(request.body), call.id)
        head = start + upstream.host_header + upstream.authorization + IDENTITY_ENCODING + fields + length
        for fresh in (False, True):
            exchange = Exchange()
            self._deadlines.add(exchange, call)
            try:
                timeout = min(call.served.timeouts.connect, call.time_left)
                await upstream.pool.start(head, request.body, exchange, timeout, fresh=fresh)
                await exchange.wait(FIRST_CHUNK)
                chunks = _queue_chunks(exchange)
                while (chunk := await chunks.get()) is not None:
                    yield chunk
                if exchange.error is not None:
                    raise exchange.error
                return
            except ConnectionBroken as error:
                if not error.is_stale or fresh:
                    raise
            finally:
                self._finish(exchange)

    # Deadlines.

    def _finish(self, exchange: Exchange) -> None:
        self._deadlines.discard(exchange)
        exchange.cancel()
        # The sink and the exchange refer to each other: detached, both are freed at once, and a long request with them.
        exchange.detach()

    @property
    def in_flight(self) -> int:
        """Number of requests in flight to upstreams."""
        return len(self._deadlines)

    def expire(self, now: float) -> None:
        """Fail exchanges that exceeded a timeout, and close idle connections."""
        was_paused, self._expired_at = now > self._expired_at + _MAX_PAUSE, now
        # After a pause of this process, read first what has arrived meanwhile.
        if not was_paused:
            for exchange, reason in self._deadlines.expired(now):
                exchange.fail(DeadlineExceeded(reason))
        for upstream in self.state.upstreams:
            upstream.pool.close_idle(now)


def upstream_error(error: Exception) -> HttpError:
    """The error response for a failed exchange."""
    if isinstance(error, HttpError):
        return error
    return backend_timeout(str(error)) if isinstance(error, DeadlineExceeded) else backend_failed(str(error))


def _chunk_sink(call: Call, exchange: Exchange, write: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """The function that passes a chunk on. It runs for every token of every stream: keep it minimal."""
    connection, meter = call.response.connection, call.meter
    # A chunk of an event stream may be a keep-alive comment or a part of an event, so it counts only events.
    min_events = 0 if _is_stream(exchange) else 1

    def pass_on(chunk: bytes) -> None:
        write(chunk)
        meter.events += chunk.count(b"data:") or min_events
        if b'"usage"' in chunk:
            meter.observe_usage(chunk)
        if connection.is_backlogged:
            exchange.pause()

    return pass_on


def _queue_chunks(exchange: Exchange) -> asyncio.Queue[bytes | None]:
    """A queue of the response's chunks, with None at the end; raises HttpError for an error response."""
    if not _is_expected(exchange, requires_json=True):
        raise _unexpected_response(exchange)
    if exchange.status != 200:
        raise _error_response(exchange)
    if encoding := _content_encoding(exchange):
        raise backend_failed(f"unexpected content encoding {encoding.decode('latin-1')[:100]!r}")
    chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
    for chunk in exchange.chunks:
        chunks.put_nowait(chunk)
    if exchange.is_over:
        chunks.put_nowait(None)
    else:
        exchange.sink, exchange.on_end = chunks.put_nowait, lambda: chunks.put_nowait(None)
    return chunks


def _error_response(exchange: Exchange) -> HttpError:
    body = b"".join(exchange.chunks)[:500].decode("utf-8", "replace")
    if exchange.status >= 500:
        return backend_failed(f"status {exchange.status}: {body}")
    return HttpError(exchange.status, "invalid_request", f"the backend responded with status {exchange.status}: {body}")


def _is_stream(exchange: Exchange) -> bool:
    return exchange.header(b"content-type").startswith(b"text/event-stream")


def _content_encoding(exchange: Exchange) -> bytes:
    """The encoding of a response for which identity was requested; empty for plain text."""
    encoding = exchange.header(b"content-encoding").lower()
    return b"" if encoding == b"identity" else encoding


def _is_expected(exchange: Exchange, *, requires_json: bool) -> bool:
    """Whether a response can be a model server's: JSON or events; with tensors, anything but HTML."""
    content_type = exchange.header(b"content-type")
    if not requires_json:
        return not content_type.startswith(b"text/html")
    return b"json" in content_type or content_type.startswith(b"text/event-stream") or (not content_type and not exchange.size)


def _unexpected_response(exchange: Exchange) -> HttpError:
    """The error for a response that does not come from a model server, such as the HTML page of a proxy."""
    content_type = exchange.header(b"content-type").decode("latin-1") or "no content type"
    status = exchange.status if 400 <= exchange.status < 500 else 502
    exchange.cancel()
    message = f"the backend responded with status {exchange.status} and {content_type[:100]}, expected JSON"
    return HttpError(status, "backend_failed", message)


def _content_length(exchange: Exchange) -> int:
    length = exchange.header(b"content-length")
    return int(length) if length.isdigit() else _MAX_BUFFERED + 1


def _reserve_completion(call: Call, rate_limits: Iterable[RateLimit]) -> int:
    """The completion tokens that a call reserves, so that concurrent calls cannot exceed a limit of tokens together."""
    if call.requested_tokens is not None:
        return call.requested_tokens
    if not call.counts_tokens or not any(rate_limit.counts_tokens for rate_limit in rate_limits):
        return 0
    data = payload.parse_object(call.body) if call.body.lstrip().startswith(b"{") else {}
    return token_limit.reserved_tokens(data, None if call.operation == "embeddings" else call.served.max_tokens)
