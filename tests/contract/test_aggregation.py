"""Aggregation: APIServices, requests that are passed on, merged discovery and OpenAPI, and backends that fail."""

from __future__ import annotations

import socket
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support import goldens
from tests.support.access import account, grant, rule
from tests.support.aggregated_api import SERVICES, Backend, Seen, available, listed, register, serve
from tests.support.custom_resources import define, simple
from tests.support.http import TABLE, Answer
from tests.support.polling import eventually
from tests.support.webhooks import Reply

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedRWPair
    from pathlib import Path

    from tests.support.clusters import Cluster
    from tests.support.http import Api

Object = dict[str, Any]
LOCAL = {"group": "local.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10}
SERVICE = {"namespace": "default", "name": "backend"}


@pytest.fixture
def backend(api: Api, ns: str, tmp_path: Path) -> Iterator[Backend]:
    with serve(api, tmp_path, ns) as running:
        yield running


def check(cluster: Cluster, case: str, seen: Any, **words: object) -> None:
    replaced = {str(value): name for name, value in words.items()}
    goldens.check("test_aggregation", case, seen, real=cluster.name == "real", words=replaced)


def _without_ownership(obj: Object) -> Object:
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "managedFields"}}


def test_group_versions_of_this_server_are_listed(api: Api, cluster: Cluster) -> None:
    items = api.get(SERVICES).ok().json["items"]
    specs = {item["metadata"]["name"]: _without_ownership(item) for item in items if "example.com" not in item["metadata"]["name"]}
    labelled = {name: item for name, item in specs.items() if (item["metadata"].get("labels") or {}).get(_MANAGED) == "onstart"}
    if cluster.name == "real":
        check(cluster, "built-in", labelled)
    recorded = goldens.recorded("test_aggregation", "built-in")
    assert goldens.normalised(labelled, {}) == recorded


_MANAGED = "kube-aggregator.kubernetes.io/automanaged"


def test_table_shows_service_and_availability(api: Api, cluster: Cluster, ns: str) -> None:
    remote = {**LOCAL, "group": f"{ns}.example.com", "service": {"namespace": ns, "name": "absent"}}
    name = f"v1.{ns}.example.com"
    api.post(SERVICES, {"metadata": {"name": name}, "spec": remote}).ok(201)
    eventually(lambda: available(api, name), 30, what="the APIService was checked")
    rows = [api.get(f"{SERVICES}/{item}", accept=TABLE).ok().json for item in ("v1.apps", name)]
    assert [column["name"] for column in rows[0]["columnDefinitions"]] == ["Name", "Service", "Available", "Age"]
    check(cluster, "table", [row["rows"][0]["cells"][:3] for row in rows], NS=ns)
    api.delete(f"{SERVICES}/{name}").ok()


def test_version_of_custom_resources_is_registered(api: Api, cluster: Cluster) -> None:
    custom = define(api, simple())
    name = f"v1.{custom.group}"
    eventually(lambda: api.get(f"{SERVICES}/{name}").status == 200, 30, what="the APIService exists")
    check(cluster, "custom", _without_ownership(api.get(f"{SERVICES}/{name}").ok().json), GROUP=custom.group)
    uid = api.get(f"{SERVICES}/{name}").ok().json["metadata"]["uid"]
    api.delete(f"{SERVICES}/{name}").ok()
    eventually(lambda: _uid(api, name) not in ("", uid), 30, what="the APIService was created again")
    api.delete(custom.definition).ok()
    eventually(lambda: api.get(f"{SERVICES}/{name}").status == 404, 30, what="the APIService was deleted")


def _uid(api: Api, name: str) -> str:
    answer = api.get(f"{SERVICES}/{name}")
    return str(answer.json["metadata"]["uid"]) if answer.status == 200 else ""


