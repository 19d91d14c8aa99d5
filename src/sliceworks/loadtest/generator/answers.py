"""Reads answers while they come: when the first token was there, when each piece, how many tokens, and what went wrong.

A piece is what a server sends of an answer in one event. Its moment is that of the bytes that completed it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.object_stream import Objects
from sliceworks.loadtest.rows import NEVER, Failure

if TYPE_CHECKING:
    from sliceworks.loadtest.rows import Record


class Answer(ABC):
    """Takes the body of an answer as it comes. `text` is what the model said, as far as it is known."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.texts: list[str] = []
        self.complete = True
        """False while a stream has not said that it is at its end."""

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @abstractmethod
    def feed(self, data: bytes, moment: int) -> None:
        """A part of the body."""

    def finish(self, moment: int) -> None:  # noqa: B027 - most have nothing left to do
        """The body is whole."""

    def said(self, text: str, moment: int) -> None:
        """The model said something."""
        record = self.record
        if record.first_token == NEVER:
            record.first_token = moment
        record.piece(moment)
        self.texts.append(text)

    def read(self, data: bytes) -> dict[str, Any] | None:
        """An object of JSON; None where it is none, or tells of an error: that is kept as what went wrong."""
        try:
            found = orjson.loads(data)
        except orjson.JSONDecodeError:
            found = None
        if not isinstance(found, dict):
            self.wrong(Failure.GARBLED)
        elif found.get("error"):
            self.wrong(Failure.REPORTED)
        else:
            return found
        return None

    def wrong(self, failure: Failure) -> None:
        """Keep the first thing that went wrong."""
        if self.record.failure is Failure.NONE:
            self.record.failure = failure


class Bytes(Answer):
    """Any body at all."""

    def feed(self, data: bytes, moment: int) -> None:
        if self.record.first_token == NEVER:
            self.record.first_token = moment


class Whole(Answer):
    """An object of JSON, read when it is whole. Its first token comes with its last."""

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._parts: list[bytes] = []

    def feed(self, data: bytes, moment: int) -> None:
        self._parts.append(data)

    def finish(self, moment: int) -> None:
        if self.record.status < 400 and (found := self.read(b"".join(self._parts))) is not None:
            self.said(self.told(found), moment)

    @abstractmethod
    def told(self, found: dict[str, Any]) -> str:
        """What the model said."""


class Stream(Answer):
    """Server-sent events, one object of JSON in each."""

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._rest = b""

    def feed(self, data: bytes, moment: int) -> None:
        if self.record.status >= 400:
            return
        events = (self._rest + data).replace(b"\r\n", b"\n").split(b"\n\n")
        self._rest = events.pop()
        for event in events:
            self._event(event, moment)

    def _event(self, event: bytes, moment: int) -> None:
        data = b"\n".join(line[5:].lstrip() for line in event.split(b"\n") if line.startswith(b"data:"))
        if not data:
            return
        if data == b"[DONE]":
            self.complete = True
            return
        if (found := self.read(data)) is not None:
            self.told(found, moment)

    def finish(self, moment: int) -> None:
        if self.record.status < 400 and (self._rest.strip() or not self.complete):
            self.wrong(Failure.CLOSED)

    @abstractmethod
    def told(self, found: dict[str, Any], moment: int) -> None:
        """One event."""


def _usage(record: Record, found: dict[str, Any]) -> None:
    usage = found.get("usage")
    if isinstance(usage, dict):
        for name, field in (("prompt_tokens", "tokens_in"), ("completion_tokens", "tokens_out")):
            if isinstance(usage.get(name), int):
                setattr(record, field, usage[name])


def _first(found: dict[str, Any]) -> dict[str, Any]:
    choices = found.get("choices")
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}


class OpenAiStream(Stream):
    """Chunks of a chat or of a completion, until [DONE]."""

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self.complete = False

    def told(self, found: dict[str, Any], moment: int) -> None:
        choice = _first(found)
        delta = choice.get("delta") or choice
        text = delta.get("content") or delta.get("text") or delta.get("reasoning_content") or ""
        if text:
            self.said(text, moment)
        _usage(self.record, found)


class OpenAiWhole(Whole):
    """A whole chat or completion."""

    def told(self, found: dict[str, Any]) -> str:
        _usage(self.record, found)
        choice = _first(found)
        return str((choice.get("message") or {}).get("content") or choice.get("text") or "")


class GenerateStream(Stream):
    """Triton's generate extension, piece by piece."""

    def told(self, found: dict[str, Any], moment: int) -> None:
        self.said(str(found.get("text_output", "")), moment)


class GenerateWhole(Whole):
    """Triton's generate extension."""

    def told(self, found: dict[str, Any]) -> str:
        return str(found.get("text_output", ""))


class InferWhole(Whole):
    """An answer of the Open Inference Protocol; binary outputs are not asked for."""

    def told(self, found: dict[str, Any]) -> str:
        if not isinstance(found.get("outputs"), list):
            self.wrong(Failure.GARBLED)
        return ""


class SaxWhole(Whole):
    """The gateway's answer for Sax."""

    def told(self, found: dict[str, Any]) -> str:
        texts = found.get("completions")
        if not isinstance(texts, list) or not texts or not isinstance(texts[0], list):
            self.wrong(Failure.GARBLED)
            return ""
        return str(texts[0][0])


class JetStream(Answer):
    """JSON objects one after the other, with nothing between them."""

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._objects = Objects()

    def feed(self, data: bytes, moment: int) -> None:
        if self.record.status < 400:
            for text in self._objects.feed(data):
                self._object(text, moment)

    def _object(self, data: bytes, moment: int) -> None:
        if (found := self.read(data)) is None:
            return
        content = found.get("streamContent")
        samples = content.get("samples") if isinstance(content, dict) else None
        if not isinstance(samples, list) or not samples or not isinstance(samples[0], dict):
            self.wrong(Failure.GARBLED)
            return
        self.record.tokens_out = max(self.record.tokens_out, 0) + len(samples[0].get("tokenIds") or ())
        self.said(str(samples[0].get("text", "")), moment)

    def finish(self, moment: int) -> None:
        if self._objects.unfinished():
            self.wrong(Failure.CLOSED)
