"""Aggregated APIs of a twin: exposed addresses, restarts, and an API server that is its own backend."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.support.aggregated_api import SERVICES, available, listed, register, serve
from tests.support.clusters import TwinCluster
from tests.support.http import Api
from tests.support.polling import eventually
from tests.support.webhooks import Reply

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AUTHENTICATION = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwinCluster]:
    running = TwinCluster(tmp_path_factory.mktemp("twin"), memory=False)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def api(twin: TwinCluster) -> Api:
    return twin.api


def test_exposed_service_is_the_backend(api: Api, tmp_path: Path) -> None:
    body = {"namespace": "default", "service": "exposed"}
    with serve(api, tmp_path, "default", host="exposed.default.svc") as backend:
        service = {"namespace": "default", "name": "exposed"}
        api.post(SERVICES, backend.service(service=service)).ok(201)
        eventually(lambda: available(api, backend.name).get("reason") == "ServiceNotFound", 30, what="the Service is missing")
        api.post("/debug/twin/exposed", {**body, "address": f"127.0.0.1:{backend.port}"}).ok()
        eventually(lambda: available(api, backend.name).get("status") == "True", 30, what="the API is available")
        assert api.get(backend.samples).ok().json["kind"] == "SampleList"
        # A backend that sends requests back, and keeps their headers, does not loop.
        looped = api.get(backend.samples, headers={"X-Forwarded-For": ", ".join(["127.0.0.1"] * 9)})
        assert (looped.status, looped.text) == (503, "service unavailable\n")
        api.request("DELETE", "/debug/twin/exposed", body).ok()
        eventually(lambda: available(api, backend.name).get("reason") == "ServiceNotFound", 30, what="the Service is missing again")
        assert api.get(backend.samples).text == "service unavailable\n"


def test_server_that_is_its_own_backend_is_unavailable(twin: TwinCluster, api: Api) -> None:
    name = "v1.loop.example.com"
    body = {"namespace": "default", "service": "self"}
    port = int(twin.url.rpartition(":")[2])
    api.post("/debug/twin/exposed", {**body, "address": f"127.0.0.1:{port}"}).ok()
    service = {"namespace": "default", "name": "self"}
    spec = {"group": "loop.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1, "service": service}
    api.post(SERVICES, {"metadata": {"name": name}, "spec": {**spec, "insecureSkipTLSVerify": True}}).ok(201)
    eventually(lambda: available(api, name).get("reason") == "FailedDiscoveryCheck", 30, what="the API was checked")
    condition = [{"type": "Available", "status": "True"}]
    # The next check is some time away: the API counts as available until then.
    api.patch(f"{SERVICES}/{name}/status", {"status": {"conditions": condition}}).ok()
    answer = api.get("/apis/loop.example.com/v1/things")
    assert (answer.status, answer.text.partition(":")[0]) == (503, "error trying to reach service")
    api.delete(f"{SERVICES}/{name}").ok()
    api.request("DELETE", "/debug/twin/exposed", body).ok()


def test_backend_with_hanging_openapi_is_discovered(api: Api, tmp_path: Path) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": "hanging"}}).ok(201)
    with serve(api, tmp_path, "hanging") as backend:
        for path in ("/openapi/v3", "/openapi/v2"):
            backend.replies[path] = Reply(hang=True)
        register(api, backend)
        eventually(
            lambda: (listed(api, backend.group).get("versions") or [{}])[0].get("resources"), 30, what="resources are listed"
        )
        backend.replies[backend.root] = Reply(b"no", 503, "text/plain")
        api.patch(f"{SERVICES}/{backend.name}", {"metadata": {"labels": {"checked": "again"}}}).ok()
        eventually(lambda: available(api, backend.name).get("reason") == "FailedDiscoveryCheck", 30, what="the API was checked")


def test_api_is_served_after_a_restart(twin: TwinCluster, tmp_path: Path) -> None:
    client = Api(twin.url, twin.authority, twin.token)
    with closing(client), serve(client, tmp_path, "default") as backend:
        register(client, backend)
        before = client.get(AUTHENTICATION).ok().json["data"]
        twin.process.kill()
        client.close()
        twin.start()
        assert client.get(AUTHENTICATION).ok().json["data"] == before
        assert client.get(backend.samples).ok().json["kind"] == "SampleList"
        (seen, *_) = backend.requests(backend.samples)
        assert seen.client == "front-proxy-client"


def test_local_api_services_are_restored_when_the_twin_starts(twin: TwinCluster) -> None:
    client = Api(twin.url, twin.authority, twin.token)
    with closing(client):
        before = client.get(f"{SERVICES}/v1.apps").ok().json["spec"]
        client.patch(f"{SERVICES}/v1.apps", {"spec": {"versionPriority": 99}}).ok()
        client.delete(f"{SERVICES}/v1.batch").ok()
        spec = {"group": "old.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
        labels = {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
        client.post(SERVICES, {"metadata": {"name": "v1.old.example.com", "labels": labels}, "spec": spec}).ok(201)
        twin.process.kill()
        client.close()
        twin.start()
        assert client.get(f"{SERVICES}/v1.apps").ok().json["spec"] == before
        assert client.get(f"{SERVICES}/v1.batch").ok().json["status"]["conditions"][0]["reason"] == "Local"
        client.get(f"{SERVICES}/v1.old.example.com").refused(404, "NotFound")
