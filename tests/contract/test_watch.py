"""Watches: where they start, which events they send in which order, and how they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.custom_resources import define, simple
from tests.support.http import TABLE
from tests.support.objects import config_map, pod
from tests.support.watch_stream import brief

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.http import Api

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


def label(api: Api, path: str, value: str | None) -> None:
    """Set or remove the label `mine`."""
    api.patch(path, {"metadata": {"labels": {"mine": value}}}).ok(200)


def test_events_in_order(api: Api, core: str) -> None:
    version = api.get(f"{core}/configmaps").version
    with api.watch(f"{core}/configmaps", {"resourceVersion": version, "labelSelector": "mine"}) as watch:
        assert (watch.status, watch.content_type) == (200, "application/json")
        for name in ("a", "b"):
            api.post(f"{core}/configmaps", config_map(name, labels={"mine": "yes"})).ok(201)
        api.patch(f"{core}/configmaps/a", {"data": {"a": "2"}}).ok(200)
        deleted = api.get(f"{core}/configmaps/b").json
        api.delete(f"{core}/configmaps/b").ok(200)
        assert watch.take(3) == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a")]
        last = watch.next()
    assert brief(last) == ("DELETED", "b")
    assert (last["object"]["kind"], last["object"]["apiVersion"]) == ("ConfigMap", "v1")
    assert int(last["object"]["metadata"]["resourceVersion"]) > int(deleted["metadata"]["resourceVersion"])
    assert last["object"]["data"] == deleted["data"]


def test_watch_from_version_replays_later_events(api: Api, core: str) -> None:
    version = api.post(f"{core}/secrets", {"metadata": {"name": "a"}}).ok(201).version
    api.post(f"{core}/secrets", {"metadata": {"name": "b"}}).ok(201)
    api.delete(f"{core}/secrets/a").ok(200)
    with api.watch(f"{core}/secrets", {"resourceVersion": version}) as watch:
        assert watch.take(2) == [("ADDED", "b"), ("DELETED", "a")]


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
def test_watch_without_version_starts_with_existing_objects(api: Api, core: str, query: dict[str, str]) -> None:
    for name in ("b", "a"):
        version = api.post(f"{core}/secrets", {"metadata": {"name": name}}).ok(201).version
    api.get(f"{core}/secrets", {"resourceVersion": version}).ok(200)
    with api.watch(f"{core}/secrets", query) as watch:
        assert sorted(watch.take(2)) == [("ADDED", "a"), ("ADDED", "b")]
        api.post(f"{core}/secrets", {"metadata": {"name": "c"}}).ok(201)
        assert watch.take(1) == [("ADDED", "c")]


def test_initial_events_end_with_a_bookmark(api: Api, core: str) -> None:
    for name in ("a", "b"):
        version = api.post(f"{core}/secrets", {"metadata": {"name": name}}).ok(201).version
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    with api.watch(f"{core}/secrets", query) as watch:
        assert watch.take(2) == [("ADDED", "a"), ("ADDED", "b")]
        bookmark = watch.next()
        api.delete(f"{core}/secrets/a").ok(200)
        assert watch.take(1) == [("DELETED", "a")]
    assert bookmark["type"] == "BOOKMARK"
    assert (bookmark["object"]["kind"], bookmark["object"]["apiVersion"]) == ("Secret", "v1")
    assert bookmark["object"]["metadata"]["annotations"] == {INITIAL_EVENTS_END: "true"}
    assert int(bookmark["object"]["metadata"]["resourceVersion"]) >= int(version)


def test_bookmark_follows_existing_objects_without_initial_events(api: Api, core: str) -> None:
    api.post(f"{core}/secrets", {"metadata": {"name": "a"}}).ok(201)
    with api.watch(f"{core}/secrets", {"allowWatchBookmarks": "true"}) as watch:
        assert watch.take(1) == [("ADDED", "a")]
        bookmark = watch.next()
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {INITIAL_EVENTS_END: "true"}


def test_initial_events_of_an_empty_collection(api: Api, core: str) -> None:
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    with api.watch(f"{core}/secrets", query) as watch:
        assert watch.next()["type"] == "BOOKMARK"


@pytest.mark.parametrize(
    ("query", "field", "message"),
    [
        (
            {"sendInitialEvents": "true"},
            "resourceVersionMatch",
            "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "0"},
            "resourceVersionMatch",
            "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
    ],
)
def test_invalid_watch_options_are_rejected(api: Api, core: str, query: dict[str, str], field: str, message: str) -> None:
    answer = api.get(f"{core}/secrets", {"watch": "true", **query}).refused(422, "Invalid")
    assert (field, message) in [(cause[1], cause[2]) for cause in answer.causes]


def test_timeout_ends_the_stream(api: Api, core: str) -> None:
    version = api.post(f"{core}/secrets", {"metadata": {"name": "a"}}).ok(201).version
    with api.watch(f"{core}/secrets", {"resourceVersion": version, "timeoutSeconds": 1, "allowWatchBookmarks": "true"}) as watch:
        events = watch.rest()
    assert {event["type"] for event in events} <= {"BOOKMARK"}


def test_selector_turns_changes_into_added_and_deleted(api: Api, core: str) -> None:
    version = api.post(f"{core}/secrets", {"metadata": {"name": "a"}}).ok(201).version
    with api.watch(f"{core}/secrets", {"resourceVersion": version, "labelSelector": "mine=yes"}) as watch:
        for value in ("yes", "no", "yes", None):
            label(api, f"{core}/secrets/a", value)
        seen = [watch.next() for _ in range(4)]
    assert [event["type"] for event in seen] == ["ADDED", "DELETED", "ADDED", "DELETED"]
    assert seen[1]["object"]["metadata"]["labels"] == {"mine": "yes"}


def test_field_selector_turns_changes_into_added_and_deleted(api: Api, core: str) -> None:
    version = api.post(f"{core}/pods", pod()).ok(201).version
    with api.watch(f"{core}/pods", {"resourceVersion": version, "fieldSelector": "status.phase=Running"}) as watch:
        for phase in ("Running", "Failed"):
            api.patch(f"{core}/pods/p/status", {"status": {"phase": phase}}).ok(200)
        assert watch.take(2) == [("ADDED", "p"), ("DELETED", "p")]


def test_watch_of_one_name(api: Api, core: str) -> None:
    version = api.post(f"{core}/secrets", {"metadata": {"name": "a"}}).ok(201).version
    with api.watch(f"{core}/secrets", {"resourceVersion": version, "fieldSelector": "metadata.name=b"}) as watch:
        for name in ("x", "b"):
            api.post(f"{core}/secrets", {"metadata": {"name": name}}).ok(201)
        assert watch.take(1) == [("ADDED", "b")]


def test_watch_of_a_path_with_a_name_is_a_get(api: Api, core: str) -> None:
    created = api.post(f"{core}/secrets", {"metadata": {"name": "a"}}).ok(201).json
    assert api.get(f"{core}/secrets/a", {"watch": "true"}).ok(200).json == created


@pytest.mark.parametrize("suffix", ["/secrets", "/secrets/a"])
def test_deprecated_watch_path(api: Api, core: str, suffix: str) -> None:
    version = api.post(f"{core}/secrets", {"metadata": {"name": "a"}}).ok(201).version
    with api.watch(core.replace("/api/v1", "/api/v1/watch") + suffix, {"resourceVersion": version}) as watch:
        api.delete(f"{core}/secrets/a").ok(200)
        assert watch.take(1) == [("DELETED", "a")]


def test_compacted_version_is_an_error_event(cluster: Cluster, api: Api, ns: str) -> None:
    widgets = define(api, simple("widgets"))
    api.post(widgets.at(ns), widgets.object("a")).ok(201)
    cluster.compact()
    with api.watch(widgets.at(ns), {"resourceVersion": "1"}) as watch:
        assert watch.status == 200
        event = watch.next()
        assert watch.event() is None
    status = event["object"]
    assert event["type"] == "ERROR"
    assert (status["kind"], status["code"], status["reason"], status["status"]) == ("Status", 410, "Expired", "Failure")
    assert status["message"].startswith("too old resource version: 1 (")


def test_table_events(api: Api, core: str) -> None:
    version = api.get(f"{core}/configmaps").version
    with api.watch(f"{core}/configmaps", {"resourceVersion": version, "labelSelector": "mine"}, accept=TABLE) as watch:
        for name in ("a", "b"):
            api.post(f"{core}/configmaps", config_map(name, labels={"mine": "yes"})).ok(201)
        first, second = watch.next(), watch.next()
    assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert first["object"]["rows"][0]["cells"][:2] == ["a", 1]
    assert first["object"]["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert not second["object"].get("columnDefinitions")


def test_watch_of_all_namespaces(api: Api, core: str, ns: str) -> None:
    version = api.get("/api/v1/secrets").version
    with api.watch("/api/v1/secrets", {"resourceVersion": version, "fieldSelector": f"metadata.namespace={ns}"}) as watch:
        api.post(f"{core}/secrets", {"metadata": {"name": "a"}}).ok(201)
        assert watch.take(1) == [("ADDED", "a")]


def test_version_in_the_future_is_an_error(api: Api, core: str) -> None:
    far = str(int(api.get(f"{core}/secrets").version) + 1_000_000)
    with api.watch(f"{core}/secrets", {"resourceVersion": far, "timeoutSeconds": 1}) as watch:
        assert watch.rest() == []


def test_many_watchers_see_the_same_order(api: Api, core: str) -> None:
    version = api.get(f"{core}/secrets").version
    watchers = [api.watch(f"{core}/secrets", {"resourceVersion": version}) for _ in range(20)]
    names = [f"s{index:02}" for index in range(20)]
    for name in names:
        api.post(f"{core}/secrets", {"metadata": {"name": name}}).ok(201)
    for watch in watchers:
        with watch:
            assert watch.take(20) == [("ADDED", name) for name in names]
