"""OpenAI's API: chat, completions, embeddings and models; translated for backends that do not speak it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import orjson

from sliceworks.base.errors import SliceworksError
from sliceworks.base.http.messages import EVENT_STREAM_CONTENT, JSON_CONTENT, HttpError, bad_request
from sliceworks.serving import engine_protocol
from sliceworks.serving.gateway.call import Call
from sliceworks.serving.gateway.http_client import ConnectionBroken, DeadlineExceeded
from sliceworks.serving.gateway.payload import (
    DONE,
    CompletionWriter,
    ModelField,
    StopSequences,
    estimate_tokens,
    finish_reason,
    parse_object,
    read_model,
    read_stop_sequences,
    replace_model,
)
from sliceworks.serving.gateway.router import RetryState, StreamInterrupted, upstream_error
from sliceworks.serving.gateway.sax_client import sax_options
from sliceworks.serving.gateway.token_limit import check_max_tokens, limit_tokens, requested_max_tokens

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.response_writer import ResponseWriter
    from sliceworks.serving.gateway.load_balancer import Upstream
    from sliceworks.serving.gateway.router import Router
    from sliceworks.serving.gateway.state import Caller

OPERATIONS = {"/v1/chat/completions": "chat", "/v1/completions": "text_completion", "/v1/embeddings": "embeddings"}
BACKEND_KINDS = frozenset({"openai", "echo"})
"""Backends that speak OpenAI's API themselves."""
_CREATED = 1_700_000_000
"""OpenAI's clients require a creation time of models, which the gateway does not know."""
_UNSUPPORTED = ("tools", "functions", "logprobs", "top_logprobs", "echo", "suffix")
_RETRYABLE_STATUSES = frozenset({429, 502, 503})
DEFAULT_MAX_TOKENS = 256


@dataclass(slots=True)
class OpenAICall(Call):
    """A call whose body names the model."""

    model_field: ModelField | None = None

    def body_for(self, upstream: Upstream) -> bytes:
        """The body with the model name that the upstream knows."""
        assert self.model_field is not None
        return replace_model(self.body, self.model_field, upstream.backend.model or self.served.name)


