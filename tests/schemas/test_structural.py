"""Parts of the schema engine that the recorded responses do not cover."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.base.errors import RequestEntityTooLarge
from sliceworks.schemas import build, crds, formats, patterns, prune, set_defaults, validate
from sliceworks.schemas.field_errors import FieldError, go_number, invalid
from sliceworks.schemas.model import MISSING, Schema
from sliceworks.twin.apiserver.registry import crd_strategy
from sliceworks.twin.apiserver.validation import crd

KEYED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "list": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["n"],
            "items": {
                "type": "object",
                "required": ["n"],
                "properties": {"n": {"type": "string"}, "v": {"type": "integer", "maximum": 5}},
            },
        },
        "plain": {"type": "array", "items": {"type": "integer", "maximum": 5}},
    },
}


def test_unchanged_item_is_ratcheted_after_a_move() -> None:
    schema = build(KEYED)
    old = {"list": [{"n": "a", "v": 9}, {"n": "b", "v": 1}]}
    new = {"list": [{"n": "b", "v": 8}, {"n": "a", "v": 9}]}
    assert [error.path for error in validate(schema, new, old=old)] == ["list[0].v"]


def test_atomic_list_is_ratcheted_as_a_whole() -> None:
    schema = build(KEYED)
    assert [error.path for error in validate(schema, {"plain": [9, 1]}, old={"plain": [9]})] == ["plain[0]"]
    assert validate(schema, {"plain": [9]}, old={"plain": [9]}) == []


def test_rules_run_once_and_on_valid_objects_only() -> None:
    node = {**KEYED, "x-kubernetes-validations": [{"rule": "true"}], "required": ["plain"]}
    schema = build(node)
    calls: list[tuple[Any, Any]] = []

    def cel(at: Schema, value: Any, old: Any, path: str) -> list[FieldError]:
        calls.append((value, old))
        return [invalid(path, value, "failed rule: true")]

    (blocked, unchecked) = validate(schema, {}, cel=cel)
    assert (blocked.body, unchecked.path) == ("Required value", "")
    assert str(unchecked).startswith("<nil>: Invalid value: null: some validation rules were not checked")
    assert calls == []
    assert len(validate(schema, {"plain": []}, cel=cel)) == 1
    assert calls == [({"plain": []}, MISSING)]


def test_metadata_limits_are_stored_separately() -> None:
    limits = {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}}}
    versions = [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": limits}}}]
    schema = crds.schema_for_version({"spec": {"versions": versions}}, "v1")
    obj = {"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "long", "labels": {"a": "b"}, "odd": 1}}
    unknown: list[str] = []
    prune(schema, obj, unknown)
    assert unknown == ["metadata.odd"]
    assert [str(error) for error in validate(schema, obj)] == ["metadata.name: Too long: may not be more than 3 bytes"]
    assert schema.properties["metadata"].name.endswith("ObjectMeta")


def test_unknown_version_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        crds.schema_for_version({"spec": {"versions": []}}, "v1")


def test_defaults_are_copied() -> None:
    schema = build({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "default": ["x"]}}})
    one: dict[str, Any] = {}
    other: dict[str, Any] = {}
    set_defaults(schema, one)
    one["a"].append("y")
    set_defaults(schema, other)
    assert other == {"a": ["x"]}


def test_condition_keeps_its_time_while_its_status_is_unchanged() -> None:
    definition: dict[str, Any] = {"status": {"conditions": None}}
    first = {"type": "Established", "status": "True", "reason": "A", "message": "", "lastTransitionTime": "1"}
    assert crd_strategy.set_condition(definition, first)
    assert not crd_strategy.set_condition(definition, {**first, "lastTransitionTime": "2"})
    assert crd_strategy.set_condition(definition, {**first, "status": "False", "lastTransitionTime": "3"})
    assert definition["status"]["conditions"] == [{**first, "status": "False", "lastTransitionTime": "3"}]


def test_names_and_scope_of_a_crd_are_immutable() -> None:
    def definition(**spec: Any) -> dict[str, Any]:
        root = {"openAPIV3Schema": {"type": "object"}}
        names = {"plural": "as", "kind": "A", "singular": "a", "listKind": "AList"}
        created: dict[str, Any] = {"metadata": {"name": "as.x.dev"}, "spec": {"group": "x.dev", "scope": "Cluster", "names": names}}
        created["spec"]["versions"] = [{"name": "v1", "served": True, "storage": True, "schema": root}]
        created["status"] = {"storedVersions": ["v1"], "conditions": [{"type": "Established", "status": "True"}]}
        created["spec"] |= spec
        return created

    assert crd.definition_errors(definition(), definition()) == []
    (error,) = crd.definition_errors(definition(scope="Namespaced"), definition())
    assert str(error) == 'spec.scope: Invalid value: "Namespaced": field is immutable'


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("mac", "01:23:45:67:89:ab", "01:23-45:67:89:ab"),
        ("isbn10", "0321751043", "0321751044"),
        ("isbn13", "978-0321751041", "978-0321751042"),
        ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
        ("ssn", "123-45-6789", "123456789"),
        ("hexcolor", "#fFF", "#ffff"),
        ("rgbcolor", "rgb(0, 255,1)", "rgb(0,256,1)"),
        ("uuid4", "0b7c3f52-5cc4-4cc0-8c1f-c1d0b3b2d0a9", "0b7c3f52-5cc4-3cc0-8c1f-c1d0b3b2d0a9"),
        ("uri", "https://example.com/a?b=c", "example"),
        ("email", "Ann <ann@example.com>", "ann@"),
        ("duration", "2 weeks", "soon"),
        ("date-time", "2020-02-28T23:59:59.5+01:00", "2020-02-28T24:00:00Z"),
        ("k8s-long-name", "a.b-c", "a..b"),
        ("cidr", "2001:db8::/32", "2001:db8::/129"),
        ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
        ("password", "anything", None),
    ],
)
def test_formats_accept_and_reject(name: str, good: str, bad: str | None) -> None:
    assert formats.normalize(name)
    assert formats.is_valid(name, good)
    assert bad is None or not formats.is_valid(name, bad)


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^[]a\]]+\z", "a]", "b"),
        (r"^\Qa.b\E$", "a.b", "axb"),
        (r"^[[:upper:][:digit:]]+$", "A1", "a"),
        (r"^\pL+$", "äB", "1"),
        (r"^[\p{Lu}_]+$", "A_", "a"),
        (r"^\d+$", "12", "١"),
        (r"^(?i)abc$", "ABC", "abd"),
        (r"^(?P<n>a)(?P<n>b)$", "ab", "a"),
        (r"^x{,3}$", "x{,3}", "xx"),
        (r"^[[&&]$", "&", "a"),
    ],
)
def test_patterns_match_as_in_go(pattern: str, good: str, bad: str) -> None:
    assert patterns.compile_pattern(pattern).search(good)
    assert not patterns.compile_pattern(pattern).search(bad)


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("a(b", "missing closing ): `a(b`"),
        ("a[b", "missing closing ]: `[b`"),
        ("a|*", "missing argument to repetition operator: `*`"),
        ("a*+", "invalid nested repetition operator: `*+`"),
        ("a)", "unexpected ): `a)`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        ("\\1", "invalid escape sequence: `\\1`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?<!a)", "invalid named capture: `(?<!a)`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{99999999999}", "invalid repeat count: `{99999999999}`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        ("(?P<ä>a)", "invalid named capture: `(?P<ä>`"),
        ("(" * 1000 + ")" * 1000, f"expression nests too deeply: `{'(' * 1000 + ')' * 1000}`"),
    ],
)
def test_invalid_pattern_has_gos_message(pattern: str, problem: str) -> None:
    with pytest.raises(patterns.PatternError) as result:
        patterns.compile_pattern(pattern)
    assert str(result.value) == f"error parsing regexp: {problem}"


@pytest.mark.parametrize("pattern", ["(a+)+$", "^([a-z0-9]+(-[a-z0-9]+)*)+$"])
def test_patterns_match_in_linear_time(pattern: str) -> None:
    assert not patterns.compile_pattern(pattern).search("a" * 100_000 + "!")


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (0.5, "0.5"), (1e6, "1e+06"), (123456.0, "123456"), (-2.5e-7, "-2.5e-07"), (1e21, "1e+21"), (3, "3"), (0.0, "0")],
)
def test_numbers_are_formatted_as_in_go(value: float, text: str) -> None:
    assert go_number(value) == text


def test_defaults_of_one_object_are_limited() -> None:
    """A list of empty items, each with large defaults, would otherwise be larger than the memory."""
    item = {"type": "object", "properties": {f"q{number}": {"type": "string", "default": "x" * 1000} for number in range(100)}}
    schema = build({"type": "object", "properties": {"list": {"type": "array", "items": item}}})
    few: dict[str, Any] = {"list": [{}] * 10}
    set_defaults(schema, few)
    assert few["list"][9]["q99"] == "x" * 1000
    for default in ({}, {"default": {"text": "x" * 3000}, "x-kubernetes-preserve-unknown-fields": True}):
        schema = build({"type": "object", "properties": {"list": {"type": "array", "items": {**item, **default}}}})
        with pytest.raises(RequestEntityTooLarge, match="limit of the defaults of an object is 3145728"):
            set_defaults(schema, {"list": [None if default else {} for _ in range(100_000)]})
