"""Autoscalers of model services and of the gateway, with the real HPA controller and the metrics of real engines.

The controller is kube-controller-manager, the metrics are those of a real Triton and a real JetStream. `metrics_adapter` takes the
place of managed Prometheus and Google's adapter.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import threading
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.heavy.metrics_adapter import Adapter, Monitoring
from tests.real import jetstream, triton
from tests.real.control_plane import ControlPlane
from tests.real.controllers import CONTROLLERS, WORKLOADS
from tests.support.http import Api
from tests.support.model_services import read
from tests.support.polling import eventually
from tests.support.workloads import WorkloadHarness

from sliceworks.kube import open_client
from sliceworks.serving import cluster
from sliceworks.serving import jetstream as jetstream_objects
from sliceworks.serving.rollout import Rollout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sliceworks.serving.service_status import AutoscalerStatus

Object = dict[str, Any]
pytestmark = pytest.mark.timeout(300)
QUICK = (
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--horizontal-pod-autoscaler-cpu-initialization-period=0s",
    "--horizontal-pod-autoscaler-initial-readiness-delay=0s",
)
TEXT = """\
apiVersion: sliceworks.dev/v1alpha1
kind: ModelService
metadata: {{name: held}}
spec:
  engine: triton
  {scaling}
  triton: {{repository: 'gs://bucket/models', models: [{{name: held}}]}}
  gateway: {{image: 'gateway:1', replicas: 2, maxReplicas: 4}}
"""
CONFIG = """\
name: "held"
backend: "python"
input [{ name: "A" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "B" data_type: TYPE_FP32 dims: [-1] }]
instance_group [{ kind: KIND_CPU, count: 1 }]
"""
HELD = """\
import os, time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        while os.path.exists({hold!r}):
            time.sleep(0.02)
        values = [pb_utils.get_input_tensor_by_name(each, "A").as_numpy() for each in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("B", each)]) for each in values]
