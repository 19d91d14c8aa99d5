"""A seeded generator of objects that have the shape of a schema and unusual values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.fuzzer import CONTAINERS, SCALARS

if TYPE_CHECKING:
    import random

    from sliceworks.schemas.model import Schema

_DEPTH = 9
STRINGS = (
    *(
        "a",
        "b",
        "x.example.com",
        "x.example.com/y",
        "default",
        "10.0.0.1",
        "fd00::1",
        "10.0.0.0/8",
        "1Gi",
        "100m",
        "-1",
        "5",
        "80%",
    ),
    *("2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "Pod", "v1", "apps/v1", "1h30m", "-5ns", ""),
    *(
        "device.driver == 'x'",
        "device.attributes['x'].y.isGreaterThan(semver('1.0.0'))",
        "self.s.matches('(a+)+$')",
        "true",
        "${x}",
    ),
    *("*", "a" * 64, "A_b-C.d", "é☃", "0", "1e3", "kubernetes.io/hostname", "In", "Exists", "NoSchedule", "TCP", "Always", "Never"),
)
NUMBERS = (0, 1, -1, 2, 3, 80, 443, 65536, 2**31 - 1, 2**31, -(2**31), 2**53, 2**63 - 1)
TIMES = (
    "2026-01-01T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "2026-01-01T00:00:00.123456Z",
    "2026-02-30T00:00:00Z",
)
QUANTITIES = ("1", "100m", "1Gi", "0", "-1", "1e3", "9e99", "0.0000001", "999999999999999999999", "1.5.5", "")


class SchemaFuzzer:
    """Generates values of schemas; a few have another type."""

    def __init__(self, source: random.Random, wrong: float = 0.01) -> None:
        self._random, self._wrong = source, wrong

    def overlay(self, base: dict[str, Any], schema: Schema) -> dict[str, Any]:
        """A copy of an object with further fields; those that it has stay, except for one in ten."""
        result = dict(base)
        for name, child in schema.properties.items():
            if name in {"apiVersion", "kind"}:
                continue
            chance = self._random.random()
            if name not in result:
                if chance < 0.15:
                    result[name] = self.value(child, _DEPTH)
            elif isinstance(result[name], dict) and child.properties:
                result[name] = self.overlay(result[name], child)
            elif isinstance(result[name], list) and child.items is not None and child.items.properties:
                items = [self.overlay(item, child.items) if isinstance(item, dict) else item for item in result[name]]
                result[name] = items if chance < 0.9 else items * 2
            elif chance < 0.1:
                result[name] = self.value(child, _DEPTH)
        return result

    def value(self, schema: Schema, depth: int) -> Any:
        """A value of a schema."""
        pick = self._random
        if pick.random() < self._wrong:
            return pick.choice(SCALARS + CONTAINERS)
        if schema.name.endswith((".Time", ".MicroTime")):
            return pick.choice(TIMES)
        if schema.name.endswith(".Quantity"):
            return pick.choice((*QUANTITIES, 1, 0.5))
        if schema.enum:
            return pick.choice(schema.enum)
        if schema.properties:
            if not depth:
                return {}
            share = pick.choice((0.1, 0.3, 0.6))
            chosen = [name for name in schema.properties if name in schema.required or pick.random() < share]
            return {name: self.value(schema.properties[name], depth - 1) for name in chosen[:12]}
        if schema.items is not None:
            return [self.value(schema.items, depth - 1) for _ in range(pick.choice((0, 1, 1, 2, 3)) if depth else 0)]
        if schema.additional is not None:
            return {pick.choice(STRINGS): self.value(schema.additional, depth - 1) for _ in range(pick.choice((0, 1, 2)))}
        return self._scalar(schema)

    def _scalar(self, schema: Schema) -> Any:
        pick = self._random
        if schema.int_or_string:
            return pick.choice((*NUMBERS, "50%", "-1%", "http", ""))
        if schema.type == "integer":
            return pick.choice(NUMBERS)
        if schema.type == "number":
            return pick.choice((0, 1, 0.5, -1.5, 1e300))
        if schema.type == "boolean":
            return pick.random() < 0.5
        if schema.type == "string":
            return pick.choice(("", "YQ==", "=", "x")) if schema.format == "byte" else pick.choice(STRINGS)
        return pick.choice(CONTAINERS)
