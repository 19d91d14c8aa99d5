"""The real LeaderWorkerSet beside an API server: the objects of its release, its webhooks by URL on loopback."""

from __future__ import annotations

import base64
import shutil
from typing import TYPE_CHECKING, Any

import yaml
from tests.real.processes import free_port, serves
from tests.real.release import Release
from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.real.controllers import Controllers
    from tests.support.http import Api

MODULE = "sigs.k8s.io/lws"
HOME = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/{}/leaderworkersets"


def start(plane: Controllers, api: Api) -> None:
    """Install it, run it, and wait until the API server calls its webhooks."""
    folder, port, health = plane.folder / "lws", free_port(), free_port()
    folder.mkdir()
    shutil.copy(plane.certificates.serving, folder / "tls.crt")
    shutil.copy(plane.certificates.serving_key, folder / "tls.key")
    release, url = Release.kustomized("lws", MODULE), f"https://127.0.0.1:{port}"
    authority = base64.b64encode(plane.certificates.authority.read_bytes()).decode()
    release.install(api, url, authority)
    eventually(lambda: api.get(HOME.format("default")).status == 200, what="LeaderWorkerSets are served")
    config = folder / "config.yaml"
    config.write_text(yaml.dump(_configuration(str(folder), port, health)))
    process = plane.run("lws", f"--kubeconfig={plane.kubeconfig}", f"--config={config}", "--metrics-bind-address=0")
    process.wait_until(lambda: serves(f"http://127.0.0.1:{health}/readyz"))
    release.wait_served(process, url)
    release.register_webhooks(api, url, authority)
    eventually(lambda: _webhooks_called(api), what="the API server calls LeaderWorkerSet's webhooks")


def _configuration(folder: str, port: int, health: int) -> dict[str, Any]:
    return {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "webhook": {"port": port, "host": "127.0.0.1", "certDir": folder},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
    }


def _webhooks_called(api: Api) -> bool:
    """Whether the API server calls the webhooks; mutating and validating ones arrive on separate watches."""
    group = {"size": 1, "workerTemplate": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}
    kind = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "probe"}}
    wrong = {"type": "RollingUpdate", "rollingUpdateConfiguration": {"maxSurge": 0, "maxUnavailable": 0}}
    created, rejected = (
        api.post(HOME.format("default"), {**kind, "spec": {"leaderWorkerTemplate": group, **more}}, {"dryRun": "All"})
        for more in ({}, {"rolloutStrategy": wrong})
    )
    return created.status == 201 and "networkConfig" in created.json["spec"] and "admission webhook" in rejected.text
