"""Controllers are upgraded from the oldest version to this one and back, while a job, its slices and a graph instance run.

The old version's wheel is built from its commit; its controllers run as a process on a twin of this version.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import urllib.request
import zipfile
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.packaging.test_wheel import build_wheel
from tests.real.processes import NotReady, Process, free_port
from tests.support.chainsaw import apply
from tests.support.clusters import TwinCluster, responds
from tests.support.jobsets import GROUP
from tests.support.polling import eventually
from tests.support.slices_controller import OFFERS, jobset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.http import Api

pytestmark = [pytest.mark.long(60), pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
OLD = "a48ccebb"  # version 0.1
SOURCES = ("src", "terraform", "deploy", "examples", "pyproject.toml", "README.md", "LICENSE")
PLACE = {"project": "my-project", "location": "us-central2", "name": "my-cluster"}
PATIENCE = 180.0
SECONDS = {"updateCluster": 0.2, "createNodePool": 0.2, "deleteNodePool": 0.2, "boot": 0.2}
DEFINITION: dict[str, Any] = {
    "apiVersion": "kro.run/v1alpha1",
    "kind": "ResourceGraphDefinition",
    "metadata": {"name": "crate"},
    "spec": {
        "schema": {"apiVersion": "v1alpha1", "kind": "Crate", "spec": {"value": "string"}},
        "resources": [
            {
                "id": "settings",
                "template": {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "${schema.metadata.name}"},
                    "data": {"value": "${schema.spec.value}"},
                },
            }
        ],
    },
}
INSTANCE = "/apis/kro.run/v1alpha1/namespaces/default/crates/one"
CHILD = "/api/v1/namespaces/default/configmaps/one"


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel of the old version."""
    folder = tmp_path_factory.mktemp("old")
    command = ["git", "archive", "--format=zip", OLD, *SOURCES]
    packed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        pytest.skip(f"commit {OLD} is not in this clone")
    with zipfile.ZipFile(BytesIO(packed.stdout)) as archive:
        archive.extractall(folder / "sources")
    with zipfile.ZipFile(build_wheel(folder / "sources", folder / "wheel")) as wheel:
        wheel.extractall(folder / "installed")
    shutil.rmtree(folder / "sources")
    return folder / "installed"