INVALID: dict[str, Object] = {
    "name": {"metadata": {"name": "v1.other.example.com"}},
    "name with a slash": {"metadata": {"name": "v1/local.example.com"}},
    "empty": {"spec": {}},
    "no group": {"metadata": {"name": "v2."}, "spec": {**LOCAL, "group": "", "version": "v2"}},
    "bad group and version": {"metadata": {"name": "V1.A_b"}, "spec": {**LOCAL, "group": "A_b", "version": "V1"}},
    "priorities": {"spec": {**LOCAL, "groupPriorityMinimum": 20001, "versionPriority": 1001}},
    "negative priorities": {"spec": {**LOCAL, "groupPriorityMinimum": -1, "versionPriority": 0}},
    "local with TLS": {"spec": {**LOCAL, "caBundle": "YWJj", "insecureSkipTLSVerify": True}},
    "empty service": {"spec": {**LOCAL, "service": {}}},
    "port": {"spec": {**LOCAL, "service": {**SERVICE, "port": 70000}}},
    "both kinds of TLS": {"spec": {**LOCAL, "service": SERVICE, "caBundle": "YWJj", "insecureSkipTLSVerify": True}},
    "bundle that is not base64": {"spec": {**LOCAL, "service": SERVICE, "caBundle": "-"}},
    "unknown field": {"spec": {**LOCAL, "color": "red"}},
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_api_service_is_rejected(api: Api, cluster: Cluster, case: str) -> None:
    body = {"metadata": {"name": "v1.local.example.com"}, "spec": LOCAL, **INVALID[case]}
    answer = api.post(SERVICES, body, query={"dryRun": "All", "fieldValidation": "Strict"})
    check(cluster, f"invalid: {case}", answer.refusal)


def test_updates_of_spec_and_status(api: Api, cluster: Cluster, ns: str) -> None:
    name = f"v1.{ns}.example.com"
    spec = {**LOCAL, "group": f"{ns}.example.com"}
    created = api.post(SERVICES, {"metadata": {"name": name}, "spec": spec, "status": {"conditions": []}}).ok(201).json
    check(cluster, "created local", _without_ownership(created), NS=ns)
    changed = {**created, "spec": {**spec, "service": {"namespace": ns, "name": "absent"}}}
    check(cluster, "with a service", _without_ownership(api.put(f"{SERVICES}/{name}", changed).ok().json)["spec"], NS=ns)
    bad = {"status": {"conditions": [{"type": "Available", "status": "Maybe"}]}}
    check(cluster, "bad status", api.patch(f"{SERVICES}/{name}/status", bad).refusal, NS=ns)
    stale = {**created, "spec": spec}
    assert api.put(f"{SERVICES}/{name}", stale).status == 409
    renamed = {"spec": {"version": "v2"}}
    check(cluster, "another version", api.patch(f"{SERVICES}/{name}", renamed).refusal, NS=ns)
    api.delete(f"{SERVICES}/{name}").ok()


def _condition(api: Api, name: str, reason: str) -> Object:
    def reached() -> Object | None:
        condition = available(api, name)
        return condition if condition.get("reason") == reason else None

    return eventually(reached, 60, what=f"{name} is {reason}")


def test_problems_of_the_service_are_reported(api: Api, cluster: Cluster, ns: str) -> None:
    name = f"v1.{ns}.example.com"
    service, services = {"namespace": ns, "name": "backend"}, f"/api/v1/namespaces/{ns}/services"
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices"
    api.post(SERVICES, {"metadata": {"name": name}, "spec": {**LOCAL, "group": f"{ns}.example.com", "service": service}}).ok(201)
    seen = [_condition(api, name, "ServiceNotFound")]
    api.post(services, {"metadata": {"name": "backend"}, "spec": {"ports": [{"name": "web", "port": 80}]}}).ok(201)
    seen.append(_condition(api, name, "ServicePortError"))
    port = {"name": "https", "port": 443, "targetPort": 8443}
    api.patch(f"{services}/backend", {"spec": {"ports": [port]}}).ok()
    seen.append(_condition(api, name, "EndpointsNotFound"))
    labels = {"kubernetes.io/service-name": "backend"}
    body = {
        "metadata": {"name": "a", "labels": labels},
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [{"name": "x", "port": 1}],
    }
    api.post(slices, body).ok(201)
    seen.append(_condition(api, name, "MissingEndpoints"))
    check(cluster, "service problems", seen, NS=ns)
    answer = api.get(f"/apis/{ns}.example.com/v1/samples")
    check(cluster, "not available", _plain(answer))
    assert api.get(f"/apis/{ns}.example.com").ok().json["versions"] == [{"groupVersion": f"{ns}.example.com/v1", "version": "v1"}]
    assert listed(api, f"{ns}.example.com")["versions"] == [{"version": "v1", "freshness": "Stale"}]
    api.delete(f"{SERVICES}/{name}").ok()
    eventually(lambda: api.get(f"/apis/{ns}.example.com").status == 404, 30, what="the group is not listed")


def _plain(answer: Answer) -> Object:
    return {"status": answer.status, "type": answer.headers.get("Content-Type"), "text": answer.text}


def test_requests_are_passed_on(api: Api, backend: Backend) -> None:
    register(api, backend)
    assert {key: available(api, backend.name)[key] for key in ("status", "reason", "message")} == {
        "status": "True",
        "reason": "Passed",
        "message": "all checks passed",
    }
    sample = {"apiVersion": f"{backend.group}/v1alpha1", "kind": "Sample", "metadata": {"name": "a"}, "size": 1}
    created = api.post(backend.samples, sample, query={"fieldManager": "x", "b": "2", "a": ["1", "3"]}).ok(201)
    assert created.json == sample
    assert created.headers.get_all("X-Backend") == ["first", "second"]
    assert api.put(f"{backend.samples}/a", {**sample, "size": 2}).ok(200).json["size"] == 2
    assert api.get(backend.samples).ok().names == ["a"]
    assert api.request("HEAD", f"{backend.samples}/a").ok().body == b""
    assert api.delete(f"{backend.samples}/a").ok().json["size"] == 2
    assert api.get(f"{backend.samples}/a").refused(404, "", "no a")
    posted = next(seen for seen in backend.requests(backend.samples) if seen.method == "POST")
    assert posted.target == f"{backend.samples}?a=1&a=3&b=2&fieldManager=x"
    assert posted.client == "front-proxy-client"
    assert _identity(posted)["x-remote-group"] == ["system:authenticated", "system:masters"]
    assert "authorization" not in posted.headers
    assert posted.headers["user-agent"] == ["contract/1"]


def _identity(seen: Seen) -> Object:
    return {name: sorted(values) for name, values in seen.headers.items() if name.startswith("x-remote-")}


def test_user_is_authorized_before_a_request_is_passed_on(api: Api, backend: Backend, ns: str, cluster: Cluster) -> None:
    register(api, backend)
    robot = account(api, ns)
    refused = robot.get(backend.samples, headers={"X-Remote-User": "admin", "X-Remote-Group": "system:masters"})
    check(cluster, "not authorized", refused.refusal, NS=ns)
    assert not backend.requests(backend.samples)
    grant(api, ns, rule("list", "samples", backend.group))
    headers = {"X-Remote-User": "admin", "X-Remote-Extra-Scope": "all"}
    eventually(lambda: robot.get(backend.samples, headers=headers).status == 200, 30, what="the role is used")
    (seen,) = backend.requests(backend.samples)
    identity = _identity(seen)
    assert identity.pop("x-remote-uid")
    assert identity.pop("x-remote-extra-authentication.kubernetes.io%2fcredential-id")
    check(cluster, "identity of a service account", identity, NS=ns)
    impersonated = {
        "Impersonate-User": "jane",
        "Impersonate-Group": "dev",
        "Impersonate-Extra-Scopes": "view",
        "Impersonate-Uid": "7",
    }
    assert api.get(backend.samples, headers=impersonated).status == 403
    admin = {**impersonated, "Impersonate-Group": "system:masters"}
    api.get(backend.samples, headers=admin).ok()
    check(cluster, "impersonated identity", _identity(backend.requests(backend.samples)[-1]))
    assert not [name for name in backend.requests(backend.samples)[-1].headers if name.startswith("impersonate")]


def test_encoded_slash_is_authorized_as_the_backend_reads_it(api: Api, backend: Backend, ns: str) -> None:
    register(api, backend)
    robot = account(api, ns)
    grant(api, ns, rule("get", "samples", backend.group))
    eventually(lambda: robot.get(f"{backend.samples}/a").status == 404, 30, what="the role is used")
    assert robot.get(f"{backend.samples}/a/secret").status == 403
    assert robot.get(f"{backend.samples}/a%2Fsecret").status == 403
    assert not [seen for seen in backend.seen if "secret" in seen.target]


def test_headers_of_one_connection_are_not_passed_on(api: Api, backend: Backend) -> None:
    register(api, backend)
    api.get(backend.samples, headers={"Connection": "keep-alive, X-Hop", "X-Hop": "1", "X-End": "2"}).ok()
    (seen,) = backend.requests(backend.samples)
    assert ("x-hop" in seen.headers, seen.headers["x-end"]) == (False, ["2"])


def test_watch_is_streamed(api: Api, backend: Backend) -> None:
    register(api, backend)
    with api.watch(backend.samples) as watch:
        assert watch.status == 200
        for name in ("a", "b"):
            backend.events.append(b'{"type":"ADDED","object":{"metadata":{"name":"%b"}}}\n' % name.encode())
            backend.more.set()
            assert watch.take(1) == [("ADDED", name)]


def test_resources_are_discovered(api: Api, backend: Backend, cluster: Cluster) -> None:
    register(api, backend)
    eventually(lambda: _fresh(api, backend), 90, what="the group is listed with its resources")
    check(cluster, "aggregated discovery", listed(api, backend.group), GROUP=backend.group)
    group = api.get(f"/apis/{backend.group}").ok().json
    check(cluster, "group", group, GROUP=backend.group)
    names = [item["name"] for item in api.get("/apis").ok().json["groups"]]
    aggregated = [item["metadata"]["name"] for item in api.get("/apis", accept=AGGREGATED).ok().json["items"]]
    assert names[0] == aggregated[0] == "apiregistration.k8s.io"
    # Before custom resources, whose priority is 1000, only with a higher one.
    assert names.index("apps") < names.index(backend.group)
    api.patch(f"{SERVICES}/{backend.name}", {"spec": {"groupPriorityMinimum": 19000}}).ok()
    eventually(lambda: api.get("/apis").ok().json["groups"][1]["name"] == backend.group, 30, what="the group is listed second")


AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def _fresh(api: Api, backend: Backend) -> bool:
    versions = listed(api, backend.group).get("versions") or [{}]
    return versions[0].get("freshness") == "Current" and "resources" in versions[0]


def test_backend_without_aggregated_discovery_is_discovered(api: Api, backend: Backend, cluster: Cluster) -> None:
    kind = {"name": "samples", "singularName": "sample", "namespaced": True, "kind": "Sample", "verbs": ["get"]}
    parts = [
        {**kind, "name": "samples/status", "singularName": ""},
        {**kind, "name": "others/scale", "kind": "Scale", "group": "x"},
    ]
    legacy = b'{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"x","resources":%b}'
    backend.replies["/apis"] = Reply(b"not found", 404, "text/plain")
    backend.replies[backend.root] = Reply(legacy % orjson.dumps([kind, *parts]))
    register(api, backend)
    eventually(lambda: _fresh(api, backend), 90, what="the group is listed with its resources")
    check(cluster, "legacy discovery", listed(api, backend.group), GROUP=backend.group)


def test_openapi_documents_are_merged(api: Api, backend: Backend, ns: str) -> None:
    register(api, backend)
    path = f"apis/{backend.group}/v1alpha1"
    eventually(lambda: path in api.get("/openapi/v3").ok().json["paths"], 90, what="the document is listed")
    document = api.get(f"/openapi/v3/{path}", accept="application/json").ok().json
    assert f"com.example.{ns}.Sample" in document["components"]["schemas"]
    name = f"com.example.{ns}.Sample"
    eventually(lambda: name in api.get("/openapi/v2").ok().json["definitions"], 90, what="the definition is listed")
    api.delete(f"{SERVICES}/{backend.name}").ok()
    eventually(lambda: path not in api.get("/openapi/v3").ok().json["paths"], 60, what="the document is not listed")


FAILURES: dict[str, Reply] = {
    "cut": Reply(cut=True),
    "garbage": Reply(b"hello\r\n\r\n", 0),
    "redirect": Reply(b"", 302),
    "error": Reply(b"broken", 500, "text/plain"),
    "html": Reply(b"<html></html>", 200, "text/html"),
    "not JSON": Reply(b"{{{"),
    "empty": Reply(b"", 204),
}


@pytest.mark.parametrize("case", FAILURES)
def test_failing_backend(api: Api, backend: Backend, cluster: Cluster, case: str) -> None:
    register(api, backend)
    backend.replies[backend.samples] = FAILURES[case]
    answer = api.get(backend.samples)
    text = answer.text if case != "garbage" else answer.text.partition("malformed HTTP")[0]
    check(cluster, f"failing: {case}", {**_plain(answer), "text": text}, PORT=backend.port)
    assert available(api, backend.name)["status"] == "True"


def test_hanging_backend_times_out(api: Api, backend: Backend, cluster: Cluster) -> None:
    register(api, backend)
    backend.replies[backend.samples] = Reply(hang=True)
    answer = api.get(backend.samples, {"timeout": "1s"})
    check(cluster, "hanging", {"status": answer.status, "body": answer.json})
    bad = api.get(backend.samples, {"timeout": "soon"})
    check(cluster, "bad timeout", {"status": bad.status, "body": bad.json})


@pytest.mark.long(30)
def test_backend_with_hanging_discovery(api: Api, backend: Backend, cluster: Cluster) -> None:
    register(api, backend)
    backend.replies[backend.root] = Reply(hang=True)
    check(cluster, "hanging discovery", _plain(api.get(backend.root)))
    api.patch(f"{SERVICES}/{backend.name}", {"metadata": {"labels": {"checked": "again"}}}).ok()
    condition = _condition(api, backend.name, "FailedDiscoveryCheck")
    assert condition["status"] == "False"
    assert condition["message"].startswith(f"failing or missing response from https://127.0.0.1:{backend.port}{backend.root}: ")


def test_bad_discovery_status_is_reported(api: Api, backend: Backend, cluster: Cluster) -> None:
    backend.replies[backend.root] = Reply(b"no", 404, "text/plain")
    api.post(SERVICES, backend.service()).ok(201)
    check(cluster, "bad discovery", _condition(api, backend.name, "FailedDiscoveryCheck"), NS=backend.namespace, PORT=backend.port)


def test_backend_that_is_down(api: Api, ns: str, cluster: Cluster) -> None:
    name = f"v1.{ns}.example.com"
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    service = {"metadata": {"name": "backend"}, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}}
    api.post(f"/api/v1/namespaces/{ns}/services", service).ok(201)
    spec = {**LOCAL, "group": f"{ns}.example.com", "service": {"namespace": ns, "name": "backend", "port": port}}
    api.post(SERVICES, {"metadata": {"name": name}, "spec": spec}).ok(201)
    check(cluster, "down", _condition(api, name, "FailedDiscoveryCheck"), NS=ns, PORT=port)
    api.delete(f"{SERVICES}/{name}").ok()


