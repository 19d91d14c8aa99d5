"""A real control plane for tests: etcd, kube-apiserver and kube-controller-manager as processes on free loopback ports.

Nothing is installed, and only the folder with the logs outlives `stop()`. The enabled controllers and the flags of each program are
data below; more programs (JobSet, Kueue, …) are started with `ControlPlane.run`.
"""

from __future__ import annotations

import base64
import json
import secrets
import ssl
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Self

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
)
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
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
)


class ControlPlane:
    """Started by its constructor; `url`, `token`, `authority` and `kubeconfig` reach it as a cluster administrator."""

    def __init__(self, folder: Path, *, controllers: Sequence[str] = CONTROLLERS, flags: Sequence[str] = ()) -> None:
        """`flags` are additional flags of kube-controller-manager."""
        self.folder = folder
        self.certificates = certificates.make(folder / "certificates")
        self.authority = self.certificates.authority
        self.token = secrets.token_urlsafe(24)
        self._client_port, self._peer_port, self._port = free_port(), free_port(), free_port()
        self.url = f"https://127.0.0.1:{self._port}"
        self.kubeconfig = self._write_kubeconfig()
        self.processes: dict[str, Process] = {}
        self._tls = ssl.create_default_context(cafile=str(self.authority))
        try:
            self._start_etcd()
            self._start_apiserver()
            if controllers:
                self._start_controllers(controllers, flags)
        except BaseException:
            self.stop()
            raise

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

    def resident_bytes(self, *names: str) -> int:
        """The resident memory of the named programs (etcd and kube-apiserver by default)."""
        return sum(self.processes[name].resident_bytes() for name in names or ("etcd", "kube-apiserver"))

    def compact(self) -> int:
        """Compact etcd to the current revision; returns it."""
        newest = self._etcd("range", {"key": base64.b64encode(b"/").decode()})["header"]["revision"]
        self._etcd("compaction", {"revision": newest, "physical": True})
        return int(newest)

    def _etcd(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(f"http://127.0.0.1:{self._client_port}/v3/kv/{method}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=90) as response:
            answer: dict[str, Any] = json.load(response)
        return answer

    def _start_etcd(self) -> None:
        clients, peers = f"http://127.0.0.1:{self._client_port}", f"http://127.0.0.1:{self._peer_port}"
        etcd = self.run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
        )
        etcd.wait_until(lambda: _answers(f"{clients}/health"))
        # Start above version 1: versions that tests call compacted must be older than the server's caches.
        self._etcd("put", {"key": base64.b64encode(b"/past").decode()})

    def _start_apiserver(self) -> None:
        files = self.certificates
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f'{self.token},admin,admin-uid,"system:masters"\n')
        apiserver = self.run(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._client_port}",
            f"--secure-port={self._port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--tls-cert-file={files.serving}",
            f"--tls-private-key-file={files.serving_key}",
            f"--client-ca-file={files.authority}",
            f"--token-auth-file={tokens}",
            f"--service-account-key-file={files.account_public}",
            f"--service-account-signing-key-file={files.account_key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC",
            "--allow-privileged",
        )
        apiserver.wait_until(lambda: _answers(f"{self.url}/readyz", self._tls))

    def _start_controllers(self, controllers: Sequence[str], flags: Sequence[str]) -> None:
        port = free_port()
        manager = self.run(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--authentication-kubeconfig={self.kubeconfig}",
            f"--authorization-kubeconfig={self.kubeconfig}",
            f"--service-account-private-key-file={self.certificates.account_key}",
            f"--root-ca-file={self.authority}",
            f"--controllers={','.join(controllers)}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={self.certificates.serving}",
            f"--tls-private-key-file={self.certificates.serving_key}",
            *flags,
        )
        manager.wait_until(lambda: _answers(f"https://127.0.0.1:{port}/healthz", self._tls))

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
        scheduler.wait_until(lambda: _answers(f"https://127.0.0.1:{port}/healthz", self._tls))

    def _write_kubeconfig(self) -> Path:
        path = self.folder / "kubeconfig"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": {"server": self.url, "certificate-authority": str(self.authority)}}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
            "current-context": "real",
        }
        path.write_text(json.dumps(config, indent=2))
        path.chmod(0o600)
        return path


def _answers(url: str, tls: ssl.SSLContext | None = None) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2, context=tls) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        time.sleep(0.05)
        return False
