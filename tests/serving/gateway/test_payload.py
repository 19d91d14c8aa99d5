"""Fields are found in a body without parsing it, with the same result as parsing it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.base.http.messages import HttpError
from sliceworks.serving.gateway import payload as peeking
from sliceworks.serving.gateway.payload import find_model, replace_model
from sliceworks.serving.gateway.token_limit import requested_max_tokens, set_max_tokens

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
def test_end_of_body_equals_full_parse(body: dict[str, Any], chance: random.Random, ascii_only: bool, long: int) -> None:
    names = list(body)
    chance.shuffle(names)
    shuffled = {name: body[name] for name in names}
    shuffled = {**({"prompt": "x" * 5000} if long & 1 else {}), **shuffled, **({"suffix": "y" * 5000} if long & 2 else {})}
    written = json.dumps(shuffled, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    try:
        slow = peeking._parse_model(written)
    except HttpError:
        return
    if len(written) > 5000:
        for quick in (peeking._find_in_tail(written), peeking._find_first(written, 1)):
            assert quick is None or quick.model == slow.model
    result = find_model(written)
    assert result.model == slow.model
    if result.model is not None:
        assert orjson.loads(replace_model(written, result, "other")) == {**orjson.loads(written), "model": "other"}


@pytest.mark.parametrize("after", [b"", b',"stream":true', b',"stream_options":{"include_usage":true},"stop":["a","]"]'])
def test_long_prompt_is_not_parsed(after: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(body: bytes) -> None:
        raise AssertionError("it was read")

    monkeypatch.setattr(peeking, "_parse_model", fail)
    prompt = 'größe \\"model\\" {[ '.encode() * 10_000
    messages = b'"messages":[{"role":"user","content":"' + prompt + b'"}]'
    assert find_model(b"{" + messages + b',"model":"m"' + after + b"}").model == "m"
    assert find_model(b'{ "model": "m",' + messages + after + b"}\n").model == "m"


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"allowed","model":"secret"',
        b'{"model":"allowed","mod\\u0065l":"secret"',
        b'{"model":"allowed","Model":"secret"',
        b'{"Model":"secret","model":"allowed"',
        b'{"Model":"secret"',
        b'{"model":"allowed","MODEL":"secret"',
        b'{"model":"allowed","\\u004dodel":"secret"',
        b'{"model":"allowed","max_tokens":1,"Max_Tokens":9',
        '{"model":"allowed","max_to\u212aen\u017f":9'.encode(),
        b'{"model":"allowed","max_to\\u212Aens":9',
        b'{"model":"allowed","maxTokens":9',
        b'{"model":"allowed","N":9',
    ],
)
def test_duplicate_fields_and_other_cases_are_rejected(body: bytes) -> None:
    """Go's parser matches names in any case, and of duplicate fields the last or the first one counts."""
    text = b"x" * 9000
    for filled in (body + b"}", body + b',"suffix":"' + text + b'"}', b'{"suffix":"' + text + b'",' + body[1:] + b"}"):
        with pytest.raises(HttpError) as caught:
            find_model(filled)
        assert caught.value.status == 400
        assert re.search(r": duplicate field$|: unknown field, did you mean '(model|max_tokens|n)'\?$", caught.value.message)


@pytest.mark.parametrize(
    "body",
    [
        b'{"metadata":{"model":"allowed"},"mod\\u0065l":"secret"',
        b'{"metadata":{"model":"allowed"},"\\u006dodel":"secret"',
        b'{"metadata":{"Model":"allowed","model":"allowed"},"model":"secret"',
        b'{"model":"secret","tools":[{"parameters":{"n":1}},{"parameters":{"N":1}}]',
        b'{"model":"secret","prompt":"\\"model\\": \\"allowed\\" \\u00e9"',
    ],
)
def test_no_spelling_hides_a_model(body: bytes) -> None:
    text = b"x" * 9000
    for filled in (body + b"}", body + b',"suffix":"' + text + b'"}', b'{"suffix":"' + text + b'",' + body[1:] + b"}"):
        assert find_model(filled).model == "secret"


@pytest.mark.parametrize("encoding", ["utf-16-be", "utf-16-le", "utf-32-be", "utf-16", "utf-8-sig"])
def test_no_encoding_hides_a_model(encoding: str) -> None:
    """Each byte of such a string could be another character: Python's parser guesses the encoding, and so do backends."""
    decoy = b'","model":"allowed","x":"'
    hidden = "".join(chr(one * 256 + two) for one, two in zip(decoy[::2], decoy[1::2] + b" ", strict=False))
    body = ('{"model":"secret","prompt":"' + "x" * 9000 + hidden + '"}').encode(encoding)
    assert json.loads(body)["model"] == "secret"
    with pytest.raises(HttpError):
        find_model(body)


@pytest.mark.parametrize("unit", [b'"', b"1,", b"[1,2]", b'{"a":1},'])
def test_body_with_very_many_values_is_rejected_unread(unit: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser needs seconds for 64 MiB of them, and a hundred times their size in memory."""
    monkeypatch.setattr(peeking, "orjson", None)
    with pytest.raises(HttpError, match="more than 500,000 quotes, commas and brackets") as refusal:
        find_model(b'{"model":"m","Model":"m","messages":[' + unit * 500_000 + b"]}")
    assert refusal.value.status == 413


def test_long_strings_are_accepted() -> None:
    image = b"A" * 5_000_000
    assert find_model(b'{"messages":[{"content":"' + image + b'"}],"model":"m","prompt":"\\u00e9"}').model == "m"


def test_nested_model_field_is_ignored() -> None:
    text = b"x" * 9000
    assert find_model(b'{"metadata":{"model":"inner"},"prompt":"' + text + b'"}').model is None
    assert find_model(b'{"prompt":"' + text + b'","metadata":{"model":"inner"}}').model is None
    assert find_model(b'{"model":"outer","prompt":"' + text + b'","metadata":{"model":"inner"}}').model == "outer"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'"model"', b'{"model": "m"', b'{"model": "\xff"}', b'{"a": "\xff' + b"x" * 9000]
)
def test_invalid_body_is_rejected(body: bytes) -> None:
    with pytest.raises(HttpError) as caught:
        find_model(body)
    assert caught.value.status == 400


@pytest.mark.parametrize("requested", [1.5, "9", True])
def test_token_limits_are_integers(requested: Any) -> None:
    with pytest.raises(HttpError, match="max_tokens: must be an integer"):
        requested_max_tokens({"max_tokens": requested})


def test_larger_of_two_token_limits_counts() -> None:
    assert requested_max_tokens({"max_tokens": 5, "max_completion_tokens": 9}) == 9
    assert requested_max_tokens({"max_tokens": None}) is None
    assert orjson.loads(set_max_tokens({"a": 1, "max_completion_tokens": None}, 7)) == {"a": 1, "max_tokens": 7}
