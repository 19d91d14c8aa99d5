"""Custom resource definitions with odd schemas and odd rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

RULES = (
    "self.a > 1",
    "self.a >",
    "self.b == 'x'",
    "oldSelf.a <= self.a",
    "1 / 0 > 1",
    "self.all(x, x > 0)",
    "has(self.a) && self.a in [1, 2]",
    "'x' + 1",
    "self",
    "",
    "self.a.matches('(')",
    "size(self.a) > 99999999999999999999",
    "[1,2,3].map(x, x * 2).exists(x, x > 2)",
    "duration('x') > duration('1s')",
    "quantity(self.a).isGreaterThan(quantity('1'))",
    "((((((((((1))))))))))",
    "self.metadata.name == 'x'",
    "ip(self.a).family() == 4",
    "a.b.c.d",
    "dyn(self).x",
    "'" + "y" * 5000 + "' == ''",
    "true ? false : true",
    "self.a.b.c == 1",
    "cel.bind(x, 1, x > 0)",
    "optional.of(1).hasValue()",
    "\u0000",
    "self.?a.orValue(1) > 0",
)
SCHEMAS: tuple[dict[str, Any], ...] = (
    {"type": "integer", "minimum": 1, "default": 3},
    {"type": "string", "pattern": "^[a-z]*$", "maxLength": 10},
    {"type": "string", "pattern": "(((("},
    {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    {
        "type": "array",
        "items": {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]},
        "x-kubernetes-list-type": "map",
    },
    {"type": "object", "additionalProperties": {"type": "number"}},
    {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    {"x-kubernetes-int-or-string": True},
    {"type": "colour"},
    {},
    {"type": "string", "enum": ["a", "b"], "nullable": True},
    {"type": "object", "properties": {"x": {"type": "boolean", "default": "no"}}},
    {"$ref": "#/x"},
    {"type": "object", "anyOf": [{"required": ["a"]}, {"type": "string"}]},
)


def definition(source: random.Random) -> dict[str, Any]:
    """A definition whose properties and rules are picked at random; most are refused."""
    properties = {name: dict(source.choice(SCHEMAS)) for name in ("a", "b", "c")}
    spec: dict[str, Any] = {"type": "object", "properties": properties}
    if source.random() < 0.8:
        spec["x-kubernetes-validations"] = [{"rule": source.choice(RULES), "message": "no"} for _ in range(source.randint(1, 2))]
    version: dict[str, Any] = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    if source.random() < 0.3:
        version["subresources"] = {"status": {}, "scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a"}}
    plural = source.choice(("fuzzes", "fuzzies"))
    names = {"plural": plural, "kind": "Fuzz"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.fuzz.example.com"},
        "spec": {"group": "fuzz.example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
