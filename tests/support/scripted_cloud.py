"""A transport to a Google API that answers from a script."""

from __future__ import annotations

from collections import deque
from typing import Any

import orjson

from sliceworks.base.transport import Request, Response

Obj = dict[str, Any]


class Scripted:
    """Returns its responses in order and records the requests."""

    def __init__(self, *answers: Response | BaseException) -> None:
        self.answers = deque(answers)
        self.requests: list[Request] = []
        self.closed = False

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        self.requests.append(request)
        answer = self.answers.popleft()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def close(self) -> None:
        self.closed = True


def answer(body: Obj, status: int = 200, **headers: str) -> Response:
    """A successful response, or one with this status."""
    return Response(status, {name.replace("_", "-"): value for name, value in headers.items()}, orjson.dumps(body))


def refusal(code: int, status: str = "", message: str = "no", details: list[Obj] | None = None, **headers: str) -> Response:
    """An error in Google's format."""
    error: Obj = {"code": code, "message": message}
    if status:
        error["status"] = status
    if details:
        error["details"] = details
    return answer({"error": error}, code, **headers)
