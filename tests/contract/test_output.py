"""Response formats: tables, metadata only, and unsupported media types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.http import JSON, PARTIAL, PARTIAL_LIST, TABLE
from tests.support.objects import config_map, pod

if TYPE_CHECKING:
    from tests.support.http import Api


def test_list_as_table(api: Api, core: str) -> None:
    for name in ("a", "b"):
        version = api.post(f"{core}/pods", pod(name)).ok(201).version
    answer = api.get(f"{core}/pods", accept=TABLE).ok(200)
    table = answer.json
    assert answer.headers["Content-Type"] == JSON
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert int(table["metadata"]["resourceVersion"]) >= int(version)
    assert [row["cells"][:3] for row in table["rows"]] == [["a", "0/1", "Pending"], ["b", "0/1", "Pending"]]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert table["rows"][0]["object"]["apiVersion"] == "meta.k8s.io/v1"


@pytest.mark.parametrize(("include", "kind"), [("Object", "Pod"), ("Metadata", "PartialObjectMetadata"), ("None", None)])
def test_table_rows_include_objects(api: Api, core: str, include: str, kind: str | None) -> None:
    api.post(f"{core}/pods", pod()).ok(201)
    [row] = api.get(f"{core}/pods", {"includeObject": include}, accept=TABLE).ok(200).json["rows"]
    assert (row["object"] or {}).get("kind") == kind


def test_invalid_include_object_is_rejected(api: Api, core: str) -> None:
    answer = api.get(f"{core}/pods", {"includeObject": "Everything"}, accept=TABLE).refused(400, "BadRequest")
    assert answer.message == (
        "Unable to convert to Table as requested: includeObject: Invalid value: \"Everything\": must be 'Metadata', 'Object', "
        "'None', or empty"
    )


def test_table_of_chunked_list(api: Api, core: str) -> None:
    for name in ("a", "b", "c"):
        api.post(f"{core}/pods", pod(name)).ok(201)
    first = api.get(f"{core}/pods", {"limit": 2}, accept=TABLE).ok(200).json
    assert len(first["rows"]) == 2
    assert first["metadata"]["remainingItemCount"] == 1
    rest = api.get(f"{core}/pods", {"continue": first["metadata"]["continue"]}, accept=TABLE).ok(200).json
    assert rest["rows"][0]["cells"][0] == "c"


def test_table_when_first_accepted_type_is_unknown(api: Api, core: str) -> None:
    api.post(f"{core}/pods", pod()).ok(201)
    kubectl = f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
    assert api.get(f"{core}/pods", accept=kubectl).ok(200).json["kind"] == "Table"
    assert api.get(f"{core}/pods", accept="application/vnd.example,application/json").ok(200).json["kind"] == "PodList"


def test_pod_status_column_shows_reason(api: Api, core: str) -> None:
    api.post(f"{core}/pods", pod()).ok(201)

    def cells(status: dict[str, object]) -> list[object]:
        api.patch(f"{core}/pods/p/status", {"status": status}).ok(200)
        seen: list[object] = api.get(f"{core}/pods/p", accept=TABLE).ok(200).json["rows"][0]["cells"][1:4]
        return seen

    container = {"name": "main", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    waiting = {**container, "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    assert cells({"containerStatuses": [waiting]}) == ["0/1", "ImagePullBackOff", "0"]
    running = {**container, "ready": True, "restartCount": 2, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    assert cells({"phase": "Running", "containerStatuses": [running]}) == ["1/1", "Running", "2"]
    ended = {**container, "restartCount": 2, "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}
    assert cells({"phase": "Failed", "containerStatuses": [ended]}) == ["0/1", "Error", "2"]
    assert cells({"phase": "Failed", "reason": "Evicted", "containerStatuses": None}) == ["0/1", "Evicted", "0"]


def test_object_as_partial_metadata(api: Api, core: str) -> None:
    created = api.post(f"{core}/configmaps", config_map(labels={"x": "y"})).ok(201).json
    partial = api.get(f"{core}/configmaps/c", accept=PARTIAL).ok(200).json
    assert partial == {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": created["metadata"]}


def test_list_as_partial_metadata(api: Api, core: str) -> None:
    created = api.post(f"{core}/secrets", {"metadata": {"name": "s"}}).ok(201).json
    listed = api.get(f"{core}/secrets", accept=PARTIAL_LIST).ok(200).json
    assert (listed["kind"], listed["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert [item["metadata"] for item in listed["items"]] == [created["metadata"]]
    assert listed["metadata"]["resourceVersion"]


def test_write_and_watch_as_partial_metadata(api: Api, core: str) -> None:
    created = api.post(f"{core}/secrets", {"metadata": {"name": "s"}}, accept=PARTIAL).ok(201).json
    assert created["kind"] == "PartialObjectMetadata"
    with api.watch(f"{core}/secrets", accept=PARTIAL) as watch:
        event = watch.next()
    assert event["object"]["kind"] == "PartialObjectMetadata"
    assert event["object"]["apiVersion"] == "meta.k8s.io/v1"


def test_mismatched_formats_are_rejected(api: Api, core: str) -> None:
    api.get(f"{core}/secrets", accept=PARTIAL).refused(406, "NotAcceptable")
    api.post(f"{core}/configmaps", config_map()).ok(201)
    api.get(f"{core}/configmaps/c", accept=PARTIAL_LIST).refused(406, "NotAcceptable")


@pytest.mark.parametrize(
    ("path", "spec"),
    [
        ("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}),
        ("/apis/authentication.k8s.io/v1/tokenreviews", {"token": "unknown"}),
        ("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"namespace": "default"}),
        (
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {"resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}},
        ),
    ],
)
def test_reviews_have_no_table(api: Api, path: str, spec: dict[str, Any]) -> None:
    body = {"spec": spec} if spec else {}
    answer = api.post(path, body, accept=TABLE).refused(406, "NotAcceptable")
    assert answer.message == (
        "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )
    assert "details" not in answer.json
    assert api.post(path, body, accept=f"{TABLE},application/json").ok(201).json["kind"].endswith("Review")


@pytest.mark.parametrize("subresource", ["eviction", "binding"])
def test_rejected_form_changes_nothing(api: Api, core: str, subresource: str) -> None:
    api.post(f"{core}/pods", pod()).ok(201)
    body = {"metadata": {"name": "p"}, **({"target": {"name": "node"}} if subresource == "binding" else {})}
    path = f"{core}/pods/{pod()['metadata']['name']}"
    api.post(f"{path}/{subresource}", body, accept=TABLE).refused(406, "NotAcceptable")
    left = api.get(path).ok(200).json
    assert "nodeName" not in left["spec"]
    assert "deletionTimestamp" not in left["metadata"]


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "application/*"])
def test_unknown_media_types_are_rejected(api: Api, core: str, accept: str) -> None:
    answer = api.get(f"{core}/secrets", accept=accept).refused(406, "NotAcceptable")
    assert answer.message.startswith("406: Not Acceptable\n\nAvailable representations: application/json, application/yaml")


@pytest.mark.parametrize("accept", [None, "*/*", "application/json;charset=utf-8", "text/html, */*;q=0.1"])
def test_accepted_media_types(api: Api, core: str, accept: str | None) -> None:
    answer = api.get(f"{core}/secrets", accept=accept).ok(200)
    assert answer.headers["Content-Type"] == JSON


@pytest.mark.parametrize("agent", ["curl/8", "Wget/1", "Mozilla/5.0 (X11)", "contract/1"])
@pytest.mark.parametrize("wish", ["", "?pretty=true", "?pretty=false", "?pretty=0", "?pretty="])
def test_browsers_get_pretty_json(api: Api, agent: str, wish: str) -> None:
    text = api.get(f"/api/v1/namespaces/default{wish}", headers={"User-Agent": agent}).ok(200).text
    people = agent != "contract/1" and wish in {"", "?pretty="}
    assert text.startswith('{\n  "kind"') == (people or wish == "?pretty=true")


def test_pretty_parameter(api: Api, core: str) -> None:
    assert api.get(f"{core}/secrets", {"pretty": "true"}).text.startswith('{\n  "kind": "SecretList",\n  "apiVersion": "v1",\n')
    assert api.get(f"{core}/secrets").text.startswith('{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"')


def test_large_responses_are_gzipped(api: Api, core: str) -> None:
    for index in range(3):
        api.post(f"{core}/secrets", {"metadata": {"name": f"s{index}"}, "stringData": {"x": "y" * 60_000}}).ok(201)
    answer = api.get(f"{core}/secrets", headers={"Accept-Encoding": "gzip"}).ok(200)
    assert answer.headers["Content-Encoding"] == "gzip"
    assert len(answer.body) < 20_000
    assert "Content-Encoding" not in api.get(f"{core}/secrets/s0/", headers={"Accept-Encoding": "identity"}).headers


def test_head_and_options_are_rejected(api: Api, core: str) -> None:
    api.post(f"{core}/secrets", {"metadata": {"name": "s"}}).ok(201)
    assert api.request("HEAD", f"{core}/secrets/s").status == 405
    assert api.request("OPTIONS", f"{core}/secrets").status == 405


def test_responses_have_audit_and_cache_headers(api: Api, core: str) -> None:
    headers = api.get(f"{core}/secrets").headers
    assert headers["Cache-Control"] == "no-cache, private"
    assert headers["Audit-Id"]
    assert headers["Date"]
