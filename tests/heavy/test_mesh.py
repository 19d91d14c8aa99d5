"""Istio acts on what we render: a real istiod on a real API server, Envoy as its gateway, `models deploy` as people call it."""

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
from tests.heavy.mesh_door import CALL, INFER, Door
from tests.heavy.mesh_world import INGRESS, PLACE, World
from tests.real import certificates, triton
from tests.support.waiting import eventually

from sliceworks.base import yamls

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
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("mesh")) as made:
        yield made


@pytest.fixture
def door(world: World) -> Door:
    """Istio's own gateway, with the example behind it as it is written."""
    assert world.deploy(EXAMPLE) == 0
    [proxy] = world.running({"istio": "internal-ingressgateway"})
    found = Door(proxy, HOST)
    eventually(found.leads_to_both, 60)
    return found


def servers(world: World, track: str) -> list[ModelServer]:
    found: list[ModelServer] = world.running({SERVICE: NAME, TRACK: track})
    return found


def weighing(weight: int) -> str:
    return EXAMPLE.replace("weight: 10", f"weight: {weight}")


def is_track(track: str) -> Callable[[Object], bool]:
    return lambda pod: pod["metadata"]["labels"].get(TRACK) == track


def test_requests_are_split_as_written_by_http_and_grpc(door: Door) -> None:
    assert door.ask(host="elsewhere.example.com")[0] == 404
    for seen in (door.many(1000), door.call(1000)):
        assert seen.keys() == {"stable", "canary"}
        assert 60 <= seen["canary"] <= 145, seen  # a tenth; four standard deviations


def test_nobody_outside_changes_a_server(door: Door) -> None:
    for path in (
        "/v2/repository/models/densenet_onnx/unload",
        "/v2/systemsharedmemory/region/a/register",
        "/v2/logging",
        "/metrics",
    ):
        assert door.ask(path)[0] == 404, path
    for path in ("/v2", "/v2/health/ready", "/v2/repository/index", "/v2/models/a/versions/1/infer"):
        assert door.ask(path)[0] == 200, path
    assert door.call(1, CALL.replace("ModelInfer", "RepositoryModelUnload")) == {"UNIMPLEMENTED": 1}
    assert door.call(1, CALL.replace("ModelInfer", "ServerLive")).keys() <= {"stable", "canary"}


def test_a_long_answer_is_not_cut_off(door: Door) -> None:
    began = time.monotonic()
    status, text = door.ask("/v2/models/a/generate_stream?chunks=5&every=4")
    assert (status, text.count("data: ")) == (200, 5)
    assert time.monotonic() - began > 18  # Envoy left to itself ends a request after 15 s
    assert door.ask("/v2/models/a/infer?every=18")[0] == 200


def test_what_a_server_has_begun_is_not_repeated(world: World, door: Door) -> None:
    everybody = servers(world, "stable") + servers(world, "canary")

    def asked(**told: Any) -> int:
        for each in everybody:
            each.seen.clear()
            vars(each).update(told)
        try:
            door.call() if "code" in told else door.ask(f"{INFER}?chunks=2&every=0.1" if told.get("hang_up") == "after" else INFER)
        except http.client.IncompleteRead:
            assert told["hang_up"] == "after"
        for each in everybody:
            each.hang_up, each.status, each.code = "", 200, grpc.StatusCode.OK
        return sum(len(each.seen) for each in everybody)

    assert asked(hang_up="before") == 1
    assert asked(hang_up="after") == 1
    assert asked(status=503) == 1
    assert asked(code=grpc.StatusCode.CANCELLED) == 1
    assert asked(code=grpc.StatusCode.UNAVAILABLE) == 3


def test_a_failing_server_is_left_alone_but_never_the_only_one(world: World, door: Door) -> None:
    [canary], [bad, good] = servers(world, "canary"), servers(world, "stable")
    canary.status = 500
    assert door.many(200)["503"] == 0
    canary.status = 200
    assert door.many(100)["canary"] > 0
    bad.status = 500
    bad.seen.clear()
    good.seen.clear()
    seen = door.many(200)
    bad.status = 200
    assert seen["500"] == len(bad.seen) == 5
    assert len(good.seen) > 100


