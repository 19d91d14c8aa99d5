"""Deletion: finalizers, grace periods, the three propagation policies, the garbage collector, and collections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.custom_resources import define, simple
from tests.support.objects import config_map, pod
from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.support.http import Api

Object = dict[str, Any]


def owned(name: str, owner: Object, *, block: bool = False, kind: str = "ConfigMap") -> Object:
    """A ConfigMap that another one owns."""
    reference = {"apiVersion": "v1", "kind": kind, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    return config_map(name, ownerReferences=[{**reference, "blockOwnerDeletion": block}])


def create_parent_and_child(api: Api, core: str, *, block: bool = False) -> None:
    """Create a parent and one child."""
    parent = api.post(f"{core}/configmaps", config_map("parent")).ok(201).json
    api.post(f"{core}/configmaps", owned("child", parent, block=block)).ok(201)


def is_deleted(api: Api, path: str) -> bool:
    """Whether the path returns 404."""
    return api.get(path).status == 404


def test_finalizers_delay_deletion(api: Api, core: str) -> None:
    path = f"{core}/configmaps/c"
    created = api.post(f"{core}/configmaps", config_map(finalizers=["example.com/hold"])).ok(201)
    answer = api.delete(path).ok(200)
    assert answer.json["kind"] == "ConfigMap"
    held = api.get(path).ok(200).json
    assert held["metadata"]["deletionTimestamp"]
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    assert int(held["metadata"]["resourceVersion"]) > int(created.version)
    api.delete(path).ok(200)
    assert api.get(path).version == held["metadata"]["resourceVersion"]
    with api.watch(
        f"{core}/configmaps", {"resourceVersion": held["metadata"]["resourceVersion"], "fieldSelector": "metadata.name=c"}
    ) as watch:
        api.patch(path, {"metadata": {"finalizers": None}}).ok(200)
        assert watch.take(1) == [("DELETED", "c")]
    api.get(path).refused(404, "NotFound")


def test_finalizers_cannot_be_added_during_deletion(api: Api, core: str) -> None:
    path = f"{core}/configmaps/c"
    api.post(f"{core}/configmaps", config_map(finalizers=["example.com/hold"])).ok(201)
    api.delete(path).ok(200)
    answer = api.patch(path, {"metadata": {"finalizers": ["example.com/hold", "example.com/late"]}}).refused(422, "Invalid")
    assert answer.message == (
        'ConfigMap "c" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, '
        'found new finalizers []string{"example.com/late"}'
    )
    assert api.patch(path, {"data": {"a": "still writable"}}).ok(200).json["data"] == {"a": "still writable"}


def test_generation_increases_when_deletion_starts(api: Api, ns: str) -> None:
    custom = define(api, simple())
    api.post(custom.at(ns), custom.object(metadata={"name": "a", "finalizers": ["example.com/hold"]})).ok(201)
    assert api.delete(f"{custom.at(ns)}/a").ok(200).json["metadata"]["generation"] == 2
    api.patch(f"{custom.at(ns)}/a", {"metadata": {"finalizers": []}}).ok(200)


def test_unscheduled_pods_are_deleted_immediately(api: Api, core: str) -> None:
    api.post(f"{core}/pods", pod()).ok(201)
    assert api.delete(f"{core}/pods/p").ok(200).json["metadata"]["deletionGracePeriodSeconds"] == 0
    assert is_deleted(api, f"{core}/pods/p")


def scheduled(name: str = "p", grace: int | None = None) -> Object:
    """A pod on a node."""
    body = pod(name)
    body["spec"]["nodeName"] = "n1"
    if grace is not None:
        body["spec"]["terminationGracePeriodSeconds"] = grace
    return body


@pytest.mark.parametrize(("spec", "requested", "expected"), [(None, None, 30), (5, None, 5), (None, 7, 7), (None, 1, 1)])
def test_scheduled_pods_get_a_grace_period(api: Api, core: str, spec: int | None, requested: int | None, expected: int) -> None:
    api.post(f"{core}/pods", scheduled(grace=spec)).ok(201)
    live = api.delete(f"{core}/pods/p", query={"gracePeriodSeconds": requested} if requested is not None else None).ok(200).json
    assert live["metadata"]["deletionGracePeriodSeconds"] == expected
    assert live["metadata"]["generation"] == 2
    assert not is_deleted(api, f"{core}/pods/p")
    api.delete(f"{core}/pods/p", {"gracePeriodSeconds": 0}).ok(200)
    assert is_deleted(api, f"{core}/pods/p")


def test_grace_period_can_only_be_shortened(api: Api, core: str) -> None:
    api.post(f"{core}/pods", scheduled()).ok(201)
    api.delete(f"{core}/pods/p", query={"gracePeriodSeconds": 20}).ok(200)
    assert (
        api.delete(f"{core}/pods/p", query={"gracePeriodSeconds": 25}).ok(200).json["metadata"]["deletionGracePeriodSeconds"] == 20
    )
    assert (
        api.delete(f"{core}/pods/p", query={"gracePeriodSeconds": 10}).ok(200).json["metadata"]["deletionGracePeriodSeconds"] == 10
    )


def test_finished_pods_are_deleted_immediately(api: Api, core: str) -> None:
    api.post(f"{core}/pods", scheduled()).ok(201)
    api.patch(f"{core}/pods/p/status", {"status": {"phase": "Succeeded"}}).ok(200)
    api.delete(f"{core}/pods/p").ok(200)
    assert is_deleted(api, f"{core}/pods/p")


def test_background_propagation_is_the_default(api: Api, core: str) -> None:
    create_parent_and_child(api, core)
    api.delete(f"{core}/configmaps/parent").ok(200)
    assert is_deleted(api, f"{core}/configmaps/parent")
    eventually(lambda: is_deleted(api, f"{core}/configmaps/child"), what="the child is collected")


def test_orphan_propagation_keeps_children(api: Api, core: str) -> None:
    create_parent_and_child(api, core)
    live = api.delete(f"{core}/configmaps/parent", {"propagationPolicy": "Orphan"}).ok(200).json
    assert live["metadata"]["finalizers"] == ["orphan"]
    eventually(lambda: is_deleted(api, f"{core}/configmaps/parent"))
    assert "ownerReferences" not in api.get(f"{core}/configmaps/child").ok(200).json["metadata"]


def test_foreground_propagation_waits_for_children(api: Api, core: str) -> None:
    create_parent_and_child(api, core, block=True)
    api.patch(f"{core}/configmaps/child", {"metadata": {"finalizers": ["example.com/hold"]}}).ok(200)
    live = api.delete(f"{core}/configmaps/parent", query={"propagationPolicy": "Foreground"}).ok(200).json
    assert live["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert live["metadata"]["deletionTimestamp"]
    eventually(
        lambda: "deletionTimestamp" in api.get(f"{core}/configmaps/child").json["metadata"], what="the child is being deleted"
    )
    assert not is_deleted(api, f"{core}/configmaps/parent")
    api.patch(f"{core}/configmaps/child", {"metadata": {"finalizers": None}}).ok(200)
    eventually(lambda: is_deleted(api, f"{core}/configmaps/parent"), what="the parent is deleted last")


def test_foreground_ignores_children_that_do_not_block(api: Api, core: str) -> None:
    create_parent_and_child(api, core, block=False)
    api.patch(f"{core}/configmaps/child", {"metadata": {"finalizers": ["example.com/hold"]}}).ok(200)
    api.delete(f"{core}/configmaps/parent", query={"propagationPolicy": "Foreground"}).ok(200)
    eventually(lambda: is_deleted(api, f"{core}/configmaps/parent"))
    eventually(lambda: "deletionTimestamp" in api.get(f"{core}/configmaps/child").json["metadata"])


def test_child_with_two_owners_survives_one_deletion(api: Api, core: str) -> None:
    first, second = (api.post(f"{core}/configmaps", config_map(name)).ok(201).json for name in ("first", "second"))
    child = owned("child", first)
    child["metadata"]["ownerReferences"] += owned("x", second)["metadata"]["ownerReferences"]
    api.post(f"{core}/configmaps", child).ok(201)
    api.delete(f"{core}/configmaps/first").ok(200)
    eventually(lambda: len(api.get(f"{core}/configmaps/child").ok().json["metadata"]["ownerReferences"]) == 1)
    api.delete(f"{core}/configmaps/second").ok(200)
    eventually(lambda: is_deleted(api, f"{core}/configmaps/child"))


def test_child_of_an_absent_owner_is_collected(api: Api, core: str) -> None:
    ghost = {"metadata": {"name": "ghost", "uid": "11111111-2222-3333-4444-555555555555"}}
    api.post(f"{core}/configmaps", owned("child", ghost)).ok(201)
    eventually(lambda: is_deleted(api, f"{core}/configmaps/child"))


def test_grandchildren_are_collected(api: Api, core: str) -> None:
    create_parent_and_child(api, core)
    child = api.get(f"{core}/configmaps/child").json
    api.post(f"{core}/configmaps", owned("grandchild", child)).ok(201)
    api.delete(f"{core}/configmaps/parent", {"propagationPolicy": "Background"}).ok(200)
    eventually(lambda: is_deleted(api, f"{core}/configmaps/grandchild"))


def test_collection_deletion_honors_selectors(api: Api, core: str) -> None:
    for name, colour in (("a", "blue"), ("b", "red"), ("c", "blue")):
        api.post(f"{core}/secrets", {"metadata": {"name": name, "labels": {"colour": colour}}}).ok(201)
    answer = api.delete(f"{core}/secrets", query={"labelSelector": "colour=blue"}).ok(200)
    assert answer.json["kind"] == "SecretList"
    assert sorted(answer.names) == ["a", "c"]
    assert api.get(f"{core}/secrets").names == ["b"]
    api.delete(f"{core}/secrets", query={"fieldSelector": "metadata.name=b", "dryRun": "All"}).ok(200)
    assert api.get(f"{core}/secrets").names == ["b"]
    api.delete(f"{core}/secrets").ok(200)
    assert api.get(f"{core}/secrets").names == []


@pytest.mark.usefixtures("published")
def test_collection_deletion_honors_limit_and_continue(api: Api, core: str) -> None:
    for name in ("a", "b", "c"):
        api.post(f"{core}/configmaps", config_map(name)).ok(201)
    chunk = api.delete(f"{core}/configmaps", query={"limit": 2}).ok(200).json
    assert [item["metadata"]["name"] for item in chunk["items"]] == ["a", "b"]
    assert chunk["metadata"]["remainingItemCount"] == 2
    left = [item["metadata"]["name"] for item in api.get(f"{core}/configmaps").json["items"]]
    assert left == ["c", "kube-root-ca.crt"]
    query = {"limit": 1, "continue": chunk["metadata"]["continue"]}
    assert [item["metadata"]["name"] for item in api.delete(f"{core}/configmaps", query=query).ok(200).json["items"]] == ["c"]
    api.delete(f"{core}/configmaps", query={"continue": "x"}).refused(400, "BadRequest")


def test_collection_deletion_returns_the_objects_as_they_were(api: Api, core: str) -> None:
    created = api.post(f"{core}/secrets", {"metadata": {"name": "s", "finalizers": ["example.com/hold"]}}).ok(201).json
    [item] = api.delete(f"{core}/secrets").ok(200).json["items"]
    assert item["metadata"] == created["metadata"]
    assert api.get(f"{core}/secrets/s").json["metadata"]["deletionTimestamp"]


def test_collection_deletion_respects_finalizers(api: Api, core: str) -> None:
    api.post(f"{core}/secrets", {"metadata": {"name": "a", "finalizers": ["example.com/hold"]}}).ok(201)
    api.delete(f"{core}/secrets").ok(200)
    assert api.get(f"{core}/secrets/a").json["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"propagationPolicy": "Sideways"},
            'propagationPolicy: Unsupported value: "Sideways": supported values: "Foreground", "Background"',
        ),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, "orphanDependents and deletionPropagation cannot be both set"),
    ],
)
def test_invalid_options_are_rejected(api: Api, core: str, options: Object, message: str) -> None:
    api.post(f"{core}/configmaps", config_map()).ok(201)
    answer = api.delete(f"{core}/configmaps/c", options).refused(422, "Invalid")
    assert message in answer.message
