"""The cases of `cases.yaml`: rules with the schemas they stand on and the values they are tried with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
OBSERVED = HERE / "observed.json"
_SELF_TYPE = re.compile(r"selfType\d+")


@dataclass(frozen=True)
class Case:
    """One case: `name` is also the field of the object's spec that carries it."""

    name: str
    schema: dict[str, Any]
    values: tuple[Any, ...]
    updates: tuple[tuple[Any, Any], ...]
    loosely: bool

    @property
    def rule(self) -> str:
        return str(self.schema["x-kubernetes-validations"][0]["rule"])

    @property
    def bare(self) -> dict[str, Any]:
        """The schema without its rules."""
        return {key: value for key, value in self.schema.items() if key != "x-kubernetes-validations"}


def cases() -> list[Case]:
    document = yaml.load((HERE / "cases.yaml").read_text(), yaml.CSafeLoader)
    return [_case(index, one, document["schemas"]) for index, one in enumerate(document["cases"])]


def _case(index: int, one: dict[str, Any], schemas: dict[str, Any]) -> Case:
    rest = {key: value for key, value in one.items() if key not in ("at", "values", "updates", "rules", "loosely")}
    schema = {**schemas[one["at"]], "x-kubernetes-validations": one.get("rules", [rest])}
    updates = tuple((old, new) for old, new in one.get("updates", ()))
    return Case(f"case{index}", schema, tuple(one.get("values", ())), updates, bool(one.get("loosely")))


def comparable(causes: list[dict[str, str]], *, loosely: bool = False) -> list[str]:
    """Causes in a form that two runs share: types of objects have names made from the time of day."""
    if loosely:
        return sorted(f"{cause['reason']} {cause['field']}" for cause in causes)
    return sorted(_SELF_TYPE.sub("selfType", f"{cause['reason']} {cause['field']} {cause['message']}") for cause in causes)
