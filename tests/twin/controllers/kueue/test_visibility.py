"""Discovery, OpenAPI and errors of Kueue's visibility API. The expected responses come from the server of Kueue v0.15."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.embedded_twin import run_on_twin

if TYPE_CHECKING:
    from tests.support.embedded_twin import EmbeddedTwin

GROUP = "visibility.kueue.x-k8s.io"
BASE = f"/apis/{GROUP}/v1beta2"


def _resources() -> list[dict[str, Any]]:
    kind = "PendingWorkloadsSummary"
    return [
        {"name": "clusterqueues", "singularName": "clusterqueue", "namespaced": False, "kind": kind, "verbs": []},
        {"name": "clusterqueues/pendingworkloads", "singularName": "", "namespaced": False, "kind": kind, "verbs": ["get"]},
        {"name": "localqueues", "singularName": "localqueue", "namespaced": True, "kind": kind, "verbs": []},
        {"name": "localqueues/pendingworkloads", "singularName": "", "namespaced": True, "kind": kind, "verbs": ["get"]},
    ]


def test_discovery_lists_both_versions() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        versions = [{"groupVersion": f"{GROUP}/{name}", "version": name} for name in ("v1beta2", "v1beta1")]
        group = {"name": GROUP, "versions": versions, "preferredVersion": versions[0]}
        assert await twin.do("GET", f"/apis/{GROUP}") == {"kind": "APIGroup", "apiVersion": "v1", **group}
        assert group in (await twin.do("GET", "/apis"))["groups"]
        for name in ("v1beta1", "v1beta2"):
            listed = await twin.do("GET", f"/apis/{GROUP}/{name}")
            assert (listed["groupVersion"], listed["resources"]) == (f"{GROUP}/{name}", _resources())

    run_on_twin(main, workloads=True)


def test_openapi_documents() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        index = (await twin.do("GET", "/openapi/v3"))["paths"]
        assert {f"apis/{GROUP}/v1beta1", f"apis/{GROUP}/v1beta2"} <= index.keys()
        document = await twin.do("GET", f"/openapi/v3/apis/{GROUP}/v1beta2")
        assert list(document["paths"]) == [
            f"{BASE}/",
            f"{BASE}/clusterqueues/{{name}}/pendingworkloads",
            f"{BASE}/namespaces/{{namespace}}/localqueues/{{name}}/pendingworkloads",
        ]
        schemas = document["components"]["schemas"]
        schema = schemas["io.k8s.sigs.kueue.apis.visibility.v1beta2.PendingWorkload"]
        assert schema["required"] == ["priority", "localQueueName", "positionInClusterQueue", "positionInLocalQueue"]
        assert "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" in schemas

    run_on_twin(main, workloads=True)


_NOT_FOUND, _NOT_ALLOWED = (
    "the server could not find the requested resource",
    "the server does not allow this method on the requested resource",
)
_INVALID_REQUESTS = (
    ("GET", "clusterqueues", 404, _NOT_FOUND),
    ("GET", "clusterqueues/x", 404, _NOT_FOUND),
    ("GET", "clusterqueues/x/pendingworkloads", 404, f'clusterqueue.{GROUP} "x" not found'),
    ("GET", "namespaces/default/localqueues/x/pendingworkloads", 404, f'localqueue.{GROUP} "x" not found'),
    ("GET", "clusterqueues/x/pendingworkloads?limit=a", 400, 'strconv.ParseInt: parsing "a": invalid syntax'),
    ("POST", "clusterqueues/x/pendingworkloads", 405, _NOT_ALLOWED),
    ("DELETE", "clusterqueues/x/pendingworkloads", 405, _NOT_ALLOWED),
)


def test_invalid_requests_get_kueues_errors() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        for method, path, code, message in _INVALID_REQUESTS:
            status, body = await twin.ask(method, f"{BASE}/{path}")
            assert (status, body["message"]) == (code, message), path

    run_on_twin(main, workloads=True)