class Load:
    """The running job, slices and instance of a twin."""

    def __init__(self, twin: TwinCluster, folder: Path) -> None:
        self.twin, self.api, self.folder = twin, twin.api, folder
        state = orjson.loads((twin.kubeconfig.parent / "ready.json").read_bytes())
        self.cloud = f"{state['cloud']}/container"

    def create_cluster(self) -> None:
        """Create the cluster of the slices in the twin's cloud."""
        self.api.post("/debug/twin/cloud", {"set": {"container": {"clusters": [PLACE], **OFFERS, "seconds": SECONDS}}}).ok()
        # The old version creates node pools without automatic upgrades, which a release channel does not allow.
        none = {"channel": "UNSPECIFIED"}
        self._call_cloud("PUT", body={"update": {"desiredReleaseChannel": none}})
        eventually(lambda: self._call_cloud("GET").get("releaseChannel") in (none, None), PATIENCE, "the cluster has no channel")

    @contextmanager
    def controllers(self, name: str, package: Path) -> Iterator[Process]:
        """Run both controllers of a package until the block ends; SIGTERM ends them, as the kubelet does."""
        probes = free_port()
        command = (sys.executable, "-m", "sliceworks", "controller", "run", "graphs", "slices", "--leader-elect")
        flags = (
            "--metrics-bind-address=0",
            f"--health-probe-bind-address=127.0.0.1:{probes}",
            "--leader-election-namespace=default",
        )
        settings = {
            "PYTHONPATH": str(package),
            "KUBECONFIG": str(self.twin.kubeconfig),
            "GCP_PROJECT_ID": PLACE["project"],
            "GCP_CLUSTER_LOCATION": PLACE["location"],
            "GCP_CLUSTER": PLACE["name"],
            "GCP_ZONE": "us-central2-b",
            "GOOGLE_CONTAINER_CUSTOM_ENDPOINT": self.cloud,
            "GOOGLE_OAUTH_ACCESS_TOKEN": self.twin.token,
        }
        process = Process(
            name,
            (*command, *flags, f"--health-probe-bind-address=127.0.0.1:{probes}"),
            self.folder / f"{name}.log",
            env={**os.environ, **settings},
        )
        try:
            process.wait_until(lambda: responds(f"http://127.0.0.1:{probes}", "/readyz"))
            yield process
            os.kill(process.pid, signal.SIGTERM)
            eventually(lambda: not process.alive(), PATIENCE, f"{name} ends")
        finally:
            process.kill()

    def create_instance(self) -> None:
        """Define a kind of graph instances, and create one."""
        eventually(lambda: api_serves_graphs(self.api), PATIENCE, "the CRDs are established")
        apply(self.api, DEFINITION)
        eventually(lambda: self.api.get(INSTANCE.rpartition("/")[0]).status == 200, PATIENCE, "the kind is served")
        crate = {"apiVersion": "kro.run/v1alpha1", "kind": "Crate", "metadata": {"name": "one", "namespace": "default"}}
        apply(self.api, {**crate, "spec": {"value": "0"}})

    def set_value(self, value: str) -> None:
        """Change the instance, and wait until a controller has reconciled it."""
        self.api.patch(INSTANCE, {"spec": {"value": value}}).ok()
        eventually(lambda: self.value() == value, PATIENCE, f"the instance has value {value}")

    def value(self) -> str:
        return str((self.api.get(CHILD).json.get("data") or {}).get("value"))

    def run_job(self, name: str) -> None:
        """Create a JobSet for one slice, and wait until its pods run."""
        self.create_job(name)
        self.wait_for_job(name)

    def create_job(self, name: str) -> None:
        """Create a JobSet for one slice."""
        self.api.post(f"{GROUP}/namespaces/default/jobsets", jobset(name, 1, seconds=100_000)).ok(201)

    def wait_for_job(self, name: str) -> None:
        """Wait until the pods of a job run."""
        eventually(lambda: len(self.running(name)) == 2, PATIENCE, f"the pods of {name} run")

    def delete_job(self, name: str) -> None:
        """Delete a job, and wait until the controller has deleted its node pool."""
        [node] = {pod["spec"]["nodeName"] for pod in self.running(name)[:1]}
        pool = self.api.get(f"/api/v1/nodes/{node}").ok().json["metadata"]["labels"]["cloud.google.com/gke-nodepool"]
        self.api.delete(f"{GROUP}/namespaces/default/jobsets/{name}").ok()
        eventually(lambda: pool not in self.pools(), PATIENCE, f"the node pool of {name} is deleted")

    def start_slow_creation(self, name: str) -> None:
        """Create a job, and wait until its node pool is being created, which takes some seconds."""
        before = self.pools()
        self._set_seconds({**SECONDS, "createNodePool": 15.0})
        self.create_job(name)
        eventually(lambda: self.pools() > before, PATIENCE, f"the node pool of {name} is being created")
        self._set_seconds(SECONDS)

    def _set_seconds(self, seconds: dict[str, float]) -> None:
        self.api.post("/debug/twin/cloud", {"set": {"container": {"seconds": seconds}}}).ok()

    def running(self, name: str) -> list[Any]:
        query = {"labelSelector": f"jobset.sigs.k8s.io/jobset-name={name}"}
        pods = self.api.get("/api/v1/namespaces/default/pods", query=query).ok().json["items"]
        return [pod for pod in pods if pod["status"].get("phase") == "Running"]

    def identities(self, job: str = "first") -> dict[str, Any]:
        """What must not be recreated: instance, objects, CRDs, pods, nodes and the names of the node pools."""
        paths = (INSTANCE, CHILD, "/apis/kro.run/v1alpha1/resourcegraphdefinitions/crate")
        result = {path: self.api.get(path).ok().json["metadata"]["uid"] for path in paths}
        pods = self.running(job)
        result |= {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}
        for node in sorted({pod["spec"]["nodeName"] for pod in pods}):
            result[node] = self.api.get(f"/api/v1/nodes/{node}").ok().json["metadata"]["uid"]
        status = self.api.get(f"{GROUP}/namespaces/default/jobsets/{job}").ok().json.get("status") or {}
        return {**result, "restarts": status.get("restarts", 0), "ended": status.get("terminalState", "")}

    def pools(self) -> set[str]:
        return {pool["name"] for pool in self._call_cloud("GET", "/nodePools").get("nodePools", ())}

    def _call_cloud(self, method: str, path: str = "", body: Any = None) -> Any:
        url = f"{self.cloud}/v1/projects/{{project}}/locations/{{location}}/clusters/{{name}}{path}".format(**PLACE)
        headers = {"authorization": f"Bearer {self.twin.token}", "content-type": "application/json"}
        data = orjson.dumps(body) if body is not None else None
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=90) as response:
            return orjson.loads(response.read())


