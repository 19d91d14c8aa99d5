"""One call through the gateway: caller, model, forwarded headers and body; and the deadlines of all calls in flight."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sliceworks.serving.gateway import errors
from sliceworks.serving.gateway.errors import backend_timeout
from sliceworks.serving.gateway.payload import UsageMeter

if TYPE_CHECKING:
    from sliceworks.base.http.messages import HttpError, Request
    from sliceworks.base.http.response_writer import ResponseWriter
    from sliceworks.serving.gateway.http_client import Exchange
    from sliceworks.serving.gateway.load_balancer import Upstream
    from sliceworks.serving.gateway.state import Caller, ServedModel

_STREAM_FIELD = re.compile(rb'"stream"[ \t\r\n]*:[ \t\r\n]*true')
_STREAM_PATHS = ("/generate_stream", "/v1/generate")


@dataclass(slots=True)
class Call:
    """A request to forward. `path_for` and `body_for` adapt it to an upstream that knows the model by another name."""

    request: Request
    response: ResponseWriter
    caller: Caller
    served: ServedModel
    operation: str
    path: str
    body: bytes
    started_at: float = 0.0
    """The total timeout runs from here, across all retries."""
    estimated_tokens: int = 0
    id: bytes = b""
    requires_json: bool = True
    """Whether the response must be JSON or events; others may carry tensors, compressed as the client accepts."""
    counts_tokens: bool = True
    requested_tokens: int | None = None
    """The completion tokens that it may use, where its body is not OpenAI's."""
    overhead: float = 0.0
    """Seconds that the gateway itself spent."""
    usage: tuple[int, int] | None = None
    """Prompt and completion tokens that the response reports."""
    meter: UsageMeter = field(default_factory=UsageMeter)
    error_status: int = 0
    """The status of an error response that is written later."""

    @property
    def is_stream(self) -> bool:
        """Whether the client asked for a stream. It searches the body, so ask only about slow calls."""
        return self.path.endswith(_STREAM_PATHS) or _STREAM_FIELD.search(self.body) is not None

    @property
    def time_left(self) -> float:
        """Seconds until the total timeout."""
        return self.started_at + self.served.timeouts.total - asyncio.get_running_loop().time()

    async def next_upstream(self, tried: list[Upstream]) -> Upstream:
        """The next upstream to try; raises if none is available or the total timeout has passed."""
        timeouts = self.served.timeouts
        if tried and self.time_left <= 0:
            raise backend_timeout(f"no response within {timeouts.total:g} s in total")
        return await self.served.balancer.next_upstream(tried, min(timeouts.connect, self.time_left))

    def stream_error(self, error: HttpError) -> bytes:
        """What ends an interrupted stream: an event with the error, separated from one that may be incomplete."""
        return b"\n\ndata: %b\n\n" % errors.encode(self.request.path, error)

    def common_headers(self) -> list[tuple[bytes, bytes]]:
        """Headers of every response: the request ID and the caller's rate limits."""
        return [(b"x-request-id", self.id), *self.caller.rate_limit.headers]

    def path_for(self, upstream: Upstream) -> str:
        """The path at an upstream."""
        return upstream.prefix + self.path

    def body_for(self, upstream: Upstream) -> bytes:
        """The body for an upstream."""
        return self.body


IDENTITY_ENCODING = b"accept-encoding: identity\r\n"
"""A server may compress its response unless the request forbids it."""
_JSON_HEADERS = b"content-type: application/json\r\n" + IDENTITY_ENCODING
_HOP_BY_HOP = {"connection", "keep-alive", "proxy-authenticate", "te", "trailer", "transfer-encoding", "upgrade"}
_CREDENTIALS = {"authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"}
_NOT_FORWARDED = {"content-length", "expect", "host", "http2-settings", "proxy-connection", "x-request-id"}
_NOT_FORWARDED |= {
    "x-original-url",
    "x-rewrite-url",
    "x-envoy-original-path",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
}
_NOT_FORWARDED |= {"x-gateway-model-name", "x-gateway-destination-endpoint"}
"""A server that obeys them would handle another request than the one that was authorized."""
_NOT_FORWARDED |= _HOP_BY_HOP | _CREDENTIALS
_OF_THE_BODY = {"accept-encoding", "content-encoding", "content-type"}
"""A JSON body is forwarded as the JSON in UTF-8 that the gateway has read."""
_USUAL_OPTIONS = {"", "close", "keep-alive"}
"""Options of a Connection header; other options are names of hop-by-hop headers."""
_NOT_RETURNED = {name.encode() for name in (*_HOP_BY_HOP, "content-length", "date", "server", "set-cookie", "x-request-id")}


