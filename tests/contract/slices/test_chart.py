"""The chart on a real control plane, its pods as processes: slices, graph instances, a gateway that answers, and Prometheus.

An upgrade and a rollback while a job runs recreate nothing. `pytest -s` prints the time of the installation and how long each
component was without a leader or a ready gateway.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import orjson
import pytest
import yaml
from tests.packaging.test_monitoring import DASHBOARDS, RULES, expressions, metric_names
from tests.packaging.test_upgrade import CHILD, DEFINITION, INSTANCE
from tests.real import prometheus
from tests.real.processes import free_port
from tests.support.chainsaw import apply
from tests.support.clusters import RealCluster, TwinCluster, real_enabled, responds
from tests.support.echo_server import run_echo_server
from tests.support.helm import CHART, Helm
from tests.support.jobset_install import install
from tests.support.jobsets import GROUP
from tests.support.polling import eventually
from tests.support.simulated_nodes import make_node
from tests.support.slices_controller import CLUSTER, LOCATION, OFFERS, PROJECT, ZONE, jobset

from sliceworks.base import clock
from sliceworks.base.conditions import is_condition_true
from sliceworks.kube.https import open_client
from sliceworks.twin.apiserver.http_server import Limits, Server
from sliceworks.twin.cloud.backends import create_cloud
from sliceworks.twin.nodes.runtime.process_runtime import ProcessRuntime
from sliceworks.twin.nodes.simulator import NodeSimulator
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.http import Api

pytestmark = [
    pytest.mark.real,
    pytest.mark.long(60),
    pytest.mark.timeout(600),
    pytest.mark.skipif(not real_enabled(), reason="needs Helm built from its Go module: SLICEWORKS_REAL=1"),
]
TOKEN, SECONDS = "token-of-the-cloud", {"createNodePool": 0.2, "boot": 0.2, "deleteNodePool": 0.2}
PATIENCE = 180.0
_SUFFIX = re.compile(r"_(bucket|sum|count)$")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LEASES = {"graphs": ("kro-system", "controller.kro.run"), "slices": ("tpu-provisioner-system", "ecaf1259.google.com")}
LEASE_SECONDS = 15
DEPLOYMENTS = (("kro-system", "kro"), ("tpu-provisioner-system", "tpu-provisioner-controller-manager"), ("models", "gateway"))


@pytest.fixture
def real(tmp_path: Path) -> Iterator[RealCluster]:
    """A real control plane with JobSet."""
    running = RealCluster(tmp_path / "real", workloads=True)
    try:
        install(running).set()
        yield running
    finally:
        running.stop()


class Machines:
    """A cloud on loopback whose machines are nodes of a cluster, and nodes that run pods as processes."""

    def __init__(self, cluster: RealCluster, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        self._ready, self._failed = threading.Event(), list[BaseException]()
        self._over: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self.cloud_url = ""

    @contextmanager
    def run(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run, name="machines")
        thread.start()
        assert self._ready.wait(60), "the nodes did not start"
        assert not self._failed, self._failed
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._over.set)
            thread.join(60)

    def _run(self) -> None:
        try:
            clock.run(self._main())
        except BaseException as error:
            self._failed.append(error)
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(open_client(self._cluster.kubeconfig))
            runtime = ProcessRuntime(client, self._folder)
            await runtime.open()
            stack.push_async_callback(runtime.close)
            runtime.set_api_address(self._cluster.url, self._cluster.authority.read_bytes())
            await stack.enter_async_context(NodeSimulator(client, runtime=runtime))
            cloud = await stack.enter_async_context(create_cloud(Store(), client, TOKEN))
            names = {"project": PROJECT, "location": LOCATION, "name": CLUSTER}
            cloud.services["container"].configure({"clusters": [names], "seconds": SECONDS, **OFFERS})
            server = Server(cloud.serve, Limits())
            self.cloud_url = f"http://127.0.0.1:{await server.start('127.0.0.1', 0, None)}"
            stack.push_async_callback(server.stop)
            self._ready.set()
            await self._over.wait()
        await clock.sleep(0.3)  # TLS connections take a while to close


def values(cloud: str, token: str, backend: str) -> dict[str, Any]:
    """Values for this cluster. Pods share the machine, so each listens on its own address instead of all of them."""
    listen = "--metrics-bind-address=0.0.0.0:{}", "--health-probe-bind-address=0.0.0.0:{}"
    settings = {
        "GCP_PROJECT_ID": PROJECT,
        "GCP_CLUSTER_LOCATION": LOCATION,
        "GCP_CLUSTER": CLUSTER,
        "GCP_ZONE": ZONE,
        "GOOGLE_CONTAINER_CUSTOM_ENDPOINT": f"{cloud}/container",
        "GOOGLE_OAUTH_ACCESS_TOKEN": token,
    }
    small = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    models = [{"name": "echo", "backends": [{"kind": "echo", "url": backend}]}]
    admin = {"host": "0.0.0.0", "key": {"env": "ADMIN_KEY"}, "publicMetrics": True}
    return {
        "image": {"registry": "registry.example"},
        "graphs": {"args": [listen[0].format(8078), listen[1].format(8079)], "resources": small},
        "slices": {"args": [listen[0].format(8080), listen[1].format(8081)], "resources": small, "settings": settings},
        "gateway": {"enabled": True, "resources": small, "spec": {"anonymous": True, "admin": admin, "models": models}},
    }


def ready_pods(api: Api, namespace: str) -> list[str]:
    """The addresses of the ready pods of a namespace; pods that are being deleted get no traffic."""
    pods = api.get(f"/api/v1/namespaces/{namespace}/pods").ok(200).json["items"]
    serving = [pod for pod in pods if is_condition_true(pod, "Ready") and not pod["metadata"].get("deletionTimestamp")]
    return [pod["status"]["podIP"] for pod in serving]


def wait_for_pods(api: Api, *namespaces: str) -> None:
    eventually(
        lambda: all(len(ready_pods(api, name)) == 2 for name in namespaces), PATIENCE, "two pods of each component are ready"
    )


def completed(api: Api, name: str) -> bool:
    return is_condition_true(api.get(f"{GROUP}/namespaces/default/jobsets/{name}").ok(200).json, "Completed")


def rights(folder: Path) -> str:
    """The ClusterRole that the graphs controller needs for the definition."""
    file = folder / "definition.yaml"
    file.write_text(yaml.dump(DEFINITION))
    command = (sys.executable, "-m", "sliceworks", "graph", "rights", str(file))
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def ask(address: str) -> str:
    """The answer of the gateway at this address."""
    body = {"model": "echo", "messages": [{"role": "user", "content": "anyone there?"}]}
    request = urllib.request.Request(
        f"http://{address}:8080/v1/chat/completions", orjson.dumps(body), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return str(orjson.loads(response.read())["choices"][0]["message"]["content"])


class Downtime:
    """Measures, while a block runs, for how long a Lease had no holder and whether ready pods of the gateway answered."""

    def __init__(self, api: Api) -> None:
        self._api, self._over = api, threading.Event()
        self.leaders: dict[str, list[tuple[float, str]]] = {name: [] for name in LEASES}
        self.answers, self.failures = 0, list[str]()

    @contextmanager
    def measure(self) -> Iterator[None]:
        threads = [threading.Thread(target=work) for work in (self._watch_leases, self._call_gateway)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join(60)

    def _watch_leases(self) -> None:
        while not self._over.wait(0.02):
            for name, (namespace, lease) in LEASES.items():
                spec = self._api.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{lease}").ok(200).json["spec"]
                self.leaders[name].append((time.monotonic(), str(spec.get("holderIdentity") or "")))

    def _call_gateway(self) -> None:
        while not self._over.wait(0.1):
            # A request to a pod that ends in this instant is repeated: these nodes do not run the preStop hook.
            errors: list[str] = []
            while len(errors) < 3:
                addresses = ready_pods(self._api, "models")
                try:
                    ask(addresses[self.answers % max(len(addresses), 1)])
                except (OSError, IndexError) as error:
                    errors.append(repr(error))
                else:
                    self.answers += 1
                    break
            else:
                self.failures += errors

    def without_leader(self, name: str) -> float:
        """The longest time in seconds in which no replica held the Lease."""
        longest, since = 0.0, None
        for moment, holder in self.leaders[name]:
            since = (since or moment) if not holder else None
            longest = max(longest, moment - since) if since else longest
        return longest

    def has_new_leader(self, name: str) -> bool:
        """Whether the Lease passed to another replica."""
        return len({holder for _, holder in self.leaders[name] if holder}) > 1


def is_rolled_out(api: Api, namespace: str, name: str) -> bool:
    deployment = api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}").ok(200).json
    status, replicas = deployment.get("status") or {}, deployment["spec"]["replicas"]
    observed = status.get("observedGeneration") == deployment["metadata"]["generation"]
    counts = [status.get(field, 0) for field in ("replicas", "updatedReplicas", "availableReplicas")]
    return observed and counts == [replicas] * 3


def wait_for_rollout(api: Api) -> None:
    eventually(lambda: all(is_rolled_out(api, *names) for names in DEPLOYMENTS), PATIENCE, "all Deployments are rolled out")


def pods_of(api: Api, job: str) -> list[Any]:
    query = {"labelSelector": f"jobset.sigs.k8s.io/jobset-name={job}"}
    pods: list[Any] = api.get("/api/v1/namespaces/default/pods", query=query).ok(200).json["items"]
    return pods


def count_running(api: Api, job: str) -> int:
    return sum(pod["status"]["phase"] == "Running" for pod in pods_of(api, job))


def identities(api: Api, job: str) -> dict[str, Any]:
    """What an upgrade must not recreate: the instance, its object, the job, its pods and their nodes."""
    pods = pods_of(api, job)
    nodes = [f"/api/v1/nodes/{pod['spec']['nodeName']}" for pod in pods]
    paths = (CHILD, INSTANCE, f"{GROUP}/namespaces/default/jobsets/{job}", *nodes)
    uids = {path: api.get(path).ok(200).json["metadata"]["uid"] for path in paths}
    return uids | {pod["metadata"]["name"]: (pod["metadata"]["uid"], pod["status"]["phase"]) for pod in pods}


def change_release(api: Api, helm: Helm, *command: str) -> None:
    """Upgrade or roll back while a job runs, and check that nothing is recreated and that both controllers work afterwards."""
    before, downtime = identities(api, "runs"), Downtime(api)
    with downtime.measure():
        helm(*command)
        wait_for_rollout(api)
        eventually(lambda: all(downtime.has_new_leader(name) for name in LEASES), PATIENCE, "other replicas lead")
        api.patch(INSTANCE, {"spec": {"value": command[0]}}).ok()
        eventually(lambda: api.get(CHILD).json.get("data") == {"value": command[0]}, PATIENCE, "the instance is reconciled")
        api.post(f"{GROUP}/namespaces/default/jobsets", jobset(command[0], 1, seconds=1)).ok(201)
        eventually(lambda: completed(api, command[0]), PATIENCE, "a new job got a slice")
    seconds = {name: round(downtime.without_leader(name), 2) for name in LEASES}
    print(
        f"{command[0]}: seconds without a leader {seconds}; gateway: {downtime.answers} answers, {len(downtime.failures)} failures"
    )
    assert identities(api, "runs") == before
    # A leader that ends releases its Lease; otherwise the next one waits until the Lease expires.
    assert max(seconds.values()) < LEASE_SECONDS
    assert downtime.answers > 0
    assert not downtime.failures, downtime.failures


def check_doctor(real: RealCluster) -> None:
    """`sliceworks doctor` finds no errors of the installation."""
    command = (sys.executable, "-m", "sliceworks", "doctor", "--kubeconfig", str(real.kubeconfig), "-o", "json")
    checks = orjson.loads(subprocess.run(command, capture_output=True, check=False).stdout)
    areas = ("crds", "controllers", "rights", "graphs")
    assert {check["area"] for check in checks} >= set(areas)
    assert [check for check in checks if check["area"] in areas and check["state"] in ("warning", "error")] == []


def check_monitoring(targets: list[str], folder: Path) -> None:
    """Prometheus scrapes the pods: every alert and panel can be queried, and all of their metrics are exposed."""
    scrapes = [{"job_name": "sliceworks", "static_configs": [{"targets": targets}]}]
    (folder / "prometheus.yaml").write_text(yaml.dump({"global": {"scrape_interval": "1s"}, "scrape_configs": scrapes}))
    url = f"http://127.0.0.1:{free_port()}"
    flags = ("--config.file=prometheus.yaml", "--storage.tsdb.path=series", f"--web.listen-address={url.removeprefix('http://')}")
    command = (str(prometheus.program("prometheus")), *flags)

    def query(path: str, **parameters: str) -> Any:
        with urllib.request.urlopen(f"{url}/api/v1/{path}?{urlencode(parameters)}", timeout=30) as response:
            return orjson.loads(response.read())["data"]

    def are_scraped() -> bool:
        result = query("targets")["activeTargets"]
        errors = [
            f"{target['scrapeUrl']}: {target['health']} {target['lastError']}" for target in result if target["health"] != "up"
        ]
        assert not errors, errors
        return len(result) == len(targets)

    with (folder / "prometheus.log").open("wb") as log, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process:
        try:
            eventually(lambda: responds(url, "/-/ready"), PATIENCE, "Prometheus is ready")
            eventually(are_scraped, PATIENCE, "all pods are scraped")
            exposed = query("metadata").keys()
            for file in (file for file in (*RULES, *DASHBOARDS) if file.stem not in ("queues", "triton")):
                for expression in expressions(file):
                    query("query", query=expression)
                    names = {_SUFFIX.sub("", name) for name in metric_names(expression)}
                    assert {name for name in names if name not in exposed and name.removesuffix("_total") not in exposed} == set()
        finally:
            process.terminate()


def test_tests_of_the_chart_pass(tmp_path: Path) -> None:
    """`helm test` on a twin that runs pods as processes: Services have addresses there, so the pod of the test can call them."""
    twin = TwinCluster(tmp_path, workloads=True, options=("--processes",))
    api, helm = twin.api, Helm(tmp_path / "helm", twin.kubeconfig)
    try:
        names = {"project": PROJECT, "location": LOCATION, "name": CLUSTER}
        api.post("/debug/twin/cloud", {"set": {"container": {"clusters": [names], **OFFERS}}}).ok()
        cloud = orjson.loads((twin.kubeconfig.parent / "ready.json").read_bytes())["cloud"]
        name = make_node(twin, "gke-cpu")["metadata"]["name"]
        api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"iam.gke.io/gke-metadata-server-enabled": "true"}}}).ok()
        api.post("/api/v1/namespaces", {"metadata": {"name": "models"}}).ok(201)
        secret = {"metadata": {"name": "gateway-admin"}, "stringData": {"key": "admin"}}
        api.post("/api/v1/namespaces/models/secrets", secret).ok(201)
        with run_echo_server() as backend:
            file = tmp_path / "values.yaml"
            file.write_text(yaml.dump(values(cloud, twin.token, backend)))
            helm("install", "sliceworks", str(CHART), "--namespace=default", f"--values={file}", "--take-ownership")
            wait_for_pods(api, "kro-system", "tpu-provisioner-system", "models")
            assert "Phase:          Succeeded" in helm("test", "sliceworks", "--namespace=default", "--timeout=2m")
            api.delete("/api/v1/namespaces/models/services/gateway").ok()
            failed = helm.attempt("test", "sliceworks", "--namespace=default", "--timeout=2m")
            assert failed.returncode == 1
            assert "sliceworks-test failed" in failed.stderr
    finally:
        os.kill(twin.process.pid, signal.SIGTERM)  # ends the processes of the pods too
        eventually(lambda: not twin.process.alive(), PATIENCE, "the twin stops")
        twin.stop()


def test_installed_chart_works(real: RealCluster, tmp_path: Path) -> None:
    api, helm, machines = real.api, Helm(tmp_path / "helm", real.kubeconfig), Machines(real, tmp_path / "pods")
    with machines.run(), run_echo_server() as backend:
        name = make_node(real, "gke-cpu")["metadata"]["name"]
        api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"iam.gke.io/gke-metadata-server-enabled": "true"}}}).ok()
        file = tmp_path / "values.yaml"
        file.write_text(yaml.dump(values(machines.cloud_url, TOKEN, backend)))
        api.post("/api/v1/namespaces", {"metadata": {"name": "models"}}).ok(201)
        api.post("/api/v1/namespaces/models/secrets", {"metadata": {"name": "gateway-admin"}, "stringData": {"key": "admin"}}).ok(
            201
        )
        chart, started = ("sliceworks", str(CHART), "--namespace=default", f"--values={file}"), time.monotonic()
        helm("install", *chart, "--take-ownership")
        try:
            wait_for_pods(api, "kro-system", "tpu-provisioner-system", "models")
            print(f"install: all pods ready after {time.monotonic() - started:.1f} s")
            for role in yaml.safe_load_all(rights(tmp_path)):
                api.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", role).ok(201)
            apply(api, DEFINITION)
            eventually(lambda: api.get(f"{CRDS}/crates.kro.run").status == 200, PATIENCE, "the kind is served")
            instance = {"apiVersion": "kro.run/v1alpha1", "kind": "Crate", "metadata": {"name": "one"}, "spec": {"value": "a"}}
            eventually(lambda: api.post("/apis/kro.run/v1alpha1/namespaces/default/crates", instance).status == 201, PATIENCE)
            eventually(lambda: api.get(CHILD).json.get("data") == {"value": "a"}, PATIENCE, "the instance has its ConfigMap")
            api.post(f"{GROUP}/namespaces/default/jobsets", jobset("waits", 1, seconds=1)).ok(201)
            eventually(lambda: completed(api, "waits"), PATIENCE, "the job ran on the slice that was created for it")
            assert all("anyone there?" in ask(address) for address in ready_pods(api, "models"))
            ports = {"kro-system": 8078, "tpu-provisioner-system": 8080, "models": 8081}
            check_monitoring([f"{address}:{port}" for name, port in ports.items() for address in ready_pods(api, name)], tmp_path)
            check_doctor(real)
            api.post(f"{GROUP}/namespaces/default/jobsets", jobset("runs", 1, seconds=100_000)).ok(201)
            eventually(lambda: count_running(api, "runs") == 2, PATIENCE, "the job runs")
            annotations = [f"--set={name}.podAnnotations.release=second" for name in ("graphs", "slices", "gateway")]
            change_release(api, helm, "upgrade", *chart, *annotations)
            change_release(api, helm, "rollback", "sliceworks", "1", "--namespace=default")
        finally:
            helm.attempt("uninstall", "sliceworks", "--namespace=default", "--wait")
        namespaces = ("/api/v1/namespaces/kro-system", "/api/v1/namespaces/tpu-provisioner-system")
        eventually(lambda: all(api.get(path).status == 404 for path in namespaces), PATIENCE, "the namespaces are deleted")
        # What the user created in the gateway's namespace stays.
        assert api.get("/api/v1/namespaces/models/secrets/gateway-admin").status == 200
        assert api.get("/api/v1/namespaces/models/services").ok(200).json["items"] == []
