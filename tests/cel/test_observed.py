"""Rules give the same results as on a real API server: see `cases.yaml` and `observed.json`."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.cel.corpus import OBSERVED, Case, cases, comparable, content, whole_schema

from sliceworks.cel.rules import compile_rules, evaluate_rules
from sliceworks.schemas import MISSING, Schema, build
from sliceworks.schemas.builtins import builtin_scheme
from sliceworks.schemas.crds import with_type_and_metadata

_CASES = cases()
_OBSERVED: dict[str, Any] = orjson.loads(OBSERVED.read_bytes())
_GOOD = [case for case in _CASES if not _OBSERVED[case.name]["compile"]]


def _schema(case: Case) -> Schema:
    return build(with_type_and_metadata(whole_schema([case])), builtin_scheme().component)


def _object(case: Case, value: Any) -> dict[str, Any]:
    return {"apiVersion": "cel.sliceworks.dev/v1", "kind": "Batch", "metadata": {"name": "new"}, **content(case, value)}


@pytest.mark.parametrize("case", _CASES, ids=lambda case: f"{case.name}: {case.text}")
def test_definitions_are_accepted_and_rejected_as_observed(case: Case) -> None:
    observed = _OBSERVED[case.name]
    assert observed["rule"] == case.text, "the cases changed: run tests.cel.refresh"
    errors = compile_rules(_schema(case), "spec.validation.openAPIV3Schema")
    assert comparable([error.cause() for error in errors]) == comparable(observed["compile"])


@pytest.mark.parametrize("case", _GOOD, ids=lambda case: f"{case.name}: {case.text}")
def test_values_are_validated_as_observed(case: Case) -> None:
    schema = _schema(case)
    result = [evaluate_rules(schema, _object(case, value), MISSING) for value in case.values]
    result += [evaluate_rules(schema, _object(case, new), _object(case, old)) for old, new in case.updates]
    observed = _OBSERVED[case.name]
    expected = [*observed["values"], *observed["updates"]]
    answers = [comparable([error.cause() for error in errors], loosely=case.loosely) for errors in result]
    assert answers == [comparable(causes, loosely=case.loosely) for causes in expected]