def request_head(call: Call, upstream: Upstream, length: int) -> bytes:
    """The head of the request to an upstream: the client's headers without hop-by-hop headers and credentials."""
    request, requires_json = call.request, call.requires_json
    path = call.path_for(upstream)
    target = f"{path}?{request.query}" if request.query else path
    parts = [f"{request.method} {target} HTTP/1.1\r\n".encode("latin-1"), upstream.host_header, upstream.authorization]
    excluded = _NOT_FORWARDED
    if (options := request.headers.get("connection", "").lower()) not in _USUAL_OPTIONS:
        excluded = _NOT_FORWARDED | {option.strip() for option in options.split(",")}
    for name, value in request.headers.items():
        if name not in excluded and not (requires_json and name in _OF_THE_BODY):
            parts.append(f"{name}: {value}\r\n".encode("latin-1"))
    if requires_json:
        parts.append(_JSON_HEADERS)
    parts.append(b"x-request-id: %b\r\n" % call.id)
    parts.append(b"content-length: %d\r\n\r\n" % length if length or request.method == "POST" else b"\r\n")
    return b"".join(parts)


def response_headers(headers: list[tuple[bytes, bytes]], call: Call) -> list[tuple[bytes, bytes]]:
    """The headers of the response to the client."""
    forwarded = [pair for pair in headers if pair[0] not in _NOT_RETURNED]
    forwarded += call.common_headers()
    return forwarded


_STEP = 0.25
"""The resolution of deadlines, in seconds."""


class Deadlines:
    """All calls in flight, grouped by the time step in which each is due for inspection."""

    def __init__(self) -> None:
        self._step: dict[Exchange, int] = {}
        self._due: dict[int, dict[Exchange, Call]] = {}

    def __len__(self) -> int:
        return len(self._step)

    def add(self, exchange: Exchange, call: Call) -> None:
        """Watch a call."""
        self._schedule(_step_after(_earliest_deadline(exchange, call)), exchange, call)

    def discard(self, exchange: Exchange) -> None:
        """Stop watching a call."""
        step = self._step.pop(exchange, None)
        if step is None:
            return
        due = self._due[step]
        del due[exchange]
        if not due:
            del self._due[step]

    def expired(self, now: float) -> list[tuple[Exchange, str]]:
        """Exchanges that exceeded a timeout, with the reason. They are no longer watched."""
        expired: list[tuple[Exchange, str]] = []
        current = int(now / _STEP)
        for step in [step for step in self._due if step <= current]:
            for exchange, call in self._due.pop(step).items():
                del self._step[exchange]
                reason = _exceeded_timeout(exchange, call, now)
                if reason:
                    expired.append((exchange, reason))
                else:
                    self._schedule(max(current + 1, _step_after(_earliest_deadline(exchange, call))), exchange, call)
        return expired

    def _schedule(self, step: int, exchange: Exchange, call: Call) -> None:
        self.discard(exchange)
        self._step[exchange] = step
        self._due.setdefault(step, {})[exchange] = call


def _step_after(time: float) -> int:
    """The first step that starts after a time."""
    return int(time / _STEP) + 1


def _earliest_deadline(exchange: Exchange, call: Call) -> float:
    """The earliest time at which a timeout can be exceeded. Before the first chunk that may be the idle timeout after it."""
    timeouts = call.served.timeouts
    pause = timeouts.idle if exchange.size else min(timeouts.first_token, timeouts.idle)
    return min(call.started_at + timeouts.total, exchange.last_activity + pause)


def _exceeded_timeout(exchange: Exchange, call: Call, now: float) -> str:
    """The timeout that a call has exceeded, if any. While the client does not read, only the total timeout applies."""
    timeouts = call.served.timeouts
    if now > call.started_at + timeouts.total:
        return f"no response within {timeouts.total:g} s in total"
    if exchange.connection is None or call.response.connection.is_backlogged:
        return ""
    if not exchange.size:
        # A response that is not a stream arrives at once, when it is complete.
        is_late = now > exchange.started_at + timeouts.first_token and call.is_stream
        return f"no first token within {timeouts.first_token:g} s" if is_late else ""
    return f"no further data within {timeouts.idle:g} s" if now > exchange.last_activity + timeouts.idle else ""
