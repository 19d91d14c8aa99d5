"""Columns and rows are those of a real API server for the same objects: see `objects.yaml` and `observed.json`."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from sliceworks.schemas.builtins import builtin_scheme
from sliceworks.twin.apiserver.printers import table_columns
from sliceworks.twin.apiserver.registry.kinds import STRATEGIES

_OBSERVED: list[dict[str, Any]] = orjson.loads((Path(__file__).parent / "observed.json").read_bytes())
_CUSTOM = {
    case["row"]["object"]["spec"]["names"]["plural"]: case["row"]["object"]["spec"]["versions"][0].get(
        "additionalPrinterColumns", []
    )
    for case in _OBSERVED
    if case["resource"].endswith("/customresourcedefinitions")
}


def _columns(resource: str) -> table_columns.Columns:
    group, _, plural = resource.rpartition("/")
    return (
        table_columns.custom_columns(_CUSTOM[plural])
        if group == "tables.sliceworks.dev"
        else table_columns.builtin_columns(STRATEGIES[resource].printer)
    )


def _id(case: dict[str, Any]) -> str:
    return f"{case['resource']} {case['row']['object']['metadata']['name']}"


@pytest.mark.parametrize("case", _OBSERVED, ids=_id)
def test_columns_are_as_observed(case: dict[str, Any]) -> None:
    definitions = [
        {key: value for key, value in column.items() if key != "description"} for column in _columns(case["resource"]).definitions
    ]
    assert definitions == case["columns"]


@pytest.mark.parametrize("case", _OBSERVED, ids=_id)
def test_rows_are_as_observed(case: dict[str, Any]) -> None:
    columns, now = _columns(case["resource"]), datetime.fromisoformat(case["now"])
    # The server read its clock slightly later than the recorder.
    rows = [columns.row(case["row"]["object"], now + timedelta(seconds=later)) for later in (0, 0.5, 1)]
    assert case["row"]["cells"] in rows, rows[0]
    assert columns.conditions(case["row"]["object"]) == case["row"].get("conditions")


def test_every_served_kind_was_observed() -> None:
    observed = {case["resource"] for case in _OBSERVED}
    listed = {f"{resource.group}/{resource.plural}" for resource in builtin_scheme().resources if "list" in resource.verbs}
    assert listed <= observed