UNTRUSTED: dict[str, Object] = {
    "system roots": {"caBundle": None},
    "bad bundle": {"caBundle": "YWJj"},
}


@pytest.mark.parametrize("case", UNTRUSTED)
def test_untrusted_backend(api: Api, backend: Backend, cluster: Cluster, case: str) -> None:
    api.post(SERVICES, backend.service(**UNTRUSTED[case])).ok(201)
    _condition(api, backend.name, "Passed")
    eventually(lambda: "unavailable" not in api.get(backend.samples).text, 30, what="the APIService is used")
    check(cluster, f"untrusted: {case}", _plain(api.get(backend.samples)))
    assert not backend.requests(backend.samples)


def test_certificate_of_another_host(api: Api, ns: str, cluster: Cluster, tmp_path: Path) -> None:
    with serve(api, tmp_path, ns, host="other.example.com") as backend:
        api.post(SERVICES, backend.service()).ok(201)
        _condition(api, backend.name, "Passed")
        eventually(lambda: "unavailable" not in api.get(backend.samples).text, 30, what="the APIService is used")
        check(cluster, "untrusted: another host", _plain(api.get(backend.samples)), NS=ns)
        api.patch(f"{SERVICES}/{backend.name}", {"spec": {"caBundle": None, "insecureSkipTLSVerify": True}}).ok()
        eventually(lambda: api.get(backend.samples).status == 200, 30, what="the certificate is not verified")


