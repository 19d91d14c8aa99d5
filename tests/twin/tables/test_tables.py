"""Columns and rows are those that a real API server gave for the same objects: see `objects.yaml` and `observed.json`."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from sliceworks.schemas.builtins import catalogue
from sliceworks.twin.api import tables

_OBSERVED: list[dict[str, Any]] = orjson.loads((Path(__file__).parent / "observed.json").read_bytes())
_CUSTOM = {
    one["row"]["object"]["spec"]["names"]["plural"]: one["row"]["object"]["spec"]["versions"][0].get("additionalPrinterColumns", [])
    for one in _OBSERVED
    if one["resource"].endswith("/customresourcedefinitions")
}


def _columns(resource: str) -> tables.Columns:
    group, _, plural = resource.rpartition("/")
    return tables.custom_columns(_CUSTOM[plural]) if group == "tables.sliceworks.dev" else tables.columns(resource)


def _id(one: dict[str, Any]) -> str:
    return f"{one['resource']} {one['row']['object']['metadata']['name']}"


@pytest.mark.parametrize("one", _OBSERVED, ids=_id)
def test_columns_are_as_observed(one: dict[str, Any]) -> None:
    definitions = [
        {key: value for key, value in column.items() if key != "description"} for column in _columns(one["resource"]).definitions
    ]
    assert definitions == one["columns"]


@pytest.mark.parametrize("one", _OBSERVED, ids=_id)
def test_rows_are_as_observed(one: dict[str, Any]) -> None:
    columns, now = _columns(one["resource"]), datetime.fromisoformat(one["now"])
    # The server looked at its clock a moment later than we did.
    rows = [columns.row(one["row"]["object"], now + timedelta(seconds=later)) for later in (0, 0.5, 1)]
    assert one["row"]["cells"] in rows, rows[0]
    assert columns.conditions(one["row"]["object"]) == one["row"].get("conditions")


def test_every_served_kind_was_observed() -> None:
    observed = {one["resource"] for one in _OBSERVED}
    listed = {f"{one.group}/{one.plural}" for one in catalogue().resources if "list" in one.verbs}
    assert listed <= observed
