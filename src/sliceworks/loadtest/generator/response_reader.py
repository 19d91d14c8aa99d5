"""Reads responses as they stream: time to first token, chunk times, token usage and failures.

A chunk is the part of a response in one server-sent event. Its time is that of the bytes that completed it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.stream_decoder import JsonStreamDecoder, SseDecoder
from sliceworks.loadtest.request_log import NEVER, Failure

if TYPE_CHECKING:
    from sliceworks.loadtest.request_log import RequestRecord


class ResponseReader(ABC):
    """Reads the body of a response as it streams; `text` is the generated text so far."""

    def __init__(self, record: RequestRecord) -> None:
        self.record = record
        self.texts: list[str] = []
        self.complete = True
        """False until a stream has sent its end marker."""

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @abstractmethod
    def feed(self, data: bytes, time: int) -> None:
        """Feed a part of the body."""

    def finish(self, time: int) -> None:  # noqa: B027 - optional for subclasses
        """Called at the end of the body."""

    def add_text(self, text: str, time: int) -> None:
        """Records generated text."""
        record = self.record
        if record.first_token == NEVER:
            record.first_token = time
        record.chunk(time)
        self.texts.append(text)

    def parse_json(self, data: bytes) -> dict[str, Any] | None:
        """A JSON object, or None if it is invalid or reports an error, which is recorded."""
        try:
            result = orjson.loads(data)
        except orjson.JSONDecodeError:
            result = None
        if not isinstance(result, dict):
            self.fail(Failure.GARBLED)
        elif result.get("error"):
            self.fail(Failure.REPORTED)
        else:
            return result
        return None

    def fail(self, failure: Failure) -> None:
        """Records the first failure."""
        if self.record.failure is Failure.NONE:
            self.record.failure = failure


class RawReader(ResponseReader):
    """Accepts any body."""

    def feed(self, data: bytes, time: int) -> None:
        if self.record.first_token == NEVER:
            self.record.first_token = time


class JsonReader(ResponseReader):
    """A JSON object, read at the end; the first token arrives with the last."""

    def __init__(self, record: RequestRecord) -> None:
        super().__init__(record)
        self._parts: list[bytes] = []

    def feed(self, data: bytes, time: int) -> None:
        self._parts.append(data)

    def finish(self, time: int) -> None:
        if self.record.status < 400 and (data := self.parse_json(b"".join(self._parts))) is not None:
            self.add_text(self.extract_text(data), time)

    @abstractmethod
    def extract_text(self, data: dict[str, Any]) -> str:
        """The generated text."""


class SseReader(ResponseReader):
    """Server-sent events with one JSON object each."""

    def __init__(self, record: RequestRecord) -> None:
        super().__init__(record)
        self._decoder = SseDecoder()

    def feed(self, part: bytes, time: int) -> None:
        if self.record.status >= 400:
            return
        for event in self._decoder.feed(part):
            if event == b"[DONE]":
                self.complete = True
            elif event and (data := self.parse_json(event)) is not None:
                self.handle_event(data, time)

    def finish(self, time: int) -> None:
        if self.record.status < 400 and (self._decoder.has_partial() or not self.complete):
            self.fail(Failure.CLOSED)

    @abstractmethod
    def handle_event(self, data: dict[str, Any], time: int) -> None:
        """Handle one event."""


def _usage(record: RequestRecord, data: dict[str, Any]) -> None:
    usage = data.get("usage")
    if isinstance(usage, dict):
        for name, field in (("prompt_tokens", "tokens_in"), ("completion_tokens", "tokens_out")):
            if isinstance(usage.get(name), int):
                setattr(record, field, usage[name])


def _first(data: dict[str, Any]) -> dict[str, Any]:
    choices = data.get("choices")
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}


class OpenAIStreamReader(SseReader):
    """Chunks of a chat or completion, until [DONE]."""

    def __init__(self, record: RequestRecord) -> None:
        super().__init__(record)
        self.complete = False

    def handle_event(self, data: dict[str, Any], time: int) -> None:
        choice = _first(data)
        delta = choice.get("delta") or choice
        text = delta.get("content") or delta.get("text") or delta.get("reasoning_content") or ""
        if text:
            self.add_text(text, time)
        _usage(self.record, data)


class OpenAIReader(JsonReader):
    """A chat or completion that is not streamed."""

    def extract_text(self, data: dict[str, Any]) -> str:
        _usage(self.record, data)
        choice = _first(data)
        return str((choice.get("message") or {}).get("content") or choice.get("text") or "")


class GenerateStreamReader(SseReader):
    """Triton's generate extension, streamed."""

    def handle_event(self, data: dict[str, Any], time: int) -> None:
        self.add_text(str(data.get("text_output", "")), time)


class GenerateReader(JsonReader):
    """Triton's generate extension."""

    def extract_text(self, data: dict[str, Any]) -> str:
        return str(data.get("text_output", ""))


class InferReader(JsonReader):
    """A response of the Open Inference Protocol, without binary outputs."""

    def extract_text(self, data: dict[str, Any]) -> str:
        if not isinstance(data.get("outputs"), list):
            self.fail(Failure.GARBLED)
        return ""


class SaxReader(JsonReader):
    """The gateway's response for Sax."""

    def extract_text(self, data: dict[str, Any]) -> str:
        texts = data.get("completions")
        if not isinstance(texts, list) or not texts or not isinstance(texts[0], list):
            self.fail(Failure.GARBLED)
            return ""
        return str(texts[0][0])


class JetStreamReader(ResponseReader):
    """Concatenated JSON objects."""

    def __init__(self, record: RequestRecord) -> None:
        super().__init__(record)
        self._objects = JsonStreamDecoder()

    def feed(self, data: bytes, time: int) -> None:
        if self.record.status < 400:
            for text in self._objects.feed(data):
                self._object(text, time)

    def _object(self, raw: bytes, time: int) -> None:
        if (data := self.parse_json(raw)) is None:
            return
        content = data.get("streamContent")
        samples = content.get("samples") if isinstance(content, dict) else None
        if not isinstance(samples, list) or not samples or not isinstance(samples[0], dict):
            self.fail(Failure.GARBLED)
            return
        self.record.tokens_out = max(self.record.tokens_out, 0) + len(samples[0].get("tokenIds") or ())
        self.add_text(str(samples[0].get("text", "")), time)

    def finish(self, time: int) -> None:
        if self._objects.has_partial():
            self.fail(Failure.CLOSED)
