"""What is found in a body without reading it is what reading it would find."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.base.http.refusals import Refusal
from sliceworks.serving.gateway import peek as peeking
from sliceworks.serving.gateway.peek import capped, peek, renamed, tokens_asked

if TYPE_CHECKING:
    import random

_TEXTS = st.text(max_size=20) | st.sampled_from(
    ['"model"', '\\"model\\": \\"x\\"', '{"model": "x"}', "model", '","model":"y', "}]}", "[{"]
)
_NAMES = st.sampled_from(["model", "stream", "max_tokens", "a", "b"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**6) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=8,
)
_BODIES = st.fixed_dictionaries(
    {},
    optional={
        "messages": _VALUES,
        "model": st.text(min_size=1, max_size=12) | st.sampled_from(["m", "a/b:c"]),
        "metadata": _VALUES,
        "max_tokens": st.integers(0, 10**6) | st.none(),
        "tools": _VALUES,
    },
)


@given(_BODIES, st.randoms(use_true_random=False), st.booleans(), st.integers(0, 3))
def test_the_end_of_a_body_tells_what_all_of_it_would(
    body: dict[str, Any], chance: random.Random, ascii_only: bool, long: int
) -> None:
    names = list(body)
    chance.shuffle(names)
    shuffled = {name: body[name] for name in names}
    shuffled = {**({"prompt": "x" * 5000} if long & 1 else {}), **shuffled, **({"suffix": "y" * 5000} if long & 2 else {})}
    written = json.dumps(shuffled, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    try:
        slow = peeking._read(written)
    except Refusal:
        return
    if len(written) > 5000:
        for quick in (peeking._at_the_end(written), peeking._at_the_beginning(written, 1)):
            assert quick is None or quick.model == slow.model
    found = peek(written)
    assert found.model == slow.model
    if found.model is not None:
        assert orjson.loads(renamed(written, found, "other")) == {**orjson.loads(written), "model": "other"}


@pytest.mark.parametrize("after", [b"", b',"stream":true', b',"stream_options":{"include_usage":true},"stop":["a","]"]'])
def test_a_long_prompt_is_not_read(after: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(body: bytes) -> None:
        raise AssertionError("it was read")

    monkeypatch.setattr(peeking, "_read", fail)
    prompt = 'größe \\"model\\" {[ '.encode() * 10_000
    messages = b'"messages":[{"role":"user","content":"' + prompt + b'"}]'
    assert peek(b"{" + messages + b',"model":"m"' + after + b"}").model == "m"
    assert peek(b'{ "model": "m",' + messages + after + b"}\n").model == "m"


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"allowed","model":"secret"',
        b'{"model":"allowed","mod\\u0065l":"secret"',
        b'{"metadata":{"model":"allowed"},"mod\\u0065l":"secret"',
        b'{"metadata":{"model":"allowed"},"\\u006dodel":"secret"',
    ],
)
def test_no_spelling_hides_a_model(body: bytes) -> None:
    text = b"x" * 9000
    for filled in (body + b"}", body + b',"prompt":"' + text + b'"}', b'{"prompt":"' + text + b'",' + body[1:] + b"}"):
        assert peek(filled).model == "secret"


@pytest.mark.parametrize("encoding", ["utf-16-be", "utf-16-le", "utf-32-be", "utf-16", "utf-8-sig"])
def test_no_encoding_hides_a_model(encoding: str) -> None:
    """Each byte of such a text could be read as another letter: Python's own reader guesses the encoding, and so do servers."""
    decoy = b'","model":"allowed","x":"'
    hidden = "".join(chr(one * 256 + two) for one, two in zip(decoy[::2], decoy[1::2] + b" ", strict=False))
    body = ('{"model":"secret","prompt":"' + "x" * 9000 + hidden + '"}').encode(encoding)
    assert json.loads(body)["model"] == "secret"
    with pytest.raises(Refusal):
        peek(body)


def test_a_model_within_something_else_is_not_the_model() -> None:
    text = b"x" * 9000
    assert peek(b'{"metadata":{"model":"inner"},"prompt":"' + text + b'"}').model is None
    assert peek(b'{"prompt":"' + text + b'","metadata":{"model":"inner"}}').model is None
    assert peek(b'{"model":"outer","prompt":"' + text + b'","metadata":{"model":"inner"}}').model == "outer"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'"model"', b'{"model": "m"', b'{"model": "\xff"}', b'{"a": "\xff' + b"x" * 9000]
)
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        peek(body)
    assert caught.value.status == 400


@pytest.mark.parametrize("asked", [1.5, "9", True])
def test_limits_are_whole_numbers(asked: Any) -> None:
    with pytest.raises(Refusal, match="max_tokens must be a whole number"):
        tokens_asked({"max_tokens": asked})


def test_of_two_limits_the_larger_counts() -> None:
    assert tokens_asked({"max_tokens": 5, "max_completion_tokens": 9}) == 9
    assert tokens_asked({"max_tokens": None}) is None
    assert orjson.loads(capped({"a": 1, "max_completion_tokens": None}, 7)) == {"a": 1, "max_tokens": 7}
