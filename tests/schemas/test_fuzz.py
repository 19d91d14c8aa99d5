"""For any JSON, the schema engine raises only its own errors."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

from sliceworks.schemas import Schema, TypeMismatch, build, decode, prune, set_defaults, validate
from sliceworks.schemas.builtins import builtin_scheme

SCALARS: list[Any] = [None, True, 0, -1, 2**40, 1.5, 2.0, "", "x", "1Gi", "äö\n", [], {}, [None], {"": None}, {"": 1}]


def generated(schema: Schema | None, chance: random.Random, depth: int = 0) -> Any:
    """A value that mostly follows a schema, and sometimes does not."""
    if schema is None or depth > 8 or chance.random() < 0.12:
        return chance.choice(SCALARS)
    if schema.properties:
        names = chance.sample(list(schema.properties), k=min(len(schema.properties), chance.randint(0, 5)))
        created = {name: generated(schema.properties[name], chance, depth + 1) for name in names}
        return created | ({"zz": 1} if chance.random() < 0.1 else {})
    if schema.type == "array":
        return [generated(schema.items, chance, depth + 1) for _ in range(chance.randint(0, 3))]
    if schema.additional is not None:
        return {key: generated(schema.additional, chance, depth + 1) for key in chance.sample("abc", k=chance.randint(0, 3))}
    return {"string": "text", "integer": 3, "boolean": True}.get(schema.type or "", chance.choice(SCALARS))


def test_builtin_kinds_are_decoded_or_rejected() -> None:
    chance = random.Random(7)
    read = 0
    for resource in builtin_scheme().resources:
        schema = builtin_scheme().schema(resource.group, resource.version, resource.kind)
        for _ in range(30):
            value = generated(schema, chance)
            with suppress(TypeMismatch):
                decode(schema, value, [])
                set_defaults(schema, value)
                read += 1
    assert read > 100


def test_custom_resources_are_pruned_and_validated() -> None:
    chance = random.Random(11)
    node = builtin_scheme().node("io.k8s.api.core.v1.PodSpec")
    schema = build(_inlined(node, 0))
    for _ in range(300):
        value = generated(schema, chance)
        if isinstance(value, dict):
            prune(schema, value, [])
            set_defaults(schema, value)
        validate(schema, value)


def _inlined(node: Any, depth: int) -> Any:
    """A component as a definition would write it: without references."""
    if "$ref" in node:
        target = builtin_scheme().node(node["$ref"])
        return _inlined(target, depth + 1) if depth < 4 else {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    created = {key: value for key, value in node.items() if key not in ("go", "default", "oneOf")}
    if "properties" in created:
        created["properties"] = {name: _inlined(child, depth) for name, child in created["properties"].items()}
    for keyword in ("items", "additionalProperties"):
        if isinstance(created.get(keyword), dict):
            created[keyword] = _inlined(created[keyword], depth)
    return created
