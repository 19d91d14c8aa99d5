"""OpenAI's routes of the echo model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.http.messages import EVENTS, JSON
from sliceworks.base.http.refusals import malformed
from sliceworks.serving.gateway.forms import DONE, Form, why_ended
from sliceworks.serving.gateway.peek import parse
from sliceworks.serving.gateway.refusals import unknown_model
from sliceworks.serving.gateway.stops import Stops, stops_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.reply import Reply
    from sliceworks.serving.gateway.echo.engine import Engine

    Route = Callable[[Engine, Request, Reply], Awaitable[None]]

_DIMENSIONS = 8


async def chat(engine: Engine, request: Request, reply: Reply) -> None:
    """A conversation, answered with the words of its last message."""
    data = _asked(engine, request)
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(each, dict) for each in messages):
        raise malformed("messages must be a list of messages", param="messages")
    await _complete(engine, request, reply, data, [text_of(messages[-1].get("content"))], chat=True)


async def completions(engine: Engine, request: Request, reply: Reply) -> None:
    """A text, answered with its own words; or several."""
    data = _asked(engine, request)
    given = data.get("prompt", "")
    several = isinstance(given, list) and not all(isinstance(each, int) for each in given)
    await _complete(engine, request, reply, data, [text_of(each) for each in (given if several else [given])], chat=False)


async def _complete(
    engine: Engine, request: Request, reply: Reply, data: dict[str, Any], prompts: list[str], *, chat: bool
) -> None:
    each, most, stops = _number_of_answers(data), data.get("max_completion_tokens") or data.get("max_tokens"), stops_of(data)
    record = engine.arrive(request.path, data["model"], " ".join(prompts), len(request.body))
    answers = [_answer(engine.words(prompt, most), most, stops) for prompt in prompts for _ in range(each)]
    tokens = sum(len(words) for words, _ in answers)
    usage = {"prompt_tokens": record.prompt_tokens, "completion_tokens": tokens}
    usage["total_tokens"] = sum(usage.values())
    forms = [Form(f"echo-{record.number}", data["model"], chat=chat, index=index) for index in range(len(answers))]
    if data.get("stream") is True:
        reply.begin(200, [EVENTS, (b"cache-control", b"no-cache")])
        wants_usage = isinstance(data.get("stream_options"), dict) and data["stream_options"].get("include_usage") is True
        ends = b"".join(form.stop(why) for form, (_, why) in zip(forms, answers, strict=True))
        last = ends + (forms[0].event([], usage) if wants_usage else b"") + DONE
        await engine.say(record, reply, *_in_turn(forms, [words for words, _ in answers]), last)
        return
    await engine.think(record, max(len(words) for words, _ in answers))
    choices = [form.choice("".join(words), why) for form, (words, why) in zip(forms, answers, strict=True)]
    reply.send(200, [JSON], forms[0].whole(choices, usage))


def _number_of_answers(data: dict[str, Any]) -> int:
    wanted = data.get("n")
    if wanted is not None and (not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1):
        raise malformed(f"n must be at least 1, got {wanted}", param="n")
    return wanted or 1


def _answer(words: list[str], most: int | None, stops: list[str]) -> tuple[list[str], str]:
    """What is said, and why no more."""
    if not stops:
        return words, why_ended(len(words), most)
    before, said = Stops(stops), []
    for word in words:
        said.append(before.add(word))
        if before.met:
            return said, "stop"
    return [*said[:-1], said[-1] + before.held], why_ended(len(words), most)


def _in_turn(forms: list[Form], answers: list[list[str]]) -> tuple[list[str], Callable[[str], bytes]]:
    """The words of all answers as they are said, and how each is written."""
    if len(forms) == 1:
        return answers[0], forms[0].piece
    longest = max(len(words) for words in answers)
    turns = [(form, words[at]) for at in range(longest) for form, words in zip(forms, answers, strict=True) if at < len(words)]
    speakers = iter([form for form, _ in turns])

    def written(word: str) -> bytes:
        return next(speakers).piece(word)

    return [word for _, word in turns], written


async def embeddings(engine: Engine, request: Request, reply: Reply) -> None:
    """A few numbers that follow from the text."""
    data = _asked(engine, request)
    given = data.get("input")
    texts = given if isinstance(given, list) and not all(isinstance(each, int) for each in given) else [given]
    record = engine.arrive(request.path, data["model"], " ".join(map(text_of, texts)), len(request.body))
    await engine.think(record, 1)
    listed = [{"object": "embedding", "index": place, "embedding": _vector(text_of(text))} for place, text in enumerate(texts)]
    if data.get("encoding_format") == "base64":
        for each in listed:
            each["embedding"] = _packed(each["embedding"])
    usage = {"prompt_tokens": record.prompt_tokens, "total_tokens": record.prompt_tokens}
    reply.send(200, [JSON], orjson.dumps({"object": "list", "data": listed, "model": data["model"], "usage": usage}))


def _vector(text: str) -> list[float]:
    import zlib

    return [round(zlib.crc32(f"{place}:{text}".encode()) / 2**31 - 1, 6) for place in range(_DIMENSIONS)]


def _packed(vector: Any) -> str:
    import base64
    import struct

    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


async def models(engine: Engine, request: Request, reply: Reply) -> None:
    """Which models there are."""
    listed = [{"id": name, "object": "model", "created": 0, "owned_by": "sliceworks"} for name in engine.models]
    reply.send(200, [JSON], orjson.dumps({"object": "list", "data": listed}))


async def health(engine: Engine, request: Request, reply: Reply) -> None:
    """It is well."""
    reply.send(200, [])


def _asked(engine: Engine, request: Request) -> dict[str, Any]:
    data = parse(request.body)
    model = data.get("model")
    if not isinstance(model, str) or not model:
        raise malformed("the field model is missing", param="model")
    if not engine.serves(model):
        raise unknown_model(model)
    return data


def text_of(content: Any) -> str:
    """The text of a prompt in any of its forms: text, parts of a message, tokens."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return " ".join(text_of(part.get("text", "")) if isinstance(part, dict) else str(part) for part in content)
    return ""


ROUTES: dict[tuple[str, str], Route] = {
    ("POST", "/v1/chat/completions"): chat,
    ("POST", "/v1/completions"): completions,
    ("POST", "/v1/embeddings"): embeddings,
    ("GET", "/v1/models"): models,
    ("GET", "/health"): health,
}
