"""Whether an apply would change anything, whose an object is, and what it was before."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.controllers.graphs import names, ownership
from sliceworks.controllers.graphs.records import RECORD, Record, child

Object = dict[str, Any]


def record(body: Object, owned: Object | None = None, labels: dict[str, str] | None = None) -> Record:
    metadata: Object = {"name": "x", "uid": "1", "resourceVersion": "5", "labels": labels or {}}
    if owned is not None:
        metadata["managedFields"] = [{"manager": names.APPLYSET, "operation": "Apply", "fieldsV1": owned}]
    found: Record = child({**body, "metadata": metadata})[RECORD]
    return found


@pytest.mark.parametrize(
    ("wanted", "found", "expected"),
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
def test_what_is_wanted_may_be_in_what_is_found(wanted: Object, found: Object, expected: bool) -> None:
    assert ownership.contained(wanted, found) is expected


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
def test_managed_fields_may_cover_what_is_wanted(fields: Object, wanted: Object, expected: bool) -> None:
    assert ownership.covered(fields, wanted) is expected


def test_object_is_as_wanted_when_an_apply_would_change_nothing() -> None:
    owned: Object = {"f:data": {"f:a": {}}}
    assert ownership.is_as_wanted(record({"data": {"a": "1", "b": "2"}}, owned), {"data": {"a": "1"}})
    assert not ownership.is_as_wanted(record({"data": {"a": "2"}}, owned), {"data": {"a": "1"}})
    assert not ownership.is_as_wanted(record({"data": {"a": "1"}}, {"f:data": {"f:a": {}, "f:old": {}}}), {"data": {"a": "1"}})
    assert not ownership.is_as_wanted(record({"data": {"a": "1"}}), {"data": {"a": "1"}})


def test_copied_labels_do_not_make_an_object_ours() -> None:
    labels = {names.PART_OF: "set"}
    ours: Object = {"f:metadata": {"f:labels": {f"f:{names.PART_OF}": {}}}}
    assert ownership.is_ours(record({}, ours, labels), "set")
    assert not ownership.is_ours(record({}, None, labels), "set")
    assert not ownership.is_ours(record({}, {"f:data": {"f:a": {}}}, labels), "set")
    assert not ownership.is_ours(record({}, ours, labels), "another")


def test_what_is_taken_over_is_what_others_had() -> None:
    live = record({"data": {"a": "old", "b": "same", "c": "theirs"}, "list": [1]}, {"f:data": {"f:d": {}}})
    wanted = {"data": {"a": "new", "b": "same", "d": "ours", "e": "fresh"}, "list": [2]}
    assert ownership.taken_over(live, wanted) == {"data": {"a": "old"}, "list": [1]}
