"""Create, update and delete: names, versions, conflicts, preconditions, dry run, generation."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.custom_resources import define, simple
from tests.support.http import YAML
from tests.support.objects import config_map, deployment, pod

if TYPE_CHECKING:
    from tests.support.http import Api

CONFLICT = (
    'Operation cannot be fulfilled on configmaps "c": the object has been modified; please apply your changes to the latest '
    "version and try again"
)


def test_create_fills_in_metadata(api: Api, core: str, ns: str) -> None:
    created = api.post(f"{core}/configmaps", config_map()).ok(201).json
    metadata = created["metadata"]
    assert (created["kind"], created["apiVersion"]) == ("ConfigMap", "v1")
    assert metadata["namespace"] == ns
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert "generation" not in metadata
    [entry] = metadata["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("contract", "Update", "v1")


def test_create_ignores_server_fields(api: Api, core: str) -> None:
    mine: dict[str, Any] = {
        "uid": "x",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "generation": 9,
        "deletionTimestamp": "2001-01-01T00:00:00Z",
    }
    metadata = api.post(f"{core}/configmaps", config_map(**mine, selfLink="/x")).ok(201).json["metadata"]
    assert metadata["uid"] != "x"
    assert not metadata["creationTimestamp"].startswith("2001")
    assert not {"deletionTimestamp", "selfLink"} & metadata.keys()


@pytest.mark.parametrize("named", [{}, {"kind": "ConfigMap"}, {"apiVersion": "v1"}, {"kind": None, "apiVersion": None}])
def test_create_needs_no_kind_and_version(api: Api, core: str, named: dict[str, Any]) -> None:
    created = api.post(f"{core}/configmaps", {**named, **config_map()}).ok(201).json
    assert (created["kind"], created["apiVersion"]) == ("ConfigMap", "v1")


def test_create_from_yaml(api: Api, core: str) -> None:
    body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: text\ndata:\n  a: 'one'\n"
    assert api.post(f"{core}/configmaps", body, content_type=YAML).ok(201).json["data"] == {"a": "one"}
    answer = api.get(f"{core}/configmaps/text", accept=YAML).ok(200)
    assert answer.headers["Content-Type"] == YAML
    assert answer.text.startswith('apiVersion: v1\ndata:\n  a: one\nkind: ConfigMap\nmetadata:\n  creationTimestamp: "20')


def test_generate_name(api: Api, core: str) -> None:
    body = {"metadata": {"generateName": "gen-"}}
    names = {api.post(f"{core}/configmaps", body).ok(201).json["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(re.fullmatch("gen-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)


def test_long_generate_name_is_truncated(api: Api, core: str) -> None:
    created = api.post(f"{core}/configmaps", {"metadata": {"generateName": "g" * 80}}).ok(201).json["metadata"]
    assert len(created["name"]) == 63
    assert created["generateName"] == "g" * 80


def test_second_create_already_exists(api: Api, core: str) -> None:
    api.post(f"{core}/configmaps", config_map()).ok(201)
    answer = api.post(f"{core}/configmaps", config_map()).refused(409, "AlreadyExists", 'configmaps "c" already exists')
    assert answer.json["details"] == {"name": "c", "kind": "configmaps"}
    answer = api.post(core.replace("/api/v1", "/apis/apps/v1") + "/deployments", deployment()).ok(201)
    again = api.post(core.replace("/api/v1", "/apis/apps/v1") + "/deployments", deployment())
    again.refused(409, "AlreadyExists", 'deployments.apps "d" already exists')
    assert again.json["details"] == {"name": "d", "group": "apps", "kind": "deployments"}


def test_update_with_stale_version_conflicts(api: Api, core: str) -> None:
    first = api.post(f"{core}/configmaps", config_map()).ok(201).json
    first["data"] = {"a": "2"}
    second = api.put(f"{core}/configmaps/c", first).ok(200).json
    answer = api.put(f"{core}/configmaps/c", first).refused(409, "Conflict", CONFLICT)
    assert answer.json["details"] == {"name": "c", "kind": "configmaps"}
    assert api.get(f"{core}/configmaps/c").json == second


def test_update_without_version_overwrites(api: Api, core: str) -> None:
    api.post(f"{core}/configmaps", config_map()).ok(201)
    assert api.put(f"{core}/configmaps/c", config_map(data={"a": "9"})).ok(200).json["data"] == {"a": "9"}


def test_update_that_changes_nothing_keeps_the_version(api: Api, core: str) -> None:
    created = api.post(f"{core}/configmaps", config_map()).ok(201)
    assert api.put(f"{core}/configmaps/c", created.json).ok(200).version == created.version


def test_update_of_missing_object_is_not_found(api: Api, core: str) -> None:
    api.put(f"{core}/configmaps/c", config_map()).refused(404, "NotFound", 'configmaps "c" not found')


def test_update_creates_a_lease_where_the_kind_allows_it(api: Api, ns: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/l"
    assert (
        api.put(path, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}).ok(201).json["spec"]["holderIdentity"] == "me"
    )


def test_update_with_another_uid_conflicts(api: Api, core: str) -> None:
    created = api.post(f"{core}/configmaps", config_map()).ok(201).json
    created["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    response = api.put(f"{core}/configmaps/c", created)
    response.refused(409, "Conflict")
    assert "Precondition failed: UID in precondition: 00000000-0000-0000-0000-000000000000, UID in object meta:" in response.message


def test_concurrent_writers_lose_no_update(api: Api, core: str) -> None:
    api.post(f"{core}/configmaps", config_map(data={"n": "0"})).ok(201)

    def increment(_: int) -> None:
        while True:
            seen = api.get(f"{core}/configmaps/c").ok().json
            seen["data"]["n"] = str(int(seen["data"]["n"]) + 1)
            if api.put(f"{core}/configmaps/c", seen).status == 200:
                return

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(increment, range(24)))
    assert api.get(f"{core}/configmaps/c").json["data"] == {"n": "24"}


def test_delete_preconditions(api: Api, core: str) -> None:
    created = api.post(f"{core}/configmaps", config_map()).ok(201)
    uid = created.json["metadata"]["uid"]
    response = api.delete(f"{core}/configmaps/c", {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}})
    response.refused(409, "Conflict")
    assert response.message == (
        'Operation cannot be fulfilled on ConfigMap "c": the UID in the precondition (00000000-0000-0000-0000-000000000000) does '
        f"not match the UID in record ({uid}). The object might have been deleted and then recreated"
    )
    answer = api.delete(f"{core}/configmaps/c", {"preconditions": {"resourceVersion": "1"}}).refused(409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on ConfigMap "c": the ResourceVersion in the precondition (1) does not match the '
        f"ResourceVersion in record ({created.version}). The object might have been modified"
    )
    api.delete(f"{core}/configmaps/c", {"preconditions": {"uid": uid, "resourceVersion": created.version}}).ok(200)


def test_delete_responses(api: Api, core: str) -> None:
    uid = api.post(f"{core}/configmaps", config_map()).ok(201).json["metadata"]["uid"]
    deleted = api.delete(f"{core}/configmaps/c").ok(200).json
    assert (deleted["kind"], deleted["status"]) == ("Status", "Success")
    assert deleted["details"] == {"name": "c", "kind": "configmaps", "uid": uid}
    api.delete(f"{core}/configmaps/c").refused(404, "NotFound", 'configmaps "c" not found')
    api.post(f"{core}/pods", pod()).ok(201)
    assert api.delete(f"{core}/pods/p").ok(200).json["kind"] == "Pod"


@pytest.mark.parametrize("where", ["query", "body"])
def test_dry_run_persists_nothing(api: Api, core: str, where: str) -> None:
    dry = {"dryRun": "All"}
    created = api.post(f"{core}/configmaps", config_map(), query=dry).ok(201).json
    assert created["metadata"]["uid"]
    assert "resourceVersion" not in created["metadata"]
    api.get(f"{core}/configmaps/c").refused(404, "NotFound")
    before = api.post(f"{core}/configmaps", config_map()).ok(201).json
    assert api.patch(f"{core}/configmaps/c", {"data": {"a": "2"}}, query=dry).ok(200).json["data"] == {"a": "2"}
    assert api.put(f"{core}/configmaps/c", config_map(data={"a": "3"}), query=dry).ok(200).json["data"] == {"a": "3"}
    api.delete(
        f"{core}/configmaps/c", {"dryRun": ["All"]} if where == "body" else None, query=dry if where == "query" else None
    ).ok(200)
    assert api.get(f"{core}/configmaps/c").ok(200).json == before


def test_generation_changes_with_the_spec(api: Api, ns: str) -> None:
    path = f"/apis/apps/v1/namespaces/{ns}/deployments"
    assert api.post(path, deployment()).ok(201).json["metadata"]["generation"] == 1
    assert api.patch(f"{path}/d", {"metadata": {"labels": {"x": "y"}}}).ok().json["metadata"]["generation"] == 1
    assert api.patch(f"{path}/d", {"spec": {"replicas": 2}}).ok().json["metadata"]["generation"] == 2
    assert api.patch(f"{path}/d", {"spec": {"replicas": 2}}).ok().json["metadata"]["generation"] == 2
    status = api.patch(f"{path}/d/status", {"status": {"replicas": 2, "updatedReplicas": 1}, "spec": {"replicas": 7}}).ok().json
    assert (status["metadata"]["generation"], status["spec"]["replicas"], status["status"]["replicas"]) == (2, 2, 2)
    changed = api.patch(f"{path}/d", {"status": {"replicas": 5}}).ok().json
    assert changed["status"]["replicas"] == 2


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("10.11.12.13", "the provided network does not match the current range"),
        ("127.0.0.1", "the provided network does not match the current range"),
        ("10.96.0.0", "the provided network does not match the current range"),
        ("10.96.255.255", "the provided network does not match the current range"),
        ("10.96.0.1", "provided IP is already allocated"),
    ],
)
def test_service_requests_cluster_ip(api: Api, core: str, address: str, words: str) -> None:
    body = {"metadata": {"name": "web"}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}}
    response = api.post(f"{core}/services", body)
    output = f'Service "web" is invalid: spec.clusterIPs: Invalid value: ["{address}"]: failed to allocate IP {address}: {words}'
    assert (response.status, response.json["message"]) == (422, output)


def test_service_reuses_cluster_ip_of_deleted_service(api: Api, core: str) -> None:
    body = {"metadata": {"name": "one"}, "spec": {"ports": [{"port": 80}]}}
    address = api.post(f"{core}/services", body).ok(201).json["spec"]["clusterIP"]
    other = {"metadata": {"name": "two"}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}}
    assert api.post(f"{core}/services", other).status == 422
    api.delete(f"{core}/services/one").ok(200)
    assert api.post(f"{core}/services", other).ok(201).json["spec"]["clusterIPs"] == [address]


@pytest.mark.parametrize("custom", [True, False], ids=["custom", "built-in"])
def test_namespace_of_a_cluster_scoped_object_is_dropped(api: Api, unique_name: str, custom: bool) -> None:
    version, kind, path = "rbac.authorization.k8s.io/v1", "ClusterRole", "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    if custom:
        crd = simple()
        crd["spec"]["scope"] = "Cluster"
        served = define(api, crd)
        version, kind, path = f"{served.group}/{served.version}", served.kind, served.at()
    metadata: dict[str, Any] = {"name": unique_name, "namespace": "anywhere"}
    body = {"apiVersion": version, "kind": kind, "metadata": metadata}
    one = f"{path}/{unique_name}"
    created = api.post(path, body).ok(201).json
    metadata |= {"resourceVersion": created["metadata"]["resourceVersion"], "labels": {"change": "replaced"}}
    changed = [
        created,
        api.put(one, body).ok(200).json,
        api.patch(one, {"metadata": {"namespace": "elsewhere", "labels": {"change": "patched"}}}).ok(200).json,
        api.apply(one, {**body, "metadata": {"name": unique_name, "namespace": "anywhere"}}).ok(200).json,
    ]
    assert ["namespace" in item["metadata"] for item in changed] == [False] * len(changed)
    assert [item["metadata"].get("labels", {}).get("change") for item in changed] == [None, "replaced", "patched", "patched"]
    api.delete(one).ok()


def test_namespace_of_a_cluster_scoped_review_is_dropped(api: Api) -> None:
    spec = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
    body = {"metadata": {"namespace": "anywhere"}, "spec": spec}
    review = api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body).ok(201).json
    assert "namespace" not in review["metadata"]
