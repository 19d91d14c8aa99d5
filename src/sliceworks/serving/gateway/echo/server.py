"""The echo server's routes: OpenAI, Open Inference Protocol, JetStream and Sax."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import orjson

from sliceworks.base.http.messages import EVENT_STREAM_CONTENT, JSON_CONTENT, HttpError, bad_request
from sliceworks.base.http.server import Application, Limits, Server
from sliceworks.serving import sample_model
from sliceworks.serving.gateway import errors
from sliceworks.serving.gateway.echo.engine import Engine, Settings
from sliceworks.serving.gateway.errors import model_not_found, route_not_found
from sliceworks.serving.gateway.payload import (
    DONE,
    CompletionWriter,
    StopSequences,
    finish_reason,
    parse_object,
    read_stop_sequences,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.response_writer import ResponseWriter
    from sliceworks.serving.gateway.echo.engine import RequestRecord

    Route = Callable[[Engine, Request, ResponseWriter], Awaitable[None]]

_EMBEDDING_DIMENSIONS = 8
_MODEL_PATH = re.compile(r"/v2/models/(?P<model>[^/]+)(?P<version>/versions/[0-9]+)?(?P<action>/[a-z_]+)?")
_LOAD_PATH = re.compile(r"/v2/repository/models/(?P<model>[^/]+)/(?P<verb>load|unload)")


async def chat(engine: Engine, request: Request, response: ResponseWriter) -> None:
    """Echo the last message of a conversation."""
    data = _parse_openai_request(engine, request)
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
        raise bad_request("messages: must be a non-empty list of messages", param="messages")
    await _complete(engine, request, response, data, [text_content(messages[-1].get("content"))], chat=True)


async def completions(engine: Engine, request: Request, response: ResponseWriter) -> None:
    """Echo one or several prompts."""
    data = _parse_openai_request(engine, request)
    prompts = _split_inputs(data.get("prompt", ""))
    await _complete(engine, request, response, data, [text_content(prompt) for prompt in prompts], chat=False)


def _split_inputs(value: Any) -> list[Any]:
    """The inputs of a request: a list of them, or a single one, which may be a list of tokens."""
    return value if isinstance(value, list) and not all(isinstance(item, int) for item in value) else [value]


async def _complete(
    engine: Engine, request: Request, response: ResponseWriter, data: dict[str, Any], prompts: list[str], *, chat: bool
) -> None:
    max_tokens, stops = data.get("max_completion_tokens") or data.get("max_tokens"), read_stop_sequences(data)
    count = _read_choice_count(data)
    record = engine.start_request(request.path, data["model"], " ".join(prompts), len(request.body))
    choices = [_apply_stops(engine.words(prompt, max_tokens), max_tokens, stops) for prompt in prompts for _ in range(count)]
    usage = {"prompt_tokens": record.prompt_tokens, "completion_tokens": sum(len(words) for words, _ in choices)}
    usage["total_tokens"] = sum(usage.values())
    writers = [CompletionWriter(f"echo-{record.number}", data["model"], chat=chat, index=index) for index in range(len(choices))]
    if data.get("stream") is True:
        response.start(200, [EVENT_STREAM_CONTENT, (b"cache-control", b"no-cache")])
        include_usage = isinstance(data.get("stream_options"), dict) and data["stream_options"].get("include_usage") is True
        finishes = b"".join(writer.finish(reason) for writer, (_, reason) in zip(writers, choices, strict=True))
        last = finishes + (writers[0].event([], usage) if include_usage else b"") + DONE
        await engine.stream(record, response, *_interleave(writers, [words for words, _ in choices]), last)
        return
    await engine.wait_for_response(record, max(len(words) for words, _ in choices))
    encoded = [writer.choice("".join(words), reason) for writer, (words, reason) in zip(writers, choices, strict=True)]
    response.send(200, [JSON_CONTENT], writers[0].response(encoded, usage))


def _read_choice_count(data: dict[str, Any]) -> int:
    count = data.get("n")
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
        raise bad_request(f"n: must be at least 1, got {count}", param="n")
    return count or 1


def _apply_stops(words: list[str], max_tokens: int | None, stops: list[str]) -> tuple[list[str], str]:
    """The words before the first stop sequence, and the finish reason."""
    if not stops:
        return words, finish_reason(len(words), max_tokens)
    sequences, passed = StopSequences(stops), []
    for word in words:
        passed.append(sequences.add(word))
        if sequences.is_met:
            return passed, "stop"
    return [*passed[:-1], passed[-1] + sequences.held], finish_reason(len(words), max_tokens)


def _interleave(writers: list[CompletionWriter], choices: list[list[str]]) -> tuple[list[str], Callable[[str], bytes]]:
    """The words of all choices in the order in which they are streamed, and the function that encodes each."""
    if len(writers) == 1:
        return choices[0], writers[0].chunk
    longest = max(len(words) for words in choices)
    pairs = list(zip(writers, choices, strict=True))
    turns = [(writer, words[at]) for at in range(longest) for writer, words in pairs if at < len(words)]
    order = iter([writer for writer, _ in turns])

    def encode(word: str) -> bytes:
        return next(order).chunk(word)

    return [word for _, word in turns], encode


async def embeddings(engine: Engine, request: Request, response: ResponseWriter) -> None:
    """Deterministic vectors for the inputs."""
    data = _parse_openai_request(engine, request)
    texts = [text_content(item) for item in _split_inputs(data.get("input"))]
    record = engine.start_request(request.path, data["model"], " ".join(texts), len(request.body))
    await engine.wait_for_response(record, 1)
    encode = _encode_base64 if data.get("encoding_format") == "base64" else list
    items = [{"object": "embedding", "index": index, "embedding": encode(_embed(text))} for index, text in enumerate(texts)]
    usage = {"prompt_tokens": record.prompt_tokens, "total_tokens": record.prompt_tokens}
    response.send(200, [JSON_CONTENT], orjson.dumps({"object": "list", "data": items, "model": data["model"], "usage": usage}))


def _embed(text: str) -> list[float]:
    return [round(zlib.crc32(f"{index}:{text}".encode()) / 2**31 - 1, 6) for index in range(_EMBEDDING_DIMENSIONS)]


def _encode_base64(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


async def models(engine: Engine, request: Request, response: ResponseWriter) -> None:
    """List the loaded models."""
    items = [{"id": name, "object": "model", "created": 0, "owned_by": "sliceworks"} for name in engine.models]
    response.send(200, [JSON_CONTENT], orjson.dumps({"object": "list", "data": items}))


async def health(engine: Engine, request: Request, response: ResponseWriter) -> None:
    """Always healthy."""
    response.send(200, [])


def _parse_openai_request(engine: Engine, request: Request) -> dict[str, Any]:
    data = parse_object(request.body)
    model = data.get("model")
    if not isinstance(model, str) or not model:
        raise bad_request("model: required field is missing", param="model")
    if not engine.serves(model):
        raise model_not_found(model)
    return data


def text_content(content: Any) -> str:
    """The text of a prompt: a string, the content parts of a message, or tokens."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return " ".join(text_content(part.get("text", "")) if isinstance(part, dict) else str(part) for part in content)
    return ""


