"""A minimal API server: objects by path, versions, conflicts. For tests of writers; the twin is for everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from tests.support.scripted_transport import answer, refusal

from sliceworks.base.errors import AlreadyExists, ApiError, Conflict, NotFound, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.base.transport import Request, Response


class TinyApi:
    """Use `handle` as an InProcess handler; `broken` selects the requests that get no response."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.requests: list[Request] = []
        self.broken: Callable[[Request], bool] = lambda request: False
        self._version = 0

    async def handle(self, request: Request) -> Response:
        self.requests.append(request)
        if self.broken(request):
            raise Unreachable("broken")
        try:
            return answer(self._answer(request))
        except ApiError as error:
            return refusal(error)

    def only(self) -> dict[str, Any]:
        """The only object."""
        (result,) = self.objects.values()
        return result

    def _answer(self, request: Request) -> dict[str, Any]:
        path, body = request.path, orjson.loads(request.body or b"{}")
        if request.method == "POST":
            path = f"{path}/{self._name(body)}"
            if path in self.objects:
                raise AlreadyExists(path)
            return self._store(path, body)
        if path not in self.objects:
            raise NotFound(path)
        stored = self.objects[path]
        if request.method == "PUT":
            if body["metadata"].get("resourceVersion") != stored["metadata"]["resourceVersion"]:
                raise Conflict(path)
            return self._store(path, body)
        if request.method == "PATCH":
            return self._store(path, {**stored, **body})
        return stored

    def _name(self, body: dict[str, Any]) -> str:
        metadata = body["metadata"]
        metadata.setdefault("name", f"{metadata.get('generateName', '')}{self._version:05}")
        return str(metadata["name"])

    def _store(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        body["metadata"] = {**body["metadata"], "resourceVersion": str(self._version)}
        self.objects[path] = body
        return body
