"""The garbage collector on a twin: background, foreground, orphans, owners that are absent, elsewhere or unknown."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.embedded import Embedded, on_twin

_MAPS = "/api/v1/namespaces/default/configmaps"
Obj = dict[str, Any]


def ref(owner: Obj, *, block: bool = False, kind: str = "ConfigMap", version: str = "v1") -> Obj:
    metadata = owner["metadata"]
    return {"apiVersion": version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"], "blockOwnerDeletion": block}


async def make(twin: Embedded, name: str, *owners: Obj, path: str = _MAPS, **metadata: Any) -> Obj:
    return await twin.do("POST", path, {"metadata": {"name": name, "ownerReferences": list(owners), **metadata}})


async def delete(twin: Embedded, name: str, policy: str) -> None:
    await twin.do("DELETE", f"{_MAPS}/{name}", {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy})
    await twin.quiet()


async def left(twin: Embedded) -> list[str]:
    found = await twin.do("GET", _MAPS)
    return [item["metadata"]["name"] for item in found["items"] if item["metadata"]["name"] != "kube-root-ca.crt"]


def test_background_takes_the_whole_line() -> None:
    async def main(twin: Embedded) -> None:
        parent = await make(twin, "a")
        child = await make(twin, "b", ref(parent))
        await make(twin, "c", ref(child))
        await make(twin, "other")
        await delete(twin, "a", "Background")
        assert await left(twin) == ["other"]

    on_twin(main)


def test_foreground_waits_for_those_that_block() -> None:
    async def main(twin: Embedded) -> None:
        parent = await make(twin, "a")
        await make(twin, "b", ref(parent, block=True), finalizers=["example.com/hold"])
        await make(twin, "c", ref(parent), finalizers=["example.com/hold"])
        await delete(twin, "a", "Foreground")
        found = await twin.do("GET", f"{_MAPS}/a")
        assert found["metadata"]["finalizers"] == ["foregroundDeletion"]
        for name in ("b", "c"):
            assert "deletionTimestamp" in (await twin.do("GET", f"{_MAPS}/{name}"))["metadata"]
        await twin.do("PATCH", f"{_MAPS}/b", {"metadata": {"finalizers": None}})
        await twin.quiet()
        assert await left(twin) == ["c"]

    on_twin(main)


def test_foreground_goes_down_a_line_and_through_a_cycle() -> None:
    async def main(twin: Embedded) -> None:
        first = await make(twin, "a")
        second = await make(twin, "b", ref(first, block=True))
        await make(twin, "c", ref(second, block=True))
        await twin.do("PATCH", f"{_MAPS}/a", {"metadata": {"ownerReferences": [ref(second, block=True)]}})
        await delete(twin, "a", "Foreground")
        assert await left(twin) == []

    on_twin(main)


def test_orphans_are_let_go() -> None:
    async def main(twin: Embedded) -> None:
        parent, other = await make(twin, "a"), await make(twin, "o")
        await make(twin, "b", ref(parent))
        await make(twin, "c", ref(parent), ref(other))
        await delete(twin, "a", "Orphan")
        assert await left(twin) == ["b", "c", "o"]
        assert "ownerReferences" not in (await twin.do("GET", f"{_MAPS}/b"))["metadata"]
        assert [each["name"] for each in (await twin.do("GET", f"{_MAPS}/c"))["metadata"]["ownerReferences"]] == ["o"]

    on_twin(main)


def test_one_owner_is_enough() -> None:
    async def main(twin: Embedded) -> None:
        parent, other = await make(twin, "a"), await make(twin, "o")
        await make(twin, "b", ref(parent), ref(other))
        await delete(twin, "a", "Background")
        found = await twin.do("GET", f"{_MAPS}/b")
        assert [each["name"] for each in found["metadata"]["ownerReferences"]] == ["o"]
        await delete(twin, "o", "Background")
        assert await left(twin) == []

    on_twin(main)


@pytest.mark.parametrize("fields", [{"uid": "another"}, {"name": "nobody"}])
def test_an_owner_that_is_not_there_is_none(fields: Obj) -> None:
    async def main(twin: Embedded) -> None:
        parent = await make(twin, "a")
        await make(twin, "b", {**ref(parent), **fields})
        await make(twin, "c", ref(parent))
        await twin.quiet()
        assert await left(twin) == ["a", "c"]

    on_twin(main)


def test_an_owner_in_another_namespace_is_told_of_and_counts_as_absent() -> None:
    async def main(twin: Embedded) -> None:
        await twin.do("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
        parent = await make(twin, "a", path="/api/v1/namespaces/other/configmaps")
        await make(twin, "b", ref(parent))
        await twin.quiet()
        assert await left(twin) == []
        (event,) = (await twin.do("GET", "/api/v1/namespaces/default/events"))["items"]
        assert (event["type"], event["reason"]) == ("Warning", "OwnerRefInvalidNamespace")
        uid = parent["metadata"]["uid"]
        assert event["message"] == (
            f'ownerRef [v1/ConfigMap, namespace: default, name: a, uid: {uid}] does not exist in namespace "default"'
        )
        assert event["involvedObject"]["name"] == "b"

    on_twin(main)


def test_what_belongs_to_the_cluster_has_no_owner_in_a_namespace() -> None:
    async def main(twin: Embedded) -> None:
        parent = await make(twin, "a")
        roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        await make(twin, "wide", ref(parent), path=roles)
        await delete(twin, "a", "Background")
        assert not await twin.gone(f"{roles}/wide")

    on_twin(main)


def test_a_kind_nobody_serves_holds_until_it_comes() -> None:
    async def main(twin: Embedded) -> None:
        ghost = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": "u"}
        await make(twin, "b", ghost)
        await twin.quiet()
        assert await left(twin) == ["b"]
        schema = {"openAPIV3Schema": {"type": "object"}}
        version = {"name": "v1", "served": True, "storage": True, "schema": schema}
        names = {"plural": "things", "kind": "Thing"}
        spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
        definition = {"metadata": {"name": "things.example.com"}, "spec": spec}
        await twin.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        await twin.quiet()
        assert await left(twin) == []

    on_twin(main)


def test_what_was_left_undone_is_done_after_a_restart() -> None:
    async def main(twin: Embedded) -> None:
        parent = await make(twin, "a")
        await make(twin, "b", ref(parent))
        await twin.cluster.controllers.stop()
        await twin.do("DELETE", f"{_MAPS}/a")
        assert await left(twin) == ["b"]
        twin.cluster.controllers = type(twin.cluster.controllers)(
            twin.cluster.store,
            twin.cluster.core.registry,
            twin.cluster.api.handle,
            authority="x",
        )
        twin.cluster.controllers.start()
        await twin.quiet()
        assert await left(twin) == []

    on_twin(main)
