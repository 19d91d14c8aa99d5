"""Kueue's visibility API as it shows itself. What is expected was seen on Kueue v0.15's own server, asked directly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.embedded import on_twin

if TYPE_CHECKING:
    from tests.support.embedded import Embedded

GROUP = "visibility.kueue.x-k8s.io"
HOME = f"/apis/{GROUP}/v1beta2"


def _rows() -> list[dict[str, Any]]:
    kind = "PendingWorkloadsSummary"
    return [
        {"name": "clusterqueues", "singularName": "clusterqueue", "namespaced": False, "kind": kind, "verbs": []},
        {"name": "clusterqueues/pendingworkloads", "singularName": "", "namespaced": False, "kind": kind, "verbs": ["get"]},
        {"name": "localqueues", "singularName": "localqueue", "namespaced": True, "kind": kind, "verbs": []},
        {"name": "localqueues/pendingworkloads", "singularName": "", "namespaced": True, "kind": kind, "verbs": ["get"]},
    ]


def test_the_group_is_discovered_with_both_versions() -> None:
    async def main(twin: Embedded) -> None:
        versions = [{"groupVersion": f"{GROUP}/{name}", "version": name} for name in ("v1beta2", "v1beta1")]
        group = {"name": GROUP, "versions": versions, "preferredVersion": versions[0]}
        assert await twin.do("GET", f"/apis/{GROUP}") == {"kind": "APIGroup", "apiVersion": "v1", **group}
        assert group in (await twin.do("GET", "/apis"))["groups"]
        for name in ("v1beta1", "v1beta2"):
            found = await twin.do("GET", f"/apis/{GROUP}/{name}")
            assert (found["groupVersion"], found["resources"]) == (f"{GROUP}/{name}", _rows())

    on_twin(main, workloads=True)


def test_the_group_has_its_openapi_documents() -> None:
    async def main(twin: Embedded) -> None:
        index = (await twin.do("GET", "/openapi/v3"))["paths"]
        assert {f"apis/{GROUP}/v1beta1", f"apis/{GROUP}/v1beta2"} <= index.keys()
        found = await twin.do("GET", f"/openapi/v3/apis/{GROUP}/v1beta2")
        assert list(found["paths"]) == [
            f"{HOME}/",
            f"{HOME}/clusterqueues/{{name}}/pendingworkloads",
            f"{HOME}/namespaces/{{namespace}}/localqueues/{{name}}/pendingworkloads",
        ]
        schemas = found["components"]["schemas"]
        row = schemas["io.k8s.sigs.kueue.apis.visibility.v1beta2.PendingWorkload"]
        assert row["required"] == ["priority", "localQueueName", "positionInClusterQueue", "positionInLocalQueue"]
        assert "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" in schemas

    on_twin(main, workloads=True)


_UNKNOWN, _NO_METHOD = (
    "the server could not find the requested resource",
    "the server does not allow this method on the requested resource",
)
_REFUSALS = (
    ("GET", "clusterqueues", 404, _UNKNOWN),
    ("GET", "clusterqueues/x", 404, _UNKNOWN),
    ("GET", "clusterqueues/x/pendingworkloads", 404, f'clusterqueue.{GROUP} "x" not found'),
    ("GET", "namespaces/default/localqueues/x/pendingworkloads", 404, f'localqueue.{GROUP} "x" not found'),
    ("GET", "clusterqueues/x/pendingworkloads?limit=a", 400, 'strconv.ParseInt: parsing "a": invalid syntax'),
    ("POST", "clusterqueues/x/pendingworkloads", 405, _NO_METHOD),
    ("DELETE", "clusterqueues/x/pendingworkloads", 405, _NO_METHOD),
)


def test_what_cannot_be_asked_is_refused_in_kueues_words() -> None:
    async def main(twin: Embedded) -> None:
        for method, path, code, message in _REFUSALS:
            status, found = await twin.ask(method, f"{HOME}/{path}")
            assert (status, found["message"]) == (code, message), path

    on_twin(main, workloads=True)
