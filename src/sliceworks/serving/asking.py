"""Questions to models in the protocol of their engine, and answers as text that arrives piece by piece."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from sliceworks.base.errors import SliceworksError
from sliceworks.base.object_stream import Objects
from sliceworks.serving.events import Events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

Object = dict[str, Any]
_JSON = {"content-type": "application/json", "accept": "*/*"}


@dataclass(frozen=True, slots=True)
class Question:
    """One request, and how its answer is read."""

    path: str
    body: bytes
    read: Callable[[AsyncIterator[bytes]], AsyncIterator[str]]
    headers: Mapping[str, str] = field(default_factory=lambda: dict(_JSON))


@dataclass(frozen=True, slots=True)
class Wishes:
    """How an answer should be."""

    max_tokens: int = 128
    temperature: float | None = None


def text(engine: str, model: str, prompt: str, wishes: Wishes, pictures: Sequence[str] = ()) -> Question:
    """A prompt for a language model. `pictures` are their addresses, for OpenAI's protocol alone."""
    heat = {} if wishes.temperature is None else {"temperature": wishes.temperature}
    if engine == "vllm":
        messages = [{"role": "user", "content": _content(prompt, pictures)}]
        body: Object = {"model": model, "messages": messages, "max_tokens": wishes.max_tokens, "stream": True, **heat}
        return Question("/v1/chat/completions", orjson.dumps(body), _chat)
    if engine == "jetstream":
        body = {"model": model, "text_content": {"text": prompt}, "max_tokens": wishes.max_tokens}
        return Question("/v1/generate", orjson.dumps(body), _jetstream)
    if engine == "saxml":
        options = {"per_example_max_decode_steps": wishes.max_tokens, **heat}
        body = {"prompt": prompt, "model_id": model, "model_options": options}
        return Question("/generate", orjson.dumps(body), _sax)
    body = {"text_input": prompt, "max_tokens": wishes.max_tokens, "stream": True, **heat}
    return Question(f"/v2/models/{quote(model, safe='')}/generate_stream", orjson.dumps(body), _triton)


def _content(prompt: str, pictures: Sequence[str]) -> str | list[Object]:
    if not pictures:
        return prompt
    shown = [{"type": "image_url", "image_url": {"url": each}} for each in pictures]
    return [*shown, {"type": "text", "text": prompt}]


def tensors(model: str, body: Object) -> Question:
    """Tensors for a model of Triton."""
    return Question(f"/v2/models/{quote(model, safe='')}/infer", orjson.dumps(body), _plain)


async def _chat(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    async for told in events(pieces):
        _raise(told)
        for choice in told.get("choices") or ():
            yield (choice.get("delta") or choice.get("message") or {}).get("content") or ""


async def _triton(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    async for told in events(pieces):
        _raise(told)
        yield str(told.get("text_output", ""))


async def _jetstream(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    async for told in objects(pieces):
        _raise(told)
        content = told.get("streamContent") or told.get("stream_content") or told
        for sample in content.get("samples") or ():
            yield str(sample.get("text", ""))


async def _sax(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    whole = b"".join([piece async for piece in pieces])
    told = orjson.loads(whole)
    _raise(told if isinstance(told, dict) else {})
    if isinstance(told, dict) and told.get("completions"):
        yield str(told["completions"][0][0])
        return
    found = next((told[key] for key in ("response", "text", "result") if key in told), told) if isinstance(told, dict) else told
    yield found if isinstance(found, str) else orjson.dumps(found).decode()


async def _plain(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    letters = codecs.getincrementaldecoder("utf-8")("replace")
    async for piece in pieces:
        yield letters.decode(piece)


async def events(pieces: AsyncIterator[bytes]) -> AsyncIterator[Object]:
    """The data of server-sent events, and of an answer that came whole."""
    reader = Events()
    async for piece in pieces:
        for told in reader.feed(piece):
            yield told
    for told in reader.end():
        yield told


async def objects(pieces: AsyncIterator[bytes]) -> AsyncIterator[Object]:
    """JSON objects one after the other, with nothing between them."""
    reader = Objects()
    async for piece in pieces:
        for told in reader.feed(piece):
            try:
                yield orjson.loads(told)
            except orjson.JSONDecodeError as error:
                raise SliceworksError("the model's answer cannot be read: it is not JSON") from error


def _raise(told: Object) -> None:
    """An error may come in the middle of an answer."""
    error = told.get("error")
    if error:
        raise SliceworksError(f"the model stopped: {error.get('message', error) if isinstance(error, dict) else error}")
