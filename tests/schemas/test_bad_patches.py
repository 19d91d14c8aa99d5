"""Any patch or applied object is accepted or rejected with Kubernetes' message; no other exception is raised."""

from __future__ import annotations

import contextlib
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from sliceworks.base.errors import ApiError
from sliceworks.schemas.builtins import builtin_scheme
from sliceworks.twin.apiserver.fieldmanager import updater
from sliceworks.twin.apiserver.patch.jsonpatch import json_patch, merge_patch
from sliceworks.twin.apiserver.patch.strategic_merge import strategic_merge

Object = dict[str, Any]

SCHEMA = builtin_scheme().schema("", "v1", "Pod")
KEYS = [
    "metadata",
    "spec",
    "containers",
    "name",
    "env",
    "value",
    "volumes",
    "labels",
    "finalizers",
    "ports",
    "containerPort",
    "$patch",
]
KEYS += [
    "$retainKeys",
    "$setElementOrder/containers",
    "$setElementOrder/finalizers",
    "$deleteFromPrimitiveList/finalizers",
    "emptyDir",
    "x",
]
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 90), st.sampled_from(["a", "b", "delete", "replace", "merge", "", "/", "name"])
)
anything = st.recursive(
    scalars, lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(KEYS), below, max_size=4), max_leaves=12
)
items = st.lists(
    st.fixed_dictionaries({}, optional={"name": scalars, "env": anything, "image": anything, "$patch": scalars}) | anything,
    max_size=3,
)
specs = st.fixed_dictionaries(
    {}, optional={"containers": items, "$setElementOrder/containers": items, "volumes": items, "nodeSelector": anything}
)
metadata = st.fixed_dictionaries(
    {}, optional={"labels": anything, "finalizers": anything, "ownerReferences": anything, "annotations": anything}
)
patches = (
    st.fixed_dictionaries({}, optional={"spec": specs | anything, "metadata": metadata | anything, "status": anything}) | anything
)
parts = st.lists(st.sampled_from(["spec", "containers", "0", "1", "-1", "-", "name", "env", "x", "~0", "~1", ""]), max_size=4)
pointers = parts.map(lambda obj: "".join(f"/{part}" for part in obj))
kinds = st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x", None, 1])
operations = st.lists(
    st.fixed_dictionaries({}, optional={"op": kinds, "path": pointers | scalars, "from": pointers | scalars, "value": anything})
    | anything,
    max_size=4,
)


def pod() -> Object:
    containers = [
        {"name": "a", "image": "i", "env": [{"name": "A", "value": "1"}], "resources": {}},
        {"name": "b", "resources": {}},
    ]
    result: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "b"}, "finalizers": ["a", "b"]},
        "spec": {"containers": containers, "volumes": [{"name": "a", "emptyDir": {}}]},
        "status": {},
    }
    updater.update(None, result, SCHEMA, manager="m", api_version="v1", now="2026-01-01T00:00:00Z")
    result["metadata"]["uid"] = "u"
    return result


POD = pod()


def check(attempt: Any) -> None:
    before = orjson.dumps(POD)
    with contextlib.suppress(ApiError):
        orjson.dumps(attempt())
    assert orjson.dumps(POD) == before


@given(operations | anything)
def test_json_patches(patch: Any) -> None:
    check(lambda: json_patch(POD, patch))


@given(patches)
def test_merge_patches(patch: Any) -> None:
    check(lambda: merge_patch(POD, patch))


@given(patches)
@settings(max_examples=150)
def test_strategic_merge_patches(patch: Any) -> None:
    check(lambda: strategic_merge(POD, patch, SCHEMA))


@given(
    st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), anything) | patches.filter(lambda obj: isinstance(obj, dict))
)
@settings(max_examples=150)
def test_applied_objects(body: Object) -> None:
    applied = {"apiVersion": "v1", "kind": "Pod", **body}
    common: Object = {"manager": "kubectl", "api_version": "v1", "kind": "Pod", "now": "2026-01-01T00:00:00Z"}
    check(lambda: updater.apply(POD, applied, SCHEMA, force=True, **common))
    check(lambda: updater.apply(None, applied, SCHEMA, **common))


@given(anything)
def test_managed_fields_sent_by_a_client(entries: Any) -> None:
    def attempt() -> Object:
        new = {**POD, "metadata": {**POD["metadata"], "managedFields": entries}}
        updater.update(POD, new, SCHEMA, manager="m", api_version="v1", now="2026-01-01T00:00:00Z")
        return new

    check(attempt)
