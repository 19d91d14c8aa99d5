"""Protobuf requests and responses, which Go clients use for built-in kinds."""

from __future__ import annotations

import http.client
import struct
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.custom_resources import define, simple
from tests.support.http import JSON, TABLE
from tests.support.objects import KINDS, Kind, config_map, pod

from sliceworks.base.protobuf_wire import length_delimited, read_fields, string, varint
from sliceworks.schemas.builtins import component_name
from sliceworks.twin.apiserver.codec import PROTOBUF
from sliceworks.twin.apiserver.protobuf import decode
from sliceworks.twin.apiserver.protobuf_encoder import encode, envelope

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.http import Answer, Api, Query

    Object = dict[str, Any]

SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", **config_map()}
PARTIAL = f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = f"{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
ACCEPTED = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
PARTIAL_TYPE = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
VOLATILE = {"resourceVersion", "managedFields", "annotations"}
"""What controllers change in an object of any kind, and what kube-apiserver adds to DaemonSets but not to their metadata."""
OPTIONS = {"apiVersion": "policy/v1", "kind": "DeleteOptions"}


def send(api: Api, method: str, path: str, body: bytes) -> Answer:
    return api.request(method, path, body, content_type=PROTOBUF)


def read(answer: Answer) -> Object:
    """The object in a protobuf response, which is encoded as Go encodes it."""
    assert answer.headers["Content-Type"] == PROTOBUF
    obj = decode(answer.body, component_name)
    assert encode(obj) == answer.body
    return obj


def frames(api: Api, path: str, accept: str, query: Query) -> list[tuple[str, Object]]:
    """The events of a watch that ends after a second, as type and object."""
    answer = api.get(path, {"watch": "true", "timeoutSeconds": 1, **query}, accept=accept).ok(200)
    assert answer.headers["Content-Type"] == f"{PROTOBUF};stream=watch"
    events, left = [], answer.body
    while left:
        (size,) = struct.unpack(">I", left[:4])
        event, left = left[4 : 4 + size], left[4 + size :]
        (type_, raw) = (event[field.start : field.end] for field in read_fields(event))
        (body,) = (raw[field.start : field.end] for field in read_fields(raw))
        events.append((type_.decode(), decode(body, component_name)))
    return events


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.id) for kind in KINDS])
def test_protobuf_and_json_responses_have_the_same_object(api: Api, ns: str, kind: Kind, unique_name: str) -> None:
    obj, path = kind.object(unique_name, ns), kind.collection(ns)
    item = f"{path}/{unique_name}"
    api.post(path, obj).ok(201)
    try:
        listed = next(obj for obj in api.get(path).ok(200).json["items"] if obj["metadata"]["name"] == unique_name)
        partial = {key: listed[key] for key in ("kind", "apiVersion") if key in listed} | {"metadata": listed["metadata"]}
        assert_same(read(api.get(item, accept=PROTOBUF).ok(200)), {**listed, "kind": kind.kind, "apiVersion": kind.group_version})
        assert_same(read(api.get(item, accept=PARTIAL).ok(200)), {**partial, **PARTIAL_TYPE})
        for accept, expected in ((PROTOBUF, listed), (PARTIAL_LIST, partial)):
            (seen,) = (
                each for each in read(api.get(path, accept=accept).ok(200))["items"] if each["metadata"]["name"] == unique_name
            )
            assert_same(seen, expected)
    finally:
        api.delete(item)


def test_responses_to_writes_in_protobuf(api: Api, core: str) -> None:
    created = read(api.post(f"{core}/configmaps", SETTINGS, accept=PROTOBUF).ok(201))
    assert created["metadata"]["name"] == "c"
    taken = read(api.post(f"{core}/configmaps", SETTINGS, accept=PROTOBUF))
    assert (taken["kind"], taken["reason"], taken["message"]) == ("Status", "AlreadyExists", 'configmaps "c" already exists')
    patched = read(api.patch(f"{core}/configmaps/c", {"data": {"a": "3"}}, accept=PROTOBUF).ok(200))
    assert patched["data"] == {"a": "3"}
    deleted = read(api.delete(f"{core}/configmaps/c", accept=PROTOBUF).ok(200))
    assert (deleted["status"], deleted["details"]["kind"]) == ("Success", "configmaps")
    missing = read(api.get(f"{core}/configmaps/c", accept=PROTOBUF))
    assert (missing["reason"], missing["code"], missing["details"]) == ("NotFound", 404, {"name": "c", "kind": "configmaps"})
    assert read(api.get("/api/v1/nothing", accept=PROTOBUF))["code"] == 404
    review = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    reviewed = read(api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, accept=PROTOBUF).ok(201))
    assert reviewed["status"]["allowed"]


