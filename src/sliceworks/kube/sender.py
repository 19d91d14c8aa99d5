"""Sends requests: tries again where that is right, turns refusals into errors, and hands on the server's warnings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import ApiError, Unreachable, from_status
from sliceworks.kube.backoff import Retry
from sliceworks.kube.decoding import loads
from sliceworks.kube.requests import PatchType

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from sliceworks.kube.resources import Object
    from sliceworks.kube.transport import Request, Response, Transport

    OnWarning: TypeAlias = Callable[[str], None]

_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


class Sender:
    """One transport, with the caller's policy for another try and a place for warnings."""

    def __init__(self, transport: Transport, *, retry: Retry | None = None, on_warning: OnWarning | None = None) -> None:
        self.transport = transport
        self.retry = retry or Retry()
        self.on_warning = on_warning

    async def send(self, request: Request) -> Object:
        """Send a request and decode the answer; an ApiError says what the server refused."""
        response = await self.exchange(request)
        try:
            answer = loads(response.body) if response.body else {}
        except orjson.JSONDecodeError as error:
            raise Unreachable(f"the answer to {request.method} {request.path} is no JSON: is this a Kubernetes API?") from error
        if not isinstance(answer, dict):
            raise Unreachable(f"the answer to {request.method} {request.path} is no object: is this a Kubernetes API?")
        return answer

    async def exchange(self, request: Request, *, stream: bool = False) -> Response:
        """Send a request, again where the policy says so, and return its successful answer."""
        failures = 0
        while True:
            try:
                response = await self.transport.send(request, stream=stream)
                if response.status < 400:
                    break
                refusal = error_of(response)
                failures += 1
                wait = refusal.retry_after
                if wait is None or wait > self.retry.longest_wait or failures >= self.retry.attempts:
                    raise refusal
            except Unreachable:
                failures += 1
                if failures >= self.retry.attempts or not _may_repeat(request):
                    raise
                wait = self.retry.backoff.delay(failures)
            await clock.sleep(wait)
        if self.on_warning is not None and (header := response.headers.get("warning")):
            for text in warnings_in(header):
                self.on_warning(text)
        return response


def error_of(response: Response) -> ApiError:
    """The error that an answer stands for; a Retry-After header is kept in its details."""
    try:
        status: Any = orjson.loads(response.body)
    except orjson.JSONDecodeError:
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        text = response.body[:512].decode(errors="replace").strip().splitlines()
        status = {"message": f"the server answered {response.status}: {text[0]}"} if text else {}
    error = from_status(response.status, status)
    return _with_retry_after(error, response.headers)


def warnings_in(header: str) -> list[str]:
    """The texts in a `warning` header."""
    return [_ESCAPED.sub(r"\1", text) for text in _WARNING.findall(header)]


async def close_stream(stream: AsyncIterator[bytes] | None) -> None:
    """End a stream from our side."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()


def _with_retry_after(error: ApiError, headers: Mapping[str, str]) -> ApiError:
    header = headers.get("retry-after", "")
    # What the body says on its own (an eviction held up by a budget) is advice to the caller; the header is an order to wait.
    if header.isdigit() and (error.code == 429 or error.code >= 500):
        error.details = {**(error.details or {}), "retryAfterSeconds": int(header)}
    return error


def _may_repeat(request: Request) -> bool:
    return request.method in ("GET", "HEAD") or request.headers.get("content-type") == PatchType.APPLY.value