def test_upgrade_and_rollback_recreate_nothing(old: Path, tmp_path: Path) -> None:
    twin = TwinCluster(tmp_path, workloads=True)
    try:
        load = Load(twin, tmp_path)
        load.create_cluster()
        with load.controllers("old", old):
            load.create_instance()
            load.set_value("1")
            load.run_job("first")
            pools = load.pools()
            load.run_job("brief")
            load.start_slow_creation("pending")
        before = load.identities()
        assert len(pools) == 1
        assert len(before) == 9
        assert len(load.pools()) == 3
        with load.controllers("new", ROOT / "src"):
            load.set_value("2")
            load.wait_for_job("pending")
            assert len(load.pools()) == 3, "the pending node pool was created twice"
            load.delete_job("brief")
            load.run_job("second")
        assert load.identities() == before
        assert pools < load.pools()
        assert len(load.pools()) == 3
        with load.controllers("rollback", old):
            load.set_value("3")
            load.delete_job("second")
            load.run_job("third")
        assert load.identities() == before
        assert len(load.pools()) == 3
    finally:
        twin.stop()


def test_state_of_an_older_twin_is_migrated_and_of_a_newer_one_refused(old: Path, tmp_path: Path) -> None:
    objects = "/api/v1/namespaces/default/configmaps"
    with stored_twin(tmp_path, old) as twin:
        twin.api.post(objects, {"metadata": {"name": "kept"}, "data": {"a": "1"}}).ok(201)
    with stored_twin(tmp_path, ROOT / "src") as twin:
        assert twin.api.get(f"{objects}/kept").ok(200).json["data"] == {"a": "1"}
        twin.api.post(objects, {"metadata": {"name": "new"}}).ok(201)
    with pytest.raises(NotReady, match="is not a store of this version of Sliceworks"), stored_twin(tmp_path, old):
        pass
    with stored_twin(tmp_path, ROOT / "src") as twin:
        assert twin.api.get(f"{objects}/new").status == 200


def test_older_twin_keeps_its_jobs_slices_instances_and_time(old: Path, tmp_path: Path) -> None:
    fast = ("--speed", "60")
    with stored_twin(tmp_path, old, *fast) as twin:
        load = Load(twin, tmp_path)
        load.create_cluster()
        with load.controllers("old", old):
            load.create_instance()
            load.set_value("1")
            load.run_job("first")
        before, pools, last = load.identities(), load.pools(), create_configmap(twin.api, "before")
        assert len(pools) == 1
    with stored_twin(tmp_path, ROOT / "src", *fast) as twin:
        load = Load(twin, tmp_path)
        assert create_configmap(twin.api, "after") >= last, "time ran backwards"
        assert load.pools() == pools
        with load.controllers("new", ROOT / "src"):
            load.set_value("2")
            load.run_job("second")
        assert load.identities() == before
        assert pools < load.pools()


def create_configmap(api: Api, name: str) -> str:
    """Create a ConfigMap; returns its time."""
    created = api.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": name}}).ok(201)
    return str(created.json["metadata"]["creationTimestamp"])


@contextmanager
def stored_twin(folder: Path, package: Path, *options: str) -> Iterator[TwinCluster]:
    """A twin of a version, with its store on disk; SIGTERM stops it. It runs workloads if it has options."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(package)
    try:
        twin = TwinCluster(folder, memory=False, workloads=bool(options), without=None, options=options)
    finally:
        os.environ.pop("PYTHONPATH")
        os.environ.update({"PYTHONPATH": before} if before is not None else {})
    try:
        yield twin
        os.kill(twin.process.pid, signal.SIGTERM)
        eventually(lambda: not twin.process.alive(), PATIENCE, "the twin stops")
    finally:
        twin.stop()


def api_serves_graphs(api: Api) -> bool:
    return api.get("/apis/kro.run/v1alpha1/resourcegraphdefinitions").status == 200
