"""A Sax cell that echoes: an admin server and model servers over gRPC, which Sax clients and the gateway use like a real one.

The admin server writes its address to `ROOT/sax/CELL/location.proto`. A published model is loaded by its servers after the load
time; until then no server is known for it. A model whose checkpoint is a local path that does not exist is never loaded.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from sliceworks.base import clock, files
from sliceworks.serving.gateway.echo.engine import count_tokens, repeat_words
from sliceworks.serving.gateway.sax_messages import ADMIN, LANGUAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_THREADS = 32
_DEFAULT_TOKENS = 64
_DIMENSIONS = 8
_POLL = 0.02
_MAX_WATCH = 60.0
_STOP = 2.0


@dataclass(frozen=True, slots=True)
class SaxSettings:
    """How the cell behaves. Times are in seconds."""

    root: Path
    cell: str = "/sax/test"
    servers: int = 1
    load_time: float = 0.0
    """From the publication of a model until its servers respond."""
    ttft: float = 0.0
    token_time: float = 0.0


@dataclass(slots=True)
class PublishedModel:
    """A published model, and when its servers have loaded it."""

    message: Any
    ready_at: float


class Refused(Exception):
    """Ends a call with a gRPC status."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@dataclass(slots=True)
class SaxCell:
    """The servers of one cell."""

    settings: SaxSettings
    addresses: list[str] = field(default_factory=list)
    """Those of the model servers."""
    admin_address: str = ""
    _models: dict[str, PublishedModel] = field(default_factory=dict)
    _started: list[grpc.Server] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Start the model servers, then the admin server on `port`, and write its address to the root."""
        language = {
            "Generate": (self._generate, "GenerateRequest"),
            "GenerateStream": (self._generate_stream, "GenerateRequest"),
            "Score": (self._score, "ScoreRequest"),
            "Embed": (self._embed, "EmbedRequest"),
        }
        for _ in range(self.settings.servers):
            self.addresses.append(self._serve(_Handler("sax.server.lm.LMService", LANGUAGE, language), host, 0))
        admin = {
            "Publish": (self._publish, "PublishRequest"),
            "Update": (self._update, "UpdateRequest"),
            "Unpublish": (self._unpublish, "UnpublishRequest"),
            "List": (self._list, "ListRequest"),
            "WatchLoc": (self._watch, "WatchLocRequest"),
        }
        self.admin_address = self._serve(_Handler("sax.Admin", ADMIN, admin), host, port)
        folder = Path(f"{self.settings.root}{self.settings.cell}")
        folder.mkdir(parents=True, exist_ok=True)
        files.write_atomic(folder / "location.proto", ADMIN["Location"](location=self.admin_address).SerializeToString())

    def stop(self) -> None:
        """Stop all servers."""
        self._stopping.set()
        for server in self._started:
            server.stop(_STOP).wait(_STOP)

    def _serve(self, handler: _Handler, host: str, port: int) -> str:
        server = grpc.server(ThreadPoolExecutor(_THREADS))
        server.add_generic_rpc_handlers((handler,))
        address = f"{host}:{server.add_insecure_port(f'{host}:{port}')}"
        server.start()
        self._started.append(server)
        return address

    def _publish(self, request: Any, _context: Any) -> Any:
        model = request.model
        if not model.model_id.startswith(f"{self.settings.cell}/"):
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, f"model {model.model_id} is not in cell {self.settings.cell}")
        if model.model_id in self._models:
            raise Refused(grpc.StatusCode.ALREADY_EXISTS, f"model {model.model_id} already exists")
        self._models[model.model_id] = PublishedModel(model, self._ready_at(model))
        return ADMIN["Empty"]()

    def _update(self, request: Any, _context: Any) -> Any:
        self._find(request.model.model_id)
        self._models[request.model.model_id] = PublishedModel(request.model, self._ready_at(request.model))
        return ADMIN["Empty"]()

    def _ready_at(self, model: Any) -> float:
        checkpoint = Path(model.checkpoint_path)
        is_missing = checkpoint.is_absolute() and not checkpoint.exists()
        return float("inf") if is_missing else clock.real_perf_counter() + self.settings.load_time

    def _unpublish(self, request: Any, _context: Any) -> Any:
        self._find(request.model_id)
        del self._models[request.model_id]
        return ADMIN["Empty"]()

    def _list(self, request: Any, _context: Any) -> Any:
        models = [self._find(request.model_id)] if request.model_id else list(self._models.values())
        published = [{"model": model.message, "modelet_addresses": self._servers(model)} for model in models]
        return ADMIN["ListResponse"](published_models=[ADMIN["PublishedModel"](**item) for item in published])

    def _watch(self, request: Any, context: Any) -> Any:
        """The addresses of a model's servers; waits until there are some, as Sax does."""
        deadline = clock.real_perf_counter() + min(context.time_remaining() or _MAX_WATCH, _MAX_WATCH)
        while not (addresses := self._servers(self._find(request.model_id))):
            if clock.real_perf_counter() >= deadline or self._stopping.wait(_POLL):
                raise Refused(grpc.StatusCode.DEADLINE_EXCEEDED, f"no server has loaded {request.model_id}")
        result = ADMIN["WatchResult"](next_seqno=1, has_fullset=True, values=addresses)
        return ADMIN["WatchLocResponse"](result=result, admin_server_id="echo")

    def _servers(self, model: PublishedModel) -> list[str]:
        if clock.real_perf_counter() < model.ready_at:
            return []
        return self.addresses[: max(int(model.message.requested_num_replicas), 1)]

    def _find(self, name: str) -> PublishedModel:
        if name not in self._models:
            raise Refused(grpc.StatusCode.NOT_FOUND, f"model {name} not found")
        return self._models[name]

    def _loaded(self, name: str) -> None:
        if not self._servers(self._find(name)):
            raise Refused(grpc.StatusCode.NOT_FOUND, f"model {name} is not loaded")

    def _words(self, request: Any) -> list[str]:
        """The tokens of a response: the words of the prompt, repeated up to the token limit."""
        self._loaded(request.model_key)
        words = request.text.split() or ["…"]
        limit = int(request.extra_inputs.items.get("per_example_max_decode_steps", 0)) or min(len(words), _DEFAULT_TOKENS)
        return repeat_words(words, limit)

    def _generate(self, request: Any, _context: Any) -> Any:
        words = self._words(request)
        self._stopping.wait(self.settings.ttft + self.settings.token_time * (len(words) - 1))
        return LANGUAGE["GenerateResponse"](texts=[{"text": "".join(words), "score": -1.0}])

    def _generate_stream(self, request: Any, _context: Any) -> Iterator[Any]:
        length = 0
        for number, word in enumerate(self._words(request)):
            self._stopping.wait(self.settings.token_time if number else self.settings.ttft)
            yield LANGUAGE["GenerateStreamResponse"](items=[{"text": word, "prefix_len": length, "score": -1.0}])
            length += len(word)

    def _score(self, request: Any, _context: Any) -> Any:
        self._loaded(request.model_key)
        self._stopping.wait(self.settings.ttft)
        return LANGUAGE["ScoreResponse"](logp=[-float(count_tokens(suffix)) for suffix in request.suffix])

    def _embed(self, request: Any, _context: Any) -> Any:
        self._loaded(request.model_key)
        self._stopping.wait(self.settings.ttft)
        data = request.text.encode() or b"\0"
        return LANGUAGE["EmbedResponse"](embedding=[data[index % len(data)] / 255 for index in range(_DIMENSIONS)])


class _Handler(grpc.GenericRpcHandler):
    """Dispatches the calls of one service."""

    def __init__(self, service: str, package: Any, methods: Mapping[str, tuple[Callable[[Any, Any], Any], str]]) -> None:
        self._prefix, self._package, self._methods = f"/{service}/", package, methods

    def service(self, handler_call_details: Any) -> Any:
        """The handler of a call; None for unknown methods."""
        name = handler_call_details.method.removeprefix(self._prefix)
        if name not in self._methods:
            return None
        method, request = self._methods[name]
        decode = self._package[request].FromString

        def respond(message: Any, context: Any) -> Any:
            try:
                return method(message, context)
            except Refused as refused:
                context.abort(refused.code, refused.message)

        def stream(message: Any, context: Any) -> Iterator[Any]:
            try:
                yield from method(message, context)
            except Refused as refused:
                context.abort(refused.code, refused.message)

        if name.endswith("Stream"):
            return grpc.unary_stream_rpc_method_handler(stream, decode, _encode)
        return grpc.unary_unary_rpc_method_handler(respond, decode, _encode)


def _encode(message: Any) -> bytes:
    return bytes(message.SerializeToString())
