"""Real controllers beside an API server, as processes on free loopback ports.

Nothing is installed, and only the folder with the logs outlives `stop()`. The enabled controllers and the flags of each program are
data below; more programs (JobSet, Kueue, …) are started with `Controllers.run`.
"""

from __future__ import annotations

import ssl
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Self

from tests.real import certificates
from tests.real.build import build
from tests.real.processes import Process, free_port
from tests.real.programs import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "validatingadmissionpolicy-status-controller",
)
"""The controllers of kube-controller-manager that every cluster needs."""
WORKLOADS = (
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "ephemeral-volume-controller",
    "horizontal-pod-autoscaler-controller",
    "job-controller",
    "node-lifecycle-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-expander-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
)


class Controllers:
    """Programs that use the API server of `kubeconfig` and `authority`; `certificates` are those of their own servers."""

    def __init__(self, folder: Path, kubeconfig: Path, authority: Path | None = None) -> None:
        """Without an `authority` the API server has a certificate of `certificates` too."""
        self.folder, self.kubeconfig = folder, kubeconfig
        self.certificates = certificates.make(folder / "certificates")
        self.authority = authority or self.certificates.authority
        self.processes: dict[str, Process] = {}
        self._tls = ssl.create_default_context(cafile=str(self.certificates.authority))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run(self, name: str, *arguments: str, env: Mapping[str, str] | None = None) -> Process:
        """Start another program; `stop()` stops it too."""
        process = Process(name, (str(build(PROGRAMS[name])), *arguments), self.folder / f"{name}.log", env=env)
        self.processes[name] = process
        return process

    def stop(self) -> None:
        """Stop everything, the newest first."""
        for process in reversed(self.processes.values()):
            process.kill()
        self.processes.clear()

    def start_controllers(self, controllers: Sequence[str], *flags: str) -> None:
        """Start kube-controller-manager with these controllers and additional flags."""
        port = free_port()
        manager = self.run(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--authentication-kubeconfig={self.kubeconfig}",
            f"--authorization-kubeconfig={self.kubeconfig}",
            f"--root-ca-file={self.authority}",
            f"--controllers={','.join(controllers)}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={self.certificates.serving}",
            f"--tls-private-key-file={self.certificates.serving_key}",
            *flags,
        )
        manager.wait_until(lambda: answers(f"https://127.0.0.1:{port}/healthz", self._tls))

    def start_scheduler(self, *flags: str) -> None:
        """Start kube-scheduler with its default profile and additional flags."""
        port = free_port()
        scheduler = self.run(
            "kube-scheduler",
            f"--kubeconfig={self.kubeconfig}",
            f"--authentication-kubeconfig={self.kubeconfig}",
            f"--authorization-kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={self.certificates.serving}",
            f"--tls-private-key-file={self.certificates.serving_key}",
            *flags,
        )
        scheduler.wait_until(lambda: answers(f"https://127.0.0.1:{port}/healthz", self._tls))


def answers(url: str, tls: ssl.SSLContext | None = None) -> bool:
    """Whether a server answers 200."""
    try:
        with urllib.request.urlopen(url, timeout=2, context=tls) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        time.sleep(0.05)
        return False
