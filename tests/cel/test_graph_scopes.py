"""Expressions of graphs: types from schemas, evaluation on plain documents, and errors for missing values."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.cel.engine import EvaluationError
from sliceworks.cel.expressions import ABSENT, MissingValue, StringTemplate
from sliceworks.cel.libraries.kro import RUNTIME_VALUE
from sliceworks.cel.references import Reference
from sliceworks.cel.scopes import RUNTIME_TYPE, InvalidExpression, Scope, Types
from sliceworks.cel.source_rewrite import InvalidCall, rewrite
from sliceworks.cel.types import CelType
from sliceworks.schemas import build
from sliceworks.schemas.builtins import builtin_scheme

_NODE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "size": {"type": "integer"},
        "share": {"type": "number"},
        "since": {"type": "string", "format": "date-time"},
        "names": {"type": "array", "items": {"type": "string"}},
        "grid": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"known": {"type": "string"}}},
        "free": {"type": "object", "additionalProperties": True},
        "namespace": {"type": "string"},
    },
}
_TYPES = Types({"a": build(_NODE), "b": build(_NODE), "job": builtin_scheme().schema("batch", "v1", "Job")})
_SCOPE = Scope(_TYPES, {"item": (CelType("string"), None), "runtime": (RUNTIME_TYPE, None)})
_DATA: dict[str, Any] = {
    "a": {
        "name": "x",
        "size": 3,
        "share": 2,
        "since": "2026-01-02T03:04:05Z",
        "names": ["q"],
        "grid": [[1, 2]],
        "open": {"known": "k", "other": {"deep": 1}},
        "free": {"any": [True]},
        "namespace": "ns",
    },
    "b": {},
    "job": {"status": {"conditions": [{"type": "Complete", "status": "True"}]}},
    "item": "i",
    "runtime": RUNTIME_VALUE,
}


def _run(text: str) -> Any:
    return _SCOPE.compile(text).run(_DATA)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("a.name", "string", "x"),
        ("a.size + 1", "int", 4),
        ("a.share * 2.0", "double", 4),
        ("a.since", "google.protobuf.Timestamp", "2026-01-02T03:04:05Z"),
        ("a.since + duration('1h30m')", "google.protobuf.Timestamp", "2026-01-02T04:34:05Z"),
        ("duration('90m')", "google.protobuf.Duration", "1h30m0s"),
        ("a.grid[0]", "list", [1, 2]),
        ("a.open.known + '!'", "string", "k!"),
        ("a.open.other.deep", "dyn", 1),
        ("a.free.any[0]", "dyn", True),
        ("a.namespace", "string", "ns"),
        ("item + item", "string", "ii"),
        ("{'b': 1, 'a': 2}", "map", {"a": 2, "b": 1}),
        ("b'\\x00\\x01'", "bytes", "AAE="),
        ("hash.sha256('abc').size()", "int", 32),
        ("a.?name", "optional", "x"),
        ("b.?name", "optional", ABSENT),
        ("omit()", "dyn", ABSENT),
        ("{'a': omit(), 'b': [1, omit()]}", "map", {"b": [1]}),
        ("runtime.condition(job, 'Complete').status", "string", "True"),
        ("runtime.condition(job, 'Failed').status", "string", ""),
        ("'abc'.reverse() + ['a', 'b'].reverse().join('')", "string", "cbaba"),
    ],
)
def test_result_types_and_values(text: str, kind: str, value: Any) -> None:
    formula = _SCOPE.compile(text)
    assert formula.result.kind == kind
    assert formula.run(_DATA) == value


def test_only_fields_that_are_read_are_passed_to_the_engine() -> None:
    formula = _SCOPE.compile("a.names.map(n, n + a.name).size() + (has(b.size) ? b.size : 0) + a.grid[0][1]")
    assert {str(read) for read in formula.reads} == {"a.names", "a.name", "b.size", "a.grid[0][1]"}
    assert formula.names == {"a", "b"}
    assert formula.run(_DATA) == 3


def test_single_field_is_read_without_the_engine() -> None:
    assert _SCOPE.compile("a.open.other.deep").path == Reference("a", ("open", "other", "deep"))
    assert _SCOPE.compile("a.since").path is None
    assert _SCOPE.compile("a.?name").path is None


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("b.name", "b.name"),
        ("b.name + a.name", "b.name"),
        ("b.size > 1 && a.size > 1", "b.size"),
        ("a.names[4] + ''", "a.names[4]"),
        ("has(b.name) ? b.name : b.namespace + '!'", "b.namespace"),
        ("job.status.completionTime != null", "job.status.completionTime"),
        ("job.status.conditions[0].reason + ''", "job.status.conditions[0].reason"),
    ],
)
def test_missing_field_is_named(text: str, missing: str) -> None:
    with pytest.raises(MissingValue) as error:
        _run(text)
    assert [str(read) for read in error.value.reads] == [missing]


def test_unset_variable_is_a_missing_value() -> None:
    formula = _SCOPE.compile("a.size / 0 + b.size")
    with pytest.raises(MissingValue, match=r"b\.size not found"):
        formula.run({"a": _DATA["a"]})
    assert _SCOPE.compile("a.size == 3 || b.size == 1").run({"a": _DATA["a"]}) is True


@pytest.mark.parametrize(
    "text",
    ["1 / 0", "int(a.name)", "dyn(a.name) + 1", "has(b.name) ? b.name : string(1 / 0)", "[1][?3].value()", "{1: 2}", "1.0 / 0.0"],
)
def test_evaluation_errors_are_not_missing_values(text: str) -> None:
    with pytest.raises(EvaluationError) as error:
        _run(text)
    assert not isinstance(error.value, MissingValue)


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("a.nmae", "unknown field nmae", "did you mean name?"),
        ("c.name", "unknown name c", "known here: a, b, item, job, runtime"),
        ("a.name.uperAscii()", "unknown function uperAscii", "did you mean upperAscii?"),
        ("a.name + a.size", "+ cannot be used between string and int", "use string(…)"),
        ("a.size < 1.5", "< cannot be used between int and double", ""),
        ("a.size ? 1 : 2", "? : cannot be used on int, int, int", ""),
        ("sets.contains([1], [1])", "unknown function sets.contains", "did you mean contains?"),
        ("a.name.startWith('x')", "unknown function startWith", "did you mean startsWith?"),
        ("", "the expression is empty", ""),
        ("runtime.newCondition({kind: 'x'})", "runtime.newCondition has no field kind, only type, status, reason, message", ""),
    ],
)
def test_errors_suggest_a_correction(text: str, message: str, remedy: str) -> None:
    with pytest.raises(InvalidExpression) as error:
        _SCOPE.compile(text)
    assert (message, remedy) in [(issue.message, issue.hint) for issue in error.value.issues]


def test_unknown_fields_are_readable_only_where_they_are_preserved() -> None:
    with pytest.raises(InvalidExpression, match="unknown field other"):
        _SCOPE.compile("a.other")
    assert _run("a.open.other") == {"deep": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.free.map(k, k)", ["a", "b", "c"]),
        ("a.free.filter(k, k != 'b')", ["a", "c"]),
        ("a.free.transformList(k, v, k + string(v))", ["a1", "b2", "c3"]),
        ("a.free.transformList(k, v, v > 1, {'name': k, 'value': v})", [{"name": "b", "value": 2}, {"name": "c", "value": 3}]),
        ("dyn(a.free).transformList(k, v, k)", ["a", "b", "c"]),
        ("dyn(a.names).transformList(i, n, string(i) + n)", ["0y", "1x"]),
        ("dyn(a.names).map(n, n)", ["y", "x"]),
        ("a.free.transformList(k, v, a.names.transformList(k, n, string(k) + n + string(v)))[0]", ["0y1", "1x1"]),
        ("{2: 'b', 1: 'a'}.map(k, k)", [1, 2]),
        ("{'b': duration('1h'), 'a': duration('2h')}.transformList(k, v, v)", ["2h0m0s", "1h0m0s"]),
    ],
)
def test_lists_built_from_maps_are_sorted_by_key(text: str, expected: list[Any]) -> None:
    data = {"a": {"free": {"c": 3, "a": 1, "b": 2}, "names": ["y", "x"]}}
    assert _SCOPE.compile(text).run(data) == expected


def test_string_templates_are_rendered() -> None:
    text = StringTemplate("n-${a.name}-${string(a.size)}", ("n-", _SCOPE.compile("a.name"), "-", _SCOPE.compile("string(a.size)")))
    assert text.run(_DATA) == "n-x-3"
    assert text.names == {"a"}
    with pytest.raises(EvaluationError, match=r"dyn\(a\.size\) must return a string, got 3"):
        StringTemplate("", (_SCOPE.compile("dyn(a.size)"),)).run(_DATA)


def test_strings_with_nul_are_preserved() -> None:
    assert _SCOPE.compile("a.name + '!'").run({"a": {"name": "x\0y"}}) == "x\0y!"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "runtime.newCondition({type: 'A', status: b ? 'True' : 'False'})",
            "runtime.newCondition({\"type\": 'A', \"status\": b ? 'True' : 'False'})",
        ),
        (
            "[runtime . newCondition( { status : '', type: {'x': 1}['x'] } )]",
            "[runtime . newCondition( { \"status\" : '', \"type\": {'x': 1}['x'] } )]",
        ),
        ("x.reverse().reverse()", "x.reverse_().reverse_()"),
        ("'x.reverse()' + \"runtime.newCondition({\"", "'x.reverse()' + \"runtime.newCondition({\""),
        ("reverse(x)", "reverse(x)"),
    ],
)
def test_expressions_are_rewritten_for_the_engine(text: str, expected: str) -> None:
    assert rewrite(text) == expected


@pytest.mark.parametrize("argument", ["x", "{}", "{type: ''}", "{'type': '', status: ''}", "{type: '', type: '', status: ''}"])
def test_condition_keys_must_be_literals(argument: str) -> None:
    with pytest.raises(InvalidCall):
        rewrite(f"runtime.newCondition({argument})")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'x': optional.of('v')}", {"x": "v"}),
        ("{'x': a.?open.?unset}", {"x": None}),
        ("[optional.of(1), optional.none()]", [1, None]),
        ("a.names.map(n, {'x': a.?open.?unset})", [{"x": None}]),
        ("cel.bind(v, optional.of(1), {'x': v})", {"x": 1}),
        ("true ? {'x': optional.of(1)} : {}", {"x": 1}),
        ("{'x': 1, ?'y': optional.none()}", {"x": 1}),
        ("[?optional.none(), 2]", [2]),
        ("a.names.map(n, optional.of(n)).filter(o, o.hasValue())", ["q"]),
    ],
)
def test_optionals_in_a_result_are_their_values(text: str, value: Any) -> None:
    assert _run(text) == value


@pytest.mark.parametrize("text", ["dyn(optional.of(1))", "{'x': dyn(optional.of(1))}", "[dyn(optional.none())]", "{'x': type(1)}"])
def test_values_that_json_does_not_have_are_errors(text: str) -> None:
    with pytest.raises(EvaluationError):
        _run(text)