def test_watches_in_protobuf(api: Api, core: str) -> None:
    api.post(f"{core}/secrets", {"metadata": {"name": "s"}, "data": {"a": "AQ=="}}).ok(201)
    initial = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    (added, secret), (bookmark, end), *_ = frames(api, f"{core}/secrets", PROTOBUF, initial)
    assert (added, bookmark) == ("ADDED", "BOOKMARK")
    assert secret == api.get(f"{core}/secrets/s").json
    assert (end["kind"], end["apiVersion"]) == ("Secret", "v1")
    assert end["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    (_, partial), (_, end), *_ = frames(api, f"{core}/secrets", PARTIAL, initial)
    assert partial == {**PARTIAL_TYPE, "metadata": secret["metadata"]}
    assert (end["kind"], end["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")


def test_expired_watch_in_protobuf(cluster: Cluster, api: Api, core: str) -> None:
    cluster.compact()
    ((type_, status),) = frames(api, f"{core}/secrets", PROTOBUF, {"resourceVersion": "1"})
    assert (type_, status["kind"], status["reason"], status["code"]) == ("ERROR", "Status", "Expired", 410)


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        (PROTOBUF, PROTOBUF),
        (f"{PROTOBUF},{JSON}", PROTOBUF),
        (f"{JSON},{PROTOBUF}", JSON),
        (f"{PROTOBUF};q=0.5,{JSON}", JSON),
        (f"{PROTOBUF};q=0.5,{JSON};q=0.4", PROTOBUF),
        (f"*/*,{PROTOBUF}", PROTOBUF),
        (f"{PROTOBUF};stream=watch", PROTOBUF),
        (f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1,{JSON}", JSON),
        (f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1,{TABLE}", JSON),
        (f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v2,{JSON}", JSON),
        (f"text/plain,{PROTOBUF}", PROTOBUF),
    ],
)
def test_negotiated_media_types(api: Api, core: str, accept: str, media: str) -> None:
    assert api.get(f"{core}/serviceaccounts", accept=accept).ok(200).headers["Content-Type"] == media


def test_tables_have_no_protobuf_form(api: Api, core: str) -> None:
    table = f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1"
    for path in (f"{core}/configmaps", f"{core}/configmaps/c"):
        api.get(path, accept=table).refused(406, "NotAcceptable", ACCEPTED)


def test_only_metadata_of_custom_resources_has_a_protobuf_form(api: Api, ns: str) -> None:
    custom = define(api, simple())
    path = custom.at(ns)
    api.post(path, {"apiVersion": f"{custom.group}/v1", "kind": custom.kind, "metadata": {"name": "a"}}).ok(201)
    for at in (path, f"{path}/a"):
        refused = read(api.get(at, accept=PROTOBUF))
        assert (refused["code"], refused["reason"], refused["message"]) == (406, "NotAcceptable", ACCEPTED)
        assert api.get(at, accept=f"{PROTOBUF},{JSON}").ok(200).headers["Content-Type"] == JSON
    assert read(api.get(f"{path}/a", accept=PARTIAL).ok(200))["metadata"]["name"] == "a"
    assert [item["metadata"]["name"] for item in read(api.get(path, accept=PARTIAL_LIST).ok(200))["items"]] == ["a"]
    ((type_, obj),) = frames(api, path, PARTIAL, {})
    assert (type_, obj["kind"], obj["metadata"]["name"]) == ("ADDED", "PartialObjectMetadata", "a")


def assert_same(seen: Object, expected: Object) -> None:
    """Compare objects without what JSON writes as null or empty, and protobuf leaves out."""
    assert compact(seen) == compact(expected)


def compact(value: Any) -> Any:
    """The value without null and empty fields."""
    if isinstance(value, list):
        return [compact(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {key: compact(item) for key, item in value.items() if key not in VOLATILE}
    return {key: item for key, item in fields.items() if item not in (None, {}, [], "", 0, False)}


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.id) for kind in KINDS])
def test_protobuf_and_json_create_the_same_object(api: Api, ns: str, kind: Kind, unique_name: str) -> None:
    obj, path = kind.object(unique_name, ns), kind.collection(ns)
    written = api.post(path, obj, {"dryRun": "All"}).ok(201).json
    seen = send(api, "POST", f"{path}?dryRun=All", encode(obj)).ok(201).json
    for each in (written, seen):
        for field in ("uid", "creationTimestamp", "managedFields"):
            each["metadata"].pop(field, None)
    if kind.kind in {"Job", "Pod", "Service", "Secret"}:
        # Fields that the server draws at random or derives from the uid.
        written, seen = ({"metadata": each["metadata"], "kind": each["kind"]} for each in (written, seen))
        for each in (written, seen):
            each["metadata"].pop("labels", None)
    assert seen == written


def test_object_lifecycle_in_protobuf(api: Api, core: str) -> None:
    created = send(api, "POST", f"{core}/configmaps", encode(SETTINGS)).ok(201).json
    created["data"] = {"a": "2"}
    for entry in created["metadata"]["managedFields"]:
        assert entry["manager"] == "contract"
    updated = send(api, "PUT", f"{core}/configmaps/c", encode(created)).ok(200).json
    assert updated["data"] == {"a": "2"}
    send(api, "PUT", f"{core}/configmaps/c", encode(created)).refused(409, "Conflict")
    stale = {**OPTIONS, "preconditions": {"uid": "other"}}
    send(api, "DELETE", f"{core}/configmaps/c", encode(stale)).refused(409, "Conflict")
    send(api, "DELETE", f"{core}/configmaps/c", encode({**OPTIONS, "propagationPolicy": "Background"})).ok(200)
    api.get(f"{core}/configmaps/c").refused(404, "NotFound")


def test_subresources_in_protobuf(api: Api, core: str) -> None:
    created = api.post(f"{core}/pods", pod()).ok(201).json
    created["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    seen = send(api, "PUT", f"{core}/pods/p/status", encode(created)).ok(200).json
    assert (seen["status"]["phase"], seen["status"]["conditions"][0]["status"]) == ("Running", "True")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    send(api, "POST", f"{core}/pods/p/eviction", encode(eviction)).ok(201)
    token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    answer = send(api, "POST", f"{core}/serviceaccounts/default/token", encode(token)).ok(201).json
    assert answer["status"]["token"].count(".") == 2


def test_reviews_in_protobuf(api: Api) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert send(api, "POST", path, encode(review)).ok(201).json["status"]["allowed"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"k8s\x00",
        envelope("v1", "Nothing", b""),
        envelope("v9", "ConfigMap", b""),
        envelope("v1", "Pod", b""),
        envelope("v1", "ConfigMap", b"\x0a\x7f"),
        envelope("v1", "ConfigMap", varint(1, 5)),
        envelope("v1", "ConfigMap", length_delimited(1, b"\x0b\x0b")),
        encode(SETTINGS)[:-9],
    ],
    ids=["empty", "json", "frame", "unknown-kind", "unknown-version", "other-kind", "cut", "type", "group", "short"],
)
def test_malformed_bodies_are_rejected(api: Api, core: str, body: bytes) -> None:
    send(api, "POST", f"{core}/configmaps", body).refused(400, "BadRequest")


def test_unknown_fields_are_ignored(api: Api, core: str) -> None:
    body = envelope("v1", "ConfigMap", length_delimited(1, string(1, "c")) + string(99, "new"))
    assert send(api, "POST", f"{core}/configmaps", body).ok(201).json["metadata"]["name"] == "c"


def test_custom_resources_reject_protobuf(cluster: Cluster, api: Api, ns: str) -> None:
    custom = define(api, simple())
    body = envelope(f"{custom.group}/v1", custom.kind, b"")
    if cluster.name == "real":
        # The server fails internally and closes the connection.
        with pytest.raises(http.client.RemoteDisconnected):
            send(api, "POST", custom.at(ns), body)
    else:
        send(api, "POST", custom.at(ns), body).refused(415, "UnsupportedMediaType")


def test_times_of_the_first_years_have_four_digits(api: Api, ns: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "json"}}
    lease["spec"] = times = {"acquireTime": "0001-01-01T00:00:02.000000Z", "renewTime": "0987-01-01T00:00:05.000001Z"}
    assert api.post(path, lease).ok(201).json["spec"] == times
    body = encode({**lease, "metadata": {"name": "protobuf"}})
    assert read(api.request("POST", path, body, content_type=PROTOBUF, accept=PROTOBUF).ok(201))["spec"] == times
    assert api.get(f"{path}/protobuf").ok(200).json["spec"] == times
