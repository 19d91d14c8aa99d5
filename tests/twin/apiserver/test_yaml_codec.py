"""YAML bodies are decoded as kube-apiserver does: the values were recorded from a real one."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.twin.apiserver.yaml_codec import MAX_DEPTH, YamlError, decode, decode_compact_json, encode


def read(text: str) -> Any:
    return decode(text.encode())[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1:30", "1:30"), ("12:30:45", "12:30:45"), ("1:30.5", "1:30.5"), ("190:20:30", "190:20:30"),
        ("017", 15), ("0o17", 15), ("0x1F", 31), ("0b101", 5), ("08", 8), ("0_1", 1), ("0x", "0x"),
        ("-0", 0), ("+5", 5), ("-0x1f", -31),
        ("1_000", 1000), ("1__0", 10), ("1_000.5", 1000.5), ("685.230_15e+03", 685230.15),
        ("1e3", 1000), ("1.5e3", 1500), ("0.1e1", 1), ("1.", 1), ("1.0", 1), ("1.10", 1.1), (".5", 0.5), ("1e400", "1e400"),
        ("9223372036854775807", 2**63 - 1), ("99999999999999999999", 1e20), ("18446744073709551615", 2.0**64),
        ("-9223372036854775809", -(2.0**63)),
        ("yes", True), ("No", False), ("on", True), ("OFF", False), ("y", True), ("Y", True), ("n", False),
        ("true", True), ("True", True), ("tRue", "tRue"), ("~", None), ("null", None), ("Null", None), ("", None), ("nULL", "nULL"),
        ("=", "="), ("<<", "<<"), ("2001-01-01", "2001-01-01"), ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"),
        ("'0'", "0"), ('"yes"', "yes"), ('"\\x00"', "\0"), ('"\\U0001F600"', "😀"), ("x y", "x y"),
        ("+", "+"), ("- a", ["a"]), ("1.2.3", "1.2.3"),
        ("!!str 12", "12"), ('!!int "12"', 12), ("!!float 1", 1), ('!!bool "yes"', True), ("!!binary aGVsbG8=", "hello"),
        ("!foo bar", "bar"), ("!foo 12", "12"), ("!!set {a, b}", {"a": None, "b": None}), ("!!omap [a: 1]", [{"a": 1}]),
        ("!!null ''", None), ("!!timestamp 2001-01-01", "2001-01-01"),
    ],
)  # fmt: skip
def test_scalar_values(text: str, value: Any) -> None:
    result = read(f"v:\n  {text}\n")["v"]
    assert result == value
    assert type(result) is type(value)
    orjson.dumps(result)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{1: a, true: b, 1.5: c, y: d, 0x10: e}", {"1": "a", "true": "d", "1.5": "c", "16": "e"}),
        ("a: 1\n---\nb: 2", {"a": 1}),
        ("a: 1\n...\n", {"a": 1}),
        ("%YAML 1.1\n---\na: 1", {"a": 1}),
        ("\ufeffa: 1", {"a": 1}),
        ("x: &x {a: 1, b: 2}\nz: {<<: *x, b: 3}", {"x": {"a": 1, "b": 2}, "z": {"a": 1, "b": 3}}),
        ("x: &x {a: 1}\nz: {<<: [*x, {b: 2}]}", {"x": {"a": 1}, "z": {"a": 1, "b": 2}}),
        ("a: &a [1]\nb: *a", {"a": [1], "b": [1]}),
        ('{\t"a":\t1}', {"a": 1}),
        ("a: |\n  one\n  two\n", {"a": "one\ntwo\n"}),
        ("", None),
        ("# nothing", None),
    ],
)
def test_documents(text: str, value: Any) -> None:
    assert read(text) == value


def test_large_body_without_aliases_is_decoded() -> None:
    value = read("a:\n" + "".join(f"  field{number}: x\n" for number in range(100_000)))
    assert len(value["a"]) == 100_000
    with pytest.raises(YamlError, match="more than 400,000 nodes"):
        read("a: [" + "1," * 400_000 + "]")


def test_alias_is_a_copy() -> None:
    result = read("a: &a {b: []}\nc: *a")
    result["a"]["b"].append(1)
    assert result["c"] == {"b": []}


def test_duplicate_fields_are_reported() -> None:
    assert decode(b'a: 1\nb: {c: 1, c: 2}\n"a": 3\n') == ({"a": 3, "b": {"c": 2}}, [("a", 3), ("c", 2)])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: *nope", "unknown anchor 'nope' referenced"),
        ("a: &s {b: *s}", "anchor 's' value contains itself"),
        ("%YAML 1.2\n---\na: 1", "found incompatible YAML document"),
        ("a:\n\tb: 1", "line 2: found character that cannot start any token"),
        ("a:\n  b: -\n", "line 2: block sequence entries are not allowed in this context"),
        ("a: .inf", "json: unsupported value: +Inf"),
        ("a: -.INF", "json: unsupported value: -Inf"),
        ("a: .nan", "json: unsupported value: NaN"),
        ("a: 'x\0y'", "control characters are not allowed"),
        ('a:\n  b: "\\ud800"', "line 2: found invalid Unicode character escape code"),
        ("{[1]: 2}", "invalid map key"),
        ("{null: 2}", "unsupported map key of type: %!s(<nil>), key: <nil>"),
        ("a: !!int x", "cannot decode !!str `x` as a !!int"),
        ("a: !!binary '*'", "!!binary value contains invalid base64 data"),
        ("[" * (MAX_DEPTH + 1), "exceeded max depth"),
        ("[" * 100_000, "exceeded max depth"),
        ("a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)),
         "document contains excessive aliasing"),
    ],
)  # fmt: skip
def test_error_messages(text: str, message: str) -> None:
    with pytest.raises(YamlError) as caught:
        read(text)
    assert str(caught.value) == (message if message.startswith(("json:", "unsupported map key")) else f"yaml: {message}")


def test_invalid_utf8_is_rejected() -> None:
    with pytest.raises(YamlError, match="invalid leading UTF-8 octet"):
        decode(b"a: '\xff'")


def test_nesting_limit() -> None:
    value = read("{a: " * MAX_DEPTH + "1" + "}" * MAX_DEPTH)
    for _ in range(MAX_DEPTH):
        value = value["a"]
    assert value == 1


@given(st.text() | st.text("{}[]:,-?&*!|>'\"%@`#~ \n\tab01.<"))
def test_random_documents_are_decoded_or_rejected(text: str) -> None:
    try:
        value, _ = decode(text.encode("utf-8", "surrogatepass"))
    except YamlError:
        return
    orjson.dumps(value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(
        st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufeff")
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abyno01:~. -", max_size=5), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(json_values)
def test_encoded_value_round_trips(value: Any) -> None:
    assert same(decode(encode(value))[0], value)


def same(obj: Any, value: Any) -> bool:
    if isinstance(value, dict):
        return list(obj) == sorted(value) and all(same(obj[key], value[key]) for key in value)
    if isinstance(value, list):
        return len(obj) == len(value) and all(map(same, obj, value))
    if isinstance(value, float):
        return math.isclose(obj, value, rel_tol=1e-15)
    return type(obj) is type(value) and bool(obj == value)


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.just("<<"), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=4), _JSON, max_size=4))
def test_compact_json_has_the_value_that_it_has_as_yaml(document: dict[str, Any]) -> None:
    try:
        body = orjson.dumps(document)
    except orjson.JSONEncodeError:  # integers of more than 64 bits
        return
    value = decode_compact_json(body)
    if value is not None:
        assert orjson.dumps(value) == orjson.dumps(decode(body)[0])


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":1,"a":2}', b'{"a": 1}', b'{"a":1.0}', b'{"a":1e3}', b'{"a":[9223372036854775808]}', b'{"a":"\\u00e9"}', b"{}x",
        b"[]", b'{"<<":{"a":1}}', b'{"a":"\x7f"}', '{"a":"\x85"}'.encode(), '{"a":"\u2028"}'.encode(),
        b'{"' + b"k" * 1100 + b'":1}',
    ],
)  # fmt: skip
def test_other_json_is_decoded_as_yaml(body: bytes) -> None:
    assert decode_compact_json(body) is None


def test_usual_compact_json_is_decoded_at_once() -> None:
    body = b'{"kind":"ConfigMap","data":{"a.b/c":"1.5, 2e3: \\n \xc3\xa9","n":"[1.0]"},"x":[1,-2,true,null,{}]}'
    assert decode_compact_json(body.replace(b',"n":"[1.0]"', b"")) == decode(body.replace(b',"n":"[1.0]"', b""))[0]
    assert decode_compact_json(body) is None  # a float inside a string: only slower
