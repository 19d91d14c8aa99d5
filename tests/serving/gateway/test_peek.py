"""What is found in a body without reading it is what reading it would find."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.serving.gateway import peek as peeking
from sliceworks.serving.gateway.peek import capped, peek, renamed
from sliceworks.serving.gateway.refusals import Refusal

_TEXTS = st.text(max_size=20) | st.sampled_from(
    ['"model"', '\\"model\\": \\"x\\"', '{"model": "x"}', "model", '","model":"y', "}]}", "[{"]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**6) | _TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["model", "stream", "max_tokens", "a", "b"]), inner, max_size=3)
    ),
    max_leaves=8,
)
_BODIES = st.fixed_dictionaries(
    {},
    optional={
        "messages": _VALUES,
        "model": st.text(min_size=1, max_size=12) | st.sampled_from(["m", "a/b:c"]),
        "stream": st.booleans() | st.none(),
        "metadata": _VALUES,
        "max_tokens": st.integers(0, 10**6) | st.none(),
        "max_completion_tokens": st.integers(0, 10**6),
        "tools": _VALUES,
    },
)


@given(_BODIES, st.randoms(use_true_random=False), st.booleans(), st.integers(0, 3))
def test_the_quick_way_agrees_with_reading_it_all(body: dict[str, object], chance: object, ascii_only: bool, long: int) -> None:
    import json
    import random

    assert isinstance(chance, random.Random)
    names = list(body)
    chance.shuffle(names)
    shuffled = {name: body[name] for name in names}
    if long:
        shuffled = {**({"prompt": "x" * 3000} if long & 1 else {}), **shuffled, **({"suffix": "y" * 5000} if long & 2 else {})}
    written = json.dumps(shuffled, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    try:
        slow = peeking._slowly(written)
    except Refusal:
        return
    quick = peeking._quickly(written)
    assert quick is None or (quick.model, quick.stream, quick.max_tokens) == (slow.model, slow.stream, slow.max_tokens)
    found = peek(written)
    assert (found.model, found.stream, found.max_tokens) == (slow.model, slow.stream, slow.max_tokens)
    if found.model is not None:
        changed = orjson.loads(renamed(written, found, "other"))
        assert changed == {**orjson.loads(written), "model": "other"}
    if found.max_tokens is None:
        limited = orjson.loads(capped(written, found, 7)) if orjson.loads(written) else {"max_tokens": 7}
        assert limited["max_tokens"] == 7
        assert "max_completion_tokens" not in limited


@pytest.mark.parametrize("after", [b"", b',"stream":true', b',"stream_options":{"include_usage":true},"stop":["a","]"]'])
def test_a_long_prompt_is_not_read(after: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(body: bytes) -> None:
        raise AssertionError("it was read")

    monkeypatch.setattr(peeking, "_slowly", fail)
    prompt = b'word \\"model\\" {[ ' * 10_000
    body = b'{"messages":[{"role":"user","content":"' + prompt + b'"}],"model":"m"' + after + b"}"
    assert peek(body).model == "m"
    assert peek(b'{"model":"m","messages":[{"content":"' + prompt + b'"}]}').model == "m"


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
    for filler in (b"}", b',"prompt":"' + b"x" * 9000 + b'"}'):
        assert peek(body + filler).model == "secret"


def test_a_model_within_something_else_is_not_the_model() -> None:
    assert peek(b'{"metadata":{"model":"inner"},"prompt":"' + b"x" * 9000 + b'"}').model is None


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"model"', b'{"model": "m"', b'{"model": "\xff"}', b'{"max_tokens": 1.5}', b'{"max_tokens": "9"}'],
)
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        peek(body)
    assert caught.value.status == 400
