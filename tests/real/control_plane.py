"""A real control plane for tests: etcd and kube-apiserver, with real controllers beside them."""

from __future__ import annotations

import base64
import json
import secrets
import urllib.request
from typing import TYPE_CHECKING, Any

from tests.real.controllers import CONTROLLERS, Controllers, answers
from tests.real.processes import free_port

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class ControlPlane(Controllers):
    """Started by its constructor; `url`, `token`, `authority` and `kubeconfig` reach it as a cluster administrator."""

    def __init__(
        self,
        folder: Path,
        *,
        controllers: Sequence[str] = CONTROLLERS,
        flags: Sequence[str] = (),
        server_flags: Sequence[str] = (),
    ) -> None:
        """`flags` are additional flags of kube-controller-manager, and `server_flags` of kube-apiserver."""
        super().__init__(folder, folder / "kubeconfig")
        self._server_flags = server_flags
        self.token = secrets.token_urlsafe(24)
        self._client_port, self._peer_port, self._port = free_port(), free_port(), free_port()
        self.url = f"https://127.0.0.1:{self._port}"
        self._write_kubeconfig()
        try:
            self._start_etcd()
            self._start_apiserver()
            if controllers:
                key = f"--service-account-private-key-file={self.certificates.account_key}"
                self.start_controllers((*controllers, "serviceaccount-token-controller"), key, *flags)
        except BaseException:
            self.stop()
            raise

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
        etcd.wait_until(lambda: answers(f"{clients}/health"))
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
            f"--requestheader-client-ca-file={files.proxy_authority}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-uid-headers=X-Remote-Uid",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={files.proxy_client}",
            f"--proxy-client-key-file={files.proxy_client_key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC",
            "--allow-privileged",
            *self._server_flags,
        )
        apiserver.wait_until(lambda: answers(f"{self.url}/readyz", self._tls))

    def _write_kubeconfig(self) -> None:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": {"server": self.url, "certificate-authority": str(self.authority)}}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
            "current-context": "real",
        }
        self.kubeconfig.write_text(json.dumps(config, indent=2))
        self.kubeconfig.chmod(0o600)