async def server_metadata(engine: Engine, request: Request, response: ResponseWriter) -> None:
    """Metadata of the server, as Triton's."""
    response.send(200, [JSON_CONTENT], orjson.dumps({"name": "echo", "version": "1", "extensions": ["generate"]}))


async def model_route(engine: Engine, request: Request, response: ResponseWriter) -> None:
    """The Open Inference Protocol's routes of one model."""
    match = _MODEL_PATH.fullmatch(request.path)
    action = (match["action"] or "") if match else "?"
    handler = _MODEL_HANDLERS.get(action)
    if match is None or (request.method == "POST") != (handler is not None) or action not in {*_MODEL_HANDLERS, *_MODEL_READS}:
        raise route_not_found(request.method, request.path)
    name = unquote(match["model"])
    if not engine.serves(name):
        raise model_not_found(name)
    if handler is not None:
        await handler(engine, request, response, name)
    elif action == "/ready":
        response.send(200, [])
    else:
        response.send(200, [JSON_CONTENT], orjson.dumps(_metadata(engine, name)))


def _metadata(engine: Engine, name: str) -> dict[str, Any]:
    if name == engine.settings.classifier:
        return sample_model.metadata(name)
    tensor = {"name": "text_input", "datatype": "BYTES", "shape": [1]}
    outputs = [{**tensor, "name": "text_output"}]
    return {"name": name, "versions": ["1"], "platform": "echo", "inputs": [tensor], "outputs": outputs}


