"""Server-side apply: field ownership, conflicts, force, and managedFields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.custom_resources import define, simple
from tests.support.http import APPLY_PATCH
from tests.support.objects import config_map, deployment

if TYPE_CHECKING:
    from tests.support.http import Api

Object = dict[str, Any]


def applied(data: dict[str, str], **metadata: Any) -> Object:
    """A ConfigMap to apply."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", **metadata}, "data": data}


def owners(obj: Object) -> dict[tuple[str, str, str], Any]:
    """The field set of each manager by (manager, operation, subresource)."""
    return {(e["manager"], e["operation"], e.get("subresource", "")): e["fieldsV1"] for e in obj["metadata"]["managedFields"]}


def test_apply_creates_object(api: Api, core: str) -> None:
    created = api.apply(f"{core}/configmaps/c", applied({"a": "1"}, labels={"x": "y"})).ok(201).json
    assert owners(created) == {("tester", "Apply", ""): {"f:data": {"f:a": {}}, "f:metadata": {"f:labels": {"f:x": {}}}}}
    [entry] = created["metadata"]["managedFields"]
    assert (entry["apiVersion"], entry["fieldsType"]) == ("v1", "FieldsV1")


def test_repeated_apply_changes_nothing(api: Api, core: str) -> None:
    first = api.apply(f"{core}/configmaps/c", applied({"a": "1"})).ok(201)
    assert api.apply(f"{core}/configmaps/c", applied({"a": "1"})).ok(200).json == first.json


def test_apply_removes_fields_left_out(api: Api, core: str) -> None:
    api.apply(f"{core}/configmaps/c", applied({"a": "1", "b": "2"})).ok(201)
    assert api.apply(f"{core}/configmaps/c", applied({"b": "3"})).ok(200).json["data"] == {"b": "3"}


def test_conflict_names_the_other_manager(api: Api, core: str) -> None:
    api.apply(f"{core}/configmaps/c", applied({"a": "1", "b": "2"}), "first").ok(201)
    answer = api.apply(f"{core}/configmaps/c", applied({"a": "x", "b": "2"}), "second").refused(409, "Conflict")
    assert answer.message == 'Apply failed with 1 conflict: conflict with "first": .data.a'
    assert answer.causes == [("FieldManagerConflict", ".data.a", 'conflict with "first"')]
    answer = api.apply(f"{core}/configmaps/c", applied({"a": "x", "b": "y"}), "second").refused(409, "Conflict")
    assert answer.message == 'Apply failed with 2 conflicts: conflicts with "first":\n- .data.a\n- .data.b'


def test_apply_conflicts_with_update(api: Api, core: str) -> None:
    api.post(f"{core}/configmaps", config_map(), query={"fieldManager": "hand"}).ok(201)
    answer = api.apply(f"{core}/configmaps/c", applied({"a": "x"})).refused(409, "Conflict")
    assert answer.message.startswith('Apply failed with 1 conflict: conflict with "hand" using v1: .data.a')
    assert answer.causes[0][0] == "FieldManagerConflict"


def test_force_takes_ownership(api: Api, core: str) -> None:
    api.apply(f"{core}/configmaps/c", applied({"a": "1", "b": "2"}), "first").ok(201)
    taken = api.apply(f"{core}/configmaps/c", applied({"a": "x"}), "second", force=True).ok(200).json
    assert taken["data"] == {"a": "x", "b": "2"}
    assert owners(taken) == {
        ("first", "Apply", ""): {"f:data": {"f:b": {}}},
        ("second", "Apply", ""): {"f:data": {"f:a": {}}},
    }


def test_equal_values_share_ownership(api: Api, core: str) -> None:
    api.apply(f"{core}/configmaps/c", applied({"a": "1"}), "first").ok(201)
    shared = api.apply(f"{core}/configmaps/c", applied({"a": "1"}), "second").ok(200).json
    assert set(owners(shared)) == {("first", "Apply", ""), ("second", "Apply", "")}
    left = api.apply(f"{core}/configmaps/c", applied({}), "first").ok(200).json
    assert left["data"] == {"a": "1"}


def test_update_owns_changed_fields(api: Api, core: str) -> None:
    live = api.apply(f"{core}/configmaps/c", applied({"a": "1", "b": "2"})).ok(201).json
    live["data"]["a"] = "hand"
    live = api.put(f"{core}/configmaps/c", live, query={"fieldManager": "hand"}).ok(200).json
    assert owners(live) == {("tester", "Apply", ""): {"f:data": {"f:b": {}}}, ("hand", "Update", ""): {"f:data": {"f:a": {}}}}


def test_lists_merge_by_key(api: Api, ns: str) -> None:
    path = f"/apis/apps/v1/namespaces/{ns}/deployments/d"
    api.apply(path, deployment(), "first").ok(201)
    side = deployment()
    side["spec"] = {"template": {"spec": {"containers": [{"name": "side", "image": "s"}]}}}
    live = api.apply(path, side, "second").ok(200).json
    assert [c["name"] for c in live["spec"]["template"]["spec"]["containers"]] == ["main", "side"]
    fields = owners(live)[("second", "Apply", "")]
    keyed = fields["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert keyed == {'k:{"name":"side"}': {".": {}, "f:image": {}, "f:name": {}}}
    side["spec"]["template"]["spec"]["containers"] = []
    live = api.apply(path, side, "second").ok(200).json
    assert [c["name"] for c in live["spec"]["template"]["spec"]["containers"]] == ["main"]


def test_status_has_a_separate_managed_fields_entry(api: Api, ns: str) -> None:
    path = f"/apis/apps/v1/namespaces/{ns}/deployments/d"
    api.apply(path, deployment()).ok(201)
    status = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "status": {"replicas": 1, "observedGeneration": 1},
    }
    live = api.apply(f"{path}/status", status, "controller").ok(200).json
    assert live["status"] == {"replicas": 1, "observedGeneration": 1}
    assert owners(live)[("controller", "Apply", "status")] == {"f:status": {"f:observedGeneration": {}, "f:replicas": {}}}


