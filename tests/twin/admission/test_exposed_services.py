"""Services that lead to addresses outside of a twin."""

from __future__ import annotations

import base64
import socket
import sys
from typing import TYPE_CHECKING

import pytest
from tests.support.certificates import self_signed
from tests.support.clusters import TwinCluster
from tests.support.objects import config_map
from tests.support.polling import eventually
from tests.support.webhooks import installed, patch, serve, webhook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.http import Api


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    twin = TwinCluster(tmp_path_factory.mktemp("twin"))
    try:
        yield twin.api
    finally:
        twin.stop()


def test_exposed_service_is_called(api: Api, tmp_path: Path) -> None:
    ns = "default"
    body = {"namespace": ns, "service": "hook"}
    with serve(tmp_path, name=f"hook.{ns}.svc") as server:
        server.paths["label"] = patch({"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}})
        api.post("/debug/twin/exposed", {**body, "address": f"127.0.0.1:{server.port}"}).ok()
        client = {**server.client("label"), "service": {"namespace": ns, "name": "hook", "path": "/label"}}
        del client["url"]
        with installed(api, server, "Mutating", ns, webhook("label", client, ns)):
            created = api.post("/api/v1/namespaces/default/configmaps", config_map("a")).ok(201).json
            assert created["metadata"]["labels"] == {"seen": "yes"}
            remaining = api.request("DELETE", "/debug/twin/exposed", body).ok().json["items"]
            assert ns not in [item["namespace"] for item in remaining]
            api.request("DELETE", "/debug/twin/exposed", body).refused(404, "NotFound", f"service {ns}/hook is not exposed")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, 'expected a body such as {"namespace": "default", "service": "hook", "address": "127.0.0.1:9443"}'),
        ({"namespace": "a", "service": "b"}, "address: '' is not valid: expected HOST:PORT"),
        ({"namespace": "a", "service": "b", "address": "host:70000"}, "address: 'host:70000' is not valid: expected HOST:PORT"),
    ],
)
def test_bad_exposed_service_is_rejected(api: Api, body: dict[str, str], message: str) -> None:
    api.post("/debug/twin/exposed", body).refused(400, "BadRequest", message)


SERVER = """
import http.server, json, os, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        response = {"uid": request["uid"], "allowed": request["name"] != "bad", "status": {"message": "from a pod"}}
        body = json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer((os.environ["POD_IP"], 8443), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


def test_webhook_in_a_pod_is_called(tmp_path: Path) -> None:
    pair = self_signed("hook.default.svc")
    files = {"server.py": SERVER.encode(), "tls.crt": pair.certificate, "tls.key": pair.key}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    amounts = {"cpu": "8", "memory": "8Gi", "pods": "10"}
    labels = {"sliceworks.dev/node": "simulated"}
    container = {
        "name": "hook",
        "image": "example.com/hook",
        "command": [sys.executable, *(str(tmp_path / name) for name in files)],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1},
    }
    pod = {"metadata": {"name": "hook", "labels": {"app": "hook"}}, "spec": {"containers": [container]}}
    service = {"selector": {"app": "hook"}, "ports": [{"port": 443, "targetPort": 8443}]}
    client = {"service": {"namespace": "default", "name": "hook"}, "caBundle": base64.b64encode(pair.certificate).decode()}
    (tmp_path / "twin").mkdir()
    twin = TwinCluster(tmp_path / "twin", workloads=True, options=("--processes",))
    try:
        api, core = twin.api, "/api/v1/namespaces/default"
        status = {"capacity": amounts, "allocatable": amounts}
        api.post("/api/v1/nodes", {"metadata": {"name": "n", "labels": labels}, "status": status}).ok(201)
        api.post(f"{core}/services", {"metadata": {"name": "hook"}, "spec": service}).ok(201)
        configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        api.post(configurations, {"metadata": {"name": "hook"}, "webhooks": [webhook("hook", client, "default")]}).ok(201)
        early = api.post(f"{core}/configmaps", config_map("early")).refused(500, "InternalError")
        assert early.message.endswith('no endpoints available for service "hook"')
        eventually(lambda: api.post(f"{core}/pods", pod).status == 201, what="the default service account exists")
        eventually(lambda: api.post(f"{core}/configmaps", config_map("good")).status == 201, what="the pod is ready")
        denied = 'admission webhook "hook.example.com" denied the request: from a pod'
        api.post(f"{core}/configmaps", config_map("bad")).refused(400, "", denied)
    finally:
        # A killed twin would leave the process of the pod behind.
        pod_ip = twin.api.get("/api/v1/namespaces/default/pods/hook").json.get("status", {}).get("podIP")
        twin.api.delete("/api/v1/namespaces/default/pods/hook", {"gracePeriodSeconds": 0})
        eventually(lambda: not (pod_ip and accepts(pod_ip)), what="the process of the pod ended")
        twin.stop()


def accepts(address: str) -> bool:
    try:
        with socket.create_connection((address, 8443), timeout=5):
            return True
    except OSError:
        return False
