"""Lists: chunks, the meaning of resourceVersion, and expired versions."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.objects import config_map
from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.http import Api

MINE = {"labelSelector": "mine=yes"}


def fill(api: Api, core: str, count: int = 5) -> str:
    """Create m0 …; returns the version of the last one."""
    for index in range(count):
        version = api.post(f"{core}/configmaps", config_map(f"m{index}", labels={"mine": "yes"})).ok(201).version
    return version


def test_list_returns_all_objects(api: Api, core: str) -> None:
    version = fill(api, core)
    listed = api.get(f"{core}/configmaps", MINE).ok(200)
    assert (listed.json["kind"], listed.json["apiVersion"]) == ("ConfigMapList", "v1")
    assert listed.names == ["m0", "m1", "m2", "m3", "m4"]
    assert int(listed.version) >= int(version)
    assert not {"continue", "remainingItemCount"} & listed.json["metadata"].keys()
    assert "kind" not in listed.json["items"][0]
    everywhere = api.get("/api/v1/configmaps", MINE).ok(200)
    assert set(listed.names) <= set(everywhere.names)


def test_empty_list_has_items(api: Api, core: str) -> None:
    assert api.get(f"{core}/secrets").ok(200).json["items"] == []


def test_list_is_sorted_by_namespace_and_name(api: Api, core: str) -> None:
    for name in ("b", "a.b", "a-b", "a"):
        api.post(f"{core}/configmaps", config_map(name, labels={"mine": "yes"})).ok(201)
    assert api.get(f"{core}/configmaps", MINE).names == ["a", "a-b", "a.b", "b"]


@pytest.mark.usefixtures("published")
def test_list_in_chunks(api: Api, core: str) -> None:
    fill(api, core)
    first = api.get(f"{core}/configmaps", {"limit": 2}).ok(200)
    total = len(api.get(f"{core}/configmaps").names)
    assert first.json["metadata"]["remainingItemCount"] == total - 2
    second = api.get(f"{core}/configmaps", {"limit": 2, "continue": first.json["metadata"]["continue"]}).ok(200)
    assert second.json["metadata"]["remainingItemCount"] == total - 4
    assert second.version == first.version
    last = api.get(f"{core}/configmaps", {"continue": second.json["metadata"]["continue"]}).ok(200)
    assert not {"continue", "remainingItemCount"} & last.json["metadata"].keys()
    assert first.names + second.names + last.names == api.get(f"{core}/configmaps").names


def test_chunks_with_a_selector_do_not_count_the_rest(api: Api, core: str) -> None:
    fill(api, core)
    first = api.get(f"{core}/configmaps", {"limit": 2, **MINE}).ok(200)
    assert first.names == ["m0", "m1"]
    assert "remainingItemCount" not in first.json["metadata"]
    rest = api.get(f"{core}/configmaps", {"continue": first.json["metadata"]["continue"], **MINE}).ok(200)
    assert rest.names == ["m2", "m3", "m4"]


def test_chunks_show_one_version(api: Api, core: str) -> None:
    fill(api, core)
    first = api.get(f"{core}/configmaps", {"limit": 2, **MINE}).ok(200)
    api.delete(f"{core}/configmaps/m3").ok(200)
    api.post(f"{core}/configmaps", config_map("m9", labels={"mine": "yes"})).ok(201)
    api.patch(f"{core}/configmaps/m4", {"data": {"a": "changed"}}).ok(200)
    rest = api.get(f"{core}/configmaps", {"continue": first.json["metadata"]["continue"], **MINE}).ok(200)
    assert rest.names == ["m2", "m3", "m4"]
    assert rest.json["items"][2]["data"] == {"a": "1"}
    assert rest.version == first.version


def test_get_and_list_at_version_zero(api: Api, core: str) -> None:
    fill(api, core, 1)
    eventually(lambda: api.get(f"{core}/configmaps/m0", {"resourceVersion": "0"}).status == 200)
    eventually(lambda: api.get(f"{core}/configmaps", {"resourceVersion": "0", **MINE}).ok(200).names == ["m0"])


def test_list_not_older_than_version(api: Api, core: str) -> None:
    version = fill(api, core, 2)
    listed = api.get(f"{core}/configmaps", {"resourceVersion": version, "resourceVersionMatch": "NotOlderThan", **MINE}).ok(200)
    assert listed.names == ["m0", "m1"]
    assert int(listed.version) >= int(version)
    assert api.get(f"{core}/configmaps/m1", {"resourceVersion": version}).ok(200).version == version


def test_list_at_exact_version(api: Api, core: str) -> None:
    version = fill(api, core, 2)
    fill_later = api.post(f"{core}/configmaps", config_map("later", labels={"mine": "yes"})).ok(201).version
    exact = api.get(f"{core}/configmaps", {"resourceVersion": version, "resourceVersionMatch": "Exact", **MINE}).ok(200)
    assert (exact.names, exact.version) == (["m0", "m1"], version)
    exact = api.get(f"{core}/configmaps", {"resourceVersion": fill_later, "resourceVersionMatch": "Exact", **MINE}).ok(200)
    assert exact.names == ["later", "m0", "m1"]


@pytest.mark.parametrize("selected", [{}, MINE], ids=["all", "selected"])
def test_negative_limit_is_none(api: Api, core: str, selected: dict[str, str]) -> None:
    fill(api, core, 2)
    listed = api.get(f"{core}/configmaps", {"limit": -1, **selected}).ok(200)
    assert {"m0", "m1"} <= set(listed.names)
    assert "continue" not in listed.json["metadata"]


def test_limit_with_version_is_exact(api: Api, core: str) -> None:
    version = fill(api, core, 3)
    api.delete(f"{core}/configmaps/m1").ok(200)
    listed = api.get(f"{core}/configmaps", {"resourceVersion": version, "limit": 10, **MINE}).ok(200)
    assert listed.names in (["m0", "m1", "m2"], ["m0", "m2"])
    assert int(listed.version) >= int(version)


@pytest.mark.parametrize("match", [{"resourceVersionMatch": "NotOlderThan"}, {}])
def test_list_at_future_version_times_out(api: Api, core: str, match: dict[str, str]) -> None:
    far = str(int(api.get(f"{core}/configmaps").version) + 1_000_000)
    answer = api.get(f"{core}/configmaps", {"resourceVersion": far, **match}).refused(504, "Timeout")
    assert answer.message.startswith(f"Timeout: Too large resource version: {far}, current: ")
    assert answer.json["details"]["retryAfterSeconds"] == 1
    assert answer.causes == [("ResourceVersionTooLarge", "", "Too large resource version")]


def test_get_at_future_version(api: Api, core: str) -> None:
    far = str(int(fill(api, core, 1)) + 1_000_000)
    answer = api.get(f"{core}/configmaps/m0", {"resourceVersion": far}).refused(504, "Timeout")
    assert answer.message.startswith(f"Timeout: Too large resource version: {far}, current: ")


def test_list_at_compacted_version_is_expired(cluster: Cluster, api: Api, core: str) -> None:
    fill(api, core, 1)
    cluster.compact()
    response = api.get(f"{core}/configmaps", {"resourceVersion": "1", "resourceVersionMatch": "Exact"})
    response.refused(410, "Expired", "The resourceVersion for the provided list is too old.")


def test_expired_continue_token_is_answered_with_an_inconsistent_one(cluster: Cluster, api: Api, core: str) -> None:
    fill(api, core, 4)
    path = f"{core}/configmaps"
    first = api.get(path, {"limit": 2, **MINE}).ok(200)
    cluster.compact()
    token = _decode(first.json["metadata"]["continue"])
    expired = api.get(path, {"limit": 1, "continue": _encode({**token, "rv": 1}), **MINE}).refused(410, "Expired")
    assert expired.message.startswith("The provided continue parameter is too old to display a consistent list result. ")
    assert "details" not in expired.json
    inconsistent = expired.json["metadata"]["continue"]
    assert _decode(inconsistent)["rv"] == -1
    # The rest of the list is that of now.
    api.delete(f"{path}/m2").ok(200)
    api.post(path, config_map("m4", labels={"mine": "yes"})).ok(201)
    second = api.get(path, {"limit": 1, "continue": inconsistent, **MINE}).ok(200)
    assert second.names == ["m3"]
    rest = api.get(path, {"continue": second.json["metadata"]["continue"], **MINE}).ok(200)
    assert rest.names == ["m4"]
    assert rest.version == second.version


def _decode(token: str) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    return decoded


def _encode(token: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(token).encode()).decode().rstrip("=")


def test_invalid_continue_token_is_rejected(api: Api, core: str) -> None:
    response = api.get(f"{core}/configmaps", {"limit": 1, "continue": "garbage"})
    response.refused(400, "BadRequest")
    assert response.message.startswith("invalid continue token: continue key is not valid: invalid character")
