"""Namespaces: their default objects, their deletion, and writes into a terminating one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.custom_resources import define, simple
from tests.support.objects import config_map, pod
from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.support.http import Api


def test_new_namespace_is_active(api: Api, ns: str) -> None:
    live = api.get(f"/api/v1/namespaces/{ns}").ok(200).json
    assert live["metadata"]["labels"] == {"kubernetes.io/metadata.name": ns}
    assert live["spec"] == {"finalizers": ["kubernetes"]}
    assert live["status"] == {"phase": "Active"}


def test_name_label_is_restored(api: Api, ns: str) -> None:
    live = api.patch(f"/api/v1/namespaces/{ns}", {"metadata": {"labels": {"kubernetes.io/metadata.name": None}}}).ok(200).json
    assert live["metadata"]["labels"] == {"kubernetes.io/metadata.name": ns}


def test_service_account_and_root_certificate_are_created(api: Api, unique_name: str) -> None:
    path = f"/api/v1/namespaces/{unique_name}"
    api.post("/api/v1/namespaces", {"metadata": {"name": unique_name}}).ok(201)
    eventually(lambda: api.get(f"{path}/serviceaccounts/default").status == 200, what="default service account")
    root = eventually(lambda: api.get(f"{path}/configmaps/kube-root-ca.crt").ok(200).json, what="root certificate")
    assert root["data"]["ca.crt"].startswith("-----BEGIN CERTIFICATE-----")
    api.delete(f"{path}/serviceaccounts/default").ok(200)
    eventually(lambda: api.get(f"{path}/serviceaccounts/default").status == 200, what="it is recreated")


def test_namespace_deletion_deletes_content(api: Api, ns: str, core: str) -> None:
    custom = define(api, simple())
    api.post(custom.at(ns), custom.object()).ok(201)
    api.post(f"{core}/pods", pod()).ok(201)
    api.post(f"{core}/configmaps", config_map()).ok(201)
    live = api.delete(f"/api/v1/namespaces/{ns}").ok(200).json
    assert live["status"]["phase"] == "Terminating"
    assert live["metadata"]["deletionTimestamp"]
    eventually(lambda: api.get(f"/api/v1/namespaces/{ns}").status == 404, 60, "the namespace is deleted")
    assert api.get(f"{core}/pods").names == []
    assert api.get(custom.at(ns)).names == []


def test_deletion_waits_for_finalizers(api: Api, ns: str, core: str) -> None:
    api.post(f"{core}/configmaps", config_map(finalizers=["example.com/hold"])).ok(201)
    api.delete(f"/api/v1/namespaces/{ns}").ok(200)

    def conditions() -> dict[str, tuple[str, str, str]]:
        result = api.get(f"/api/v1/namespaces/{ns}").ok(200).json["status"].get("conditions", [])
        return {c["type"]: (c["status"], c["reason"], c["message"]) for c in result}

    eventually(lambda: conditions().get("NamespaceFinalizersRemaining", ("",))[0] == "True", what="conditions")
    seen = conditions()
    assert seen["NamespaceDeletionDiscoveryFailure"] == ("False", "ResourcesDiscovered", "All resources successfully discovered")
    assert seen["NamespaceDeletionGroupVersionParsingFailure"] == (
        "False",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    )
    assert seen["NamespaceContentRemaining"] == (
        "True",
        "SomeResourcesRemain",
        "Some resources are remaining: configmaps. has 1 resource instances",
    )
    assert seen["NamespaceFinalizersRemaining"] == (
        "True",
        "SomeFinalizersRemain",
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
    )
    api.patch(f"{core}/configmaps/c", {"metadata": {"finalizers": None}}).ok(200)
    eventually(lambda: api.get(f"/api/v1/namespaces/{ns}").status == 404, 60, "the namespace is deleted")


def test_create_in_terminating_namespace_is_forbidden(api: Api, ns: str, core: str) -> None:
    api.post(f"{core}/configmaps", config_map(finalizers=["example.com/hold"])).ok(201)
    api.delete(f"/api/v1/namespaces/{ns}").ok(200)
    answer = api.post(f"{core}/configmaps", config_map("late")).refused(403, "Forbidden")
    assert (
        answer.message
        == f'configmaps "late" is forbidden: unable to create new content in namespace {ns} because it is being terminated'
    )
    assert answer.causes == [("NamespaceTerminating", "metadata.namespace", f"namespace {ns} is being terminated")]
    api.patch(f"{core}/configmaps/c", {"data": {"a": "2"}}).ok(200)
    api.patch(f"{core}/configmaps/c", {"metadata": {"finalizers": None}}).ok(200)


def test_create_in_missing_namespace_is_not_found(api: Api) -> None:
    path = "/api/v1/namespaces/nowhere/configmaps"
    api.post(path, config_map()).refused(404, "NotFound", 'namespaces "nowhere" not found')
    assert api.get(path).ok(200).names == []
    api.get(f"{path}/c").refused(404, "NotFound", 'configmaps "c" not found')


def test_default_namespaces_cannot_be_deleted(api: Api) -> None:
    assert {"default", "kube-system", "kube-public", "kube-node-lease"} <= set(api.get("/api/v1/namespaces").names)
    answer = api.delete("/api/v1/namespaces/default").refused(403, "Forbidden")
    assert answer.message == 'namespaces "default" is forbidden: this namespace may not be deleted'


def test_namespaces_have_no_collection_delete(api: Api) -> None:
    api.delete("/api/v1/namespaces").refused(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
    )


def test_system_objects_exist(api: Api) -> None:
    service = api.get("/api/v1/namespaces/default/services/kubernetes").ok(200).json
    assert service["spec"]["ports"][0]["port"] == 443
    classes = set(api.get("/apis/scheduling.k8s.io/v1/priorityclasses").names)
    assert {"system-cluster-critical", "system-node-critical"} <= classes
    roles = set(api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles").names)
    assert {"admin", "cluster-admin", "edit", "view"} <= roles


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/api/v1/pods/a", "/apis/apps/v1/deployments/a", "/api/v1/pods/a/status"])
def test_named_object_without_its_namespace_is_an_unknown_path(api: Api, method: str, path: str) -> None:
    assert api.request(method, path, {} if method != "GET" else None).status == 404
