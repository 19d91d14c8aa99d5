"""Istio with our manifests: a real istiod on a real API server, Envoy as its gateway, and `models deploy`."""

from __future__ import annotations

import base64
import hashlib
import http.client
import os
import re
import socket
import ssl
import subprocess
import sysconfig
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from tests.heavy.mesh_client import CALL, INFER, EnvoyClient
from tests.heavy.mesh_cluster import INGRESS, PLACE, Mesh
from tests.real import certificates, triton
from tests.support.polling import eventually

from sliceworks.base import yaml_documents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.heavy.mesh_servers import ModelServer

Object = dict[str, Any]
pytestmark = pytest.mark.timeout(1800)  # the first run builds istiod
EXAMPLE = (Path(__file__).parents[2] / "examples/models/densenet-triton-mesh.yaml").read_text()
NAME, HOST, KEY = "densenet-mesh", "densenet.internal.example.com", "sk-of-a-test"
ALONE = re.sub(r"  canary:\n(    .*\n)+", "", EXAMPLE)
TRACK, SERVICE = "sliceworks.dev/track", "sliceworks.dev/model-service"


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    with Mesh(tmp_path_factory.mktemp("mesh")) as created:
        yield created


@pytest.fixture
def envoy(mesh: Mesh) -> EnvoyClient:
    """Istio's gateway with the example behind it."""
    assert mesh.deploy(EXAMPLE) == 0
    [proxy] = mesh.running({"istio": "internal-ingressgateway"})
    result = EnvoyClient(proxy, HOST)
    eventually(result.leads_to_both, 60)
    return result


def servers(mesh: Mesh, track: str) -> list[ModelServer]:
    result: list[ModelServer] = mesh.running({SERVICE: NAME, TRACK: track})
    return result


def weighing(weight: int) -> str:
    return EXAMPLE.replace("weight: 10", f"weight: {weight}")


def is_track(track: str) -> Callable[[Object], bool]:
    return lambda pod: pod["metadata"]["labels"].get(TRACK) == track


def test_traffic_split_by_http_and_grpc(envoy: EnvoyClient) -> None:
    assert envoy.send(host="elsewhere.example.com")[0] == 404
    for seen in (envoy.many(1000), envoy.call(1000)):
        assert seen.keys() == {"stable", "canary"}
        assert 60 <= seen["canary"] <= 145, seen  # a tenth, within four standard deviations


def test_management_paths_are_not_routed(envoy: EnvoyClient) -> None:
    for path in (
        "/v2/repository/models/densenet_onnx/unload",
        "/v2/systemsharedmemory/region/a/register",
        "/v2/logging",
        "/metrics",
    ):
        assert envoy.send(path)[0] == 404, path
    for path in ("/v2", "/v2/health/ready", "/v2/repository/index", "/v2/models/a/versions/1/infer"):
        assert envoy.send(path)[0] == 200, path
    assert envoy.call(1, CALL.replace("ModelInfer", "RepositoryModelUnload")) == {"UNIMPLEMENTED": 1}
    assert envoy.call(1, CALL.replace("ModelInfer", "ServerLive")).keys() <= {"stable", "canary"}


def test_long_response_is_not_cut_off(envoy: EnvoyClient) -> None:
    started = time.monotonic()
    status, text = envoy.send("/v2/models/a/generate_stream?chunks=5&every=4")
    assert (status, text.count("data: ")) == (200, 5)
    assert time.monotonic() - started > 18  # Envoy's default timeout is 15 s
    assert envoy.send("/v2/models/a/infer?every=18")[0] == 200


def test_started_request_is_not_retried(mesh: Mesh, envoy: EnvoyClient) -> None:
    everybody = servers(mesh, "stable") + servers(mesh, "canary")

    def attempts_with(**told: Any) -> int:
        for item in everybody:
            item.seen.clear()
            vars(item).update(told)
        try:
            envoy.call() if "code" in told else envoy.send(
                f"{INFER}?chunks=2&every=0.1" if told.get("hang_up") == "after" else INFER
            )
        except http.client.IncompleteRead:
            assert told["hang_up"] == "after"
        for item in everybody:
            item.hang_up, item.status, item.code = "", 200, grpc.StatusCode.OK
        return sum(len(item.seen) for item in everybody)

    assert attempts_with(hang_up="before") == 1
    assert attempts_with(hang_up="after") == 1
    assert attempts_with(status=503) == 1
    assert attempts_with(code=grpc.StatusCode.CANCELLED) == 1
    assert attempts_with(code=grpc.StatusCode.UNAVAILABLE) == 3