DOCUMENTS = {
    "a list": b"[]",
    "a number": b"1",
    "garbage": b"\xff\xfe",
    "wrong items": b'{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[1,{"metadata":7}]}',
    "deep": b'{"paths":' + b'{"a":' * 500 + b"1" + b"}" * 501,
}


@pytest.mark.parametrize("case", DOCUMENTS)
def test_backend_with_wrong_documents_does_no_harm(api: Api, backend: Backend, case: str) -> None:
    for path, media in (("/apis", AGGREGATED), ("/openapi/v3", "application/json"), ("/openapi/v2", "application/json")):
        backend.replies[path] = Reply(DOCUMENTS[case], media=media)
    register(api, backend)
    eventually(lambda: listed(api, backend.group), 30, what="the group is listed")
    for path in ("/apis", "/openapi/v2", "/openapi/v3", f"/apis/{backend.group}"):
        api.get(path).ok()
    api.get(backend.samples).ok()


@contextmanager
def upgraded(cluster: Cluster, target: str) -> Iterator[BufferedRWPair]:
    """A connection after a request to upgrade it."""
    host, port = "127.0.0.1", int(cluster.url.rpartition(":")[2])
    context = ssl.create_default_context(cafile=str(cluster.authority))
    with (
        socket.create_connection((host, port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        lines = [f"POST {target} HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {cluster.token}", "Content-Length: 0"]
        connection.sendall("\r\n".join([*lines, "Connection: Upgrade", "Upgrade: echo", "", ""]).encode())
        with connection.makefile("rwb") as stream:
            yield stream


def test_connection_is_upgraded(api: Api, backend: Backend, cluster: Cluster) -> None:
    register(api, backend)
    with upgraded(cluster, f"{backend.samples}/a/exec") as stream:
        head = [line.strip() for line in iter(stream.readline, b"\r\n")]
        assert head[0] == b"HTTP/1.1 101 Switching Protocols"
        assert {b"upgrade: echo", b"x-backend: a"} <= {line.lower() for line in head}
        assert stream.readline() == b"hello\n"
        for word in (b"one\n", b"two\n"):
            stream.write(word)
            stream.flush()
            assert stream.readline() == word.upper()
    (seen,) = backend.requests(f"{backend.samples}/a/exec")
    assert seen.headers["x-remote-group"]
    assert "authorization" not in seen.headers
    with upgraded(cluster, f"{backend.samples}/refuse/exec") as stream:
        assert stream.readline().startswith(b"HTTP/1.1 403 ")
