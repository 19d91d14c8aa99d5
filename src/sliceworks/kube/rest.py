"""Sends requests: retries, translates errors, reports warnings, decodes objects and watch events."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import ApiError, Unreachable, from_status
from sliceworks.base.memory import call_without_gc
from sliceworks.base.retry import Retry
from sliceworks.kube.requests import PatchType

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping

    from sliceworks.base.transport import Request, Response, Transport
    from sliceworks.kube.resources import Object

    OnWarning: TypeAlias = Callable[[str], None]


_LARGE_BODY = 1 << 15  # bytes; the garbage collector is paused while larger ones are decoded


def decode_json(body: bytes) -> Any:
    """Decode a JSON document."""
    if len(body) < _LARGE_BODY:
        return orjson.loads(body)
    return call_without_gc(orjson.loads, body)


class Event(NamedTuple):
    """A watch event: ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: Object


Batch: TypeAlias = list[Event]
_BATCH_SIZE = 500  # decoded events take ten times the memory of their lines


async def read_event_batches(stream: AsyncIterator[bytes]) -> AsyncGenerator[Batch, None]:
    """Watch events in batches as they arrive. Events before an ERROR are yielded before it is raised."""
    rest = b""
    async for chunk in stream:
        lines = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
        rest = lines.pop()
        for start in range(0, len(lines), _BATCH_SIZE):
            batch = lines[start : start + _BATCH_SIZE]
            events, error = call_without_gc(decode_events, batch) if len(chunk) > _LARGE_BODY else decode_events(batch)
            if events:
                yield events
            if error is not None:
                raise error
    if rest.strip():
        # kube-apiserver ends a watch after a complete line: a partial one means a broken connection.
        raise Unreachable("watch connection closed in the middle of an event")


def decode_events(lines: list[bytes]) -> tuple[list[Event], ApiError | None]:
    """The events in these lines up to an ERROR event, and its error."""
    events: list[Event] = []
    loads = orjson.loads
    for line in lines:
        if not line:
            continue
        try:
            event = loads(line)
            kind, obj = event["type"], event["object"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise Unreachable("received an invalid watch event") from error
        if kind == "ERROR":
            return events, from_status(obj.get("code") or 500, obj)
        events.append(Event(kind, obj))
    return events, None


_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


class RestClient:
    """Sends requests over a transport with a retry policy; `on_warning` receives warning headers."""

    def __init__(self, transport: Transport, *, retry: Retry | None = None, on_warning: OnWarning | None = None) -> None:
        self.transport = transport
        self.retry = retry or Retry()
        self.on_warning = on_warning

    async def send(self, request: Request) -> Object:
        """Send a request and decode the response; error responses are raised as ApiError."""
        response = await self.exchange(request)
        try:
            body = decode_json(response.body) if response.body else {}
        except orjson.JSONDecodeError as error:
            raise Unreachable(f"{request.method} {request.path}: response is not JSON; is this a Kubernetes API?") from error
        if not isinstance(body, dict):
            raise Unreachable(f"{request.method} {request.path}: response is not a JSON object; is this a Kubernetes API?")
        return body

    async def exchange(self, request: Request, *, stream: bool = False) -> Response:
        """Send a request, with retries, and return its successful response.

        An error response with Retry-After is retried whatever the request: the server did not process it. A request without a
        response is retried only if that is safe: reads and server-side applies.
        """
        failures = 0
        while True:
            try:
                response = await self.transport.send(request, stream=stream)
                if response.status < 400:
                    break
                error = error_from_response(response)
                failures += 1
                wait = error.retry_after
                if wait is None or wait > self.retry.longest_wait or failures >= self.retry.attempts:
                    raise error
            except Unreachable:
                failures += 1
                if failures >= self.retry.attempts or not _is_idempotent(request):
                    raise
                wait = self.retry.backoff.delay(failures)
            await clock.sleep(wait)
        if self.on_warning is not None and (header := response.headers.get("warning")):
            for warning in parse_warnings(header):
                self.on_warning(warning)
        return response


def error_from_response(response: Response) -> ApiError:
    """The ApiError of an error response; a Retry-After header is added to its details."""
    try:
        status: Any = orjson.loads(response.body)
    except orjson.JSONDecodeError:
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        lines = response.body[:512].decode(errors="replace").strip().splitlines()
        status = {"message": f"the server returned HTTP {response.status}: {lines[0]}"} if lines else {}
    error = from_status(response.status, status)
    return _with_retry_after(error, response.headers)


def parse_warnings(header: str) -> list[str]:
    """The messages in a `Warning` header."""
    return [_ESCAPED.sub(r"\1", text) for text in _WARNING.findall(header)]


async def close_stream(stream: AsyncIterator[bytes] | None) -> None:
    """Close a response stream."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()


def _with_retry_after(error: ApiError, headers: Mapping[str, str]) -> ApiError:
    header = headers.get("retry-after", "")
    # Without the header, retryAfterSeconds in the body (an eviction blocked by a budget) is for the caller, not for automatic
    # retries.
    if header.isdigit() and (error.code == 429 or error.code >= 500):
        error.details = {**(error.details or {}), "retryAfterSeconds": int(header)}
    return error


def _is_idempotent(request: Request) -> bool:
    return request.method in ("GET", "HEAD") or request.headers.get("content-type") == PatchType.APPLY.value
