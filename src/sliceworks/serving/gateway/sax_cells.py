"""Sax cells without Sax's own client: admin servers and model servers, asked over gRPC in the protocol that they publish.

A cell's admin server writes its address into `ROOT/sax/CELL/location.proto`, in a folder or a bucket. It knows the model servers of
each model; those are asked in turn. Addresses are asked for anew after a while, and when a server cannot be reached.
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
from sliceworks.base.protos import Messages
from sliceworks.cloud import Session, connecting, storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sliceworks.serving.gateway.sax import Heard

ADMIN = Messages(
    "sax",
    {
        "Location": "location:string",
        "Model": "model_id:string model_path:string checkpoint_path:string requested_num_replicas:enum",
        "PublishedModel": "model:Model modelet_addresses:*string",
        "PublishRequest": "- model:Model",
        "UpdateRequest": "model:Model",
        "UnpublishRequest": "model_id:string",
        "ListRequest": "model_id:string",
        "ListResponse": "published_models:*PublishedModel",
        "WatchLocRequest": "model_id:string seqno:enum admin_server_id:string",
        "Mutation": "addition:string deletion:string",
        "WatchResult": "next_seqno:enum has_fullset:bool values:*string changelog:*Mutation",
        "WatchLocResponse": "result:WatchResult admin_server_id:string",
        "Empty": "",
    },
    choices=("Mutation",),
)
LANGUAGE = Messages(
    "sax.server.lm",
    {
        "ExtraInputs": "items:@float",
        "ScoreRequest": "model_key:string suffix:*string prefix:string extra_inputs:ExtraInputs",
        "ScoreResponse": "logp:*double",
        "GenerateRequest": "model_key:string text:string extra_inputs:ExtraInputs",
        "DecodedText": "text:string score:double",
        "GenerateResponse": "texts:*DecodedText",
        "GenerateStreamItem": "text:string prefix_len:enum score:double",
        "GenerateStreamResponse": "items:*GenerateStreamItem",
    },
)
FOUND_FOR = 10.0
"""Seconds for which the addresses of a model's servers are taken to be the same."""
_PATIENCE = 10.0
_MOMENT = 2.0
"""How long it is waited for the servers of a model. The admin server answers when there is one, and else not."""
_UNREACHED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND)


class _Late(RuntimeError):
    """The admin server did not answer in time."""


@dataclass(slots=True)
class _Servers:
    """Where a model is served, as the admin server said at some moment."""

    addresses: list[str]
    asked_at: float
    turn: Iterator[int]


def read_location(root: str, cell: str) -> bytes:
    """What the admin server of a cell wrote, from a folder or a bucket. It blocks: it is called on a thread."""
    place = f"{root.rstrip('/')}{cell}/location.proto"
    if not storage.is_place(place):
        return Path(place).read_bytes()

    async def fetch(file: Path) -> None:
        async with Session(storage.ENDPOINT, connecting.credentials()) as session:
            await storage.download(session, storage.Place.of(place), file)

    with tempfile.TemporaryDirectory(prefix="sliceworks-sax-") as folder:
        file = Path(folder) / "location.proto"
        asyncio.run(fetch(file))
        return file.read_bytes()


