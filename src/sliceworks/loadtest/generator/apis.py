"""How each API is asked, and what is read from its answers: one class for the request, one for the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, urlsplit

import orjson

from sliceworks.loadtest import tensors
from sliceworks.loadtest.generator import answers

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.loadtest.generator.answers import Answer
    from sliceworks.loadtest.prompts import Prompt
    from sliceworks.loadtest.rows import Record
    from sliceworks.specs.load_test import LoadTestSpec

Object = dict[str, Any]


class Api(Protocol):
    """Makes the bytes of a request, and something to read its answer with."""

    def request(self, prompt: Prompt, number: int) -> bytes: ...
    def answer(self, record: Record) -> Answer: ...


@dataclass(frozen=True, slots=True)
class JsonApi:
    """POSTs JSON to one path."""

    head: bytes
    body: Callable[[Prompt], Object]
    read: Callable[[Record], Answer]

    def request(self, prompt: Prompt, number: int) -> bytes:
        body = orjson.dumps(self.body(prompt))
        return b"%s%d\r\nContent-Length: %d\r\n\r\n%s" % (self.head, number, len(body), body)

    def answer(self, record: Record) -> Answer:
        return self.read(record)


@dataclass(frozen=True, slots=True)
class PlainApi:
    """Sends what it is told to send."""

    head: bytes
    before: bytes
    after: bytes | None

    def request(self, prompt: Prompt, number: int) -> bytes:
        body = self.before
        if self.after is not None:
            body += orjson.dumps(prompt.text)[1:-1] + self.after
        return b"%s%d\r\nContent-Length: %d\r\n\r\n%s" % (self.head, number, len(body), body)

    def answer(self, record: Record) -> Answer:
        return answers.Bytes(record)


@dataclass(frozen=True, slots=True)
class FixedApi:
    """POSTs the same body each time."""

    head: bytes
    body: bytes
    read: Callable[[Record], Answer]

    def request(self, prompt: Prompt, number: int) -> bytes:
        return b"%s%d\r\nContent-Length: %d\r\n\r\n%s" % (self.head, number, len(self.body), self.body)

    def answer(self, record: Record) -> Answer:
        return self.read(record)


def api_of(spec: LoadTestSpec, url: str, key: str) -> Api:
    """The API that a test asks."""
    base = urlsplit(url)
    if spec.api == "http":
        assert spec.http is not None
        before, found, after = spec.http.body.partition("{prompt}")
        head = _head(spec.http.method, base.path.rstrip("/") + spec.http.path, base.netloc, key, spec.http.headers)
        return PlainApi(head, before.encode(), after.encode() if found else None)
    if spec.api == "oip-infer":
        path = f"{base.path.rstrip('/')}/v2/models/{quote(spec.model, safe='')}/infer"
        made = orjson.dumps(tensors.filled(spec.infer or {}, spec.seed))
        return FixedApi(_head("POST", path, base.netloc, key, {}), made, answers.InferWhole)
    path, body, read = _APIS[spec.api](spec)
    return JsonApi(_head("POST", base.path.rstrip("/") + path, base.netloc, key, {}), body, read)


def _head(method: str, path: str, host: str, key: str, more: dict[str, str]) -> bytes:
    """All of a request that is always the same, up to its number."""
    headers = {"Host": host, "Content-Type": "application/json", "Accept": "*/*", "User-Agent": "sliceworks-load", **more}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "X-Request-Id: "]
    return "\r\n".join(lines).encode()


Parts = tuple[str, "Callable[[Prompt], Object]", "Callable[[Record], Answer]"]


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

    return path, body, answers.OpenAiStream if spec.stream else answers.OpenAiWhole


def _chat(spec: LoadTestSpec) -> Parts:
    return _openai(spec, "/v1/chat/completions", lambda prompt: {"messages": prompt.chat()})


def _completions(spec: LoadTestSpec) -> Parts:
    return _openai(spec, "/v1/completions", lambda prompt: {"prompt": prompt.text})


def _generate(spec: LoadTestSpec) -> Parts:
    verb = "generate_stream" if spec.stream else "generate"

    def body(prompt: Prompt) -> Object:
        most = prompt.max_tokens or spec.options.max_tokens
        extra = {"temperature": spec.options.temperature} if spec.options.temperature is not None else {}
        return {"text_input": prompt.text, "max_tokens": most, "stream": spec.stream, **extra, **spec.options.extra}

    return f"/v2/models/{quote(spec.model, safe='')}/{verb}", body, answers.GenerateStream if spec.stream else answers.GenerateWhole


def _sax(spec: LoadTestSpec) -> Parts:
    def body(prompt: Prompt) -> Object:
        options: Object = {"per_example_max_decode_steps": prompt.max_tokens or spec.options.max_tokens}
        if spec.options.temperature is not None:
            options["temperature"] = spec.options.temperature
        return {"prompt": prompt.text, "model_id": spec.model, "model_options": {**options, **spec.options.extra}}

    return "/generate", body, answers.SaxWhole


def _jetstream(spec: LoadTestSpec) -> Parts:
    def body(prompt: Prompt) -> Object:
        return {
            "text_content": {"text": prompt.text},
            "max_tokens": prompt.max_tokens or spec.options.max_tokens,
            **spec.options.extra,
        }

    return "/v1/generate", body, answers.JetStream


_APIS: dict[str, Callable[[LoadTestSpec], Parts]] = {
    "openai-chat": _chat,
    "openai-completions": _completions,
    "oip-generate": _generate,
    "sax": _sax,
    "jetstream": _jetstream,
}
