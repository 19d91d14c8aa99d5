"""A Sax cell over gRPC: an admin server and model servers that encode and decode messages by field number.

It shares no declaration with the client, so a wrong number on either side fails a test.
"""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Fields = dict[int, list[Any]]


def varint(value: int) -> bytes:
    result = b""
    while value > 127:
        result, value = result + bytes([value & 127 | 128]), value >> 7
    return result + bytes([value])


def text(number: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def whole(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def double(number: int, value: float) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<d", value)


def fields(message: bytes) -> Fields:
    """Every field by its number: numbers as int, everything else as bytes."""
    result: Fields = {}
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = number()
        kind = tag & 7
        if kind == 0:
            value: Any = number()
        else:
            size = number() if kind == 2 else {1: 8, 5: 4}[kind]
            value, at = message[at : at + size], at + size
        result.setdefault(tag >> 3, []).append(value)
    return result


def one(fields: Fields, number: int) -> str:
    return bytes(fields[number][-1]).decode() if number in fields else ""


def floats(message: bytes) -> dict[str, float]:
    """Decode a map from names to numbers."""
    entries = [fields(item) for item in fields(message).get(1, [])]
    return {one(entry, 1): struct.unpack("<f", entry[2][0])[0] for entry in entries}


class Refused(Exception):
    """Ends a call with a gRPC status."""

    def __init__(self, code: grpc.StatusCode, words: str) -> None:
        super().__init__(words)
        self.code, self.words = code, words


class ModelServer:
    """Answers in capitals; a stream revises one of its earlier words."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, float]]] = []
        self.busy = False

    def methods(self) -> dict[str, tuple[Callable[[bytes], Any], bool]]:
        return {"Generate": (self.generate, False), "GenerateStream": (self.stream, True), "Score": (self.score, False)}

    def _heard(self, request: bytes) -> str:
        result = fields(request)
        prompt = one(result, 2)
        if self.busy:
            raise Refused(grpc.StatusCode.UNAVAILABLE, "the server is going away")
        if prompt == "fail":
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "the prompt is too long")
        self.asked.append((one(result, 1), prompt, floats(result.get(3, [b""])[-1])))
        return prompt

    def generate(self, request: bytes) -> bytes:
        prompt = self._heard(request)
        return text(1, text(1, prompt.upper()) + double(2, -0.5)) + text(1, text(1, "second") + double(2, -2.0))

    def stream(self, request: bytes) -> Iterator[bytes]:
        self._heard(request)
        for piece, stands in (("Hel", 0), ("lo", 3), (" wor", 5), ("ld", 9)):
            yield text(1, text(1, piece) + whole(2, stands) + double(3, -1.0))

    def score(self, request: bytes) -> bytes:
        result = fields(request)
        return text(1, b"".join(struct.pack("<d", -float(len(item))) for item in result[2]))


class AdminServer:
    """Holds models as Model messages, and the addresses of their servers."""

    def __init__(self) -> None:
        self.models: dict[str, bytes] = {}
        self.servers: list[str] = []
        self.watched = 0

    def methods(self) -> dict[str, tuple[Callable[[bytes], Any], bool]]:
        named = {
            "Publish": self.publish,
            "Update": self.update,
            "Unpublish": self.unpublish,
            "List": self.list,
            "WatchLoc": self.watch,
        }
        return {name: (act, False) for name, act in named.items()}

    def publish(self, request: bytes) -> bytes:
        model = fields(request)[2][0]
        self.models[one(fields(model), 1)] = model + text(6, "acl/admins")
        return b""

    def update(self, request: bytes) -> bytes:
        model = fields(request)[1][0]
        if one(fields(model), 6) != "acl/admins":
            raise Refused(grpc.StatusCode.PERMISSION_DENIED, "the model has lost its list of administrators")
        self.models[one(fields(model), 1)] = model
        return b""

    def unpublish(self, request: bytes) -> bytes:
        if self.models.pop(one(fields(request), 1), None) is None:
            raise Refused(grpc.StatusCode.NOT_FOUND, "no such model")
        return b""

    def list(self, request: bytes) -> bytes:
        model = self.models.get(one(fields(request), 1))
        return text(1, text(1, model) + b"".join(text(2, server) for server in self.servers)) if model else b""

    def watch(self, request: bytes) -> bytes:
        self.watched += 1
        if one(fields(request), 1) not in self.models:
            raise Refused(grpc.StatusCode.NOT_FOUND, "no such model")
        return text(1, self._watched()) + text(2, "admin-1")

    def _watched(self) -> bytes:
        """Events as Sax's admin server sends them: a snapshot where it has compacted its log, then the later events."""
        if not self.servers:
            raise Refused(grpc.StatusCode.DEADLINE_EXCEEDED, "it waits until there is one")
        added = [text(4, text(1, server)) for server in self.servers[len(self.servers) // 2 :]]
        if len(self.servers) == 1:
            return whole(1, 1) + added[0]
        packed = [text(3, item) for item in ("127.0.0.1:9", *self.servers[: len(self.servers) // 2])]
        return whole(1, 9) + whole(2, 1) + b"".join([*packed, text(4, text(2, "127.0.0.1:9")), *added])


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, service: str, methods: dict[str, tuple[Callable[[bytes], Any], bool]]) -> None:
        self._prefix, self._methods = f"/{service}/", methods

    def service(self, handler_call_details: Any) -> Any:
        act, streamed = self._methods.get(handler_call_details.method.removeprefix(self._prefix), (None, False))
        if act is None or not handler_call_details.method.startswith(self._prefix):
            return None

        def answer(request: bytes, context: Any) -> Any:
            try:
                return act(request)
            except Refused as refused:
                context.abort(refused.code, refused.words)

        def pieces(request: bytes, context: Any) -> Iterator[bytes]:
            try:
                yield from act(request)
            except Refused as refused:
                context.abort(refused.code, refused.words)

        return grpc.unary_stream_rpc_method_handler(pieces) if streamed else grpc.unary_unary_rpc_method_handler(answer)


class Cell:
    """One cell, whose root is a folder."""

    def __init__(self, root: Path, servers: int = 2) -> None:
        self.root, self.admin = root, AdminServer()
        self.servers = [ModelServer() for _ in range(servers)]
        self.addresses: list[str] = []
        self._started: dict[str, grpc.Server] = {}

    def start(self) -> None:
        for server in self.servers:
            self.addresses.append(self._serve("sax.server.lm.LMService", server.methods()))
        self.admin.servers = list(self.addresses)
        self.place_admin()

    def place_admin(self) -> None:
        """Start an admin server and write its address to the root."""
        address = self._serve("sax.Admin", self.admin.methods())
        folder = self.root / "sax" / "test"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "location.proto").write_bytes(text(1, address))
        self.admin_address = address

    def end(self, address: str) -> None:
        self._started.pop(address).stop(0).wait(5)

    def stop(self) -> None:
        for address in list(self._started):
            self.end(address)

    def _serve(self, service: str, methods: dict[str, tuple[Callable[[bytes], Any], bool]]) -> str:
        server = grpc.server(ThreadPoolExecutor(4))
        server.add_generic_rpc_handlers((_Handler(service, methods),))
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        self._started[address] = server
        return address


@contextmanager
def cell(root: Path, servers: int = 2) -> Iterator[Cell]:
    """Run a cell for the duration of the block."""
    created = Cell(root, servers)
    created.start()
    try:
        yield created
    finally:
        created.stop()
