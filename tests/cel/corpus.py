"""The cases of `cases.yaml`: rules, their schemas and the values to validate."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
OBSERVED = HERE / "observed.json"
RULES = "x-kubernetes-validations"
_SELF_TYPE = re.compile(r"selfType\d+")
_OF_THE_CASE = ("at", "schema", "root", "values", "updates", "rules", "loosely")


@dataclass(frozen=True)
class Case:
    """One case. Its schema is that of a field of the spec with the case's name, or, for a `root` case, that of the whole object."""

    name: str
    schema: dict[str, Any]
    values: tuple[Any, ...]
    updates: tuple[tuple[Any, Any], ...]
    loosely: bool
    root: bool

    @property
    def text(self) -> str:
        """The identity of the case."""
        return ", ".join(str(rule.get("rule")) for rule in _rules(self.schema))


def cases() -> list[Case]:
    document = yaml.load((HERE / "cases.yaml").read_text(), yaml.CSafeLoader)
    return [_case(index, one, document["schemas"]) for index, one in enumerate(document["cases"])]


def _case(index: int, one: dict[str, Any], schemas: dict[str, Any]) -> Case:
    rest = {key: value for key, value in one.items() if key not in _OF_THE_CASE}
    schema = one["schema"] if "schema" in one else {**schemas[one["at"]], RULES: one.get("rules", [rest])}
    updates = tuple((old, new) for old, new in one.get("updates", ()))
    return Case(f"case{index}", schema, tuple(one.get("values", ())), updates, bool(one.get("loosely")), bool(one.get("root")))


def without_rules(schema: Any) -> Any:
    """The schema without rules."""
    if isinstance(schema, dict):
        return {key: without_rules(value) for key, value in schema.items() if key != RULES}
    return [without_rules(item) for item in schema] if isinstance(schema, list) else schema


def _rules(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [rule for item in schema for rule in _rules(item)]
    if not isinstance(schema, dict):
        return []
    below = [rule for key, value in schema.items() if key != RULES for rule in _rules(value)]
    return [*schema.get(RULES, []), *below]


def whole_schema(cases: list[Case]) -> dict[str, Any]:
    """The schema of an object that can carry all of these cases; a root case must be alone."""
    if any(case.root for case in cases):
        (only,) = cases
        return only.schema
    spec = {"type": "object", "properties": {case.name: case.schema for case in cases}}
    return {"type": "object", "properties": {"spec": spec}}


def content(case: Case, value: Any) -> dict[str, Any]:
    """The part of an object that holds a value of the case."""
    return dict(value) if case.root else {"spec": {case.name: value}}


def comparable(causes: list[dict[str, str]], *, loosely: bool = False) -> list[str]:
    """Causes in a form that two runs share: types of objects have names made from the time of day."""
    if loosely:
        return sorted(f"{cause['reason']} {cause['field']}" for cause in causes)
    return sorted(_SELF_TYPE.sub("selfType", f"{cause['reason']} {cause['field']} {cause['message']}") for cause in causes)
