"""Decoders of streamed bodies, with chunk boundaries at any byte."""

from __future__ import annotations

from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.base.stream_decoder import JsonStreamDecoder, SseDecoder

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(alphabet='a"\\{}[]é\n', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='k"\\}', max_size=3), inner, max_size=3),
    max_leaves=6,
)


def chunks(body: bytes, data: st.DataObject) -> list[bytes]:
    """The body, cut at up to eight positions."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=8)))
    return [body[start:end] for start, end in pairwise([0, *cuts, len(body)])]


@given(
    st.lists(st.dictionaries(st.text(max_size=3), _VALUES, max_size=3), max_size=5), st.data(), st.sampled_from([b"", b"\n", b" "])
)
def test_json_decoder_returns_every_object(objects: list[dict[str, object]], data: st.DataObject, separator: bytes) -> None:
    body = separator.join(orjson.dumps(obj) for obj in objects)
    decoder = JsonStreamDecoder()
    assert [orjson.loads(obj) for chunk in chunks(body, data) for obj in decoder.feed(chunk)] == objects
    assert not decoder.has_partial()


def test_json_decoder_reports_a_partial_object() -> None:
    decoder = JsonStreamDecoder()
    assert decoder.feed(b'{"a":"\\"}"}{"b"') == [b'{"a":"\\"}"}']
    assert decoder.has_partial()
    assert decoder.feed(b":1} \n") == [b'{"b":1}']
    assert not decoder.has_partial()
    assert decoder.feed(b"no object {}") == [b" \nno object {}"]


def test_json_decoder_keeps_one_buffer_for_tiny_chunks() -> None:
    """A copy per chunk would make a large object that arrives byte by byte quadratic."""
    decoder, body = JsonStreamDecoder(), b'{"a":"' + b"x" * 10_000 + b'"}'
    decoder.feed(body[:1])
    buffer = decoder._rest
    assert [decoder.feed(body[index : index + 1]) for index in range(1, len(body))][-1] == [body]
    assert decoder._rest is buffer
    assert not buffer


@given(st.lists(st.lists(st.text(alphabet="a: é", max_size=4), min_size=1, max_size=3), max_size=4), st.data())
def test_sse_decoder_returns_every_event(events: list[list[str]], data: st.DataObject) -> None:
    line_end = data.draw(st.sampled_from(["\n", "\r\n", "\r"]))
    body = "".join("".join(f"data: {line}{line_end}" for line in event) + line_end for event in events).encode()
    decoder = SseDecoder()
    assert [event for chunk in chunks(body, data) for event in decoder.feed(chunk)] == [
        "\n".join(event).encode() for event in events
    ]
    assert not decoder.has_partial()
    assert decoder.flush() == []


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"data: a\n\ndata: b\r\n\r\ndata: c\r\r", [b"a", b"b", b"c"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a \n\n", [b" a "]),
        (b"data\n\n", [b""]),
        (b": comment\nevent: delta\nid: 1\nretry: 5\ndata: a\n\n", [b"a"]),
        (b"event: ping\n\n\n\ndata: [DONE]\n\n", [b"[DONE]"]),
        (b"database: x\n\n", []),
    ],
)
def test_sse_decoder_reads_lines_by_the_standard(body: bytes, events: list[bytes]) -> None:
    assert SseDecoder().feed(body) == events
    decoder = SseDecoder()
    assert [event for byte in body for event in decoder.feed(bytes([byte]))] == events


@pytest.mark.parametrize("end", [b"", b"\n", b"\r", b"\r\n"])
def test_sse_decoder_flushes_an_unterminated_event(end: bytes) -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: a\n\ndata: b" + end) == [b"a"]
    assert decoder.has_partial()
    assert decoder.flush() == [b"b"]
    assert not decoder.has_partial()
    assert decoder.flush() == []
