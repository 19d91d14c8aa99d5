"""Types that mutations construct: names with dots, types of fields, and results as plain values."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.cel.admission import Bindings, Scope, bind
from sliceworks.cel.engine import EvaluationError
from sliceworks.cel.environment import CompileError
from sliceworks.cel.object_types import ObjectTypes, plain, type_problems


def bindings() -> Bindings:
    return bind({"resource": {}}, {"metadata": {"name": "a"}, "spec": {"replicas": 2}}, None, None, lambda check: (True, ""))


def evaluate(expression: str, patch_type: str = "ApplyConfiguration") -> Any:
    return bindings().run(Scope().compile_patch(expression, patch_type))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("Object{}", {}),
        ("Object{spec: Object.spec{replicas: object.spec.replicas + 1}}", {"spec": {"replicas": 3}}),
        (
            "Object{spec: Object.spec{items: [Object.spec.items{name: 'x'}, Object.spec.items{}]}}",
            {"spec": {"items": [{"name": "x"}, {}]}},
        ),
        # The name of a type in a string stays as it is.
        ("Object{metadata: Object.metadata{labels: {'a': 'Object.spec{'}}}", {"metadata": {"labels": {"a": "Object.spec{"}}}),
        ("Object{?spec: optional.none(), data: {'a': 'b'}}", {"data": {"a": "b"}}),
        ("Object{data: {'a': optional.of('b'), 'c': object.?metadata.?name}}", {"data": {"a": "b", "c": "a"}}),
        ("object.spec.replicas > 1 ? Object{data: {'many': 'yes'}} : Object{}", {"data": {"many": "yes"}}),
    ],
)
def test_objects_become_maps(expression: str, value: Any) -> None:
    result = evaluate(expression)
    assert plain(result) == value
    assert not list(type_problems(result, "Object"))


def test_patches_become_maps() -> None:
    expression = """[JSONPatch{op: "add", path: "/a/" + jsonpatch.escapeKey("b/c~"), value: Object.x{y: 1}}]"""
    assert plain(evaluate(expression, "JSONPatch")) == [{"op": "add", "path": "/a/b~1c~0", "value": {"y": 1}}]


def test_wrong_type_of_a_field_is_found() -> None:
    result = evaluate("Object{spec: Object.status{a: [Object.status.b{}]}}")
    names = [problem.split('"')[1] for problem in type_problems(result, "Object")]
    assert names == ["Object.status", "Object.status.b"]


@pytest.mark.parametrize(
    ("expression", "patch_type", "problem"),
    [
        ("1", "ApplyConfiguration", "must evaluate to Object but got int"),
        ("Object.spec{}", "ApplyConfiguration", "must evaluate to Object but got Object.spec"),
        ("[1]", "JSONPatch", "must evaluate to list(JSONPatch) but got list(int)"),
        ("Object{a: Object.b{c: x}}", "ApplyConfiguration", "<input>:1:23: undeclared reference to 'x'"),
    ],
)
def test_problem_of_an_expression_is_reported(expression: str, patch_type: str, problem: str) -> None:
    with pytest.raises(CompileError) as error:
        Scope().compile_patch(expression, patch_type)
    assert problem in str(error.value)
    assert "Object_" not in str(error.value)


@pytest.mark.parametrize("end", ["", "\\", '\\"', "\\\n"])
def test_string_that_is_not_closed_takes_linear_time(end: str) -> None:
    expression = '"' + '\\"' * 500_000 + end
    assert ObjectTypes(expression).source == expression


def test_optional_without_a_value_is_an_error() -> None:
    with pytest.raises(EvaluationError, match=r"optional.none\(\) dereference"):
        evaluate("Object{data: {'a': object.?unset}}")
