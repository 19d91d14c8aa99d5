"""Synthetic tensors: of the right shape and type, and reproducible by seed."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.loadtest.generator import api
from sliceworks.specs.load_test import DATATYPES


def tensor(datatype: str) -> dict[str, Any]:
    return {"inputs": [{"name": "x", "shape": [2, 3], "datatype": datatype}]}


@pytest.mark.parametrize("datatype", sorted(DATATYPES))
def test_every_datatype_is_generated(datatype: str) -> None:
    kinds = {"FP": float, "BO": bool, "BY": str}
    [created] = api.fill_tensors(tensor(datatype), 1)["inputs"]
    assert len(created["data"]) == 6
    assert {type(item) for item in created["data"]} == {kinds.get(datatype[:2], int)}
    if datatype.endswith("INT8"):
        assert all(0 <= item <= 127 for item in created["data"]) or datatype == "UINT8"


def test_values_depend_on_the_seed() -> None:
    assert api.fill_tensors(tensor("FP32"), 1) == api.fill_tensors(tensor("FP32"), 1)
    assert api.fill_tensors(tensor("FP32"), 1) != api.fill_tensors(tensor("FP32"), 2)


def test_given_values_are_kept() -> None:
    given = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [0.5]}], "parameters": {"a": 1}}
    assert api.fill_tensors(given, 1) == given
