"""No-op detection, ownership and previous values of applied objects."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.controllers.graphs import applier, well_known
from sliceworks.controllers.graphs.object_cache import CACHE_KEY, CachedObject, child_transform

Object = dict[str, Any]


def record(body: Object, owned: Object | None = None, labels: dict[str, str] | None = None) -> CachedObject:
    metadata: Object = {"name": "x", "uid": "1", "resourceVersion": "5", "labels": labels or {}}
    if owned is not None:
        metadata["managedFields"] = [{"manager": well_known.APPLYSET, "operation": "Apply", "fieldsV1": owned}]
    result: CachedObject = child_transform({**body, "metadata": metadata})[CACHE_KEY]
    return result


@pytest.mark.parametrize(
    ("wanted", "live", "expected"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": {"b": "c"}}, {"a": {"b": "c", "d": "e"}}, True),
        ({"a": [1, 2]}, {"a": [1, 2]}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": [{"name": "x"}]}, {"a": [{"name": "w"}, {"name": "x", "port": 1}]}, True),
        ({"a": True}, {"a": 1}, False),
        ({"a": 1}, {}, False),
    ],
)
def test_is_subset(wanted: Object, live: Object, expected: bool) -> None:
    assert applier.is_subset(wanted, live) is expected


@pytest.mark.parametrize(
    ("fields", "wanted", "expected"),
    [
        ({"f:data": {"f:a": {}}}, {"data": {"a": "1"}}, True),
        ({"f:data": {"f:a": {}, "f:b": {}}}, {"data": {"a": "1"}}, False),
        ({"f:data": {".": {}, "f:a": {}}}, {"data": {"a": "1", "b": "2"}}, True),
        ({"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}}}, {"ports": [{"port": 80}]}, True),
        ({"f:ports": {'k:{"port":81}': {".": {}}}}, {"ports": [{"port": 80}]}, False),
        ({"f:finalizers": {'v:"a"': {}}}, {"finalizers": ["a"]}, True),
        ({"f:finalizers": {'v:"b"': {}}}, {"finalizers": ["a"]}, False),
    ],
)
def test_covers_fields(fields: Object, wanted: Object, expected: bool) -> None:
    assert applier.covers_fields(fields, wanted) is expected


def test_matches_desired() -> None:
    owned: Object = {"f:data": {"f:a": {}}}
    assert applier.matches_desired(record({"data": {"a": "1", "b": "2"}}, owned), {"data": {"a": "1"}})
    assert not applier.matches_desired(record({"data": {"a": "2"}}, owned), {"data": {"a": "1"}})
    assert not applier.matches_desired(record({"data": {"a": "1"}}, {"f:data": {"f:a": {}, "f:old": {}}}), {"data": {"a": "1"}})
    assert not applier.matches_desired(record({"data": {"a": "1"}}), {"data": {"a": "1"}})


def test_copied_labels_do_not_make_a_member() -> None:
    labels = {well_known.PART_OF: "set"}
    ours: Object = {"f:metadata": {"f:labels": {f"f:{well_known.PART_OF}": {}}}}
    assert applier.is_member(record({}, ours, labels), "set")
    assert not applier.is_member(record({}, None, labels), "set")
    assert not applier.is_member(record({}, {"f:data": {"f:a": {}}}, labels), "set")
    assert not applier.is_member(record({}, ours, labels), "another")


def test_overwritten_values() -> None:
    live = record({"data": {"a": "old", "b": "same", "c": "theirs"}, "list": [1]}, {"f:data": {"f:d": {}}})
    expected = {"data": {"a": "new", "b": "same", "d": "ours", "e": "fresh"}, "list": [2]}
    assert applier.overwritten_values(live, expected) == {"data": {"a": "old"}, "list": [1]}
