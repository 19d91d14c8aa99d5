"""Requests of each API under test, and the reader for its responses."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any
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


@dataclass(frozen=True, slots=True)
class Api:
    """Encodes requests and creates the readers of their responses. `head` is constant, up to the request ID."""

    head: bytes
    body: Callable[[Prompt], bytes]
    reader: Callable[[RequestRecord], ResponseReader]

    def request(self, prompt: Prompt, number: int) -> bytes:
        """The whole request."""
        body = self.body(prompt)
        return b"%s%d\r\nContent-Length: %d\r\n\r\n%s" % (self.head, number, len(body), body)


def create_api(spec: LoadTestSpec, url: str, key: str) -> Api:
    """The API of a test."""
    base = urlsplit(url)
    path, body, reader = _APIS[spec.api](spec)
    method, extra = (spec.http.method, spec.http.headers) if spec.http and spec.api == "http" else ("POST", {})
    headers = {"Host": base.netloc, "Content-Type": "application/json", "Accept": "*/*", "User-Agent": "sliceworks-load", **extra}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    lines = [f"{method} {base.path.rstrip('/')}{path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return Api("\r\n".join([*lines, "X-Request-Id: "]).encode(), body, reader)


Parts = tuple[str, "Callable[[Prompt], bytes]", "Callable[[RequestRecord], ResponseReader]"]
"""The path, the function that encodes a body, and the reader of an API."""


def _http(spec: LoadTestSpec) -> Parts:
    assert spec.http is not None
    first, placeholder, last = (part.encode() for part in spec.http.body.partition("{prompt}"))

    def body(prompt: Prompt) -> bytes:
        return first + orjson.dumps(prompt.text)[1:-1] + last if placeholder else first

    return spec.http.path, body, response_reader.RawReader


def _infer(spec: LoadTestSpec) -> Parts:
    body = orjson.dumps(fill_tensors(spec.infer or {}, spec.seed))
    return f"/v2/models/{quote(spec.model, safe='')}/infer", lambda _: body, response_reader.InferReader


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

    def body(prompt: Prompt) -> bytes:
        return orjson.dumps({**fixed, "max_tokens": prompt.max_tokens or options.max_tokens, **content(prompt)})

    return path, body, response_reader.OpenAIStreamReader if spec.stream else response_reader.OpenAIReader


def _chat(spec: LoadTestSpec) -> Parts:
    return _openai(spec, "/v1/chat/completions", lambda prompt: {"messages": prompt.chat()})


def _completions(spec: LoadTestSpec) -> Parts:
    return _openai(spec, "/v1/completions", lambda prompt: {"prompt": prompt.text})


def _generate(spec: LoadTestSpec) -> Parts:
    verb = "generate_stream" if spec.stream else "generate"
    reader = response_reader.GenerateStreamReader if spec.stream else response_reader.GenerateReader

    def body(prompt: Prompt) -> bytes:
        max_tokens = prompt.max_tokens or spec.options.max_tokens
        extra = {"temperature": spec.options.temperature} if spec.options.temperature is not None else {}
        content = {"text_input": prompt.text, "max_tokens": max_tokens, "stream": spec.stream, **extra, **spec.options.extra}
        return orjson.dumps(content)

    return f"/v2/models/{quote(spec.model, safe='')}/{verb}", body, reader


def _sax(spec: LoadTestSpec) -> Parts:
    def body(prompt: Prompt) -> bytes:
        options: Object = {"per_example_max_decode_steps": prompt.max_tokens or spec.options.max_tokens}
        if spec.options.temperature is not None:
            options["temperature"] = spec.options.temperature
        content = {"prompt": prompt.text, "model_id": spec.model, "model_options": {**options, **spec.options.extra}}
        return orjson.dumps(content)

    return "/generate", body, response_reader.SaxReader


def _jetstream(spec: LoadTestSpec) -> Parts:
    def body(prompt: Prompt) -> bytes:
        max_tokens = prompt.max_tokens or spec.options.max_tokens
        return orjson.dumps({"text_content": {"text": prompt.text}, "max_tokens": max_tokens, **spec.options.extra})

    return "/v1/generate", body, response_reader.JetStreamReader


_APIS: dict[str, Callable[[LoadTestSpec], Parts]] = {
    "openai-chat": _chat,
    "openai-completions": _completions,
    "oip-generate": _generate,
    "oip-infer": _infer,
    "http": _http,
    "sax": _sax,
    "jetstream": _jetstream,
}