class Cells:
    """The cells below one root. Calls block, as those of Sax's own client do."""

    def __init__(self, root: str = "", read: Callable[[str, str], bytes] = read_location) -> None:
        self._root, self._read = root or os.environ.get("SAX_ROOT", ""), read
        self._channels: dict[str, grpc.Channel] = {}
        self._admins: dict[str, str] = {}
        self._servers: dict[str, _Servers] = {}
        self._opening = threading.Lock()

    def generate(self, model: str, prompt: str, options: Mapping[str, float], timeout: float) -> list[tuple[str, float]]:
        """Texts with their scores."""
        asked = LANGUAGE["GenerateRequest"](model_key=model, text=prompt, extra_inputs={"items": options})
        found = self._on_a_server(model, "Generate", asked, "GenerateResponse", timeout)
        return [(each.text, each.score) for each in found.texts]

    def generate_stream(self, model: str, prompt: str, options: Mapping[str, float], timeout: float, heard: Heard) -> None:
        """The same as it comes. Another server is asked only while nothing has come."""
        asked = LANGUAGE["GenerateRequest"](model_key=model, text=prompt, extra_inputs={"items": options})
        for address, left, last in self._tries(model, timeout):
            begun = False
            try:
                for piece in self._stream(address, asked, left):
                    begun = True
                    heard(False, [(item.text, item.prefix_len, [item.score]) for item in piece.items])
                heard(True, [])
                return
            except grpc.RpcError as error:
                self._missed(model, error, last=last or begun)

    def score(self, model: str, prefix: str, suffixes: list[str], timeout: float) -> list[float]:
        """How likely each suffix is."""
        asked = LANGUAGE["ScoreRequest"](model_key=model, suffix=suffixes, prefix=prefix)
        return list(self._on_a_server(model, "Score", asked, "ScoreResponse", timeout).logp)

    def details(self, model: str) -> dict[str, Any]:
        """How a model is published."""
        known = self._published(model)
        counts = {"max_replicas": known.model.requested_num_replicas, "active_replicas": len(known.modelet_addresses)}
        return {"model": model, "model_path": known.model.model_path, "checkpoint": known.model.checkpoint_path, **counts}

    def publish(self, model: str, path: str, checkpoint: str, replicas: int) -> None:
        """Have model servers load a model."""
        wanted = {"model_id": model, "model_path": path, "checkpoint_path": checkpoint, "requested_num_replicas": replicas}
        self._ask_admin(model, "Publish", ADMIN["PublishRequest"](model=wanted), "Empty")

    def update(self, model: str, path: str, checkpoint: str, replicas: int) -> None:
        """Change how a model is published; what else was said of it stays."""
        wanted = self._published(model).model
        wanted.model_path, wanted.checkpoint_path, wanted.requested_num_replicas = path, checkpoint, replicas
        self._ask_admin(model, "Update", ADMIN["UpdateRequest"](model=wanted), "Empty")

    def unpublish(self, model: str) -> None:
        """Have it no more."""
        self._ask_admin(model, "Unpublish", ADMIN["UnpublishRequest"](model_id=model), "Empty")
        self._servers.pop(model, None)

    def _published(self, model: str) -> Any:
        found = self._ask_admin(model, "List", ADMIN["ListRequest"](model_id=model), "ListResponse").published_models
        if not found:
            raise RuntimeError(f"{model} is not published")
        return found[0]

    def _on_a_server(self, model: str, method: str, asked: Any, answer: str, timeout: float) -> Any:
        for address, left, last in self._tries(model, timeout):
            call = self._channel(address).unary_unary(
                f"/{LANGUAGE.package}.LMService/{method}", type(asked).SerializeToString, LANGUAGE[answer].FromString
            )
            try:
                return call(asked, timeout=left)
            except grpc.RpcError as error:
                self._missed(model, error, last=last)
        raise RuntimeError(f"no model server has {model}")

    def _stream(self, address: str, asked: Any, timeout: float) -> Iterator[Any]:
        call = self._channel(address).unary_stream(
            f"/{LANGUAGE.package}.LMService/GenerateStream",
            type(asked).SerializeToString,
            LANGUAGE["GenerateStreamResponse"].FromString,
        )
        yield from call(asked, timeout=timeout)

    def _tries(self, model: str, timeout: float) -> Iterator[tuple[str, float, bool]]:
        """Every server of a model once, the next one first; how long it may take, and whether it is the last."""
        until = clock.effort() + timeout
        servers = self._find(model)
        first = next(servers.turn)
        count = len(servers.addresses)
        for number in range(count):
            yield servers.addresses[(first + number) % count], until - clock.effort(), number == count - 1

    def _find(self, model: str) -> _Servers:
        known, now = self._servers.get(model), clock.effort()
        if known is None or now - known.asked_at > FOUND_FOR:
            turn = known.turn if known is not None else itertools.count()
            known = self._servers[model] = _Servers(self._watched(model), now, turn)
        if not known.addresses:
            self._servers.pop(model, None)
            raise RuntimeError(f"no model server has {model} ready")
        return known

    def _watched(self, model: str) -> list[str]:
        """The servers that there are now: those of some moment, and what has changed since."""
        try:
            told = self._ask_admin(model, "WatchLoc", ADMIN["WatchLocRequest"](model_id=model), "WatchLocResponse", _MOMENT).result
        except _Late:
            return []
        found = set(told.values)
        for change in told.changelog:
            found.add(change.addition) if change.addition else found.discard(change.deletion)
        return sorted(found)

    def _missed(self, model: str, error: Any, *, last: bool) -> None:
        """One server did not do it; raises what it said where no other may be asked."""
        if error.code() in _UNREACHED:
            self._servers.pop(model, None)
            if not last:
                return
        raise RuntimeError(_words(error)) from error

    def _ask_admin(self, model: str, method: str, asked: Any, answer: str, patience: float = _PATIENCE) -> Any:
        """Ask the cell's admin server; where it cannot be reached, it may be another one by now."""
        cell = model.rpartition("/")[0]
        for again in (True, False):
            known = cell in self._admins
            if not known:
                self._admins[cell] = self._locate(cell)
            call = self._channel(self._admins[cell]).unary_unary(
                f"/{ADMIN.package}.Admin/{method}", type(asked).SerializeToString, ADMIN[answer].FromString
            )
            try:
                return call(asked, timeout=patience)
            except grpc.RpcError as error:
                self._admins.pop(cell, None)
                if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise _Late(_words(error)) from error
                if not (again and known and error.code() == grpc.StatusCode.UNAVAILABLE):
                    raise RuntimeError(_words(error)) from error
        raise AssertionError("the second time raises")

    def _locate(self, cell: str) -> str:
        if not self._root:
            raise RuntimeError("SAX_ROOT does not say where the cells are")
        try:
            found = ADMIN["Location"].FromString(self._read(self._root, cell)).location
        except Exception as error:
            raise RuntimeError(f"the admin server of {cell} is not known: {error}") from error
        if ":" not in found:
            raise RuntimeError(f"no admin server has been started for {cell}")
        return str(found)

    def _channel(self, address: str) -> grpc.Channel:
        with self._opening:
            if address not in self._channels:
                self._channels[address] = grpc.insecure_channel(address)
            return self._channels[address]


def _words(error: Any) -> str:
    return str(error.details() or error.code().name)
