"""The garbage collector in edge cases: owners in another namespace, with another uid, of an unknown kind, or in a cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.contract.conftest import unique
from tests.support.objects import config_map
from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.support.http import Api

Object = dict[str, Any]


def owned(called: str, *owners: Object, **changed: Any) -> Object:
    """A ConfigMap with owners; fields of the references may be overridden."""
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], **changed}
        for owner in owners
    ]
    return config_map(called, ownerReferences=references)


def make(api: Api, core: str, body: Object) -> Object:
    created: Object = api.post(f"{core}/configmaps", body).ok(201).json
    return created


def is_deleted(api: Api, path: str) -> bool:
    return api.get(path).status == 404


def test_owner_in_another_namespace_is_absent_and_has_an_event(api: Api, core: str, ns: str) -> None:
    elsewhere = unique("case")
    api.post("/api/v1/namespaces", {"metadata": {"name": elsewhere}}).ok(201)
    parent = make(api, f"/api/v1/namespaces/{elsewhere}", config_map("parent"))
    make(api, core, owned("child", parent))
    assert eventually(lambda: is_deleted(api, f"{core}/configmaps/child"))
    uid = parent["metadata"]["uid"]
    reported = f'ownerRef [v1/ConfigMap, namespace: {ns}, name: parent, uid: {uid}] does not exist in namespace "{ns}"'

    def event() -> Object:
        result = [item for item in api.get(f"{core}/events").json["items"] if item["reason"] == "OwnerRefInvalidNamespace"]
        return result[0] if result else {}

    seen = eventually(event)
    assert (seen["message"], seen["type"]) == (reported, "Warning")
    assert seen["involvedObject"]["name"] == "child"
    assert seen["source"] == {"component": "garbage-collector-controller"}
    assert not is_deleted(api, f"/api/v1/namespaces/{elsewhere}/configmaps/parent")


def test_owner_with_another_uid_is_absent(api: Api, core: str) -> None:
    parent = make(api, core, config_map("parent"))
    make(api, core, owned("child", parent, uid="11111111-2222-3333-4444-555555555555"))
    make(api, core, owned("sibling", parent))
    assert eventually(lambda: is_deleted(api, f"{core}/configmaps/child"))
    assert not is_deleted(api, f"{core}/configmaps/sibling")


def test_owner_with_another_name_is_absent(api: Api, core: str) -> None:
    parent = make(api, core, config_map("parent"))
    make(api, core, owned("child", parent, name="another"))
    assert eventually(lambda: is_deleted(api, f"{core}/configmaps/child"))


def test_owner_of_unserved_kind_keeps_object(api: Api, core: str) -> None:
    parent = make(api, core, config_map("parent"))
    make(api, core, owned("odd", parent, apiVersion="unserved.example.com/v1", kind="Thing"))
    make(api, core, owned("plain", parent))
    api.delete(f"{core}/configmaps/parent").ok(200)
    assert eventually(lambda: is_deleted(api, f"{core}/configmaps/plain"))
    assert not is_deleted(api, f"{core}/configmaps/odd")


def test_cluster_scoped_object_ignores_namespaced_owner(api: Api, core: str, unique_name: str) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    parent = make(api, core, config_map("parent"))
    wide = {**owned(unique_name, parent), "rules": []}
    del wide["data"]
    api.post(roles, wide).ok(201)
    make(api, core, owned("child", parent))
    api.delete(f"{core}/configmaps/parent").ok(200)
    assert eventually(lambda: is_deleted(api, f"{core}/configmaps/child"))
    assert not is_deleted(api, f"{roles}/{unique_name}")
    api.delete(f"{roles}/{unique_name}").ok(200)


def test_absent_owner_is_removed_while_another_exists(api: Api, core: str) -> None:
    one, two = make(api, core, config_map("one")), make(api, core, config_map("two"))
    make(api, core, owned("child", one, two))
    api.delete(f"{core}/configmaps/one").ok(200)

    def owners() -> list[str]:
        child = api.get(f"{core}/configmaps/child").ok(200).json
        return [owner["name"] for owner in child["metadata"]["ownerReferences"]]

    assert eventually(lambda: owners() == ["two"])
    api.delete(f"{core}/configmaps/two").ok(200)
    assert eventually(lambda: is_deleted(api, f"{core}/configmaps/child"))


def test_cycle_is_deleted_in_foreground(api: Api, core: str) -> None:
    first = make(api, core, config_map("first"))
    second = make(api, core, owned("second", first, blockOwnerDeletion=True))
    back = owned("first", second, blockOwnerDeletion=True)["metadata"]["ownerReferences"]
    api.patch(f"{core}/configmaps/first", {"metadata": {"ownerReferences": back}}).ok(200)
    api.delete(f"{core}/configmaps/first", {"propagationPolicy": "Foreground"}).ok(200)
    assert eventually(lambda: is_deleted(api, f"{core}/configmaps/first") and is_deleted(api, f"{core}/configmaps/second"))


def test_child_created_after_owner_deletion_is_collected(api: Api, core: str) -> None:
    parent = make(api, core, config_map("parent"))
    api.delete(f"{core}/configmaps/parent").ok(200)
    make(api, core, owned("late", parent))
    assert eventually(lambda: is_deleted(api, f"{core}/configmaps/late"))