"""
BACKLOG = """\
from jetstream.core.metrics.prometheus import JetstreamMetricsCollector
from prometheus_client import generate_latest
JetstreamMetricsCollector().get_prefill_backlog_metric().set(3)
print(generate_latest().decode())
"""
ASK = b'{"inputs": [{"name": "A", "datatype": "FP32", "shape": [1], "data": [1]}]}'


@dataclass
class Real:
    """The control plane as a contract cluster, and the metrics of its adapter."""

    api: Api
    plane: ControlPlane
    monitoring: Monitoring
    name: str = "real"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    with ControlPlane(tmp_path_factory.mktemp("plane"), controllers=(*CONTROLLERS, *WORKLOADS), flags=QUICK) as plane:
        api, monitoring = Api(plane.url, plane.authority, plane.token), Monitoring()
        adapter = Adapter(api, plane.certificates, monitoring)
        try:
            adapter.register(api)
            yield Real(api, plane, monitoring)
        finally:
            adapter.stop()
            api.close()


class Held:
    """One model service in its own namespace, whose pods are made ready."""

    def __init__(self, real: Real, ns: str) -> None:
        self.real, self.ns, self.workloads = real, ns, WorkloadHarness(real, ns)  # type: ignore[arg-type]  # a cluster without its other faces
        self.seen: list[int] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def deploy(self, scaling: str) -> None:
        async def work() -> None:
            async with open_client(self.real.plane.kubeconfig) as client:
                service = read(TEXT.format(scaling=scaling))
                created = Rollout(client, service, service.model_dump(by_alias=True, mode="json", exclude_unset=True), self.ns)
                await created.prepare()
                await created.apply(lambda _: None, 60)

        asyncio.run(work())

    def shown(self) -> dict[str, AutoscalerStatus]:
        """The autoscalers in the output of `models show`."""

        async def work() -> dict[str, AutoscalerStatus]:
            async with open_client(self.real.plane.kubeconfig) as client:
                seen = await cluster.describe(client, await cluster.get_record(client, "held", self.ns), self.ns)
                return {item.name: item for item in seen.autoscalers}

        return asyncio.run(work())

    def pods(self, component: str = "server") -> list[str]:
        result = self.workloads.items("Pod", f"app.kubernetes.io/component={component}")
        return [item["metadata"]["name"] for item in result if "deletionTimestamp" not in item["metadata"]]

    def autoscaler(self, name: str = "held") -> Object:
        path = f"/apis/autoscaling/v2/namespaces/{self.ns}/horizontalpodautoscalers/{name}"
        return self.real.api.get(path).ok().json  # type: ignore[no-any-return]

    def condition(self, kind: str, name: str = "held") -> Object:
        return next(
            (condition for condition in self.autoscaler(name)["status"].get("conditions") or () if condition["type"] == kind), {}
        )

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def _work(self) -> None:
        """A minimal kubelet that also records every number of replicas."""
        while not self._stop.wait(0.1):
            for pod in self.workloads.items("Pod"):
                if pod["status"].get("phase") == "Pending" and "deletionTimestamp" not in pod["metadata"]:
                    self.workloads.phase(pod, "Running", ready=True, startTime=pod["metadata"]["creationTimestamp"])
            for item in self.workloads.items("Deployment", "app.kubernetes.io/component=server"):
                if self.seen[-1:] != [item["spec"]["replicas"]]:
                    self.seen.append(item["spec"]["replicas"])


@pytest.fixture
def held(real: Real, request: pytest.FixtureRequest) -> Iterator[Held]:
    ns = re.sub("[^a-z]+", "-", request.node.name)[5:40].strip("-")
    real.api.post("/api/v1/namespaces", {"metadata": {"name": ns}}).ok(201)
    result = Held(real, ns)
    try:
        yield result
    finally:
        result.stop()


@contextmanager
def queue(folder: Path, url: str, count: int) -> Iterator[None]:
    """Queue this many requests for a model that does not answer before the block ends."""

    def ask() -> None:
        request = urllib.request.Request(f"{url}/v2/models/held/infer", ASK, {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=120).read()

    (folder / "hold").touch()
    callers = [threading.Thread(target=ask) for _ in range(count)]
    try:
        for caller in callers:
            caller.start()
        yield
    finally:
        (folder / "hold").unlink()
        for item in callers:
            item.join(60)


@contextmanager
def collecting(held: Held, port: int) -> Iterator[None]:
    """Collect the metrics of the real server for the oldest pod; the other pods have the first, idle values."""
    stop, idle = threading.Event(), scraped(port)

    def work() -> None:
        while not stop.wait(0.3):
            for number, pod in enumerate(held.pods()):
                held.real.monitoring.collect(held.ns, pod, idle if number else scraped(port))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)


def scraped(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
        return str(response.read().decode())


@contextmanager
def real_triton(folder: Path) -> Iterator[triton.Triton]:
    model = folder / "models" / "held"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(CONFIG)
    (model / "1" / "model.py").write_text(HELD.format(hold=str(folder / "hold")))
    with triton.running(folder / "models", folder / "triton.log") as server:
        yield server


def test_replicas_follow_the_queue_of_a_real_triton(held: Held, tmp_path: Path) -> None:
    with real_triton(tmp_path) as server:
        held.deploy("autoscaling: {min: 1, max: 3}")
        with collecting(held, server.metrics):
            # 1. Idle: the metric is found, and one replica is enough.
            eventually(lambda: held.condition("ScalingActive").get("reason") == "ValidMetricFound", 60, "a metric")
            assert held.autoscaler()["status"]["currentReplicas"] == 1
            # 2. 24 requests are pending, 10 per replica are desired.
            with queue(tmp_path, server.url, 25):
                eventually(lambda: len(held.pods()) == 3, 60, "three servers")
                [current] = eventually(lambda: held.autoscaler()["status"].get("currentMetrics"), 10, "a number")
                assert current["pods"]["metric"]["name"] == "prometheus.googleapis.com|nv_inference_pending_request_count|gauge"
                eventually(lambda: held.autoscaler()["status"]["currentMetrics"][0]["pods"]["current"] == {"averageValue": "8"}, 30)
                shown = held.shown()["held"]
                assert (shown.replicas, shown.state) == ("3 of 1–3", "8 of 10 nv_inference_pending_request_count")
            # 3. The queue is empty: no replica is removed within five minutes.
            eventually(lambda: held.condition("AbleToScale").get("reason") == "ScaleDownStabilized", 30, "patience")
            assert len(held.pods()) == 3
            # 4. With a shorter stabilization window, replicas are removed one by one down to one.
            behavior = {
                "scaleDown": {"stabilizationWindowSeconds": 8, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 4}]}
            }
            path = f"/apis/autoscaling/v2/namespaces/{held.ns}/horizontalpodautoscalers/held"
            held.real.api.patch(path, {"spec": {"behavior": behavior}}).ok()
            eventually(lambda: len(held.pods()) == 1, 60, "one server")
    assert held.seen == [1, 3, 2, 1]


def test_new_autoscaler_keeps_existing_replicas(held: Held) -> None:
    held.deploy("replicas: 3")
    eventually(lambda: len(held.pods()) == 3, 30, "three servers")
    held.deploy("autoscaling: {min: 2, max: 4}")
    eventually(lambda: held.condition("AbleToScale"), 30, "a reconcile of the controller")
    assert held.seen == [3]
    held.deploy("replicas: 2")
    eventually(lambda: len(held.pods()) == 2, 30, "two servers")


def test_missing_metric_keeps_replicas_and_is_reported(held: Held) -> None:
    held.deploy("autoscaling: {min: 1, max: 3, metric: nv_inference_count}")  # a counter, as Triton has it
    eventually(lambda: held.condition("ScalingActive").get("status") == "False", 60, "a refusal")
    shown = held.shown()["held"]
    assert shown.state == "fails"
    assert shown.cause
    assert 'could not find the descriptor for metric "prometheus.googleapis.com/nv_inference_count/gauge"' in shown.cause.message
    assert shown.cause.hint.startswith("check that a custom metrics adapter is installed")
    assert len(held.pods()) == 1


def test_restarted_service_has_min_replicas(held: Held) -> None:
    held.deploy("autoscaling: {min: 2, max: 3}")
    eventually(lambda: len(held.pods()) == 2, 60, "two servers")
    held.deploy("replicas: 0\n  autoscaling: {min: 2, max: 3}")
    eventually(lambda: not held.pods(), 60, "no server")
    held.deploy("autoscaling: {min: 2, max: 3}")
    eventually(lambda: len(held.pods()) == 2, 60, "two servers again")


def test_gateway_scales_with_its_load(held: Held) -> None:
    held.deploy("replicas: 1")
    eventually(lambda: len(held.pods("gateway")) == 2, 60, "the least")

    def busy() -> bool:
        for pod in held.pods("gateway"):
            held.real.monitoring.cpu[held.ns, pod] = 0.95
        return len(held.pods("gateway")) == 4

    eventually(busy, 60, "the most: 95% of a core where 70% are wanted")
    eventually(lambda: held.shown()["gateway"].state == "95% of 70% cpu", 30, "the shown status")


def test_metric_of_a_real_jetstream_is_found() -> None:
    done = subprocess.run([jetstream.python(), "-c", BACKLOG], capture_output=True, text=True, check=True, timeout=60)
    monitoring = Monitoring()
    monitoring.collect("models", "gemma-0", done.stdout)
    assert monitoring.value(f"prometheus.googleapis.com/{jetstream_objects.METRIC}/gauge", "models", "gemma-0") == 3
