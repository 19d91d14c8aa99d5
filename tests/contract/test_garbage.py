"""The garbage collector in odd cases: owners that are elsewhere, somebody else, unknown, or in a circle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.contract.conftest import unique
from tests.support.objects import config_map
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.http import Api

Object = dict[str, Any]


def owned(called: str, *owners: Object, **changed: Any) -> Object:
    """A config map with owners; fields of the references may be changed."""
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], **changed}
        for owner in owners
    ]
    return config_map(called, ownerReferences=references)


def make(api: Api, core: str, body: Object) -> Object:
    made: Object = api.post(f"{core}/configmaps", body).ok(201).json
    return made


def gone(api: Api, path: str) -> bool:
    return api.get(path).status == 404


def test_an_owner_in_another_namespace_counts_as_absent_and_is_told_of(api: Api, core: str, ns: str) -> None:
    elsewhere = unique("case")
    api.post("/api/v1/namespaces", {"metadata": {"name": elsewhere}}).ok(201)
    parent = make(api, f"/api/v1/namespaces/{elsewhere}", config_map("parent"))
    make(api, core, owned("child", parent))
    assert eventually(lambda: gone(api, f"{core}/configmaps/child"))
    uid = parent["metadata"]["uid"]
    told = f'ownerRef [v1/ConfigMap, namespace: {ns}, name: parent, uid: {uid}] does not exist in namespace "{ns}"'

    def event() -> Object:
        found = [item for item in api.get(f"{core}/events").json["items"] if item["reason"] == "OwnerRefInvalidNamespace"]
        return found[0] if found else {}

    seen = eventually(event)
    assert (seen["message"], seen["type"]) == (told, "Warning")
    assert seen["involvedObject"]["name"] == "child"
    assert seen["source"] == {"component": "garbage-collector-controller"}
    assert not gone(api, f"/api/v1/namespaces/{elsewhere}/configmaps/parent")


def test_a_uid_that_is_another_objects_counts_as_absent(api: Api, core: str) -> None:
    parent = make(api, core, config_map("parent"))
    make(api, core, owned("child", parent, uid="11111111-2222-3333-4444-555555555555"))
    make(api, core, owned("sibling", parent))
    assert eventually(lambda: gone(api, f"{core}/configmaps/child"))
    assert not gone(api, f"{core}/configmaps/sibling")


def test_a_name_that_is_not_the_owners_counts_as_absent(api: Api, core: str) -> None:
    parent = make(api, core, config_map("parent"))
    make(api, core, owned("child", parent, name="somebody"))
    assert eventually(lambda: gone(api, f"{core}/configmaps/child"))


def test_a_kind_that_nobody_serves_keeps_the_object(api: Api, core: str) -> None:
    parent = make(api, core, config_map("parent"))
    make(api, core, owned("odd", parent, apiVersion="nobody.example.com/v1", kind="Thing"))
    make(api, core, owned("plain", parent))
    api.delete(f"{core}/configmaps/parent").ok(200)
    assert eventually(lambda: gone(api, f"{core}/configmaps/plain"))
    assert not gone(api, f"{core}/configmaps/odd")


def test_what_belongs_to_the_cluster_has_no_owner_in_a_namespace(api: Api, core: str, unique_name: str) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    parent = make(api, core, config_map("parent"))
    wide = {**owned(unique_name, parent), "rules": []}
    del wide["data"]
    api.post(roles, wide).ok(201)
    make(api, core, owned("child", parent))
    api.delete(f"{core}/configmaps/parent").ok(200)
    assert eventually(lambda: gone(api, f"{core}/configmaps/child"))
    assert not gone(api, f"{roles}/{unique_name}")
    api.delete(f"{roles}/{unique_name}").ok(200)


def test_an_owner_that_is_gone_is_taken_out_while_another_is_left(api: Api, core: str) -> None:
    one, two = make(api, core, config_map("one")), make(api, core, config_map("two"))
    make(api, core, owned("child", one, two))
    api.delete(f"{core}/configmaps/one").ok(200)

    def owners() -> list[str]:
        child = api.get(f"{core}/configmaps/child").ok(200).json
        return [each["name"] for each in child["metadata"]["ownerReferences"]]

    assert eventually(lambda: owners() == ["two"])
    api.delete(f"{core}/configmaps/two").ok(200)
    assert eventually(lambda: gone(api, f"{core}/configmaps/child"))


def test_a_circle_goes_in_the_foreground_too(api: Api, core: str) -> None:
    first = make(api, core, config_map("first"))
    second = make(api, core, owned("second", first, blockOwnerDeletion=True))
    back = owned("first", second, blockOwnerDeletion=True)["metadata"]["ownerReferences"]
    api.patch(f"{core}/configmaps/first", {"metadata": {"ownerReferences": back}}).ok(200)
    api.delete(f"{core}/configmaps/first", {"propagationPolicy": "Foreground"}).ok(200)
    assert eventually(lambda: gone(api, f"{core}/configmaps/first") and gone(api, f"{core}/configmaps/second"))


def test_a_child_born_after_its_owner_is_gone_goes_as_well(api: Api, core: str) -> None:
    parent = make(api, core, config_map("parent"))
    api.delete(f"{core}/configmaps/parent").ok(200)
    make(api, core, owned("late", parent))
    assert eventually(lambda: gone(api, f"{core}/configmaps/late"))
