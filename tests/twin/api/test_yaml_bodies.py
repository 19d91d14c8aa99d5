"""YAML bodies mean what they mean to kube-apiserver: the values were asked of a real one."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.twin.api.yaml_bodies import DEEPEST, YamlRefused, decode, encode


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
def test_values(text: str, value: Any) -> None:
    found = read(f"v:\n  {text}\n")["v"]
    assert found == value
    assert type(found) is type(value)
    orjson.dumps(found)


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


def test_what_an_alias_stands_for_is_a_copy() -> None:
    found = read("a: &a {b: []}\nc: *a")
    found["a"]["b"].append(1)
    assert found["c"] == {"b": []}


def test_fields_given_twice() -> None:
    assert decode(b'a: 1\nb: {c: 1, c: 2}\n"a": 3\n') == ({"a": 3, "b": {"c": 2}}, [("a", 3), ("c", 2)])


@pytest.mark.parametrize(
    ("text", "why"),
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
        ("[" * (DEEPEST + 1), "exceeded max depth"),
        ("[" * 100_000, "exceeded max depth"),
        ("a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)),
         "document contains excessive aliasing"),
    ],
)  # fmt: skip
def test_refusals(text: str, why: str) -> None:
    with pytest.raises(YamlRefused) as caught:
        read(text)
    assert str(caught.value) == (why if why.startswith(("json:", "unsupported map key")) else f"yaml: {why}")


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(YamlRefused, match="invalid leading UTF-8 octet"):
        decode(b"a: '\xff'")


def test_as_deep_as_it_goes() -> None:
    value = read("{a: " * DEEPEST + "1" + "}" * DEEPEST)
    for _ in range(DEEPEST):
        value = value["a"]
    assert value == 1


@given(st.text() | st.text("{}[]:,-?&*!|>'\"%@`#~ \n\tab01.<"))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        value, _ = decode(text.encode("utf-8", "surrogatepass"))
    except YamlRefused:
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
def test_what_is_written_reads_the_same(value: Any) -> None:
    assert same(decode(encode(value))[0], value)


def same(found: Any, value: Any) -> bool:
    if isinstance(value, dict):
        return list(found) == sorted(value) and all(same(found[key], value[key]) for key in value)
    if isinstance(value, list):
        return len(found) == len(value) and all(map(same, found, value))
    if isinstance(value, float):
        return math.isclose(found, value, rel_tol=1e-15)
    return type(found) is type(value) and bool(found == value)
