"""The three types of patches, compared with the results of a real API server."""

from __future__ import annotations

import functools
from typing import Any

import orjson
import pytest
from tests.schemas.patching.record import OBSERVED, cases
from tests.schemas.test_ownership import schema_of

from sliceworks.base.errors import ApiError, Invalid, RequestEntityTooLarge
from sliceworks.schemas import Schema, decode, prune, set_defaults
from sliceworks.twin.apiserver.patch.jsonpatch import (
    MAX_COPIED_BYTES,
    MAX_OPERATIONS,
    json_patch,
    merge_patch,
    undecodable_result,
    unknown_fields,
)
from sliceworks.twin.apiserver.patch.strategic_merge import strategic_merge

Object = dict[str, Any]
SORTED = orjson.OPT_SORT_KEYS


@functools.cache
def observed() -> list[Object]:
    result: list[Object] = orjson.loads(OBSERVED.read_bytes())
    return result


def patched(case: Object, before: Object) -> Any:
    if case["type"] == "json":
        return json_patch(before, case["patch"])
    if case["type"] == "merge":
        return merge_patch(before, case["patch"])
    return strategic_merge(before, case["patch"], schema_of(case["of"]))


def _id(case: Object) -> str:
    return f"{case['number']}-{case['type']}-{orjson.dumps(case['patch']).decode()[:80]}"


@pytest.mark.parametrize("case", cases(), ids=_id)
def test_patch_result_matches_the_real_server(case: Object) -> None:
    answer = observed()[case["number"]]
    before = answer["before"]
    frozen = orjson.dumps([before, case["patch"]])
    by_patch = answer["code"] >= 300 and "is invalid" not in answer["status"]["message"]
    if by_patch:
        with pytest.raises(ApiError) as refusal:
            patched(case, before)
        assert (refusal.value.code, refusal.value.message) == (_code(answer), answer["status"]["message"])
        return
    result = patched(case, before)
    assert orjson.dumps([before, case["patch"]]) == frozen
    if answer["code"] < 300:
        assert orjson.dumps(_read(result, schema_of(case["of"])), option=SORTED) == orjson.dumps(answer["after"], option=SORTED)


def _code(answer: Object) -> int:
    """The real server returns 500 for many invalid patches; the twin returns 400."""
    return 400 if answer["code"] == 500 else int(answer["code"])


def _read(result: Object, schema: Schema) -> Object:
    """The decoded patched object, without fields that the recording omits."""
    result = orjson.loads(orjson.dumps(result))
    new: Object = decode(schema, result, []) if schema.name else prune(schema, result, [])
    set_defaults(schema, new)
    new.pop("status", None)
    return new


def test_json_patch_operations_are_limited() -> None:
    with pytest.raises(RequestEntityTooLarge, match="maximum operations in a JSON patch is 10000, got 10001"):
        json_patch({}, [{"op": "test", "path": "/a"}] * (MAX_OPERATIONS + 1))
    assert json_patch({"a": 1}, [{"op": "test", "path": "/a", "value": 1}] * MAX_OPERATIONS) == {"a": 1}


def test_copies_in_a_json_patch_are_limited() -> None:
    doc = {"a": "x" * (MAX_COPIED_BYTES // 4)}
    copies = [{"op": "copy", "from": "/a", "path": f"/b{number}"} for number in range(5)]
    assert len(json_patch(doc, copies[:3])) == 4
    with pytest.raises(Invalid):
        json_patch(doc, copies)


def test_nested_copies_are_limited() -> None:
    operations = [{"op": "copy", "from": "", "path": "/a"}]
    with pytest.raises(Invalid):
        json_patch({"a": 1}, operations)
    deeper = [{"op": "copy", "from": "/a", "path": "/a" + "/a" * 2**number} for number in range(9)]
    with pytest.raises(Invalid):
        json_patch({"a": {"a": {}}}, deeper)


def test_copies_are_independent() -> None:
    doc = {"a": {"b": [1]}}
    operations: list[Object] = [
        {"op": "add", "path": "/a/c", "value": {"d": 1}},
        {"op": "copy", "from": "/a", "path": "/z"},
        {"op": "add", "path": "/a/b/-", "value": 2},
        {"op": "remove", "path": "/z/c/d"},
    ]
    assert json_patch(doc, operations) == {"a": {"b": [1, 2], "c": {"d": 1}}, "z": {"b": [1], "c": {}}}
    assert operations[0]["value"] == {"d": 1}
    assert doc == {"a": {"b": [1]}}


def test_replaced_root_cannot_be_a_scalar() -> None:
    assert json_patch({"a": 1}, [{"op": "replace", "path": "", "value": [1]}]) == [1]
    with pytest.raises(Invalid):
        json_patch({"a": 1}, [{"op": "replace", "path": ""}])
    assert json_patch({"a": 1}, [{"op": "test", "path": "", "value": {"a": 1}}]) == {"a": 1}


def test_text_before_the_first_slash_is_ignored() -> None:
    assert json_patch({"a": 1}, [{"op": "add", "path": "b/a", "value": 2}]) == {"a": 2}


def test_empty_patch_changes_nothing() -> None:
    assert json_patch({"a": 1}, None) == {"a": 1}


def test_unknown_fields_of_operations_are_reported() -> None:
    operations = [{"op": "add", "path": "/a", "valu": 1}, 1, {"op": "test", "x": 1, "y": 2}]
    assert unknown_fields(operations) == [f'json patch unknown field "{path}"' for path in ("[0].valu", "[2].x", "[2].y")]
    assert unknown_fields({"op": "add"}) == []


def test_patch_with_an_invalid_result_is_rejected() -> None:
    refusal = undecodable_result("[1]", "json: cannot unmarshal array")
    assert refusal.message == ' "" is invalid: patch: Invalid value: "[1]": json: cannot unmarshal array'
    assert refusal.status()["details"]["causes"][0]["field"] == "patch"


def test_merge_patch_shares_unchanged_values() -> None:
    doc = {"a": {"b": 1}, "c": {"d": 1}}
    assert merge_patch(doc, {"a": {"b": 2}})["c"] is doc["c"]


class CountedKey(str):
    """A merge key that counts its comparisons."""

    comparisons = 0
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedKey.comparisons += 1
        return super().__eq__(other)


@pytest.mark.parametrize("directive", [{}, {"$patch": "delete"}])
def test_strategic_merge_takes_linear_time(directive: Object) -> None:
    count = 3000
    names = [CountedKey(f"E{number}") for number in range(count)]
    env = [{"name": name, "value": "x"} for name in names]
    before = {"spec": {"template": {"spec": {"containers": [{"name": "c", "env": env}]}}}}
    changed = [{"name": name, "value": "y", **directive} for name in reversed(names)]
    order = [{"name": name} for name in reversed(names)]
    container = {"name": "c", "env": changed, "$setElementOrder/env": order}
    CountedKey.comparisons = 0
    after = strategic_merge(
        before, {"spec": {"template": {"spec": {"containers": [container]}}}}, schema_of("apps/v1/deployments/Deployment")
    )
    env = after["spec"]["template"]["spec"]["containers"][0]["env"]
    assert [variable["value"] for variable in env] == ([] if directive else ["y"] * count)
    assert CountedKey.comparisons < 20 * count
