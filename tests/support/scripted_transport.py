"""A transport with scripted responses, for tests of clients."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Self

import orjson

from sliceworks.base.errors import ApiError
from sliceworks.base.transport import Request, Response

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Answer = Response | BaseException


class Scripted:
    """Returns its responses in order and records the requests; `handler`, if given, answers instead."""

    def __init__(self, *answers: Answer, handler: Callable[[Request], Answer] | None = None) -> None:
        self.answers = deque(answers)
        self.requests: list[Request] = []
        self.closed = False
        self._handler = handler

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        self.requests.append(request)
        answer = self._handler(request) if self._handler else self.answers.popleft()
        if isinstance(answer, ApiError):
            return refusal(answer)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def close(self) -> None:
        self.closed = True


class Feed:
    """A stream that the test controls: `put` adds a chunk, `end` ends it."""

    def __init__(self, *pieces: bytes, ended: bool = False) -> None:
        self._queue: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue()
        self.closed = False
        for piece in pieces:
            self._queue.put_nowait(piece)
        if ended:
            self.end()

    def put(self, kind: str, obj: dict[str, Any]) -> None:
        """Send one watch event."""
        self._queue.put_nowait(line(kind, obj))

    def fail(self, error: BaseException) -> None:
        """Break the stream."""
        self._queue.put_nowait(error)

    def end(self) -> None:
        """End the stream."""
        self._queue.put_nowait(None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._queue.get()
        if piece is None:
            raise StopAsyncIteration
        if isinstance(piece, BaseException):
            raise piece
        return piece

    async def aclose(self) -> None:
        self.closed = True


def answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response with a JSON body."""
    return Response(status, headers or {}, orjson.dumps(body))


def listed(*items: dict[str, Any], version: str = "1", more: str = "") -> Response:
    """A list of pods."""
    metadata = {"resourceVersion": version, **({"continue": more} if more else {})}
    return answer({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": list(items)})


def refusal(error: ApiError, headers: Mapping[str, str] | None = None) -> Response:
    """The response for an error."""
    return answer(error.status(), error.code, headers)


def pod(name: str, version: str = "1", *, namespace: str = "d", uid: str = "", **metadata: Any) -> dict[str, Any]:
    """A minimal pod, as in a list."""
    return {"metadata": {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}", "resourceVersion": version, **metadata}}


def line(kind: str, obj: dict[str, Any]) -> bytes:
    """One watch event as it is sent."""
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


def stream(feed: Feed) -> Response:
    """The response that opens a watch."""
    return Response(200, {}, stream=feed)
