"""Answers of every API, in whatever pieces they come: the same tokens, the same failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.loadtest.generator import answers
from sliceworks.loadtest.rows import Failure, Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.loadtest.generator.answers import Answer

    Kind = Callable[[Record], Answer]

_DELTA = b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n'
_USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}\r\n\r\n'
_JETSTREAM = b'{"streamContent": {"samples": [{"text": "a } \\" b", "tokenIds": [1, 2]}]}}'
STREAMS: dict[str, tuple[Kind, bytes, str, int]] = {
    "openai": (
        answers.OpenAiStream,
        _DELTA % b"one " + _DELTA % b"" + _DELTA % b"two" + _USAGE + b"data: [DONE]\n\n",
        "one two",
        2,
    ),
    "generate": (answers.GenerateStream, b'data: {"text_output":"x"}\n\n: a comment\n\ndata: {"text_output":"y"}\n\n', "xy", -1),
    "jetstream": (answers.JetStream, _JETSTREAM + b"\n" + _JETSTREAM, 'a } " ba } " b', 4),
}


def read(kind: Kind, *pieces: bytes, status: int = 200) -> Answer:
    answer = kind(Record(0, 0, 0, sent=0, status=status))
    for moment, piece in enumerate(pieces, 1):
        answer.feed(piece, moment * 1_000_000)
    answer.finish(len(pieces) * 1_000_000)
    return answer


@given(name=st.sampled_from(sorted(STREAMS)), data=st.data())
def test_streams_in_any_pieces(name: str, data: st.DataObject) -> None:
    kind, body, text, tokens = STREAMS[name]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(body) - 1), max_size=12)))
    pieces = [body[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    found = read(kind, *pieces)
    assert found.record.failure is Failure.NONE
    assert (found.text, found.record.tokens_out, len(found.record.pieces or ())) == (text, tokens, 2)


def test_the_first_token_is_the_first_with_a_text() -> None:
    found = read(answers.OpenAiStream, _DELTA % b"", _DELTA % b"now", b"data: [DONE]\n\n")
    assert found.record.first_token == 2_000_000


@pytest.mark.parametrize(
    ("kind", "body", "failure"),
    [
        (answers.OpenAiStream, _DELTA % b"one", Failure.CLOSED),
        (answers.OpenAiStream, b'data: {"error":{"message":"no"}}\n\ndata: [DONE]\n\n', Failure.REPORTED),
        (answers.OpenAiStream, b"data: {oops\n\ndata: [DONE]\n\n", Failure.GARBLED),
        (answers.OpenAiStream, b"data: [1]\n\ndata: [DONE]\n\n", Failure.GARBLED),
        (answers.OpenAiStream, b"<html>", Failure.CLOSED),
        (answers.GenerateStream, b'data: {"text_output":"x"}\n\ndata: {"text', Failure.CLOSED),
        (answers.OpenAiWhole, b"<html>", Failure.GARBLED),
        (answers.OpenAiWhole, b"[]", Failure.GARBLED),
        (answers.OpenAiWhole, b'{"error": {"message": "no"}}', Failure.REPORTED),
        (answers.InferWhole, b'{"error": "no"}', Failure.REPORTED),
        (answers.InferWhole, b"{}", Failure.GARBLED),
        (answers.SaxWhole, b'{"completions": []}', Failure.GARBLED),
        (answers.JetStream, _JETSTREAM + b'{"stream', Failure.CLOSED),
        (answers.JetStream, b'{"error": "no"}', Failure.REPORTED),
        (answers.JetStream, b'{"streamContent": 7}', Failure.GARBLED),
    ],
)
def test_what_goes_wrong(kind: Kind, body: bytes, failure: Failure) -> None:
    assert read(kind, body).record.failure is failure


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        (answers.OpenAiWhole, b'{"choices":[{"message":{"content":"hi"}}],"usage":{"completion_tokens":1}}', "hi"),
        (answers.OpenAiWhole, b'{"choices":[{"text":"hi"}]}', "hi"),
        (answers.GenerateWhole, b'{"text_output": "hi"}', "hi"),
        (answers.SaxWhole, b'{"completions": [["hi", -0.5], ["ho", -1.5]]}', "hi"),
        (answers.InferWhole, b'{"outputs": []}', ""),
    ],
)
def test_whole_answers(kind: Kind, body: bytes, text: str) -> None:
    found = read(kind, body[:9], body[9:])
    assert (found.text, found.record.failure) == (text, Failure.NONE)
    assert found.record.first_token == 2_000_000


@pytest.mark.parametrize("kind", [answers.OpenAiStream, answers.OpenAiWhole, answers.JetStream, answers.GenerateStream])
def test_the_body_of_a_refusal_is_left_to_its_status(kind: Kind) -> None:
    assert read(kind, b"<html>busy</html>", status=503).record.failure is Failure.NONE
