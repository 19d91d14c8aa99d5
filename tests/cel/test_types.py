"""CEL types of schemas: the fields that an expression can select, and their names."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.cel.environment import CompileError, Environment, Variable
from sliceworks.cel.types import CelType, Declarations, escape_field_name
from sliceworks.schemas import build
from sliceworks.schemas.builtins import builtin_scheme


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("plain", "plain"),
        ("_x1", "_x1"),
        ("a-b", "a__dash__b"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("namespace", "__namespace__"),
        ("in", "__in__"),
        ("1a", None),
        ("a b", None),
        ("ä", None),
        ("$ref", None),
        ("", None),
    ],
)
def test_names_are_escaped(name: str, escaped: str | None) -> None:
    assert escape_field_name(name) == escaped


@pytest.mark.parametrize(
    ("node", "text"),
    [
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "date-time"}, "google.protobuf.Timestamp"),
        ({"type": "string", "format": "duration"}, "google.protobuf.Duration"),
        ({"type": "string", "format": "byte"}, "bytes"),
        ({"type": "integer"}, "int"),
        ({"type": "number"}, "double"),
        ({"x-kubernetes-int-or-string": True}, "dyn"),
        ({"type": "array", "items": {"type": "array", "items": {"type": "boolean"}}}, "list<list<bool>>"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map<string, int>"),
        ({"type": "object"}, "sliceworks.types.M0"),
        ({"x-kubernetes-preserve-unknown-fields": True}, None),
        ({"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}}, None),
    ],
)
def test_types_of_schemas(node: dict[str, Any], text: str | None) -> None:
    result = Declarations().declare(build(node), "x")
    assert (result.text if result else None) == text


def test_recursive_schema_is_declared_once() -> None:
    schema = builtin_scheme().component("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    program = Environment({"self": Variable(schema)}).compile("self.properties.all(k, self.properties[k].properties.size() < 3)")
    assert program.result == "BOOL"


def test_builtin_kinds_have_types() -> None:
    schema = builtin_scheme().schema("apps", "v1", "Deployment")
    environment = Environment({"deployment": Variable(schema)})
    assert environment.compile("deployment.spec.template.spec.containers.map(c, c.image)").result == "LIST<STRING>"
    assert environment.compile("deployment.metadata.labels['a'] == 'b'").names >= {"deployment"}
    with pytest.raises(CompileError, match="1:50: undefined field 'imagee'"):
        environment.compile("deployment.spec.template.spec.containers.all(c, c.imagee == 'x')")


def test_variable_can_have_any_type() -> None:
    environment = Environment({"x": CelType("list", CelType("int")), "y": CelType("dyn")})
    assert environment.compile("x.sum() + 1").result == "INT"
    assert environment.compile("y.anything[0]").result == "DYN"


def test_object_types_have_no_name() -> None:
    environment = Environment({"self": Variable(build({"type": "object", "properties": {"a": {"type": "integer"}}}))})
    with pytest.raises(CompileError, match="undeclared reference"):
        environment.compile("sliceworks.types.M0{a: 1} == self")


def test_similar_field_names_are_distinct() -> None:
    names = ("foo_bar", "fooBar", "foo__bar", "foo-bar", "Foo")
    schema = build(
        {"type": "object", "properties": {name: {"type": "object", "additionalProperties": {"type": "string"}} for name in names}}
    )
    environment = Environment({"self": Variable(schema)})
    for name in names:
        assert environment.compile(f"self.{escape_field_name(name)}.x == 'y'").result == "BOOL"
