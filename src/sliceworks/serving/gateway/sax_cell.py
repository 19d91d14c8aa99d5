"""A Sax client over gRPC: admin servers and model servers of the cells below one root.

A cell's admin server writes its address to `ROOT/sax/CELL/location.proto`, in a folder or a bucket; a root such as
`grpc://HOST:PORT` is the address itself. The admin server knows the model servers of each model, which take turns. Addresses are
looked up again after a while, and when a server is unreachable.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from sliceworks.base import clock
from sliceworks.cloud import Session, credentials, storage
from sliceworks.serving.gateway.sax_messages import ADMIN, LANGUAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    StreamItem = tuple[str, int, list[float]]
    StreamCallback = Callable[[bool, list[StreamItem]], None]

ADDRESS_TTL = 10.0
"""Seconds for which the addresses of a model's servers are cached."""
_ADDRESS = "grpc://"
_ADMIN_TIMEOUT = 10.0
_WATCH_TIMEOUT = 2.0
"""Seconds to wait for the addresses of a model's servers: the admin server does not respond until one exists."""
_UNREACHABLE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND)


class _AdminTimeout(RuntimeError):
    """The admin server did not respond in time."""


@dataclass(slots=True)
class _ModelServers:
    """Cached addresses of a model's servers."""

    addresses: list[str]
    read_at: float
    turn: Iterator[int]


def read_location(root: str, cell: str) -> bytes:
    """The location file of a cell, from a folder or a bucket. Blocking."""
    path = f"{root.rstrip('/')}{cell}/location.proto"
    if not storage.is_object_url(path):
        return Path(path).read_bytes()

    async def fetch(file: Path) -> None:
        async with Session(storage.ENDPOINT, credentials.find_credentials()) as session:
            await storage.download(session, storage.ObjectUrl.parse(path), file)

    with tempfile.TemporaryDirectory(prefix="sliceworks-sax-") as folder:
        file = Path(folder) / "location.proto"
        asyncio.run(fetch(file))
        return file.read_bytes()


