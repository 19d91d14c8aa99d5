"""Kubernetes' JSONPath dialect: selected values, and missing ones."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.twin.apiserver.printers.jsonpath import JsonPath

_OBJECT = {
    "a": {"b": 1, "c.d": 2, "e/f": 3},
    "list": [{"n": 1, "t": "x", "on": True}, {"n": 2, "t": "y"}, {"n": 3, "t": "x"}],
    "none": None,
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".a.b", [1]),
        ("a.b", [1]),
        ("$.a.b", [1]),
        (".a['c.d']", [2]),
        (r".a.c\.d", [2]),
        (".a.e/f", [3]),
        (".a.*", [1, 2, 3]),
        (".missing.b", []),
        (".none.b", []),
        (".none", [None]),
        (".list[0].n", [1]),
        (".list[-1].n", [3]),
        (".list[0:2].n", [1, 2]),
        (".list[1:].n", [2, 3]),
        (".list[::2].n", [1, 3]),
        (".list[*].n", [1, 2, 3]),
        (".list[0,2].n", [1, 3]),
        (".a['b','c.d']", [1, 2]),
        ('.list[?(@.t=="x")].n', [1, 3]),
        (".list[?(@.t=='x')].n", [1, 3]),
        (".list[?(@.n>=2)].n", [2, 3]),
        (".list[?(@.n!=2)].n", [1, 3]),
        (".list[?(@.n<2.5)].n", [1, 2]),
        (".list[?(@.on)].n", [1]),
        (".list[?(@.on==true)].n", [1]),
        (".list[?(@.t>1)].n", []),
        (".list[?(@.zz==1)].n", []),
        ("..n", [1, 2, 3]),
        ("", [_OBJECT]),
        (".a.", [_OBJECT["a"]]),
    ],
)
def test_paths_select(path: str, values: list[Any]) -> None:
    assert JsonPath(path).find(_OBJECT) == values


@pytest.mark.parametrize("path", [".a[", ".a[x]", ".a[]", ".list[?(@.n==x)]", ".a b", ".{", ".a[?(@.x==)]"])
def test_invalid_path_is_rejected(path: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        JsonPath(path)


@pytest.mark.parametrize("path", [".list[7].n", ".a[0]", ".a[?(@.x==1)]"])
def test_missing_item_is_an_error(path: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        JsonPath(path).find(_OBJECT)
