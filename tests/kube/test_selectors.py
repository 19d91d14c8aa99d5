"""Label and field selectors: matching, and kube-apiserver's error messages."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.base.errors import BadRequest
from sliceworks.kube.field_selectors import escape, parse_fields, unescape
from sliceworks.kube.selectors import (
    EVERYTHING,
    NOTHING,
    LabelSelector,
    Requirement,
    from_label_selector,
    from_labels,
    parse_labels,
)

KEY_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    ("text", "labels", "selected"),
    [
        ("", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "b"}, True),
        ("a = b", {"a": "c"}, False),
        ("a=b", {}, False),
        ("a=", {"a": ""}, True),
        ("a=,b", {"a": "", "b": "x"}, True),
        ("a!=b", {}, True),
        ("a!=b", {"a": "c"}, True),
        ("a!=b", {"a": "b"}, False),
        ("a in (x,y)", {"a": "y"}, True),
        ("a in (x, y)", {"a": "z"}, False),
        ("a in (x)", {}, False),
        ("a in ()", {"a": ""}, True),
        ("a in (,x)", {"a": ""}, True),
        ("a in (x,)", {"a": ""}, True),
        ("a in (x,,y)", {"a": ""}, True),
        ("a in (x,y)", {"a": ""}, False),
        ("a notin (x,y)", {"a": "z"}, True),
        ("a notin (x,y)", {}, True),
        ("a notin (x,y)", {"a": "x"}, False),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("! a", {"a": ""}, False),
        ("a>5", {"a": "6"}, True),
        ("a>5", {"a": "5"}, False),
        ("a<5", {"a": "-4"}, True),
        ("a<5", {"a": "four"}, False),
        ("a<5", {}, False),
        ("in in (in),notin notin (in)", {"in": "in"}, True),
        ("example.com/x=1,b", {"example.com/x": "1", "b": ""}, True),
        ("example.com/x=1,b", {"example.com/x": "1"}, False),
    ],
)
def test_label_selector_matches(text: str, labels: dict[str, str], selected: bool) -> None:
    assert parse_labels(text).matches(labels) is selected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("-a", f'unable to parse requirement: <nil>: Invalid value: "-a": {KEY_RULE}'),
        ("a=-b", f'unable to parse requirement: values[0][a]: Invalid value: "-b": {VALUE_RULE}'),
        ("a>=1", "unable to parse requirement: found '=', expected: identifier"),
        (
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        ("=", "found '=', expected: !, identifier, or 'end of string'"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a in (x))", "found ')', expected: ',' or 'end of string'"),
        ("a===b", "unable to parse requirement: found '=', expected: identifier"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a in x", "unable to parse requirement: found 'x' expected: '('"),
        ("a in (!)", "unable to parse requirement: found '!', expected: ',', ')' or identifier"),
        ("a in (x !)", "unable to parse requirement: found '!', expected: ',' or ')'"),
    ],
)
def test_invalid_label_selectors_have_the_messages_of_kube_apiserver(text: str, message: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        parse_labels(text)
    assert str(refusal.value) == message


def test_selector_string_is_sorted() -> None:
    assert str(parse_labels("z notin (b,a), y>3 ,!x,w,a==1,b!=2,c=3,d in (q,p)")) == (
        "a==1,b!=2,c=3,d in (p,q),w,!x,y>3,z notin (a,b)"
    )
    assert parse_labels("b,a=1") == parse_labels("a=1,b")
    assert len({parse_labels("b,a=1"), parse_labels("a=1,b"), EVERYTHING}) == 2
    assert repr(NOTHING) == "LabelSelector(nothing)"
    assert repr(parse_labels("a")) == "LabelSelector('a')"


def test_matches_everything() -> None:
    assert not parse_labels("a=1").matches_everything
    assert parse_labels("").matches_everything
    assert not NOTHING.matches_everything


def test_selector_matches_objects_without_labels() -> None:
    assert parse_labels("!a").matches(None)
    assert not parse_labels("a").matches(None)
    assert not NOTHING.matches(None)


@pytest.mark.parametrize(
    ("selector", "labels", "selected"),
    [
        (None, {"a": "b"}, False),
        ({}, {"a": "b"}, True),
        ({"matchLabels": {"a": "b"}}, {"a": "b", "c": "d"}, True),
        ({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}, {"a": "b"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}]}, {"a": "c"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b", "c"]}]}, {"a": "c"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {}, True),
    ],
)
def test_label_selector_objects(selector: dict[str, object] | None, labels: dict[str, str], selected: bool) -> None:
    assert from_label_selector(selector).matches(labels) is selected


def test_invalid_label_selector_objects_are_rejected() -> None:
    with pytest.raises(BadRequest, match='"Near" is not a valid label selector operator'):
        from_label_selector({"matchExpressions": [{"key": "a", "operator": "Near"}]})
    with pytest.raises(BadRequest, match="for 'in', 'notin' operators, values set can't be empty"):
        from_label_selector({"matchExpressions": [{"key": "a", "operator": "In"}]})
    with pytest.raises(BadRequest) as refusal:
        from_label_selector({"matchLabels": {"-a": "-b"}})
    assert str(refusal.value).startswith('[key: Invalid value: "-a": name part must')


def test_selector_from_labels() -> None:
    assert str(from_labels({"b": "2", "a": "1"})) == "a=1,b=2"


@given(st.dictionaries(st.from_regex(r"\A[a-z]{1,3}\Z"), st.from_regex(r"\A[a-z0-9]{0,3}\Z"), max_size=4))
def test_selector_string_round_trips(labels: dict[str, str]) -> None:
    selector = from_labels(labels)
    assert parse_labels(str(selector)) == selector
    assert selector.matches(labels)


@given(st.text(alphabet="ab=!(),<> in\tnot", max_size=12))
def test_any_string_is_parsed_or_rejected(text: str) -> None:
    with contextlib.suppress(BadRequest):
        assert isinstance(parse_labels(text), LabelSelector)


@pytest.mark.parametrize(
    ("text", "fields", "selected"),
    [
        ("", {}, True),
        (",,", {}, True),
        ("=,!=", {}, True),
        ("metadata.name=x", {"metadata.name": "x"}, True),
        ("metadata.name==x", {"metadata.name": "y"}, False),
        ("metadata.name=x,status.phase!=Running", {"metadata.name": "x"}, True),
        ("metadata.name=x,status.phase!=Running", {"metadata.name": "x", "status.phase": "Running"}, False),
        ("spec.nodeName=", {}, True),
        (r"metadata.name=a\,b\=c\\d", {"metadata.name": "a,b=c\\d"}, True),
    ],
)
def test_field_selector_matches(text: str, fields: dict[str, str], selected: bool) -> None:
    assert parse_fields(text).matches(fields) is selected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("a=1,b", "invalid selector: 'a=1,b'; can't understand 'b'"),
        (r"a=x\y", r"invalid field selector: invalid escape sequence: \y"),
        ("a=x\\", "invalid field selector: invalid escape sequence: \\"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_invalid_field_selectors_have_the_messages_of_kube_apiserver(text: str, message: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        parse_fields(text)
    assert str(refusal.value) == message


def test_field_selectors_as_values() -> None:
    selector = parse_fields("b!=2,a=1")
    assert str(selector) == "a=1,b!=2"
    assert selector.matches({"a": "1"})
    assert not selector.matches({"a": "1", "b": "2"})
    assert selector == parse_fields("a=1,b!=2")
    assert len({selector, parse_fields("a=1,b!=2")}) == 1
    with pytest.raises(BadRequest, match="field label not supported: b"):
        selector.check(lambda field: field == "a")


@given(st.text(max_size=8))
def test_escape_round_trips(value: str) -> None:
    assert unescape(escape(value)) == value


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["x", "y", "", "1", "7"]), max_size=3)
REQUIREMENTS = st.one_of(
    st.builds(Requirement, st.sampled_from("abc"), st.sampled_from(["=", "==", "!="]), st.tuples(st.sampled_from(["x", "", "1"]))),
    st.builds(
        Requirement,
        st.sampled_from("abc"),
        st.sampled_from(["in", "notin"]),
        st.sets(st.sampled_from("xy17"), min_size=1).map(tuple),
    ),
    st.builds(Requirement, st.sampled_from("abc"), st.sampled_from(["exists", "!"])),
    st.builds(Requirement, st.sampled_from("abc"), st.sampled_from(["gt", "lt"]), st.tuples(st.sampled_from(["0", "3", "9"]))),
)


@given(st.lists(REQUIREMENTS, max_size=6), LABELS)
def test_large_selectors_match_as_small_ones(requirements: list[Requirement], labels: dict[str, str]) -> None:
    repeated = requirements * 20  # beyond the number that is tried one after another
    assert LabelSelector(repeated).matches(labels) is all(requirement.matches(labels) for requirement in requirements)


class CountedLabels(dict[str, str]):
    """Labels that count how often they are read."""

    reads = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.reads += 1
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.reads += 1
        return super().__contains__(key)


@pytest.mark.parametrize("term", ["k{}!=v", "!k{}", "k{}", "a!=v{}", "a notin (v{},w)"])
def test_a_match_does_not_take_time_per_requirement(term: str) -> None:
    selector = parse_labels(",".join(term.format(number) for number in range(10_000)))
    labels = CountedLabels(a="b")
    assert selector.matches(labels) is (term != "k{}")
    assert labels.reads < 10


def test_a_field_with_two_values_matches_nothing() -> None:
    selector = parse_fields("a=1,a=2,b!=3")
    assert selector.matches_nothing
    assert not selector.matches({"a": "1"})
    assert not parse_fields("a=1,a=1").matches_nothing
