"""Structural schemas: pruning, defaults, validation and its messages, list types, CEL rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support import goldens
from tests.support.custom_resources import CRDS, Custom, define, definition, simple
from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.http import Api

Object = dict[str, Any]


def spec_of(**properties: Any) -> Object:
    """A schema of a spec with these properties."""
    return {"type": "object", "properties": properties}


INTEGER, STRING = {"type": "integer"}, {"type": "string"}
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}

KEPT: list[tuple[str, Object, Any, Any]] = [
    ("unknown fields are pruned", spec_of(a=INTEGER), {"a": 1, "b": 2, "c": {"d": 3}}, {"a": 1}),
    ("preserve unknown", {**spec_of(a=INTEGER), **PRESERVE}, {"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 2}}),
    (
        "pruned below preserved",
        {**spec_of(a=spec_of(x=INTEGER)), **PRESERVE},
        {"a": {"x": 1, "y": 2}, "b": 3},
        {"a": {"x": 1}, "b": 3},
    ),
    ("additional properties", {"type": "object", "additionalProperties": STRING}, {"x": "1", "y": "2"}, {"x": "1", "y": "2"}),
    ("items are pruned", spec_of(l={"type": "array", "items": spec_of(x=INTEGER)}), {"l": [{"x": 1, "y": 2}]}, {"l": [{"x": 1}]}),
    ("default", spec_of(a={"type": "integer", "default": 7}, b=STRING), {}, {"a": 7}),
    ("nested default needs its parent", spec_of(o=spec_of(a={"type": "integer", "default": 7})), {}, {}),
    ("nested default", spec_of(o=spec_of(a={"type": "integer", "default": 7})), {"o": {}}, {"o": {"a": 7}}),
    (
        "default of parent and child",
        spec_of(o={**spec_of(a={"type": "integer", "default": 7}), "default": {}}),
        {},
        {"o": {"a": 7}},
    ),
    (
        "default in items",
        spec_of(l={"type": "array", "items": spec_of(a={"type": "string", "default": "x"})}),
        {"l": [{}]},
        {"l": [{"a": "x"}]},
    ),
    ("null becomes the default", spec_of(a={"type": "integer", "default": 7}), {"a": None}, {"a": 7}),
    ("null stays where allowed", spec_of(a={"type": "integer", "nullable": True}), {"a": None}, {"a": None}),
    ("nullable with default", spec_of(a={"type": "integer", "nullable": True, "default": 7}), {"a": None}, {"a": None}),
    (
        "int or string",
        spec_of(a={"x-kubernetes-int-or-string": True}, b={"x-kubernetes-int-or-string": True}),
        {"a": 1, "b": "50%"},
        {"a": 1, "b": "50%"},
    ),
    ("any type", spec_of(a=PRESERVE), {"a": [1, {"x": "y"}]}, {"a": [1, {"x": "y"}]}),
    ("whole floats are integers", spec_of(a=INTEGER), {"a": 2.0}, {"a": 2}),
    (
        "formats of integers are not checked",
        spec_of(a={"type": "integer", "format": "int32"}),
        {"a": 3_000_000_000},
        {"a": 3_000_000_000},
    ),
    ("numbers", spec_of(a={"type": "number"}, b={"type": "number"}), {"a": 2, "b": 2.5}, {"a": 2, "b": 2.5}),
    (
        "embedded resource",
        spec_of(t={"type": "object", "x-kubernetes-embedded-resource": True, **PRESERVE}),
        {"t": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "bogus": 1}, "spec": {"y": 1}}},
        {"t": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"y": 1}}},
    ),
]


@pytest.fixture(scope="module")
def pruning_definition(cluster: Cluster) -> Custom:
    """One definition for all cases, with a property for each, because definitions are slow on the real server."""
    return define(cluster.api, simple(spec=spec_of(**{f"p{index}": case[1] for index, case in enumerate(KEPT)})))


@pytest.mark.parametrize(("index", "given", "kept"), [pytest.param(i, *case[2:], id=case[0]) for i, case in enumerate(KEPT)])
def test_pruning_and_defaults(api: Api, pruning_definition: Custom, ns: str, *, index: int, given: Any, kept: Any) -> None:
    body = pruning_definition.object(spec={f"p{index}": given})
    assert api.post(pruning_definition.at(ns), body, query={"fieldValidation": "Ignore"}).ok(201).json["spec"][f"p{index}"] == kept


UNIQUE = {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}
KEYED = {"type": "array", "items": {**spec_of(k=STRING, v=INTEGER), "required": ["k"]}}
KEYED |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}


def rule(text: str, **extra: Any) -> Object:
    """A schema with one validation rule."""
    return {"x-kubernetes-validations": [{"rule": text, **extra}]}


REFUSED: list[tuple[str, Object, Any]] = [
    ("wrong type", spec_of(a=INTEGER), {"a": "x"}),
    ("wrong types", spec_of(a=INTEGER, b=STRING, c={"type": "boolean"}), {"a": "x", "b": 1, "c": "yes"}),
    ("object expected", spec_of(a=spec_of(b=INTEGER)), {"a": [1]}),
    ("array expected", spec_of(a={"type": "array", "items": INTEGER}), {"a": {"x": 1}}),
    ("null not allowed in list", spec_of(a={"type": "array", "items": INTEGER}), {"a": [1, None]}),
    ("required", {**spec_of(a=INTEGER, b=INTEGER), "required": ["a", "b"]}, {}),
    ("enum", spec_of(a={"type": "string", "enum": ["x", "y"]}), {"a": "z"}),
    ("pattern", spec_of(a={"type": "string", "pattern": "^[a-z]+$"}), {"a": "A1"}),
    ("minimum", spec_of(a={"type": "integer", "minimum": 3}), {"a": 2}),
    ("exclusive minimum", spec_of(a={"type": "integer", "minimum": 3, "exclusiveMinimum": True}), {"a": 3}),
    ("maximum", spec_of(a={"type": "integer", "maximum": 3}), {"a": 4}),
    ("maximum of a number", spec_of(a={"type": "number", "maximum": 2.5}), {"a": 2.6}),
    ("multiple of", spec_of(a={"type": "integer", "multipleOf": 5}), {"a": 7}),
    ("length", spec_of(a={"type": "string", "minLength": 3}, b={"type": "string", "maxLength": 2}), {"a": "x", "b": "xyz"}),
    (
        "items count",
        spec_of(a={"type": "array", "items": INTEGER, "maxItems": 1}, b={"type": "array", "items": INTEGER, "minItems": 1}),
        {"a": [1, 2], "b": []},
    ),
    (
        "properties count",
        spec_of(a={"type": "object", "additionalProperties": INTEGER, "maxProperties": 1}),
        {"a": {"x": 1, "y": 2}},
    ),
    ("set", spec_of(a=UNIQUE), {"a": ["x", "y", "x"]}),
    ("map keys", spec_of(a=KEYED), {"a": [{"k": "x", "v": 1}, {"k": "x", "v": 2}]}),
    (
        "nested path",
        spec_of(l={"type": "array", "items": spec_of(m={"type": "object", "additionalProperties": INTEGER})}),
        {"l": [{}, {"m": {"k.x": "v"}}]},
    ),
    ("format date-time", spec_of(a={"type": "string", "format": "date-time"}), {"a": "yesterday"}),
    ("int or string", spec_of(a={"x-kubernetes-int-or-string": True}), {"a": True}),
    ("any of", spec_of(a={"type": "integer", "anyOf": [{"minimum": 10}, {"maximum": 1}]}), {"a": 5}),
    ("one of", {**spec_of(a=INTEGER, b=INTEGER), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": 1, "b": 2}),
    ("not", spec_of(a={"type": "string", "not": {"enum": ["bad"]}}), {"a": "bad"}),
    ("rule", {**spec_of(a=INTEGER, b=INTEGER), **rule("self.a < self.b")}, {"a": 2, "b": 1}),
    (
        "rule with message",
        {**spec_of(a=INTEGER, b=INTEGER), **rule("self.a < self.b", message="a must be less than b")},
        {"a": 2, "b": 1},
    ),
    (
        "rule with expression",
        {**spec_of(a=INTEGER), **rule("self.a < 3", messageExpression="self.a > 4 ? 'far too big' : 'too big'")},
        {"a": 5},
    ),
    (
        "rule with reason and path",
        {**spec_of(a=INTEGER), **rule("self.a < 3", reason="FieldValueForbidden", fieldPath=".a")},
        {"a": 5},
    ),
    ("rule on a string", spec_of(a={"type": "string", "maxLength": 9, **rule("self.startsWith('x')")}), {"a": "y"}),
    ("rule on a list", spec_of(a={"type": "array", "items": INTEGER, "maxItems": 9, **rule("self.all(i, i > 0)")}), {"a": [1, -1]}),
    ("rule that fails to run", {**spec_of(a=INTEGER, b=INTEGER), **rule("10 / self.a > 1")}, {"a": 0}),
    ("rule and schema", {**spec_of(a={"type": "integer", "maximum": 3}), **rule("self.a < 2")}, {"a": 5}),
    (
        "quantity rule",
        spec_of(a={"type": "string", "maxLength": 9, **rule("quantity(self).isLessThan(quantity('1Gi'))")}),
        {"a": "2Gi"},
    ),
]


@pytest.fixture(scope="module")
def validating_definition(cluster: Cluster) -> Custom:
    """One definition for all cases, with a property for each."""
    return define(cluster.api, simple(spec=spec_of(**{f"p{index}": case[1] for index, case in enumerate(REFUSED)})))


@pytest.mark.parametrize(("index", "case", "given"), [pytest.param(i, c[0], c[2], id=c[0]) for i, c in enumerate(REFUSED)])
def test_invalid_object_is_rejected(
    cluster: Cluster, validating_definition: Custom, ns: str, *, index: int, case: str, given: Any
) -> None:
    answer = cluster.api.post(validating_definition.at(ns), validating_definition.object(spec={f"p{index}": given})).refused(
        422, "Invalid"
    )
    goldens.check(
        "test_crd_schemas",
        case,
        answer.refusal,
        real=cluster.name == "real",
        words={validating_definition.group: "GROUP", f"spec.p{index}": "spec.P"},
    )


def transition(api: Api, ns: str, schema: Object, before: Any) -> Custom:
    """Create a custom resource with one object."""
    custom = define(api, simple(spec=schema))
    api.post(custom.at(ns), custom.object(spec=before)).ok(201)
    return custom


def test_transition_rule_is_enforced(api: Api, ns: str) -> None:
    custom = transition(api, ns, spec_of(a={"type": "integer", **rule("self >= oldSelf", message="may only grow")}), {"a": 5})
    api.patch(f"{custom.at(ns)}/a", {"spec": {"a": 6}}).ok(200)
    answer = api.patch(f"{custom.at(ns)}/a", {"spec": {"a": 1}}).refused(422, "Invalid")
    assert answer.message == f'Widget.{custom.group} "a" is invalid: spec.a: Invalid value: 1: may only grow'
    assert answer.causes == [("FieldValueInvalid", "spec.a", "Invalid value: 1: may only grow")]


def test_rule_makes_field_immutable(api: Api, ns: str) -> None:
    custom = transition(api, ns, spec_of(a={"type": "string", **rule("self == oldSelf", message="is fixed")}, b=STRING), {"a": "x"})
    api.patch(f"{custom.at(ns)}/a", {"spec": {"b": "free"}}).ok(200)
    api.patch(f"{custom.at(ns)}/a", {"spec": {"a": "y"}}).refused(422, "Invalid")
    api.patch(f"{custom.at(ns)}/a", {"spec": {"a": None}}).ok(200)


def test_unchanged_invalid_fields_are_ratcheted(api: Api, ns: str) -> None:
    custom = transition(api, ns, spec_of(a=INTEGER, b=INTEGER), {"a": 5, "b": 1})
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a/maximum"
    api.patch(custom.definition, [{"op": "add", "path": path, "value": 3}], "application/json-patch+json").ok(200)

    def refused() -> bool:
        return api.post(custom.at(ns), custom.object("new", spec={"a": 5})).status == 422

    eventually(lambda: refused() or api.delete(f"{custom.at(ns)}/new").status == 0)
    api.patch(f"{custom.at(ns)}/a", {"spec": {"b": 2}}).ok(200)
    api.patch(f"{custom.at(ns)}/a", {"spec": {"a": 6}}).refused(422, "Invalid")


def bad(change: Any) -> Object:
    """A definition whose first version is changed."""
    body = simple("widgets")
    change(body)
    return body


def _schema(body: Object) -> Object:
    result: Object = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return result


BAD: list[tuple[str, Any]] = [
    ("no schema", lambda b: b["spec"]["versions"][0].pop("schema")),
    ("no type", lambda b: _schema(b)["properties"].update(spec={"properties": {"a": {}}})),
    ("no storage version", lambda b: b["spec"]["versions"][0].update(storage=False)),
    ("two storage versions", lambda b: b["spec"]["versions"].append({**b["spec"]["versions"][0], "name": "v2"})),
    ("name does not match", lambda b: b["metadata"].update(name="x.y")),
    ("bad kind", lambda b: b["spec"]["names"].update(kind="bad kind")),
    ("bad scope", lambda b: b["spec"].update(scope="Galaxy")),
    ("bad version name", lambda b: b["spec"]["versions"][0].update(name="Version_1")),
    ("unknown type", lambda b: _schema(b)["properties"].update(spec={"type": "colour"})),
    (
        "metadata restricted",
        lambda b: _schema(b)["properties"].update(metadata={"type": "object", "properties": {"labels": {"type": "object"}}}),
    ),
    ("default of the wrong type", lambda b: _schema(b)["properties"].update(spec=spec_of(a={"type": "integer", "default": "x"}))),
    (
        "map without keys",
        lambda b: _schema(b)["properties"].update(
            spec=spec_of(a={"type": "array", "items": spec_of(k=STRING), "x-kubernetes-list-type": "map"})
        ),
    ),
    ("bad rule", lambda b: _schema(b)["properties"].update(spec={**spec_of(a=INTEGER), **rule("self.b > 1")})),
    ("rule that does not parse", lambda b: _schema(b)["properties"].update(spec={**spec_of(a=INTEGER), **rule("self.a >")})),
    ("rule that is not a boolean", lambda b: _schema(b)["properties"].update(spec={**spec_of(a=INTEGER), **rule("self.a + 1")})),
    (
        "bad printer column",
        lambda b: b["spec"]["versions"][0].update(additionalPrinterColumns=[{"name": "x", "type": "colour", "jsonPath": "spec"}]),
    ),
    (
        "bad scale path",
        lambda b: b["spec"]["versions"][0].update(
            subresources={"scale": {"specReplicasPath": "spec.x", "statusReplicasPath": ".status.y"}}
        ),
    ),
    ("bad pattern", lambda b: _schema(b)["properties"].update(spec=spec_of(a={"type": "string", "pattern": "("}))),
    ("status true with status columns", lambda b: b["spec"].update(preserveUnknownFields=True)),
    (
        "additional and properties",
        lambda b: _schema(b)["properties"].update(spec={**spec_of(a=INTEGER), "additionalProperties": INTEGER}),
    ),
]


@pytest.mark.parametrize(("case", "change"), [pytest.param(*case, id=case[0]) for case in BAD])
def test_invalid_definition_is_rejected(cluster: Cluster, api: Api, case: str, change: Any) -> None:
    body = bad(change)
    answer = api.post(CRDS, body).refused(422, "Invalid")
    words = {body["spec"]["group"]: "GROUP"}
    goldens.check("test_crd_schemas_bad", case, answer.refusal, real=cluster.name == "real", words=words)


def test_definition_without_group_is_rejected(api: Api) -> None:
    body = definition("widgets", [])
    answer = api.post(CRDS, body).refused(422, "Invalid")
    assert "spec.versions" in {field for _, field, _ in answer.causes}