async def repository_index(engine: Engine, request: Request, response: ResponseWriter) -> None:
    """The loaded models, as in Triton's repository index."""
    index = [{"name": name, "version": "1", "state": "READY"} for name in engine.models]
    response.send(200, [JSON_CONTENT], orjson.dumps(index))


async def change_loaded(engine: Engine, request: Request, response: ResponseWriter) -> None:
    """Load or unload a model; the repository contains a model of any name."""
    match = _LOAD_PATH.fullmatch(request.path)
    if match is None or request.method != "POST":
        raise route_not_found(request.method, request.path)
    name = unquote(match["model"])
    if match["verb"] == "load":
        engine.models[name] = None
    else:
        engine.models.pop(name, None)
    response.send(200, [])


async def _infer(engine: Engine, request: Request, response: ResponseWriter, name: str) -> None:
    """Return the input tensors, or the classes of an image."""
    if "inference-header-content-length" in request.headers:
        raise bad_request("inputs: the echo model supports JSON tensors only")
    data = _parse_triton_request(request)
    inputs = data.get("inputs")
    if not isinstance(inputs, list) or not inputs or not all(isinstance(tensor, dict) and "name" in tensor for tensor in inputs):
        raise bad_request("inputs: must be a non-empty list of tensors")
    record = engine.start_request("infer", name, "", len(request.body))
    await engine.wait_for_response(record, 1)
    if name == engine.settings.classifier:
        outputs = [_classes(inputs[0], data)]
    else:
        outputs = [{**tensor, "name": str(tensor["name"]).replace("INPUT", "OUTPUT")} for tensor in inputs]
    result = {"model_name": name, "model_version": "1", "outputs": outputs, **({"id": data["id"]} if "id" in data else {})}
    response.send(200, [JSON_CONTENT], orjson.dumps(result))


