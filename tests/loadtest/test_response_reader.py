"""Responses of every API, split into chunks of any size: the same tokens and the same failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.loadtest.generator import response_reader
from sliceworks.loadtest.request_log import Failure, RequestRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.loadtest.generator.response_reader import ResponseReader

    Kind = Callable[[RequestRecord], ResponseReader]

_DELTA = b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n'
_USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}\r\n\r\n'
_JETSTREAM = b'{"streamContent": {"samples": [{"text": "a } \\" b", "tokenIds": [1, 2]}]}}'
STREAMS: dict[str, tuple[Kind, bytes, str, int]] = {
    "openai": (
        response_reader.OpenAIStreamReader,
        _DELTA % b"one " + _DELTA % b"" + _DELTA % b"two" + _USAGE + b"data: [DONE]\n\n",
        "one two",
        2,
    ),
    "generate": (
        response_reader.GenerateStreamReader,
        b'data: {"text_output":"x"}\n\n: a comment\n\ndata: {"text_output":"y"}\n\n',
        "xy",
        -1,
    ),
    "jetstream": (response_reader.JetStreamReader, _JETSTREAM + b"\n" + _JETSTREAM, 'a } " ba } " b', 4),
}


def read(kind: Kind, *chunks: bytes, status: int = 200) -> ResponseReader:
    answer = kind(RequestRecord(0, 0, 0, sent=0, status=status))
    for moment, chunk in enumerate(chunks, 1):
        answer.feed(chunk, moment * 1_000_000)
    answer.finish(len(chunks) * 1_000_000)
    return answer


@given(name=st.sampled_from(sorted(STREAMS)), data=st.data())
def test_streams_in_any_chunks(name: str, data: st.DataObject) -> None:
    kind, body, text, tokens = STREAMS[name]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(body) - 1), max_size=12)))
    chunks = [body[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    result = read(kind, *chunks)
    assert result.record.failure is Failure.NONE
    assert (result.text, result.record.tokens_out, len(result.record.chunks or ())) == (text, tokens, 2)


def test_first_token_is_the_first_with_content() -> None:
    result = read(response_reader.OpenAIStreamReader, _DELTA % b"", _DELTA % b"now", b"data: [DONE]\n\n")
    assert result.record.first_token == 2_000_000


@pytest.mark.parametrize(
    ("kind", "body", "failure"),
    [
        (response_reader.OpenAIStreamReader, _DELTA % b"one", Failure.CLOSED),
        (response_reader.OpenAIStreamReader, b'data: {"error":{"message":"no"}}\n\ndata: [DONE]\n\n', Failure.REPORTED),
        (response_reader.OpenAIStreamReader, b"data: {oops\n\ndata: [DONE]\n\n", Failure.GARBLED),
        (response_reader.OpenAIStreamReader, b"data: [1]\n\ndata: [DONE]\n\n", Failure.GARBLED),
        (response_reader.OpenAIStreamReader, b"<html>", Failure.CLOSED),
        (response_reader.GenerateStreamReader, b'data: {"text_output":"x"}\n\ndata: {"text', Failure.CLOSED),
        (response_reader.OpenAIReader, b"<html>", Failure.GARBLED),
        (response_reader.OpenAIReader, b"[]", Failure.GARBLED),
        (response_reader.OpenAIReader, b'{"error": {"message": "no"}}', Failure.REPORTED),
        (response_reader.InferReader, b'{"error": "no"}', Failure.REPORTED),
        (response_reader.InferReader, b"{}", Failure.GARBLED),
        (response_reader.SaxReader, b'{"completions": []}', Failure.GARBLED),
        (response_reader.JetStreamReader, _JETSTREAM + b'{"stream', Failure.CLOSED),
        (response_reader.JetStreamReader, b'{"error": "no"}', Failure.REPORTED),
        (response_reader.JetStreamReader, b'{"streamContent": 7}', Failure.GARBLED),
    ],
)
def test_malformed_responses_are_failures(kind: Kind, body: bytes, failure: Failure) -> None:
    assert read(kind, body).record.failure is failure


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        (response_reader.OpenAIReader, b'{"choices":[{"message":{"content":"hi"}}],"usage":{"completion_tokens":1}}', "hi"),
        (response_reader.OpenAIReader, b'{"choices":[{"text":"hi"}]}', "hi"),
        (response_reader.GenerateReader, b'{"text_output": "hi"}', "hi"),
        (response_reader.SaxReader, b'{"completions": [["hi", -0.5], ["ho", -1.5]]}', "hi"),
        (response_reader.InferReader, b'{"outputs": []}', ""),
    ],
)
def test_unstreamed_responses(kind: Kind, body: bytes, text: str) -> None:
    result = read(kind, body[:9], body[9:])
    assert (result.text, result.record.failure) == (text, Failure.NONE)
    assert result.record.first_token == 2_000_000


@pytest.mark.parametrize(
    "kind",
    [
        response_reader.OpenAIStreamReader,
        response_reader.OpenAIReader,
        response_reader.JetStreamReader,
        response_reader.GenerateStreamReader,
    ],
)
def test_error_status_ignores_the_body(kind: Kind) -> None:
    assert read(kind, b"<html>busy</html>", status=503).record.failure is Failure.NONE
