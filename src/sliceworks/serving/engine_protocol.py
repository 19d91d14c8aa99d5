"""Inference requests in each engine's protocol, and streamed responses read as text (server-sent events, JSON objects)."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from sliceworks.base.errors import SliceworksError
from sliceworks.base.stream_decoder import JsonStreamDecoder, SseDecoder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

Object = dict[str, Any]


def _parse_objects(data: bytes) -> Iterator[Object]:
    """The JSON object of an event; several if a truncated event had no blank line after it."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        for line in data.split(b"\n") if b"\n" in data else ():
            yield from _parse_objects(line)
        return
    if isinstance(value, dict):
        yield value


_JSON = {"content-type": "application/json", "accept": "*/*"}


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One request, and the function that reads the text of its response."""

    path: str
    body: bytes
    read_text: Callable[[AsyncIterator[bytes]], AsyncIterator[str]]
    headers: Mapping[str, str] = field(default_factory=lambda: dict(_JSON))


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """Sampling options of a text request."""

    max_tokens: int = 128
    temperature: float | None = None


def text_request(engine: str, model: str, prompt: str, sampling: SamplingOptions, images: Sequence[str] = ()) -> EngineRequest:
    """A prompt for a language model. `images` are data URLs, for OpenAI's protocol only."""
    temperature = {} if sampling.temperature is None else {"temperature": sampling.temperature}
    if engine == "vllm":
        messages = [{"role": "user", "content": _message_content(prompt, images)}]
        body: Object = {"model": model, "messages": messages, "max_tokens": sampling.max_tokens, "stream": True, **temperature}
        return EngineRequest("/v1/chat/completions", orjson.dumps(body), _read_chat)
    if engine == "jetstream":
        body = {"model": model, "text_content": {"text": prompt}, "max_tokens": sampling.max_tokens}
        return EngineRequest("/v1/generate", orjson.dumps(body), _read_jetstream)
    if engine == "saxml":
        options = {"per_example_max_decode_steps": sampling.max_tokens, **temperature}
        body = {"prompt": prompt, "model_id": model, "model_options": options}
        return EngineRequest("/generate", orjson.dumps(body), _read_sax)
    body = {"text_input": prompt, "max_tokens": sampling.max_tokens, "stream": True, **temperature}
    return EngineRequest(f"/v2/models/{quote(model, safe='')}/generate_stream", orjson.dumps(body), _read_triton)


def _message_content(prompt: str, images: Sequence[str]) -> str | list[Object]:
    if not images:
        return prompt
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in images]
    return [*parts, {"type": "text", "text": prompt}]


def infer_request(model: str, body: Object) -> EngineRequest:
    """An inference request with tensors, for Triton."""
    return EngineRequest(f"/v2/models/{quote(model, safe='')}/infer", orjson.dumps(body), _read_plain)


async def _read_chat(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    async for event in read_events(chunks):
        _raise_error(event)
        for choice in event.get("choices") or ():
            yield (choice.get("delta") or choice.get("message") or {}).get("content") or ""


async def _read_triton(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    async for event in read_events(chunks):
        _raise_error(event)
        yield str(event.get("text_output", ""))


async def _read_jetstream(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    async for response in read_objects(chunks):
        _raise_error(response)
        content = response.get("streamContent") or response.get("stream_content") or response
        for sample in content.get("samples") or ():
            yield str(sample.get("text", ""))


async def _read_sax(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    response = orjson.loads(b"".join([chunk async for chunk in chunks]))
    if isinstance(response, dict):
        _raise_error(response)
        if response.get("completions"):
            yield str(response["completions"][0][0])
            return
        response = next((response[key] for key in ("response", "text", "result") if key in response), response)
    yield response if isinstance(response, str) else orjson.dumps(response).decode()


async def _read_plain(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    async for chunk in chunks:
        yield decoder.decode(chunk)


async def read_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[Object]:
    """The JSON objects of server-sent events; a response that is plain JSON counts as one event."""
    decoder: SseDecoder | JsonStreamDecoder | None = None
    async for chunk in chunks:
        if decoder is None and chunk.strip():
            decoder = JsonStreamDecoder() if chunk.lstrip().startswith(b"{") else SseDecoder()
        for data in decoder.feed(chunk) if decoder is not None else ():
            for event in _parse_objects(data):
                yield event
    for data in decoder.flush() if isinstance(decoder, SseDecoder) else ():
        for event in _parse_objects(data):
            yield event


async def read_objects(chunks: AsyncIterator[bytes]) -> AsyncIterator[Object]:
    """Concatenated JSON objects."""
    decoder = JsonStreamDecoder()
    async for chunk in chunks:
        for encoded in decoder.feed(chunk):
            try:
                yield orjson.loads(encoded)
            except orjson.JSONDecodeError as error:
                raise SliceworksError("cannot read the model's response: invalid JSON") from error


def _raise_error(event: Object) -> None:
    """Raise the error that an event of a started response reports."""
    error = event.get("error")
    if error:
        raise SliceworksError(f"the model failed: {error.get('message', error) if isinstance(error, dict) else error}")
