"""Text from servers that do not speak OpenAI's protocol: they are asked in their own way, and answer with text in pieces."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from sliceworks.base.http.refusals import Refusal, malformed
from sliceworks.serving import asking
from sliceworks.serving.gateway.calls import PLAIN
from sliceworks.serving.gateway.http.exchange import FIRST, Broken, Exchange
from sliceworks.serving.gateway.refusals import broken_backend
from sliceworks.serving.gateway.relay import coding, foreign, is_expected

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sliceworks.serving.gateway.app import Application
    from sliceworks.serving.gateway.calls import Call
    from sliceworks.serving.gateway.servers import Server

DEFAULT_TOKENS = 256


def prompt_of(data: dict[str, Any], *, chat: bool) -> str:
    """The text that is asked: a prompt, or a conversation as one text. Each turn says who speaks, unless there is one alone."""
    if not chat:
        prompt = data.get("prompt", "")
        if isinstance(prompt, list) and len(prompt) != 1:
            raise malformed("this model's server takes one prompt at a time, as text", param="prompt")
        return text_of(prompt)
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(each, dict) for each in messages):
        raise malformed("messages must be a list of messages", param="messages")
    if len(messages) == 1:
        return text_of(messages[0].get("content"))
    turns = [f"{each.get('role', 'user')}: {text_of(each.get('content'))}" for each in messages]
    return "\n".join([*turns, "assistant:"])


def text_of(content: Any) -> str:
    """The text of a prompt, or of the parts of a message; what is no text is refused."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, str) or (isinstance(part, dict) and "text" in part) for part in content):
        return "".join(part if isinstance(part, str) else str(part["text"]) for part in content)
    raise malformed("this model takes text alone")


def sax_options(data: dict[str, Any], steps: int | None) -> dict[str, float]:
    """Options as Sax names them."""
    from sliceworks.serving.gateway.sax import OPTIONS, STEPS

    found = {name: float(data[given]) for given, name in OPTIONS.items() if isinstance(data.get(given), int | float)}
    return {**found, **({STEPS: float(steps)} if steps else {})}


async def talk(
    application: Application, call: Call, server: Server, data: dict[str, Any], prompt: str
) -> AsyncGenerator[str, None]:
    """Ask one server, and have its text as it comes."""
    steps = call.served.max_tokens if data.get("max_tokens") is None else data["max_tokens"]
    model = server.backend.model or call.served.name
    if server.backend.kind == "sax":
        path, options, timeout = server.backend.url, sax_options(data, steps), call.left
        if data.get("stream") is not True:
            found = await application.saxes.call(lambda client: client.generate(path, prompt, options, timeout), timeout)
            yield found[0][0] if found else ""
            return
        async for piece in application.saxes.stream(path, prompt, options, timeout):
            yield piece
        return
    heat = data.get("temperature")
    wishes = asking.Wishes(steps or DEFAULT_TOKENS, float(heat) if isinstance(heat, int | float) else None)
    question = asking.text(server.backend.kind, model, prompt, wishes)
    # Who reads may stop, or fail at what it reads: the server is let go then, not when somebody clears up.
    async with aclosing(_pieces(application, call, server, question)) as pieces:
        async for text in question.read(pieces):
            if text:
                yield text


async def _pieces(application: Application, call: Call, server: Server, question: asking.Question) -> AsyncGenerator[bytes, None]:
    """The answer of a server as bytes that come; what it says no with becomes a Refusal."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in question.headers.items()).encode()
    start = f"POST {server.prefix}{question.path} HTTP/1.1\r\n".encode()
    length = b"content-length: %d\r\nx-request-id: %b\r\n\r\n" % (len(question.body), call.id)
    head = start + server.host_line + server.authorization + PLAIN + lines + length
    for fresh in (False, True):
        exchange = Exchange()
        with application.relay.watched(exchange, call):
            try:
                await server.pool.begin(head, question.body, exchange, min(call.served.timeouts.connect, call.left), fresh=fresh)
                await exchange.wait(FIRST)
            except Broken as error:
                if error.clean and not fresh:
                    continue  # The server had ended an idle line just when it was used again.
                raise
            heard = _heard(exchange)
            while (found := await heard.get()) is not None:
                yield found
            if exchange.error is not None:
                raise exchange.error
            return


def _heard(exchange: Exchange) -> asyncio.Queue[bytes | None]:
    """What has come of an answer, what comes, and None at its end; raises the Refusal where it is none."""
    if not is_expected(exchange):
        raise foreign(exchange)
    if exchange.status != 200:
        raise _said_no(exchange)
    if unread := coding(exchange):
        raise broken_backend(f"it answered in the coding {unread.decode('latin-1')[:100]!r}, which was not asked for")
    heard: asyncio.Queue[bytes | None] = asyncio.Queue()
    for piece in exchange.pieces:
        heard.put_nowait(piece)
    if exchange.over:
        heard.put_nowait(None)
    else:
        exchange.sink, exchange.on_end = heard.put_nowait, lambda: heard.put_nowait(None)
    return heard


def _said_no(exchange: Exchange) -> Refusal:
    said = b"".join(exchange.pieces)[:500].decode("utf-8", "replace")
    if exchange.status >= 500:
        return broken_backend(f"it answered {exchange.status}: {said}")
    return Refusal(exchange.status, "invalid_request", f"the model's server answered {exchange.status}: {said}")
