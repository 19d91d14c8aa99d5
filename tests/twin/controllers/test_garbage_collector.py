"""The garbage collector on a twin: propagation policies, and owners that are absent, in other namespaces or of unknown kinds."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin

from sliceworks.twin.apiserver.auth.service_account_token import TokenIssuer

_MAPS = "/api/v1/namespaces/default/configmaps"
Obj = dict[str, Any]


def ref(owner: Obj, *, block: bool = False, kind: str = "ConfigMap", version: str = "v1") -> Obj:
    metadata = owner["metadata"]
    return {"apiVersion": version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"], "blockOwnerDeletion": block}


async def create(twin: EmbeddedTwin, name: str, *owners: Obj, path: str = _MAPS, **metadata: Any) -> Obj:
    return await twin.do("POST", path, {"metadata": {"name": name, "ownerReferences": list(owners), **metadata}})


async def delete(twin: EmbeddedTwin, name: str, policy: str) -> None:
    await twin.do("DELETE", f"{_MAPS}/{name}", {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy})
    await twin.quiet()


async def list_names(twin: EmbeddedTwin) -> list[str]:
    result = await twin.do("GET", _MAPS)
    return [item["metadata"]["name"] for item in result["items"] if item["metadata"]["name"] != "kube-root-ca.crt"]


def test_background_deletion_cascades() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        parent = await create(twin, "a")
        child = await create(twin, "b", ref(parent))
        await create(twin, "c", ref(child))
        await create(twin, "other")
        await delete(twin, "a", "Background")
        assert await list_names(twin) == ["other"]

    run_on_twin(main)


def test_foreground_deletion_waits_for_blocking_dependents() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        parent = await create(twin, "a")
        await create(twin, "b", ref(parent, block=True), finalizers=["example.com/hold"])
        await create(twin, "c", ref(parent), finalizers=["example.com/hold"])
        await delete(twin, "a", "Foreground")
        result = await twin.do("GET", f"{_MAPS}/a")
        assert result["metadata"]["finalizers"] == ["foregroundDeletion"]
        for name in ("b", "c"):
            assert "deletionTimestamp" in (await twin.do("GET", f"{_MAPS}/{name}"))["metadata"]
        await twin.do("PATCH", f"{_MAPS}/b", {"metadata": {"finalizers": None}})
        await twin.quiet()
        assert await list_names(twin) == ["c"]

    run_on_twin(main)


def test_foreground_deletion_resolves_cycles() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        first = await create(twin, "a")
        second = await create(twin, "b", ref(first, block=True))
        await create(twin, "c", ref(second, block=True))
        await twin.do("PATCH", f"{_MAPS}/a", {"metadata": {"ownerReferences": [ref(second, block=True)]}})
        await delete(twin, "a", "Foreground")
        assert await list_names(twin) == []

    run_on_twin(main)


def test_orphan_deletion_removes_owner_references() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        parent, other = await create(twin, "a"), await create(twin, "o")
        await create(twin, "b", ref(parent))
        await create(twin, "c", ref(parent), ref(other))
        await delete(twin, "a", "Orphan")
        assert await list_names(twin) == ["b", "c", "o"]
        assert "ownerReferences" not in (await twin.do("GET", f"{_MAPS}/b"))["metadata"]
        assert [owner["name"] for owner in (await twin.do("GET", f"{_MAPS}/c"))["metadata"]["ownerReferences"]] == ["o"]

    run_on_twin(main)


def test_object_is_kept_while_one_owner_exists() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        parent, other = await create(twin, "a"), await create(twin, "o")
        await create(twin, "b", ref(parent), ref(other))
        await delete(twin, "a", "Background")
        result = await twin.do("GET", f"{_MAPS}/b")
        assert [owner["name"] for owner in result["metadata"]["ownerReferences"]] == ["o"]
        await delete(twin, "o", "Background")
        assert await list_names(twin) == []

    run_on_twin(main)


@pytest.mark.parametrize("fields", [{"uid": "another"}, {"name": "absent"}])
def test_object_with_absent_owner_is_deleted(fields: Obj) -> None:
    async def main(twin: EmbeddedTwin) -> None:
        parent = await create(twin, "a")
        await create(twin, "b", {**ref(parent), **fields})
        await create(twin, "c", ref(parent))
        await twin.quiet()
        assert await list_names(twin) == ["a", "c"]

    run_on_twin(main)


def test_owner_in_another_namespace_is_reported_and_counts_as_absent() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await twin.do("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
        parent = await create(twin, "a", path="/api/v1/namespaces/other/configmaps")
        await create(twin, "b", ref(parent))
        await twin.quiet()
        assert await list_names(twin) == []
        (event,) = (await twin.do("GET", "/api/v1/namespaces/default/events"))["items"]
        assert (event["type"], event["reason"]) == ("Warning", "OwnerRefInvalidNamespace")
        uid = parent["metadata"]["uid"]
        assert event["message"] == (
            f'ownerRef [v1/ConfigMap, namespace: default, name: a, uid: {uid}] does not exist in namespace "default"'
        )
        assert event["involvedObject"]["name"] == "b"

    run_on_twin(main)


def test_cluster_scoped_object_with_namespaced_owner_is_kept() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        parent = await create(twin, "a")
        roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        await create(twin, "wide", ref(parent), path=roles)
        await delete(twin, "a", "Background")
        assert not await twin.gone(f"{roles}/wide")

    run_on_twin(main)


def test_owner_of_unknown_kind_is_resolved_once_the_kind_is_served() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        ghost = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": "u"}
        await create(twin, "b", ghost)
        await twin.quiet()
        assert await list_names(twin) == ["b"]
        schema = {"openAPIV3Schema": {"type": "object"}}
        version = {"name": "v1", "served": True, "storage": True, "schema": schema}
        names = {"plural": "things", "kind": "Thing"}
        spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
        definition = {"metadata": {"name": "things.example.com"}, "spec": spec}
        await twin.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        await twin.quiet()
        assert await list_names(twin) == []

    run_on_twin(main)


def test_restart_finishes_deletions() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        parent = await create(twin, "a")
        await create(twin, "b", ref(parent))
        await twin.cluster.controllers.stop()
        await twin.do("DELETE", f"{_MAPS}/a")
        assert await list_names(twin) == ["b"]
        twin.cluster.controllers = type(twin.cluster.controllers)(
            twin.cluster.store,
            twin.cluster.api_server.registry,
            twin.cluster.api.handle,
            authority="x",
            issuer=TokenIssuer(),
        )
        twin.cluster.controllers.start()
        await twin.quiet()
        assert await list_names(twin) == []

    run_on_twin(main)