def test_set_lists_have_value_entries(api: Api, core: str) -> None:
    live = api.apply(f"{core}/configmaps/c", applied({}, finalizers=["example.com/x"])).ok(201).json
    assert owners(live)[("tester", "Apply", "")] == {"f:data": {}, "f:metadata": {"f:finalizers": {'v:"example.com/x"': {}}}}


def test_custom_resources_are_applied(api: Api, ns: str) -> None:
    lists = {
        "type": "array",
        "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}, "required": ["k"]},
    }
    lists |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    custom = define(api, simple(spec={"type": "object", "properties": {"items": lists}}))
    api.apply(f"{custom.at(ns)}/a", custom.object(spec={"items": [{"k": "x", "v": 1}]}), "first").ok(201)
    live = api.apply(f"{custom.at(ns)}/a", custom.object(spec={"items": [{"k": "y", "v": 2}]}), "second").ok(200).json
    assert [item["k"] for item in live["spec"]["items"]] == ["x", "y"]
    answer = api.apply(f"{custom.at(ns)}/a", custom.object(spec={"items": [{"k": "x", "v": 9}]}), "second").refused(409, "Conflict")
    assert answer.causes == [("FieldManagerConflict", '.spec.items[k="x"].v', 'conflict with "first"')]


def test_duplicate_keys_are_rejected(api: Api, core: str) -> None:
    ports = [{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "TCP"}]
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports}}
    response = api.apply(f"{core}/services/s", body)
    assert response.status >= 400
    assert response.message.startswith("failed to create typed patch object")
    assert 'duplicate entries for key [port=80,protocol="TCP"]' in response.message


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({}, 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'),
        ({"fieldManager": "x" * 129}, "fieldManager: Too long: may not be more than 128 bytes"),
        ({"fieldManager": "a\nb"}, 'fieldManager: Invalid value: "a\\nb": invalid character U+000A (at position 1)'),
    ],
)
def test_invalid_options_are_rejected(api: Api, core: str, query: dict[str, str], message: str) -> None:
    answer = api.patch(f"{core}/configmaps/c", applied({}), APPLY_PATCH, query=query).refused(422, "Invalid")
    assert message in answer.message


def test_force_is_only_valid_for_apply(api: Api, core: str) -> None:
    api.post(f"{core}/configmaps", config_map()).ok(201)
    answer = api.patch(f"{core}/configmaps/c", {}, query={"force": "true"}).refused(422, "Invalid")
    assert answer.causes == [("FieldValueForbidden", "force", "Forbidden: may not be specified for non-apply patch")]


def test_applying_managed_fields_is_rejected(api: Api, core: str) -> None:
    managed = [{"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}]
    answer = api.apply(f"{core}/configmaps/c", applied({}, managedFields=managed)).refused(400, "BadRequest")
    assert answer.message == "metadata.managedFields must be nil"


def test_managed_fields_can_be_cleared(api: Api, core: str) -> None:
    api.apply(f"{core}/configmaps/c", applied({"a": "1"})).ok(201)
    cleared = api.patch(f"{core}/configmaps/c", {"metadata": {"managedFields": [{}]}}).ok(200).json
    assert "managedFields" not in cleared["metadata"]


def test_apply_with_a_version_is_a_precondition(api: Api, core: str) -> None:
    api.apply(f"{core}/configmaps/c", applied({"a": "1"})).ok(201)
    api.apply(f"{core}/configmaps/c", applied({"a": "2"}, resourceVersion="1")).refused(409, "Conflict")


def test_apply_accepts_yaml(api: Api, core: str) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  # a remark\n  a: |\n    text\n"
    assert api.apply(f"{core}/configmaps/c", text).ok(201).json["data"] == {"a": "text\n"}


def test_apply_rejects_unknown_fields(api: Api, core: str) -> None:
    response = api.apply(f"{core}/configmaps/c", {**applied({}), "colour": "blue"})
    assert response.status >= 400
    assert response.message == (
        "failed to create typed patch object (/c; /v1, Kind=ConfigMap): .colour: field not declared in schema"
    )


def test_plain_writes_record_field_managers(api: Api, core: str) -> None:
    api.post(f"{core}/configmaps", config_map(data={"a": "1"}), query={"fieldManager": "one"}).ok(201)
    live = api.patch(f"{core}/configmaps/c", {"data": {"b": "2"}}, query={"fieldManager": "two"}).ok(200).json
    assert owners(live) == {
        ("one", "Update", ""): {"f:data": {".": {}, "f:a": {}}},
        ("two", "Update", ""): {"f:data": {"f:b": {}}},
    }
    unnamed = api.patch(f"{core}/configmaps/c", {"data": {"c": "3"}}, headers={"User-Agent": "tool/1.2 (linux)"}).ok(200).json
    assert ("tool", "Update", "") in owners(unnamed)
