"""The twin's nodes on a real control plane, as in the conformance suite: pods run, and kube-apiserver reaches their kubelets."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from typing import TYPE_CHECKING

import pytest
from tests.conformance.cluster import running_control_plane
from tests.real.build import build
from tests.real.programs import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.timeout(1800),  # the first run builds the programs
    pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root"),
]
PROXY = "/api/v1/namespaces/default/{}/proxy/hostname"


class Kubectl:
    """kubectl with a kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        self.command = (str(build(PROGRAMS["kubectl"])), f"--kubeconfig={kubeconfig}")

    def __call__(self, *words: str, text: str = "", status: int = 0) -> str:
        """Run a command that ends with this status; returns what it prints."""
        command = [*self.command, *words]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == status, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """A cluster with a web server as a Deployment with a Service."""
    folder = tmp_path_factory.mktemp("real-nodes")
    agnhost = {"image": "agnhost", "files": {"/agnhost": str(build(PROGRAMS["agnhost"]))}, "entrypoint": ["/agnhost"]}
    document = {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "ImageMap", "metadata": {"name": "images"}}
    images = folder / "images.yaml"
    images.write_text(json.dumps({**document, "spec": {"images": [agnhost]}}))
    with running_control_plane(folder / "real", images) as kubeconfig:
        run = Kubectl(kubeconfig)
        run("create", "deployment", "web", "--image=agnhost", "--", "/agnhost", "netexec", "--http-port=8080")
        run("expose", "deployment", "web", "--port=80", "--target-port=8080")
        run("wait", "deployment/web", "--for=condition=Available", "--timeout=180s")
        yield run


@pytest.fixture(scope="module")
def pod(kubectl: Kubectl) -> str:
    return kubectl("get", "pods", "-o", "name").strip().removeprefix("pod/")


def test_logs_and_exec(kubectl: Kubectl, pod: str) -> None:
    assert "Started HTTP server" in kubectl("logs", pod)
    assert kubectl("exec", pod, "--", "sh", "-c", "echo output; exit 3", status=3) == "output\n"
    assert kubectl("exec", "-i", pod, "--", "cat", text="some input") == "some input"


def test_pods_and_services_are_reached(kubectl: Kubectl, pod: str) -> None:
    assert kubectl("get", "--raw", PROXY.format(f"pods/{pod}:8080")) == pod
    assert kubectl("get", "--raw", PROXY.format("services/web:80")) == pod
    address = kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
    assert _read(f"http://{address}/hostname") == pod


def test_ports_are_forwarded(kubectl: Kubectl, pod: str) -> None:
    command = [*kubectl.command, "port-forward", pod, ":8080"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forward:
        try:
            assert forward.stdout is not None
            address = forward.stdout.readline().split()[2]  # Forwarding from 127.0.0.1:PORT -> 8080
            assert _read(f"http://{address}/hostname") == pod
        finally:
            forward.kill()


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as response:
        return str(response.read().decode())
