"""Protobuf request bodies, which Go clients send for built-in kinds; responses are requested as JSON."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING

import pytest
from tests.support.custom_resources import define, simple
from tests.support.objects import KINDS, Kind, config_map, pod
from tests.support.protobuf_encoder import PROTOBUF, encode, envelope

from sliceworks.base.protobuf_wire import length_delimited, string, varint

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.http import Answer, Api

SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", **config_map()}
OPTIONS = {"apiVersion": "policy/v1", "kind": "DeleteOptions"}


def send(api: Api, method: str, path: str, body: bytes) -> Answer:
    return api.request(method, path, body, content_type=PROTOBUF)


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
