"""Requests as data."""

from __future__ import annotations

import orjson
import pytest

from sliceworks.base.errors import UsageError
from sliceworks.kube import requests
from sliceworks.kube.requests import PatchType
from sliceworks.kube.resources import NODE, POD
from sliceworks.kube.selectors import NOTHING, parse_labels


def test_get() -> None:
    request = requests.get(POD, "a", "ml", subresource="status", resource_version="0")
    assert (request.method, request.path) == ("GET", "/api/v1/namespaces/ml/pods/a/status")
    assert request.query == (("resourceVersion", "0"),)
    assert request.headers["accept"] == "application/json"
    assert request.body == b""


def test_list_and_watch_options() -> None:
    request = requests.list_(
        POD,
        labels=parse_labels("a in (x,y)"),
        fields="spec.nodeName=n",
        limit=500,
        continue_token="next",
        resource_version="7",
        resource_version_match="Exact",
    )
    assert request.path == "/api/v1/pods"
    assert dict(request.query) == {
        "labelSelector": "a in (x,y)",
        "fieldSelector": "spec.nodeName=n",
        "limit": "500",
        "continue": "next",
        "resourceVersion": "7",
        "resourceVersionMatch": "Exact",
    }
    request = requests.watch(POD, "ml", timeout_seconds=5, allow_watch_bookmarks=True, send_initial_events=False, labels="")
    assert request.query == (("watch", "true"), ("timeoutSeconds", "5"), ("allowWatchBookmarks", "true"))


def test_selector_that_matches_nothing_is_rejected() -> None:
    with pytest.raises(UsageError, match="matches nothing"):
        requests.list_(POD, labels=NOTHING)


def test_create() -> None:
    request = requests.create(POD, {"metadata": {"name": "a"}}, "ml", field_manager="me", field_validation="Strict", dry_run=True)
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/ml/pods")
    assert dict(request.query) == {"fieldManager": "me", "fieldValidation": "Strict", "dryRun": "All"}
    assert request.headers["content-type"] == "application/json"
    assert orjson.loads(request.body) == {"metadata": {"name": "a"}}
    with pytest.raises(UsageError, match="Pod x-: namespace is required"):
        requests.create(POD, {"metadata": {"generateName": "x-"}})
    assert requests.create(NODE, {"metadata": {"name": "n"}}).path == "/api/v1/nodes"


def test_replace() -> None:
    request = requests.replace(POD, {"metadata": {"name": "a"}}, "ml", subresource="status")
    assert (request.method, request.path) == ("PUT", "/api/v1/namespaces/ml/pods/a/status")


@pytest.mark.parametrize("kind", list(PatchType))
def test_patches(kind: PatchType) -> None:
    request = requests.patch(POD, "a", {"x": 1}, "ml", kind=kind, field_manager="me")
    assert (request.method, request.path) == ("PATCH", "/api/v1/namespaces/ml/pods/a")
    assert request.headers["content-type"] == kind.value
    assert orjson.loads(request.body) == {"x": 1}


def test_apply() -> None:
    request = requests.apply(POD, {"metadata": {"name": "a"}}, "ml", field_manager="me", force=True)
    assert dict(request.query) == {"fieldManager": "me", "force": "true"}
    assert request.headers["content-type"] == "application/apply-patch+yaml"
    with pytest.raises(UsageError, match="field_manager is required for server-side apply"):
        requests.apply(POD, {"metadata": {"name": "a"}}, "ml")


def test_delete() -> None:
    plain = requests.delete(POD, "a", "ml")
    assert (plain.method, plain.path, plain.body) == ("DELETE", "/api/v1/namespaces/ml/pods/a", b"")
    full = requests.delete(
        POD, "a", "ml", propagation_policy="Orphan", grace_period_seconds=0, uid="u", resource_version="5", dry_run=True
    )
    assert orjson.loads(full.body) == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "propagationPolicy": "Orphan",
        "gracePeriodSeconds": 0,
        "dryRun": ["All"],
        "preconditions": {"uid": "u", "resourceVersion": "5"},
    }


def test_delete_collection() -> None:
    request = requests.delete_collection(POD, "ml", {"labels": "a=b"}, propagation_policy="Background")
    assert request.query == (("labelSelector", "a=b"),)
    assert orjson.loads(request.body)["propagationPolicy"] == "Background"
    with pytest.raises(UsageError, match="deleting pods: namespace is required"):
        requests.delete_collection(POD)


def test_log() -> None:
    request = requests.log(
        POD, "a", "ml", follow=True, container="c", previous=True, since_seconds=3, tail_lines=0, timestamps=False
    )
    assert request.path == "/api/v1/namespaces/ml/pods/a/log"
    assert request.query == (
        ("follow", "true"),
        ("container", "c"),
        ("previous", "true"),
        ("sinceSeconds", "3"),
        ("tailLines", "0"),
    )
