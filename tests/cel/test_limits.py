"""Expressions cannot block the server: length, depth, iterations and value sizes are limited."""

from __future__ import annotations

import resource

import pytest

from sliceworks.cel.dialect import KUBERNETES
from sliceworks.cel.engine import EvaluationError
from sliceworks.cel.environment import MAX_LENGTH, CompileError, Environment, Variable
from sliceworks.cel.rules import compile_rules, evaluate_rules
from sliceworks.schemas import build

_SCHEMA = build(
    {
        "type": "object",
        "properties": {"s": {"type": "string"}, "n": {"type": "integer"}, "list": {"type": "array", "items": {"type": "integer"}}},
    }
)
_ENVIRONMENT = Environment({"self": Variable(_SCHEMA)})


def _run(text: str, **values: object) -> object:
    return _ENVIRONMENT.compile(text).run(KUBERNETES.runtime.Activation({"self": values}))


def test_expression_length_is_limited() -> None:
    with pytest.raises(CompileError, match="longer than"):
        _ENVIRONMENT.compile("self.n > 1" + " " * MAX_LENGTH)


@pytest.mark.parametrize("text", ["(" * 200 + "1" + ")" * 200, "+".join("1" * 200), "[" * 60 + "1" + "]" * 60])
def test_expression_depth_is_limited(text: str) -> None:
    with pytest.raises(CompileError, match=r"recursion"):
        _ENVIRONMENT.compile(f"{text} == 1")


def test_long_conditions_are_not_deep() -> None:
    assert _run(" && ".join(["self.n > 0"] * 400), n=1) is True


@pytest.mark.parametrize(
    "text",
    [
        "[self.s]" + ".map(a, a + a)" * 25 + "[0].size() > 1",
        "self.s.split('').map(x, self.s.split('').join(x)).size() >= 0",
        "self.s" + f".replace('a', '{'b' * 1000}')" * 3 + ".size() > 1",
        "self.s.replace('a', self.s).size() >= 0",
        "self.list.map(x, self.list.map(y, self.list.map(z, self.s))).size() > 1",
        "self.list.map(x, self.s + self.s).size() > 1",
    ],
)
def test_value_growth_is_limited(text: str) -> None:
    """The rules are accepted or rejected at definition as Kubernetes does; with large values, none fills the memory."""
    schema = build({**_SCHEMA.node, "x-kubernetes-validations": [{"rule": text}]})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (error,) = evaluate_rules(schema, {"s": "a" * 12_000, "list": list(range(5000)), "n": 1})
    assert "actual cost limit exceeded" in error.detail
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


@pytest.mark.parametrize(
    "text",
    [
        "self.list.all(x, self.list.all(y, x >= 0 || y >= 0))",
        "lists.range(self.n).size() > 1",
        "self.list.transformMap(k, v, v).size() > 1",
    ],
)
def test_iterations_are_limited(text: str) -> None:
    with pytest.raises(EvaluationError, match="actual cost limit exceeded"):
        _run(text, list=list(range(5000)), n=10**15)


def test_patterns_take_linear_time() -> None:
    assert _run("self.s.matches('(a*)*b')", s="a" * 50_000) is False
    assert _run("self.s.find('(a*)*b')", s="a" * 50_000) == ""


def test_expensive_rule_is_rejected_and_stops_the_others() -> None:
    rules = [{"rule": "self.list.all(x, self.list.all(y, x >= 0 || y >= 0))"}, {"rule": "false"}]
    schema = build({"type": "object", "properties": {"spec": {**_SCHEMA.node, "x-kubernetes-validations": rules}}})
    (error,) = evaluate_rules(schema, {"spec": {"list": list(range(5000))}})
    assert "no further validation rules will be run due to call cost exceeds limit for rule: self.list.all" in error.detail
    grown = {"rule": "self.s.split('').map(x, self.s.split('').join(x)).size() >= 0"}
    schema = build({"type": "object", "properties": {"spec": {**_SCHEMA.node, "x-kubernetes-validations": [grown]}}})
    error, *_ = compile_rules(schema, "s")
    assert (error.reason, error.path) == ("FieldValueForbidden", "s.properties[spec].x-kubernetes-validations[0].rule")


def test_numbers_and_strings_of_any_size_are_handled() -> None:
    assert _run("self.n > 1", n=2**63 - 1) is True
    with pytest.raises(EvaluationError):
        _run("self.n + 1 > 1", n=2**63 - 1)
    assert _run("self.s.size()", s="ä\U0001f600") == 2


def test_string_is_matched_as_a_whole() -> None:
    ruled = {"type": "string", "x-kubernetes-validations": [{"rule": "self.matches('^[a-z]+$') && self.size() == 3"}]}
    schema = build({"type": "object", "properties": {"s": ruled}})
    assert not evaluate_rules(schema, {"s": "abc"})
    assert evaluate_rules(schema, {"s": "abc\x00<evil>"})
    assert evaluate_rules(schema, {"s": "\x00"})
    with pytest.raises(CompileError, match="Syntax error"):
        _ENVIRONMENT.compile("true\x00 && false")