def test_failing_server_is_ejected_unless_it_is_the_only_one(mesh: Mesh, envoy: EnvoyClient) -> None:
    [canary], [bad, good] = servers(mesh, "canary"), servers(mesh, "stable")
    canary.status = 500
    assert envoy.many(200)["503"] == 0
    canary.status = 200
    assert envoy.many(100)["canary"] > 0
    bad.status = 500
    bad.seen.clear()
    good.seen.clear()
    seen = envoy.many(200)
    bad.status = 200
    assert seen["500"] == len(bad.seen) == 5
    assert len(good.seen) > 100


def test_rollout_loses_no_request(mesh: Mesh, envoy: EnvoyClient) -> None:
    assert mesh.deploy(ALONE) == 0
    with envoy.load() as seen:
        mesh.kubelet.loading = is_track("canary")
        deployed = mesh.deploy_later(EXAMPLE)
        eventually(lambda: servers(mesh, "canary"))
        seen.clear()
        eventually(lambda: seen["stable"] > 100, 60)
        assert seen.keys() == {"stable"}  # while no server answers
        mesh.kubelet.loading = lambda _: False
        assert deployed() == 0
        eventually(lambda: seen["canary"] > 0)
        assert mesh.deploy(weighing(100)) == 0
        eventually(lambda: envoy.many(20).keys() == {"canary"})
        newest = "engine: triton\n  image: nvcr.io/nvidia/tritonserver:25.09-py3\n"
        old = {server.address for server in servers(mesh, "stable")}
        assert mesh.deploy(weighing(100).replace("engine: triton\n", newest)) == 0
        assert not old & {server.address for server in servers(mesh, "stable")}
        assert mesh.deploy(ALONE.replace("engine: triton\n", newest)) == 0
        eventually(lambda: envoy.many(20).keys() == {"stable"})
    assert seen.keys() == {"stable", "canary"}, seen


def test_terminating_server_finishes_responses(mesh: Mesh, envoy: EnvoyClient) -> None:
    leaving = servers(mesh, "stable")[0]
    answers: list[tuple[int, str]] = []
    streams = [
        threading.Thread(target=lambda: answers.append(envoy.send("/v2/models/a/generate_stream?chunks=5&every=1")))
        for _ in range(6)
    ]
    mesh.kubelet.lingering = lambda _: any(stream.is_alive() for stream in streams)
    for stream in streams:
        stream.start()
    eventually(lambda: leaving.seen)
    mesh.delete_pod(leaving.address)
    time.sleep(1)  # for endpoints to be updated
    leaving.seen.clear()
    assert envoy.many(100).keys() == {"stable", "canary"}
    assert leaving.seen == []
    for item in streams:
        item.join()
    mesh.kubelet.lingering = lambda _: False
    assert [(status, text.count("data: ")) for status, text in answers] == [(200, 5)] * 6
    assert "503" not in envoy.many(50)


def test_gateway_with_keys_is_not_ejected_for_401(mesh: Mesh) -> None:
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    front = f"  gateway: {{name: keyed, image: 'g:1', keys: [{{name: me, sha256: {digest}}}]}}\n  route:\n"
    host = "keyed.example.com"
    text = ALONE.replace("  route:\n", front).replace(HOST, host).replace(NAME, "keyed-model")
    assert mesh.deploy(text) == 0
    [proxy] = mesh.running({"istio": "internal-ingressgateway"})
    envoy, named = EnvoyClient(proxy, host), b"\x0a\x0ddensenet_onnx"
    eventually(lambda: envoy.send(key=KEY) == (200, "stable"), 60)
    assert (envoy.send()[0], envoy.send(key="another")[0]) == (401, 401)
    assert envoy.call(body=named) == {"UNAUTHENTICATED": 1}
    assert envoy.call(body=named, key=KEY) == {"stable": 1}
    models: list[ModelServer] = mesh.running({SERVICE: "keyed-model", TRACK: "stable"})
    for model in models:
        model.status = 500
    assert {envoy.send(key=KEY)[0] for _ in range(12)} <= {500, 502, 503}
    for item in models:
        item.status = 200
    assert envoy.proxy.counter("keyed", "outlier_detection.ejections_detected_consecutive_5xx") == 0
    eventually(lambda: envoy.send(key=KEY)[0] == 200, 60)


