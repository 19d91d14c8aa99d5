"""The commands that `sliceworks doctor` prints repair: a problem is caused, its command is run in a shell, the problem is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.real.build import build
from tests.real.programs import PROGRAMS
from tests.support.clusters import real_enabled
from tests.support.deployments import DEPLOY, is_terminating
from tests.support.helm import CHART, TAKE_OVER, Helm
from tests.support.kubectl import Kubectl, program
from tests.support.polling import eventually

from sliceworks import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster

pytestmark = [
    pytest.mark.real,
    pytest.mark.long(60),
    pytest.mark.skipif(not real_enabled(), reason="needs Helm built from its Go module: SLICEWORKS_REAL=1"),
]
SPACES = ("kro-system", "tpu-provisioner-system")
RELEASE = ("mine", str(CHART), "--namespace=doctor-releases", "--create-namespace", "--set=image.registry=registry.example")
DEFINITION: dict[str, Any] = {
    "apiVersion": "kro.run/v1alpha1",
    "kind": "ResourceGraphDefinition",
    "metadata": {"name": "pouch"},
    "spec": {
        "schema": {"apiVersion": "v1alpha1", "kind": "Pouch", "spec": {}},
        "resources": [{"id": "map", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}}],
    },
}
WEBHOOK = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "left-behind"},
    "webhooks": [
        {
            "name": "checks.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]}],
            "clientConfig": {"service": {"namespace": "default", "name": "nowhere"}},
        }
    ],
}


@dataclass(frozen=True)
class Doctor:
    """`sliceworks doctor` for a cluster, and a shell in the folder of its chart, with Helm, kubectl and Sliceworks in the PATH."""

    cluster: Cluster
    folder: Path

    def problems(self) -> dict[str, dict[str, str]]:
        """The problems that it reports, by area and name."""
        command = (sys.executable, "-m", "sliceworks", "doctor", "-o", "json")
        done = subprocess.run(command, env=self._environment(), capture_output=True, text=True, check=False)
        checks = json.loads(done.stdout)
        return {f"{check['area']}/{check['name']}": check for check in checks if check["state"] in ("warning", "error")}

    def repair(self, name: str) -> str:
        """Run the command for a problem; returns its message."""
        problem = self.problems()[name]
        command = problem["repair"].replace("FOLDER", str(DEPLOY / "controllers"))
        if "--force-conflicts" not in TAKE_OVER:  # Helm 3, as the comment says
            command = command.replace(" --force-conflicts ", " ") if command.startswith("helm ") else command
        done = subprocess.run(
            ("bash", "-euo", "pipefail", "-c", command),
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return problem["message"]

    def _environment(self) -> dict[str, str]:
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        helm = {f"HELM_{name}_HOME": str(self.folder / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        return {**os.environ, **helm, "PATH": path, "HOME": str(self.folder), "KUBECONFIG": str(self.cluster.kubeconfig)}


@pytest.fixture
def helm(cluster: Cluster, tmp_path: Path) -> Helm:
    return Helm(tmp_path, cluster.kubeconfig)


@pytest.fixture
def kubectl(cluster: Cluster, tmp_path: Path) -> Kubectl:
    return Kubectl(cluster.kubeconfig, "", tmp_path)


@pytest.fixture
def doctor(cluster: Cluster, helm: Helm, tmp_path: Path) -> Iterator[Doctor]:
    """A cluster without Sliceworks, and a folder with the packaged chart and its values."""
    (tmp_path / "bin").mkdir()
    programs = {"helm": build(PROGRAMS["helm"]), "kubectl": program(), "sliceworks": Path(sys.executable).with_name("sliceworks")}
    for name, path in programs.items():
        (tmp_path / "bin" / name).symlink_to(path)
    helm("package", str(CHART), f"--destination={tmp_path}")
    (tmp_path / "values.yaml").write_text("image: {registry: registry.example}\n")
    wait_until_removed(cluster)
    try:
        yield Doctor(cluster, tmp_path)
    finally:
        helm.attempt("uninstall", "mine", "--namespace=doctor-releases", "--ignore-not-found")
        Kubectl(cluster.kubeconfig, "", tmp_path)("delete", "--ignore-not-found", "-k", str(DEPLOY / "controllers"))


def wait_until_removed(cluster: Cluster) -> None:
    eventually(lambda: not any(is_terminating(cluster.api, name) for name in SPACES), what="no namespace is being deleted")


def test_drift_of_a_release_is_repaired(doctor: Doctor, helm: Helm, kubectl: Kubectl) -> None:
    helm("install", *RELEASE, *TAKE_OVER)
    kubectl("patch", "clusterrole", "tpu-provisioner-manager-role", "--type=merge", "--patch", '{"rules": []}').ok()
    assert "cannot get pods" in doctor.repair("rights/slices")
    assert "rights/slices" not in doctor.problems()

    crd = "graphrevisions.internal.kro.run"
    kubectl("delete", "crd", crd).ok()
    assert doctor.repair(f"crds/{crd}") == "not installed"
    eventually(lambda: f"crds/{crd}" not in doctor.problems(), what="the CRD is established")
    change = '[{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": "changed"}]'
    kubectl("patch", "crd", crd, "--type=json", "--patch", change).ok()
    assert doctor.repair(f"crds/{crd}") == f"its schema is not that of version {__version__}"
    assert f"crds/{crd}" not in doctor.problems()

    kubectl("--namespace=kro-system", "scale", "deployment", "kro", "--replicas=0").ok()
    assert doctor.repair("controllers/graphs").startswith("0 of 0 replicas available")
    replicas = ("get", "deployment", "kro", "--namespace=kro-system", "--output=jsonpath={.spec.replicas}")
    assert kubectl(*replicas).ok() == "2"

    kubectl("create", "--filename=-", text=yaml.dump(WEBHOOK)).ok()
    assert doctor.repair("webhooks/default/nowhere").startswith("Service default/nowhere does not exist")
    assert "webhooks/default/nowhere" not in doctor.problems()


def interrupt(doctor: Doctor, helm: Helm, *command: str) -> None:
    """Kill Helm while it waits for pods, which never become ready on a cluster without nodes."""
    environment = {**os.environ, "KUBECONFIG": str(doctor.cluster.kubeconfig), "HELM_CACHE_HOME": str(helm.folder / "cache")}
    program = str(build(PROGRAMS["helm"]))
    with subprocess.Popen([program, *command, "--wait", "--timeout=5m"], env=environment) as process:
        try:
            eventually(lambda: "releases/mine" in doctor.problems(), 60, "the operation is pending")
        finally:
            process.kill()


def status(helm: Helm) -> tuple[int, str]:
    """The newest revision of the release and its status."""
    [release] = json.loads(helm("history", "mine", "--namespace=doctor-releases", "--max=1", "--output=json"))
    return release["revision"], release["status"]


def test_interrupted_and_failed_operations_are_ended(doctor: Doctor, helm: Helm) -> None:
    interrupt(doctor, helm, "install", *RELEASE, *TAKE_OVER)
    assert doctor.repair("releases/mine") == "revision 1 is pending-install: an interrupted operation blocks Helm"
    assert status(helm) == (1, "deployed")

    failed = helm.attempt("upgrade", *RELEASE, "--set=image.tag=missing", "--wait", "--timeout=2s")
    assert failed.returncode != 0
    interrupt(doctor, helm, "upgrade", *RELEASE, "--set=image.tag=slow")
    assert doctor.repair("releases/mine").startswith("revision 3 is pending-upgrade")
    assert status(helm) == (4, "deployed")
    assert "missing" not in helm("get", "manifest", "mine", "--namespace=doctor-releases")

    assert helm.attempt("upgrade", *RELEASE, "--set=image.tag=missing", "--wait", "--timeout=2s").returncode != 0
    assert doctor.repair("releases/mine") == "revision 5 is failed"
    assert status(helm) == (6, "deployed")

    helm("uninstall", "mine", "--namespace=doctor-releases", "--wait")
    wait_until_removed(doctor.cluster)
    assert helm.attempt("install", *RELEASE, *TAKE_OVER, "--wait", "--timeout=2s").returncode != 0
    assert doctor.repair("releases/mine") == "revision 1 is failed"
    assert status(helm) == (2, "deployed")


def test_installation_with_kubectl_is_repaired(doctor: Doctor, helm: Helm, kubectl: Kubectl) -> None:
    kubectl("apply", "--server-side", "--force-conflicts", "-k", str(DEPLOY / "controllers")).ok()
    kubectl("patch", "clusterrole", "tpu-provisioner-manager-role", "--type=merge", "--patch", '{"rules": []}').ok()
    assert "cannot get pods" in doctor.repair("rights/slices")
    assert "rights/slices" not in doctor.problems()

    for item in yaml.safe_load_all((CHART / "definitions.yaml").read_text()):
        kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", text=yaml.dump(item)).ok()
    eventually(lambda: kubectl("apply", "--server-side", "--filename=-", text=yaml.dump(DEFINITION)).code == 0)
    conditions = [{"type": "GraphAccepted", "status": "True"}, {"type": "Ready", "status": "False", "message": "timed out"}]
    state = json.dumps({"status": {"state": "Inactive", "conditions": conditions}})
    kubectl("patch", "rgd", "pouch", "--subresource=status", "--type=merge", "--patch", state).ok()
    try:
        assert "kro-system/kro cannot get configmaps" in doctor.repair("graphs/pouch")
        # kube-controller-manager aggregates the role.
        eventually(
            lambda: doctor.problems()["graphs/pouch"]["message"] == "the definition is not active: timed out",
            what="the controller has the permissions",
        )
    finally:
        kubectl("delete", "rgd", "pouch").ok()
        kubectl("delete", "clusterrole", "kro:controller:pouch", "--ignore-not-found").ok()

    kubectl("delete", "deployment", "kro", "--namespace=kro-system").ok()
    assert doctor.repair("leftovers/kro:controller") == "a ClusterRole without a controller"
    assert "leftovers/kro:controller" not in doctor.problems()
