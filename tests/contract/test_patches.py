"""JSON, merge and strategic merge patches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.custom_resources import define, simple
from tests.support.http import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from tests.support.objects import config_map, deployment, pod

if TYPE_CHECKING:
    from tests.support.http import Api

DATA = {"a": "1", "b": "2"}


def patched(api: Api, core: str, patch: Any, kind: str) -> Any:
    """The data of a ConfigMap after one patch."""
    api.post(f"{core}/configmaps", config_map(data=dict(DATA))).ok(201)
    return api.patch(f"{core}/configmaps/c", patch, kind).ok(200).json.get("data")


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ([{"op": "add", "path": "/data/c", "value": "3"}], {**DATA, "c": "3"}),
        ([{"op": "replace", "path": "/data/a", "value": "x"}], {"a": "x", "b": "2"}),
        ([{"op": "remove", "path": "/data/a"}], {"b": "2"}),
        ([{"op": "move", "from": "/data/a", "path": "/data/z"}], {"b": "2", "z": "1"}),
        ([{"op": "copy", "from": "/data/a", "path": "/data/z"}], {**DATA, "z": "1"}),
        ([{"op": "test", "path": "/data/a", "value": "1"}, {"op": "remove", "path": "/data/b"}], {"a": "1"}),
        ([{"op": "add", "path": "/metadata/labels", "value": {"x~y": "z"}}], None),
        ([{"op": "add", "path": "/data/x~1y", "value": "3"}], None),
        ([], DATA),
    ],
)
def test_json_patch(api: Api, core: str, patch: list[Any], expected: dict[str, str] | None) -> None:
    if expected is None:
        api.post(f"{core}/configmaps", config_map()).ok(201)
        api.patch(f"{core}/configmaps/c", patch, JSON_PATCH).refused(422, "Invalid")
    else:
        assert patched(api, core, patch, JSON_PATCH) == expected


@pytest.mark.parametrize("kind", [MERGE_PATCH, STRATEGIC_PATCH])
@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"data": {"c": "3"}}, {**DATA, "c": "3"}),
        ({"data": {"a": None}}, {"b": "2"}),
        ({"data": None}, None),
        ({"data": {"a": "x", "nothing": None}}, {"a": "x", "b": "2"}),
        ({}, DATA),
    ],
)
def test_merge_patches(api: Api, core: str, patch: Any, expected: Any, kind: str) -> None:
    assert patched(api, core, patch, kind) == expected


def test_merge_patch_replaces_lists(api: Api, ns: str) -> None:
    path = f"/apis/apps/v1/namespaces/{ns}/deployments"
    api.post(path, deployment()).ok(201)
    containers = [{"name": "other", "image": "example.com/other"}]
    changed = api.patch(f"{path}/d", {"spec": {"template": {"spec": {"containers": containers}}}}, MERGE_PATCH).ok(200).json
    assert [c["name"] for c in changed["spec"]["template"]["spec"]["containers"]] == ["other"]


STRATEGIC: list[tuple[str, Any, list[str]]] = [
    ("merge by key", [{"name": "main", "image": "new"}], ["main=new"]),
    ("add in front", [{"name": "side", "image": "s"}], ["side=s", "main=example.com/app:1"]),
    ("delete one", [{"name": "side", "image": "s"}, {"$patch": "delete", "name": "main"}], ["side=s"]),
    ("replace all", [{"$patch": "replace"}, {"name": "only", "image": "o"}], ["only=o"]),
]


@pytest.mark.parametrize(("containers", "expected"), [pytest.param(c, e, id=i) for i, c, e in STRATEGIC])
def test_strategic_merge_of_containers(api: Api, ns: str, containers: Any, expected: list[str]) -> None:
    path = f"/apis/apps/v1/namespaces/{ns}/deployments"
    api.post(path, deployment()).ok(201)
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    changed = api.patch(f"{path}/d", patch, STRATEGIC_PATCH).ok(200).json
    assert [f"{c['name']}={c['image']}" for c in changed["spec"]["template"]["spec"]["containers"]] == expected


def test_strategic_set_element_order(api: Api, ns: str) -> None:
    path = f"/apis/apps/v1/namespaces/{ns}/deployments"
    api.post(path, deployment()).ok(201)
    spec = {"$setElementOrder/containers": [{"name": "main"}, {"name": "side"}], "containers": [{"name": "side", "image": "s"}]}
    changed = api.patch(f"{path}/d", {"spec": {"template": {"spec": spec}}}, STRATEGIC_PATCH).ok(200).json
    assert [c["name"] for c in changed["spec"]["template"]["spec"]["containers"]] == ["main", "side"]


def test_strategic_primitive_lists(api: Api, core: str) -> None:
    api.post(f"{core}/configmaps", config_map(finalizers=["example.com/a", "example.com/b"])).ok(201)
    patch = {"metadata": {"finalizers": ["example.com/c"], "$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}
    changed = api.patch(f"{core}/configmaps/c", patch, STRATEGIC_PATCH).ok(200).json
    assert sorted(changed["metadata"]["finalizers"]) == ["example.com/b", "example.com/c"]


def test_strategic_retain_keys(api: Api, ns: str) -> None:
    path = f"/apis/apps/v1/namespaces/{ns}/deployments"
    api.post(path, deployment()).ok(201)
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert api.patch(f"{path}/d", patch, STRATEGIC_PATCH).ok(200).json["spec"]["strategy"] == {"type": "Recreate"}


def test_strategic_map_directives(api: Api, core: str) -> None:
    assert patched(api, core, {"data": {"$patch": "replace", "z": "9"}}, STRATEGIC_PATCH) == {"z": "9"}


def test_patch_with_a_version_is_a_precondition(api: Api, core: str) -> None:
    created = api.post(f"{core}/configmaps", config_map()).ok(201)
    patch = {"metadata": {"resourceVersion": created.version}, "data": {"a": "2"}}
    api.patch(f"{core}/configmaps/c", patch).ok(200)
    answer = api.patch(f"{core}/configmaps/c", patch).refused(409, "Conflict")
    assert answer.message.startswith('Operation cannot be fulfilled on configmaps "c": the object has been modified')


def test_patch_that_changes_nothing_keeps_the_version(api: Api, core: str) -> None:
    created = api.post(f"{core}/configmaps", config_map()).ok(201)
    assert api.patch(f"{core}/configmaps/c", {"data": {"a": "1"}}).ok(200).version == created.version


def test_patch_of_missing_object_is_not_found(api: Api, core: str) -> None:
    api.patch(f"{core}/configmaps/c", {"data": {}}).refused(404, "NotFound", 'configmaps "c" not found')


def test_patch_cannot_rename_object(api: Api, core: str) -> None:
    api.post(f"{core}/configmaps", config_map()).ok(201)
    answer = api.patch(f"{core}/configmaps/c", {"metadata": {"name": "other"}}).refused(400, "BadRequest")
    assert answer.message == "the name of the object (other) does not match the name on the URL (c)"


def test_custom_resources_reject_strategic_patch(api: Api, ns: str) -> None:
    custom = define(api, simple())
    api.post(custom.at(ns), custom.object(spec={"a": 1})).ok(201)
    answer = api.patch(f"{custom.at(ns)}/a", {"spec": {"a": 2}}, STRATEGIC_PATCH).refused(415, "UnsupportedMediaType")
    accepted = ", ".join((JSON_PATCH, MERGE_PATCH, APPLY_PATCH))
    assert answer.message == f"the body of the request was in an unknown format - accepted media types include: {accepted}"


def test_unknown_patch_type_is_rejected(api: Api, core: str) -> None:
    api.post(f"{core}/configmaps", config_map()).ok(201)
    api.patch(f"{core}/configmaps/c", {}, JSON).refused(415, "UnsupportedMediaType", "415: Unsupported Media Type")


def test_patch_of_immutable_pod_fields_is_rejected(api: Api, core: str) -> None:
    api.post(f"{core}/pods", pod()).ok(201)
    answer = api.patch(f"{core}/pods/p", {"spec": {"hostname": "x"}}).refused(422, "Invalid")
    assert answer.message.startswith('Pod "p" is invalid: spec: Forbidden: pod updates may not change fields other than')
    assert answer.causes[0][:2] == ("FieldValueForbidden", "spec")


def test_unchanged_metadata_keeps_version(api: Api, core: str) -> None:
    created = api.post(f"{core}/pods", pod("p")).ok(201).json["metadata"]
    lock = {"uid": created["uid"], "resourceVersion": created["resourceVersion"]}
    same = api.patch(f"{core}/pods/p", {"metadata": lock}).ok(200).json["metadata"]
    assert same == created
    answer = api.patch(f"{core}/pods/p/status", {"metadata": lock, "status": {"message": "hello"}}).ok(200).json
    assert answer["metadata"]["resourceVersion"] != created["resourceVersion"]
    assert {key: value for key, value in answer["metadata"].items() if key not in ("managedFields", "resourceVersion")} == {
        key: value for key, value in created.items() if key not in ("managedFields", "resourceVersion")
    }
    assert [entry["manager"] for entry in answer["metadata"]["managedFields"] if entry.get("subresource") == "status"] != []


@pytest.mark.parametrize("generation", [True, 1.5, "1"])
@pytest.mark.parametrize("below", ["", "/status"])
def test_numbers_of_another_type_are_different(api: Api, core: str, below: str, generation: Any) -> None:
    api.post(f"{core}/pods", pod("p")).ok(201)
    api.patch(f"{core}/pods/p{below}", {"metadata": {"generation": generation}}).refused(422, "Invalid")


def test_pod_warnings_only_on_create(api: Api, core: str) -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    body = pod("p")
    body["spec"]["topologySpreadConstraints"] = [spread]
    created = api.post(f"{core}/pods", body).ok(201)
    assert len(created.warnings) == 1
    assert api.patch(f"{core}/pods/p", {"metadata": {"labels": {"a": "b"}}}).ok(200).warnings == []
    assert api.put(f"{core}/pods/p", api.get(f"{core}/pods/p").json).ok(200).warnings == []
