"""Tensors whose values are made up: as many as their shape says, of their type, and the same for one seed."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.loadtest import tensors
from sliceworks.specs.load_test import DATATYPES


def tensor(datatype: str) -> dict[str, Any]:
    return {"inputs": [{"name": "x", "shape": [2, 3], "datatype": datatype}]}


@pytest.mark.parametrize("datatype", sorted(DATATYPES))
def test_every_type_can_be_made_up(datatype: str) -> None:
    kinds = {"FP": float, "BO": bool, "BY": str}
    [made] = tensors.filled(tensor(datatype), 1)["inputs"]
    assert len(made["data"]) == 6
    assert {type(each) for each in made["data"]} == {kinds.get(datatype[:2], int)}
    if datatype.endswith("INT8"):
        assert all(0 <= each <= 127 for each in made["data"]) or datatype == "UINT8"


def test_a_seed_decides() -> None:
    assert tensors.filled(tensor("FP32"), 1) == tensors.filled(tensor("FP32"), 1)
    assert tensors.filled(tensor("FP32"), 1) != tensors.filled(tensor("FP32"), 2)


def test_what_has_values_keeps_them() -> None:
    given = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [0.5]}], "parameters": {"a": 1}}
    assert tensors.filled(given, 1) == given