class OpenAIAdapter:
    """The routes that OpenAI's clients use."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def routes(self) -> Mapping[str, str]:
        return {**dict.fromkeys(OPERATIONS, "POST"), "/v1/models": "GET", "/v1/models/": "GET"}

    async def handle(self, request: Request, response: ResponseWriter, caller: Caller) -> None:
        """Forward an inference request, or list models."""
        if request.path.startswith("/v1/models"):
            self._list_models(request, response, caller)
            return
        model_field = await read_model(request.body)
        served = self._router.find_model(model_field.model, caller)
        operation, body = OPERATIONS[request.path], request.body
        if served.model.kind not in BACKEND_KINDS:
            await translate(self._router, Call(request, response, caller, served, operation, request.path, body))
            return
        if served.max_tokens is not None and operation != "embeddings":
            limited = limit_tokens(parse_object(body), served.max_tokens)
            if limited is not None:
                body, model_field = limited, await read_model(limited)
        call = OpenAICall(request, response, caller, served, operation, request.path, body, model_field=model_field)
        await self._router.forward(call)

    def _list_models(self, request: Request, response: ResponseWriter, caller: Caller) -> None:
        name = unquote(request.path.removeprefix("/v1/models").removeprefix("/"))
        if name:
            self._router.find_model(name, caller)
            content = _model_object(name)
        else:
            models = [_model_object(served.name) for served in self._router.state.models_for(caller)]
            content = {"object": "list", "data": models}
        response.send(200, [JSON_CONTENT, self._router.request_id_header(request)], orjson.dumps(content))


def _model_object(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": _CREATED, "owned_by": "sliceworks"}


async def translate(router: Router, call: Call) -> None:
    """Respond to a chat or completion request with the text of a backend that speaks another protocol."""
    served = call.served
    if call.operation not in ("chat", "text_completion"):
        raise HttpError(400, "wrong_protocol", f"model {served.name!r} does not support {call.path}")
    data = parse_object(call.body)
    max_tokens = requested_max_tokens(data)
    _check_supported(data, max_tokens)
    if served.max_tokens is not None:
        check_max_tokens(data, served.max_tokens)
    await router.forward(call, _Translation(router, call, {**data, "max_tokens": max_tokens}).respond)


def _check_supported(data: dict[str, Any], max_tokens: int | None) -> None:
    """Reject what the backend cannot do instead of ignoring it."""
    if max_tokens is not None and max_tokens < 1:
        raise bad_request(f"max_tokens: must be at least 1, got {max_tokens}", param="max_tokens")
    if not isinstance(data.get("temperature"), int | float | None):
        raise bad_request("temperature: must be a number", param="temperature")
    for name in ("n", "best_of"):
        if data.get(name) is not None and data[name] != 1:
            raise bad_request(f"{name}: must be 1, this model's backend returns one completion", param=name)
    response_format = data.get("response_format")
    unsupported = [name for name in _UNSUPPORTED if data.get(name)]
    if unsupported or (isinstance(response_format, dict) and response_format.get("type") != "text"):
        name = unsupported[0] if unsupported else "response_format"
        raise bad_request(f"{name}: not supported by this model's backend", param=name)


class _Translation:
    """One translated response. The call can be retried until the first text arrives."""

    def __init__(self, router: Router, call: Call, data: dict[str, Any]) -> None:
        self._router, self._call, self._data = router, call, data
        self._is_chat = call.operation == "chat"
        self._prompt = build_prompt(data, chat=self._is_chat)
        self._stops = StopSequences(read_stop_sequences(data))
        self._tokens = 0
        # Sax returns the whole text and does not report its tokens.
        limit = data["max_tokens"] or call.served.max_tokens or DEFAULT_MAX_TOKENS
        self._max_tokens = None if call.served.model.kind == "sax" else limit

    async def respond(self) -> None:
        """Write the response, whole or as a stream."""
        upstream, texts, first = await self._start()
        failed, counts = True, True
        try:
            await self._deliver(texts, first)
            failed = False
        except asyncio.CancelledError:
            counts = False
            raise
        except (ConnectionBroken, DeadlineExceeded, SliceworksError) as error:
            # The HttpError is not kept in a variable: it would form a reference cycle with this frame and keep the request.
            failed = upstream_error(error).status >= 502
            if not self._call.response.started:
                if isinstance(error, HttpError):
                    raise
                raise upstream_error(error) from error
            self._call.response.write(self._call.stream_error(upstream_error(error)))
            self._call.response.end()
            self._router.metrics.interrupted_streams.inc(self._call.served.name)
            raise StreamInterrupted from error
        finally:
            upstream.request_finished(texts, failed=failed, counts=counts)
            await texts.aclose()

    async def _start(self) -> tuple[Upstream, AsyncGenerator[str, None], str | None]:
        """An upstream that has started to respond, its text and the first part of it."""
        call = self._call
        retry = RetryState(self._router.state, self._router.metrics, call.served.name)
        while True:
            upstream = await call.next_upstream(retry.tried)
            texts = self._generate(upstream)
            upstream.request_started(texts)
            is_kept, failed = False, False
            try:
                first = await anext(texts, None)
                is_kept = True
                return upstream, texts, first
            except (ConnectionBroken, DeadlineExceeded, SliceworksError) as error:
                status = upstream_error(error).status
                failed = status >= 502
                if status not in _RETRYABLE_STATUSES or not retry.may_retry(str(status)):
                    if isinstance(error, HttpError):
                        raise
                    raise upstream_error(error) from error
            finally:
                if not is_kept:
                    upstream.request_finished(texts, failed=failed, counts=failed)
                    await texts.aclose()
            retry.tried.append(upstream)

    async def _generate(self, upstream: Upstream) -> AsyncGenerator[str, None]:
        """The text of an upstream, up to the first stop sequence."""
        self._stops, self._tokens = StopSequences(read_stop_sequences(self._data)), 0
        texts = generate(self._router, self._call, upstream, self._data, self._prompt)
        try:
            async for text in texts:
                # Sax does not report tokens, and sends a text whole or several tokens at once.
                self._tokens += max(1, estimate_tokens(text.encode())) if upstream.backend.kind == "sax" else 1
                if (passed := self._stops.add(text)) or not text:
                    yield passed
                if self._stops.is_met:
                    return
            if self._stops.held:
                yield self._stops.held
        finally:
            await texts.aclose()

    async def _deliver(self, texts: AsyncGenerator[str, None], first: str | None) -> None:
        call = self._call
        writer = CompletionWriter(f"chatcmpl-{call.id.decode('latin-1')}", call.served.name, chat=self._is_chat)
        is_stream = self._data.get("stream") is True
        if is_stream:
            call.response.start(200, [EVENT_STREAM_CONTENT, (b"cache-control", b"no-cache"), *call.common_headers()])
        parts: list[str] = []
        text = first
        while text is not None:
            if is_stream:
                event = writer.chunk(text)
                call.response.write(event)
                call.meter.observe(event, asyncio.get_running_loop().time())
            parts.append(text)
            text = await anext(texts, None)
        usage = {"prompt_tokens": max(1, estimate_tokens(self._prompt.encode())), "completion_tokens": self._tokens}
        usage["total_tokens"] = sum(usage.values())
        call.usage = (usage["prompt_tokens"], usage["completion_tokens"])
        reason = "stop" if self._stops.is_met else finish_reason(self._tokens, self._max_tokens)
        if not is_stream:
            body = writer.response([writer.choice("".join(parts), reason)], usage)
            call.response.send(200, [JSON_CONTENT, *call.common_headers()], body)
            return
        options = self._data.get("stream_options")
        include_usage = isinstance(options, dict) and options.get("include_usage") is True
        call.response.write(writer.finish(reason) + (writer.event([], usage) if include_usage else b"") + DONE)
        call.response.end()


def build_prompt(data: dict[str, Any], *, chat: bool) -> str:
    """The prompt of a request. A conversation becomes one text; with several messages, each is prefixed with its role."""
    if not chat:
        prompt = data.get("prompt", "")
        if isinstance(prompt, list) and len(prompt) != 1:
            raise bad_request("prompt: must be one string, this model's backend takes one prompt at a time", param="prompt")
        return text_content(prompt)
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
        raise bad_request("messages: must be a non-empty list of messages", param="messages")
    if len(messages) == 1:
        return text_content(messages[0].get("content"))
    turns = [f"{message.get('role', 'user')}: {text_content(message.get('content'))}" for message in messages]
    return "\n".join([*turns, "assistant:"])


def text_content(content: Any) -> str:
    """The text of a prompt or of a message's content parts; raises for parts that are not text."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, str) or (isinstance(part, dict) and "text" in part) for part in content):
        return "".join(part if isinstance(part, str) else str(part["text"]) for part in content)
    raise bad_request("content: must be text, other content is not supported by this model's backend")


async def generate(router: Router, call: Call, upstream: Upstream, data: dict[str, Any], prompt: str) -> AsyncGenerator[str, None]:
    """The text that one upstream generates, as it arrives."""
    max_tokens = call.served.max_tokens if data.get("max_tokens") is None else data["max_tokens"]
    if upstream.backend.kind == "sax":
        path, options, timeout = upstream.backend.url, sax_options(data, max_tokens), call.time_left
        if data.get("stream") is not True:
            results = await router.sax_executor.call(lambda client: client.generate(path, prompt, options, timeout), timeout)
            yield results[0][0] if results else ""
            return
        async for text in router.sax_executor.stream(path, prompt, options, timeout):
            yield text
        return
    model, temperature = upstream.backend.model or call.served.name, data.get("temperature")
    sampling = engine_protocol.SamplingOptions(
        max_tokens or DEFAULT_MAX_TOKENS, float(temperature) if isinstance(temperature, int | float) else None
    )
    request = engine_protocol.text_request(upstream.backend.kind, model, prompt, sampling)
    # The reader may stop or fail early: close the upstream's response then, not when the generator is collected.
    async with aclosing(router.stream_response(call, upstream, request)) as chunks:
        async for text in request.read_text(chunks):
            if text:
                yield text
