"""OpenAI's chat and completions for models whose servers speak something else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import SliceworksError
from sliceworks.base.http.messages import EVENTS, JSON
from sliceworks.base.http.refusals import Refusal, malformed
from sliceworks.serving.gateway import talking
from sliceworks.serving.gateway.forms import DONE, Form, why_ended
from sliceworks.serving.gateway.http.exchange import Broken, Late
from sliceworks.serving.gateway.peek import parse, tokens_asked
from sliceworks.serving.gateway.refusals import broken_backend, slow_backend, too_many_tokens
from sliceworks.serving.gateway.relay import Interrupted
from sliceworks.serving.gateway.stops import Stops, stops_of
from sliceworks.serving.gateway.usage import guess

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sliceworks.serving.gateway.app import Application
    from sliceworks.serving.gateway.calls import Call
    from sliceworks.serving.gateway.servers import Server

_UNKNOWN = ("tools", "functions", "logprobs", "top_logprobs", "echo", "suffix")


async def converse(application: Application, call: Call) -> None:
    """Answer a chat or a completion with the text of a model's server."""
    served = call.served
    if call.operation not in ("chat", "text_completion"):
        raise Refusal(400, "wrong_protocol", f"the model {served.name!r} has no {call.path}")
    data = parse(call.body)
    asked = tokens_asked(data)
    _check(data, asked)
    if served.max_tokens is not None and (asked or 0) > served.max_tokens:
        raise too_many_tokens(asked or 0, served.max_tokens)
    talk = _Talk(application, call, {**data, "max_tokens": asked})
    await application.carry(call, talk.answer)


def _check(data: dict[str, Any], asked: int | None) -> None:
    """Refuse what the servers behind could not do, rather than leave it out."""
    if asked is not None and asked < 1:
        raise malformed("max_tokens must be 1 or more", param="max_tokens")
    if not isinstance(data.get("temperature"), int | float | None):
        raise malformed("temperature must be a number", param="temperature")
    several = next((name for name in ("n", "best_of") if data.get(name) is not None and data[name] != 1), "")
    if several:
        raise malformed(f"{several} must be 1: this model's server gives one answer", param=several)
    form = data.get("response_format")
    unknown = [name for name in _UNKNOWN if data.get(name)]
    if unknown or (isinstance(form, dict) and form.get("type") != "text"):
        name = unknown[0] if unknown else "response_format"
        raise malformed(f"this model's server knows no {name}", param=name)


class _Talk:
    """One answer. Another server is asked as long as no text has come."""

    def __init__(self, application: Application, call: Call, data: dict[str, Any]) -> None:
        self._application, self._call, self._data = application, call, data
        self._chat = call.operation == "chat"
        self._prompt = talking.prompt_of(data, chat=self._chat)
        self._stops = Stops(stops_of(data))
        self._heard = 0
        # Sax gives an answer whole, and does not say how many tokens it has.
        self._most = (
            None if call.served.model.kind == "sax" else data["max_tokens"] or call.served.max_tokens or talking.DEFAULT_TOKENS
        )

    async def answer(self) -> None:
        """Answer, whole or in pieces."""
        server, pieces, first = await self._begun()
        failed, judged = True, True
        try:
            await self._deliver(pieces, first)
            failed = False
        except asyncio.CancelledError:
            judged = False
            raise
        except (Broken, Late, SliceworksError) as error:
            # No refusal is kept here: it would know this frame, and that the request, until somebody clears up.
            failed = _refusal(error).status >= 502
            if not self._call.reply.started:
                if isinstance(error, Refusal):
                    raise
                raise _refusal(error) from error
            self._call.reply.write(self._call.last_words(_refusal(error)))
            self._call.reply.end()
            self._application.measures.broken.add(self._call.served.name)
            raise Interrupted from error
        finally:
            server.ended(pieces, failed=failed, judged=judged)
            await pieces.aclose()

    async def _begun(self) -> tuple[Server, AsyncGenerator[str, None], str | None]:
        """A server that has begun to talk, its text and the first piece of that."""
        state, call = self._application.state, self._call
        state.budget.request()
        tried: list[Server] = []
        while True:
            server = await call.another(tried)
            pieces = self._text(server)
            server.began(pieces)
            kept, failed = False, False
            try:
                first = await anext(pieces, None)
                kept = True
                return server, pieces, first
            except (Broken, Late, SliceworksError) as error:
                status = _refusal(error).status
                failed = status >= 502
                if status not in {429, 502, 503} or len(tried) >= state.spec.retries.attempts or not state.budget.take():
                    if isinstance(error, Refusal):
                        raise
                    raise _refusal(error) from error
            finally:
                if not kept:
                    server.ended(pieces, failed=failed, judged=failed)
                    await pieces.aclose()
            tried.append(server)
            self._application.measures.retries.add(call.served.name, str(status))

    async def _text(self, server: Server) -> AsyncGenerator[str, None]:
        """What a server says, up to the first stop."""
        self._stops, self._heard = Stops(stops_of(self._data)), 0
        pieces = talking.talk(self._application, self._call, server, self._data, self._prompt)
        try:
            async for piece in pieces:
                self._heard += 1
                if (said := self._stops.add(piece)) or not piece:
                    yield said
                if self._stops.met:
                    return
            if self._stops.held:
                yield self._stops.held
        finally:
            await pieces.aclose()

    async def _deliver(self, pieces: AsyncGenerator[str, None], first: str | None) -> None:
        call = self._call
        form = Form(f"chatcmpl-{call.id.decode('latin-1')}", call.served.name, chat=self._chat)
        stream = self._data.get("stream") is True
        if stream:
            call.reply.begin(200, [EVENTS, (b"cache-control", b"no-cache"), *call.told_back()])
        said: list[str] = []
        piece = first
        while piece is not None:
            if stream:
                self._send(form.piece(piece))
            said.append(piece)
            piece = await anext(pieces, None)
        usage = {"prompt_tokens": max(1, guess(self._prompt.encode())), "completion_tokens": self._heard}
        usage["total_tokens"] = sum(usage.values())
        call.told = (usage["prompt_tokens"], usage["completion_tokens"])
        why = "stop" if self._stops.met else why_ended(self._heard, self._most)
        if not stream:
            call.reply.send(200, [JSON, *call.told_back()], form.whole([form.choice("".join(said), why)], usage))
            return
        wanted = self._data.get("stream_options")
        told = isinstance(wanted, dict) and wanted.get("include_usage") is True
        call.reply.write(form.stop(why) + (form.event([], usage) if told else b"") + DONE)
        call.reply.end()

    def _send(self, event: bytes) -> None:
        self._call.reply.write(event)
        self._call.meter.see(event, asyncio.get_running_loop().time())


def _refusal(error: BaseException) -> Refusal:
    if isinstance(error, Refusal):
        return error
    return slow_backend(str(error)) if isinstance(error, Late) else broken_backend(str(error))
