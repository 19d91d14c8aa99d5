"""Requests of each API under test, and the reader for its responses."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, urlsplit

import numpy as np
import orjson

from sliceworks.loadtest.generator import response_reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.loadtest.generator.response_reader import ResponseReader
    from sliceworks.loadtest.prompts import Prompt
    from sliceworks.loadtest.request_log import RequestRecord
    from sliceworks.specs.load_test import LoadTestSpec

Object = dict[str, Any]
_MAX_VALUES = {"UINT8": 255, "INT8": 127}


def fill_tensors(body: Object, seed: int) -> Object:
    """An infer request with data for all inputs; missing data is generated from the seed."""
    random = np.random.default_rng([seed, 17])
    inputs = [item if "data" in item else {**item, "data": _values(item, random)} for item in body.get("inputs", [])]
    return {**body, "inputs": inputs}


def _values(tensor: Object, random: np.random.Generator) -> list[Any]:
    kind, count = tensor["datatype"], prod(tensor["shape"])
    if kind.startswith("FP"):
        result: list[Any] = np.round(random.random(count), 4).tolist()
        return result
    if kind == "BYTES":
        return ["word"] * count
    values = random.integers(0, 2 if kind == "BOOL" else _MAX_VALUES.get(kind, 1_000), count)
    return [bool(value) for value in values] if kind == "BOOL" else [int(value) for value in values]


class Api(Protocol):
    """Encodes requests and creates the readers of their responses."""

    def request(self, prompt: Prompt, number: int) -> bytes: ...
    def reader(self, record: RequestRecord) -> ResponseReader: ...


@dataclass(frozen=True, slots=True)
class JsonApi:
    """POSTs JSON to one path."""

    head: bytes
    body: Callable[[Prompt], Object]
    create_reader: Callable[[RequestRecord], ResponseReader]

    def request(self, prompt: Prompt, number: int) -> bytes:
        body = orjson.dumps(self.body(prompt))
        return b"%s%d\r\nContent-Length: %d\r\n\r\n%s" % (self.head, number, len(body), body)

    def reader(self, record: RequestRecord) -> ResponseReader:
        return self.create_reader(record)


@dataclass(frozen=True, slots=True)
class PlainApi:
    """Sends the request of the document."""

    head: bytes
    before: bytes
    after: bytes | None

    def request(self, prompt: Prompt, number: int) -> bytes:
        body = self.before
        if self.after is not None:
            body += orjson.dumps(prompt.text)[1:-1] + self.after
        return b"%s%d\r\nContent-Length: %d\r\n\r\n%s" % (self.head, number, len(body), body)

    def reader(self, record: RequestRecord) -> ResponseReader:
        return response_reader.RawReader(record)


@dataclass(frozen=True, slots=True)
class FixedApi:
    """POSTs the same body each time."""

    head: bytes
    body: bytes
    create_reader: Callable[[RequestRecord], ResponseReader]

    def request(self, prompt: Prompt, number: int) -> bytes:
        return b"%s%d\r\nContent-Length: %d\r\n\r\n%s" % (self.head, number, len(self.body), self.body)

    def reader(self, record: RequestRecord) -> ResponseReader:
        return self.create_reader(record)


def create_api(spec: LoadTestSpec, url: str, key: str) -> Api:
    """The API of a test."""
    base = urlsplit(url)
    if spec.api == "http":
        assert spec.http is not None
        before, placeholder, after = spec.http.body.partition("{prompt}")
        head = _head(spec.http.method, base.path.rstrip("/") + spec.http.path, base.netloc, key, spec.http.headers)
        return PlainApi(head, before.encode(), after.encode() if placeholder else None)
    if spec.api == "oip-infer":
        path = f"{base.path.rstrip('/')}/v2/models/{quote(spec.model, safe='')}/infer"
        infer_body = orjson.dumps(fill_tensors(spec.infer or {}, spec.seed))
        return FixedApi(_head("POST", path, base.netloc, key, {}), infer_body, response_reader.InferReader)
    path, body, read = _APIS[spec.api](spec)
    return JsonApi(_head("POST", base.path.rstrip("/") + path, base.netloc, key, {}), body, read)


def _head(method: str, path: str, host: str, key: str, extra: dict[str, str]) -> bytes:
    """The constant part of a request head, up to the request ID."""
    headers = {"Host": host, "Content-Type": "application/json", "Accept": "*/*", "User-Agent": "sliceworks-load", **extra}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "X-Request-Id: "]
    return "\r\n".join(lines).encode()


Parts = tuple[str, "Callable[[Prompt], Object]", "Callable[[RequestRecord], ResponseReader]"]


def _openai(spec: LoadTestSpec, path: str, content: Callable[[Prompt], Object]) -> Parts:
    options = spec.options
    fixed: Object = {"model": spec.model, "stream": spec.stream}
    if spec.stream:
        fixed["stream_options"] = {"include_usage": True}
    if options.temperature is not None:
        fixed["temperature"] = options.temperature
    if options.ignore_eos:
        fixed["ignore_eos"] = True
    fixed |= options.extra

    def body(prompt: Prompt) -> Object:
        return {**fixed, "max_tokens": prompt.max_tokens or options.max_tokens, **content(prompt)}

    return path, body, response_reader.OpenAIStreamReader if spec.stream else response_reader.OpenAIReader


def _chat(spec: LoadTestSpec) -> Parts:
    return _openai(spec, "/v1/chat/completions", lambda prompt: {"messages": prompt.chat()})


def _completions(spec: LoadTestSpec) -> Parts:
    return _openai(spec, "/v1/completions", lambda prompt: {"prompt": prompt.text})


def _generate(spec: LoadTestSpec) -> Parts:
    verb = "generate_stream" if spec.stream else "generate"

    def body(prompt: Prompt) -> Object:
        max_tokens = prompt.max_tokens or spec.options.max_tokens
        extra = {"temperature": spec.options.temperature} if spec.options.temperature is not None else {}
        return {"text_input": prompt.text, "max_tokens": max_tokens, "stream": spec.stream, **extra, **spec.options.extra}

    return (
        f"/v2/models/{quote(spec.model, safe='')}/{verb}",
        body,
        response_reader.GenerateStreamReader if spec.stream else response_reader.GenerateReader,
    )


def _sax(spec: LoadTestSpec) -> Parts:
    def body(prompt: Prompt) -> Object:
        options: Object = {"per_example_max_decode_steps": prompt.max_tokens or spec.options.max_tokens}
        if spec.options.temperature is not None:
            options["temperature"] = spec.options.temperature
        return {"prompt": prompt.text, "model_id": spec.model, "model_options": {**options, **spec.options.extra}}

    return "/generate", body, response_reader.SaxReader


def _jetstream(spec: LoadTestSpec) -> Parts:
    def body(prompt: Prompt) -> Object:
        return {
            "text_content": {"text": prompt.text},
            "max_tokens": prompt.max_tokens or spec.options.max_tokens,
            **spec.options.extra,
        }

    return "/v1/generate", body, response_reader.JetStreamReader


_APIS: dict[str, Callable[[LoadTestSpec], Parts]] = {
    "openai-chat": _chat,
    "openai-completions": _completions,
    "oip-generate": _generate,
    "sax": _sax,
    "jetstream": _jetstream,
}