def _classes(tensor: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """The best classes of the sample model, as Triton's classification extension writes them, or all scores."""
    pixels, expected = tensor.get("data"), 3 * sample_model.SIZE**2
    if not isinstance(pixels, list) or len(pixels) != expected or not all(isinstance(value, int | float) for value in pixels):
        raise bad_request(f"inputs: expected {expected} numbers of an image")
    output_request = next((output for output in data.get("outputs") or () if isinstance(output, dict)), {})
    count = (output_request.get("parameters") or {}).get("classification")
    classes = sample_model.classify(pixels)
    if not isinstance(count, int):
        scores = [score for score, _index, _label in sorted(classes, key=lambda item: item[1])]
        return {"name": sample_model.OUTPUT, "datatype": "FP32", "shape": [len(scores)], "data": scores}
    words = [f"{score:f}:{index}:{label}" for score, index, label in classes[:count]]
    return {"name": sample_model.OUTPUT, "datatype": "BYTES", "shape": [len(words)], "data": words}


async def _generate(engine: Engine, request: Request, response: ResponseWriter, name: str) -> None:
    words, record = _read_prompt(engine, request, name)
    await engine.wait_for_response(record, len(words))
    response.send(200, [JSON_CONTENT], orjson.dumps({"model_name": name, "model_version": "1", "text_output": "".join(words)}))


async def _generate_stream(engine: Engine, request: Request, response: ResponseWriter, name: str) -> None:
    words, record = _read_prompt(engine, request, name)
    response.start(200, [EVENT_STREAM_CONTENT])
    base = {"model_name": name, "model_version": "1"}
    await engine.stream(record, response, words, lambda word: b"data: " + orjson.dumps({**base, "text_output": word}) + b"\n\n")


def _parse_triton_request(request: Request) -> dict[str, Any]:
    """The body of a request. Like Triton, responds to invalid JSON with status 500."""
    try:
        return parse_object(request.body)
    except HttpError as error:
        raise HttpError(500, error.code, f"failed to parse the request JSON buffer: {error.message}") from error


def _read_prompt(engine: Engine, request: Request, name: str) -> tuple[list[str], RequestRecord]:
    data = _parse_triton_request(request)
    prompt = data.get("text_input")
    if not isinstance(prompt, str):
        raise bad_request("text_input: required, must be a string")
    parameters = data.get("parameters") if isinstance(data.get("parameters"), dict) else data
    assert isinstance(parameters, dict)
    record = engine.start_request(request.path.rpartition("/")[2], name, prompt, len(request.body))
    return engine.words(prompt, parameters.get("max_tokens")), record


_MODEL_HANDLERS = {"/infer": _infer, "/generate": _generate, "/generate_stream": _generate_stream}
_MODEL_READS = frozenset({"", "/ready", "/config"})


async def jetstream_generate(engine: Engine, request: Request, response: ResponseWriter) -> None:
    """JetStream's stream: concatenated JSON objects, with the content type of an event stream."""
    data = parse_object(request.body)
    content = data.get("text_content")
    if not isinstance(content, dict) or not isinstance(content.get("text"), str):
        raise bad_request("text_content.text: required, must be a string")
    record = engine.start_request(request.path, engine.settings.models[0], content["text"], len(request.body))
    words = engine.words(content["text"], data.get("max_tokens"))
    response.start(200, [EVENT_STREAM_CONTENT])
    await engine.stream(record, response, words, _encode_sample)


def _encode_sample(word: str) -> bytes:
    return orjson.dumps({"streamContent": {"samples": [{"text": word, "tokenIds": [len(word)]}]}}, option=orjson.OPT_INDENT_2)


async def jetstream_health(engine: Engine, request: Request, response: ResponseWriter) -> None:
    """JetStream's health route."""
    response.send(200, [JSON_CONTENT], orjson.dumps({"is_live": "True"}))


async def sax_generate(engine: Engine, request: Request, response: ResponseWriter) -> None:
    """The Sax proxy's generate route: texts with scores."""
    data = parse_object(request.body)
    prompt, options = data.get("prompt"), data.get("model_options") or {}
    if not isinstance(prompt, str) or not isinstance(options, dict):
        raise bad_request("prompt must be a string and model_options an object")
    record = engine.start_request(request.path, str(data.get("model_id", "")), prompt, len(request.body))
    words = engine.words(prompt, options.get("per_example_max_decode_steps"))
    await engine.wait_for_response(record, len(words))
    response.send(200, [JSON_CONTENT], orjson.dumps({"completions": [["".join(words), 0.0]]}))


ROUTES: dict[tuple[str, str], Route] = {
    ("POST", "/v1/chat/completions"): chat,
    ("POST", "/v1/completions"): completions,
    ("POST", "/v1/embeddings"): embeddings,
    ("GET", "/v1/models"): models,
    ("GET", "/health"): health,
    ("GET", "/v2"): server_metadata,
    ("POST", "/v2/repository/index"): repository_index,
    ("GET", "/v2/health/live"): health,
    ("GET", "/v2/health/ready"): health,
    ("POST", "/generate"): sax_generate,
    ("POST", "/v1/generate"): jetstream_generate,
    ("GET", "/v1/health"): jetstream_health,
}


class EchoServer(Application):
    """The application of the echo server."""

    def __init__(self, settings: Settings) -> None:
        self.engine = Engine(settings)

    async def handle(self, request: Request, response: ResponseWriter) -> None:
        """Respond in the API of the path."""
        route = ROUTES.get((request.method, request.path))
        if route is not None:
            await route(self.engine, request, response)
        elif request.path.startswith("/v2/models/"):
            await model_route(self.engine, request, response)
        elif request.path.startswith("/v2/repository/models/"):
            await change_loaded(self.engine, request, response)
        elif request.path == "/echo/records":
            engine = self.engine
            report = {"received": engine.received, "inFlight": engine.in_flight, "records": engine.report()}
            response.send(200, [JSON_CONTENT], orjson.dumps(report))
        else:
            raise route_not_found(request.method, request.path)

    def write_error(self, path: str, error: HttpError, response: ResponseWriter) -> None:
        """Respond with an error in the format of the path's API."""
        errors.send(path, error, response)


async def start(settings: Settings, host: str = "127.0.0.1", port: int = 0) -> tuple[Server, int]:
    """Start an echo server; returns it and its port."""
    server = Server(EchoServer(settings), Limits())
    return server, await server.start(host, port)