class CellClient:
    """A client for the cells below one root. Calls block, as those of Sax's own client."""

    def __init__(self, root: str = "", read: Callable[[str, str], bytes] = read_location) -> None:
        self._root, self._read = root or os.environ.get("SAX_ROOT", ""), read
        self._channels: dict[str, grpc.Channel] = {}
        self._admins: dict[str, str] = {}
        self._servers: dict[str, _ModelServers] = {}
        self._opening = threading.Lock()

    def generate(self, model: str, prompt: str, options: Mapping[str, float], timeout: float) -> list[tuple[str, float]]:
        request = LANGUAGE["GenerateRequest"](model_key=model, text=prompt, extra_inputs={"items": options})
        response = self._call_server(model, "Generate", request, "GenerateResponse", timeout)
        return [(result.text, result.score) for result in response.texts]

    def generate_stream(
        self, model: str, prompt: str, options: Mapping[str, float], timeout: float, on_items: StreamCallback
    ) -> None:
        """Another server is tried only until the first item."""
        request = LANGUAGE["GenerateRequest"](model_key=model, text=prompt, extra_inputs={"items": options})
        for address, time_left, is_last in self._attempts(model, timeout):
            has_started = False
            try:
                for response in self._stream(address, request, time_left):
                    has_started = True
                    on_items(False, [(item.text, item.prefix_len, [item.score]) for item in response.items])
                on_items(True, [])
                return
            except grpc.RpcError as error:
                self._handle_failure(model, error, is_last=is_last or has_started)

    def score(self, model: str, prefix: str, suffixes: list[str], timeout: float) -> list[float]:
        request = LANGUAGE["ScoreRequest"](model_key=model, suffix=suffixes, prefix=prefix)
        return list(self._call_server(model, "Score", request, "ScoreResponse", timeout).logp)

    def embed(self, model: str, text: str, timeout: float) -> list[float]:
        request = LANGUAGE["EmbedRequest"](model_key=model, text=text)
        return list(self._call_server(model, "Embed", request, "EmbedResponse", timeout).embedding)

    def list_models(self, cell: str) -> list[dict[str, Any]]:
        """All models of a cell, in the order of their names."""
        response = self._call_admin(f"{cell}/", "List", ADMIN["ListRequest"](), "ListResponse")
        return sorted((_describe(published) for published in response.published_models), key=lambda model: str(model["model"]))

    def details(self, model: str) -> dict[str, Any]:
        return {**_describe(self._published(model)), "model": model}

    def publish(self, model: str, path: str, checkpoint: str, replicas: int) -> None:
        settings = {"model_id": model, "model_path": path, "checkpoint_path": checkpoint, "requested_num_replicas": replicas}
        self._call_admin(model, "Publish", ADMIN["PublishRequest"](model=settings), "Empty")

    def update(self, model: str, path: str, checkpoint: str, replicas: int) -> None:
        """Change the publication of a model; its other fields stay."""
        settings = self._published(model).model
        settings.model_path, settings.checkpoint_path, settings.requested_num_replicas = path, checkpoint, replicas
        self._call_admin(model, "Update", ADMIN["UpdateRequest"](model=settings), "Empty")

    def unpublish(self, model: str) -> None:
        self._call_admin(model, "Unpublish", ADMIN["UnpublishRequest"](model_id=model), "Empty")
        self._servers.pop(model, None)

    def _published(self, model: str) -> Any:
        models = self._call_admin(model, "List", ADMIN["ListRequest"](model_id=model), "ListResponse").published_models
        if not models:
            raise RuntimeError(f"{model} is not published")
        return models[0]

    def _call_server(self, model: str, method: str, request: Any, response: str, timeout: float) -> Any:
        for address, time_left, is_last in self._attempts(model, timeout):
            call = self._channel(address).unary_unary(
                f"/{LANGUAGE.package}.LMService/{method}", type(request).SerializeToString, LANGUAGE[response].FromString
            )
            try:
                return call(request, timeout=time_left)
            except grpc.RpcError as error:
                self._handle_failure(model, error, is_last=is_last)
        raise RuntimeError(f"no model server for {model}")

    def _stream(self, address: str, request: Any, timeout: float) -> Iterator[Any]:
        call = self._channel(address).unary_stream(
            f"/{LANGUAGE.package}.LMService/GenerateStream",
            type(request).SerializeToString,
            LANGUAGE["GenerateStreamResponse"].FromString,
        )
        yield from call(request, timeout=timeout)

    def _attempts(self, model: str, timeout: float) -> Iterator[tuple[str, float, bool]]:
        """Each server of a model once, in turn: its address, the time left, and whether it is the last."""
        deadline = clock.perf_counter() + timeout
        servers = self._find_servers(model)
        first = next(servers.turn)
        count = len(servers.addresses)
        for number in range(count):
            yield servers.addresses[(first + number) % count], deadline - clock.perf_counter(), number == count - 1

    def _find_servers(self, model: str) -> _ModelServers:
        servers, now = self._servers.get(model), clock.perf_counter()
        if servers is None or now - servers.read_at > ADDRESS_TTL:
            turn = servers.turn if servers is not None else itertools.count()
            servers = self._servers[model] = _ModelServers(self._read_addresses(model), now, turn)
        if not servers.addresses:
            self._servers.pop(model, None)
            raise RuntimeError(f"no model server is ready for {model}")
        return servers

    def _read_addresses(self, model: str) -> list[str]:
        """The current addresses of a model's servers: a full set and the changes since."""
        try:
            request = ADMIN["WatchLocRequest"](model_id=model)
            result = self._call_admin(model, "WatchLoc", request, "WatchLocResponse", _WATCH_TIMEOUT).result
        except _AdminTimeout:
            return []
        addresses = set(result.values)
        for change in result.changelog:
            addresses.add(change.addition) if change.addition else addresses.discard(change.deletion)
        return sorted(addresses)

    def _handle_failure(self, model: str, error: Any, *, is_last: bool) -> None:
        """Return if another server may be tried, else raise the error of this one."""
        if error.code() in _UNREACHABLE:
            self._servers.pop(model, None)
            if not is_last:
                return
        raise RuntimeError(_error_message(error)) from error

    def _call_admin(self, model: str, method: str, request: Any, response: str, timeout: float = _ADMIN_TIMEOUT) -> Any:
        """Call the cell's admin server; if it is unreachable, look up its address once more."""
        cell = model.rpartition("/")[0]
        for may_retry in (True, False):
            is_cached = cell in self._admins
            if not is_cached:
                self._admins[cell] = self._locate(cell)
            call = self._channel(self._admins[cell]).unary_unary(
                f"/{ADMIN.package}.Admin/{method}", type(request).SerializeToString, ADMIN[response].FromString
            )
            try:
                return call(request, timeout=timeout)
            except grpc.RpcError as error:
                self._admins.pop(cell, None)
                if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise _AdminTimeout(_error_message(error)) from error
                if not (may_retry and is_cached and error.code() == grpc.StatusCode.UNAVAILABLE):
                    raise RuntimeError(_error_message(error)) from error
        raise AssertionError("the second attempt raises")

    def _locate(self, cell: str) -> str:
        if not self._root:
            raise RuntimeError("SAX_ROOT is not set to the root of the cells")
        if self._root.startswith(_ADDRESS):
            return self._root.removeprefix(_ADDRESS)
        try:
            location = ADMIN["Location"].FromString(self._read(self._root, cell)).location
        except FileNotFoundError as error:
            raise RuntimeError(f"cannot locate the admin server of {cell}: {error.filename} not found") from error
        except Exception as error:
            raise RuntimeError(f"cannot locate the admin server of {cell}: {error}") from error
        if ":" not in location:
            raise RuntimeError(f"the admin server of {cell} has not started")
        return str(location)

    def _channel(self, address: str) -> grpc.Channel:
        with self._opening:
            if address not in self._channels:
                self._channels[address] = grpc.insecure_channel(address)
            return self._channels[address]


def _describe(published: Any) -> dict[str, Any]:
    settings = published.model
    counts = {"max_replicas": settings.requested_num_replicas, "active_replicas": len(published.modelet_addresses)}
    return {"model": settings.model_id, "model_path": settings.model_path, "checkpoint": settings.checkpoint_path, **counts}


def _error_message(error: Any) -> str:
    return str(error.details() or error.code().name)