def test_a_new_version_comes_out_and_no_request_is_lost(world: World, door: Door) -> None:
    assert world.deploy(ALONE) == 0
    with door.load() as seen:
        world.kubelet.loading = is_track("canary")
        deployed = world.deploy_later(EXAMPLE)
        eventually(lambda: servers(world, "canary"))
        seen.clear()
        eventually(lambda: seen["stable"] > 100, 60)
        assert seen.keys() == {"stable"}  # as long as nobody is there to answer
        world.kubelet.loading = lambda _: False
        assert deployed() == 0
        eventually(lambda: seen["canary"] > 0)
        assert world.deploy(weighing(100)) == 0
        eventually(lambda: door.many(20).keys() == {"canary"})
        newest = "engine: triton\n  image: nvcr.io/nvidia/tritonserver:25.09-py3\n"
        old = {each.address for each in servers(world, "stable")}
        assert world.deploy(weighing(100).replace("engine: triton\n", newest)) == 0
        assert not old & {each.address for each in servers(world, "stable")}
        assert world.deploy(ALONE.replace("engine: triton\n", newest)) == 0
        eventually(lambda: door.many(20).keys() == {"stable"})
    assert seen.keys() == {"stable", "canary"}, seen


def test_a_server_that_leaves_finishes_its_answers(world: World, door: Door) -> None:
    leaving = servers(world, "stable")[0]
    answers: list[tuple[int, str]] = []
    streams = [
        threading.Thread(target=lambda: answers.append(door.ask("/v2/models/a/generate_stream?chunks=5&every=1"))) for _ in range(6)
    ]
    world.kubelet.lingering = lambda _: any(each.is_alive() for each in streams)
    for each in streams:
        each.start()
    eventually(lambda: leaving.seen)
    world.delete_pod(leaving.address)
    time.sleep(1)  # for endpoints to be told
    leaving.seen.clear()
    assert door.many(100).keys() == {"stable", "canary"}
    assert leaving.seen == []
    for each in streams:
        each.join()
    world.kubelet.lingering = lambda _: False
    assert [(status, text.count("data: ")) for status, text in answers] == [(200, 5)] * 6
    assert "503" not in door.many(50)


def test_a_gateway_with_keys_asks_for_them_and_its_errors_are_not_held_against_it(world: World) -> None:
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    front = f"  gateway: {{name: keyed, image: 'g:1', keys: [{{name: me, sha256: {digest}}}]}}\n  route:\n"
    host = "keyed.example.com"
    text = ALONE.replace("  route:\n", front).replace(HOST, host).replace(NAME, "keyed-model")
    assert world.deploy(text) == 0
    [proxy] = world.running({"istio": "internal-ingressgateway"})
    door, named = Door(proxy, host), b"\x0a\x0ddensenet_onnx"
    eventually(lambda: door.ask(key=KEY) == (200, "stable"), 60)
    assert (door.ask()[0], door.ask(key="another")[0]) == (401, 401)
    assert door.call(body=named) == {"UNAUTHENTICATED": 1}
    assert door.call(body=named, key=KEY) == {"stable": 1}
    models: list[ModelServer] = world.running({SERVICE: "keyed-model", TRACK: "stable"})
    for each in models:
        each.status = 500
    assert {door.ask(key=KEY)[0] for _ in range(12)} <= {500, 502, 503}
    for each in models:
        each.status = 200
    assert door.proxy.counter("keyed", "outlier_detection.ejections_detected_consecutive_5xx") == 0
    eventually(lambda: door.ask(key=KEY)[0] == 200, 60)