def test_certificate_is_in_istios_namespace(mesh: Mesh, envoy: EnvoyClient, tmp_path: Path) -> None:
    created = certificates.make(tmp_path)
    parts = {"tls.crt": created.serving, "tls.key": created.serving_key}
    data = {name: base64.b64encode(file.read_bytes()).decode() for name, file in parts.items()}
    secret = {"metadata": {"name": "certificate"}, "type": "kubernetes.io/tls", "data": data}
    mesh.api.post(f"/api/v1/namespaces/{PLACE}/secrets", secret).ok(201)
    assert mesh.deploy(EXAMPLE.replace("    via: istio\n", "    via: istio\n    tls: certificate\n")) == 0
    trusting = ssl.create_default_context(cafile=str(created.authority))
    trusting.check_hostname = False

    def status() -> int:
        line = http.client.HTTPConnection(HOST)
        try:
            plain = socket.create_connection((envoy.proxy.address, 8443), timeout=5)
            line.sock = trusting.wrap_socket(plain, server_hostname=HOST)
            line.request("GET", "/v2", headers={"Host": HOST})
            return line.getresponse().status
        except OSError:
            return 0
        finally:
            line.close()

    time.sleep(2)
    assert status() == 0  # the certificate is not read from the service's namespace
    mesh.api.post(f"/api/v1/namespaces/{INGRESS}/secrets", secret).ok(201)
    eventually(lambda: status() == 200, 60)
    try:
        in_the_clear = envoy.send()[0]
    except ConnectionRefusedError:
        in_the_clear = 0
    assert in_the_clear in (0, 404)  # no listener, or only for other hosts


def test_gateway_api_route_stays_internal(mesh: Mesh) -> None:
    host = "api.internal.example.com"
    text = EXAMPLE.replace("via: istio", "via: gateway-api\n    class: istio").replace(HOST, host).replace(NAME, "by-api")
    assert mesh.deploy(re.sub(r"    selector: .*\n", "", text)) == 0
    created = eventually(lambda: mesh.running({"gateway.networking.k8s.io/gateway-name": "by-api"}))
    balancer = mesh.api.get(f"/api/v1/namespaces/{PLACE}/services/by-api-istio").ok().json
    assert balancer["spec"]["type"] == "LoadBalancer"
    assert balancer["metadata"]["annotations"]["networking.gke.io/load-balancer-type"] == "Internal"
    envoy = EnvoyClient(created[0], host, port=80)
    eventually(envoy.leads_to_both, 60)
    for seen in (envoy.many(1000), envoy.call(1000)):
        assert seen.keys() == {"stable", "canary"}
        assert 60 <= seen["canary"] <= 145, seen
    assert envoy.send("/v2/repository/models/densenet_onnx/unload")[0] == 404
    assert envoy.call(1, CALL.replace("ModelInfer", "RepositoryModelUnload")) == {"UNIMPLEMENTED": 1}


def test_istio_validates_manifests(mesh: Mesh, envoy: EnvoyClient) -> None:
    path = f"/apis/networking.istio.io/v1/namespaces/{PLACE}/virtualservices/{NAME}"
    rule = mesh.api.get(path).ok().json["spec"]["http"][0]
    for share in rule["route"]:
        share["weight"] = 0
    refused = mesh.api.patch(path, {"spec": {"http": [rule]}})
    assert refused.status == 400
    assert "rev.validation.istio.io" in refused.message
    assert envoy.many(20).keys() <= {"stable", "canary"}


def test_real_triton_serves_its_clients_through_istio(mesh: Mesh, envoy: EnvoyClient, tmp_path: Path) -> None:
    interpreter = triton.python()
    server = triton.home(interpreter.parents[1])
    spec = {
        "engine": "triton",
        "replicas": 1,
        "command": [str(server / "bin" / "tritonserver")],
        "args": [
            f"--backend-directory={server / 'backends'}",
            *(f"--{item}-address=$(POD_IP)" for item in ("http", "grpc", "metrics")),
            "--allow-gpu-metrics=false",
            "--http-thread-count=2",
        ],
        "env": {
            "LD_LIBRARY_PATH": str(sysconfig.get_config_var("LIBDIR")),
            "PATH": f"{interpreter.parent}{os.pathsep}{os.environ['PATH']}",
        },
        "triton": {"repository": str(triton.repository(tmp_path / "models")), "models": [{"name": "add"}, {"name": "speak"}]},
        "route": {"via": "istio", "hosts": [envoy.proxy.address], "selector": {"istio": "internal-ingressgateway"}},
    }
    metadata = {"name": "real", "namespace": PLACE}
    document = {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "ModelService", "metadata": metadata, "spec": spec}
    assert mesh.deploy(yaml_documents.dump(document)) == 0
    real = EnvoyClient(envoy.proxy, envoy.proxy.address)
    eventually(lambda: real.send("/v2/models/add/ready")[0] != 404)
    address = f"{envoy.proxy.address}:{envoy.port}"
    script = Path(triton.__file__).with_name("triton_client.py")
    done = subprocess.run([interpreter, script, address, address, ""], capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout == "ok\n", done.stderr
    assert real.send("/v2/repository/models/add/unload")[0] == 404