def test_the_certificate_is_one_of_istios_own_namespace(world: World, door: Door, tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    parts = {"tls.crt": made.serving, "tls.key": made.serving_key}
    data = {name: base64.b64encode(file.read_bytes()).decode() for name, file in parts.items()}
    secret = {"metadata": {"name": "certificate"}, "type": "kubernetes.io/tls", "data": data}
    world.api.post(f"/api/v1/namespaces/{PLACE}/secrets", secret).ok(201)
    assert world.deploy(EXAMPLE.replace("    via: istio\n", "    via: istio\n    tls: certificate\n")) == 0
    trusting = ssl.create_default_context(cafile=str(made.authority))
    trusting.check_hostname = False

    def status() -> int:
        line = http.client.HTTPConnection(HOST)
        try:
            plain = socket.create_connection((door.proxy.address, 8443), timeout=5)
            line.sock = trusting.wrap_socket(plain, server_hostname=HOST)
            line.request("GET", "/v2", headers={"Host": HOST})
            return line.getresponse().status
        except OSError:
            return 0
        finally:
            line.close()

    time.sleep(2)
    assert status() == 0  # the service's own namespace is not where it is looked for
    world.api.post(f"/api/v1/namespaces/{INGRESS}/secrets", secret).ok(201)
    eventually(lambda: status() == 200, 60)
    try:
        in_the_clear = door.ask()[0]
    except ConnectionRefusedError:
        in_the_clear = 0
    assert in_the_clear in (0, 404)  # nobody listens, or only for others


def test_istio_acts_on_the_gateway_api_too_and_stays_inside(world: World) -> None:
    host = "api.internal.example.com"
    text = EXAMPLE.replace("via: istio", "via: gateway-api\n    class: istio").replace(HOST, host).replace(NAME, "by-api")
    assert world.deploy(re.sub(r"    selector: .*\n", "", text)) == 0
    made = eventually(lambda: world.running({"gateway.networking.k8s.io/gateway-name": "by-api"}))
    balancer = world.api.get(f"/api/v1/namespaces/{PLACE}/services/by-api-istio").ok().json
    assert balancer["spec"]["type"] == "LoadBalancer"
    assert balancer["metadata"]["annotations"]["networking.gke.io/load-balancer-type"] == "Internal"
    door = Door(made[0], host, port=80)
    eventually(door.leads_to_both, 60)
    for seen in (door.many(1000), door.call(1000)):
        assert seen.keys() == {"stable", "canary"}
        assert 60 <= seen["canary"] <= 145, seen
    assert door.ask("/v2/repository/models/densenet_onnx/unload")[0] == 404
    assert door.call(1, CALL.replace("ModelInfer", "RepositoryModelUnload")) == {"UNIMPLEMENTED": 1}


def test_istio_itself_judges_what_is_deployed(world: World, door: Door) -> None:
    path = f"/apis/networking.istio.io/v1/namespaces/{PLACE}/virtualservices/{NAME}"
    rule = world.api.get(path).ok().json["spec"]["http"][0]
    for share in rule["route"]:
        share["weight"] = 0
    refused = world.api.patch(path, {"spec": {"http": [rule]}})
    assert refused.status == 400
    assert "rev.validation.istio.io" in refused.message
    assert door.many(20).keys() <= {"stable", "canary"}


def test_a_real_triton_serves_its_own_clients_through_it(world: World, door: Door, tmp_path: Path) -> None:
    interpreter = triton.python()
    server = triton.home(interpreter.parents[1])
    spec = {
        "engine": "triton",
        "replicas": 1,
        "command": [str(server / "bin" / "tritonserver")],
        "args": [
            f"--backend-directory={server / 'backends'}",
            *(f"--{each}-address=$(POD_IP)" for each in ("http", "grpc", "metrics")),
            "--allow-gpu-metrics=false",
            "--http-thread-count=2",
        ],
        "env": {
            "LD_LIBRARY_PATH": str(sysconfig.get_config_var("LIBDIR")),
            "PATH": f"{interpreter.parent}{os.pathsep}{os.environ['PATH']}",
        },
        "triton": {"repository": str(triton.repository(tmp_path / "models")), "models": [{"name": "add"}, {"name": "speak"}]},
        "route": {"via": "istio", "hosts": [door.proxy.address], "selector": {"istio": "internal-ingressgateway"}},
    }
    metadata = {"name": "real", "namespace": PLACE}
    document = {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "ModelService", "metadata": metadata, "spec": spec}
    assert world.deploy(yamls.dump(document)) == 0
    real = Door(door.proxy, door.proxy.address)
    eventually(lambda: real.ask("/v2/models/add/ready")[0] != 404)
    address = f"{door.proxy.address}:{door.port}"
    script = Path(triton.__file__).with_name("triton_client.py")
    done = subprocess.run([interpreter, script, address, address, ""], capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout == "ok\n", done.stderr
    assert real.ask("/v2/repository/models/add/unload")[0] == 404
