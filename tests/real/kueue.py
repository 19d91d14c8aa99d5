"""The real Kueue beside an API server: its CRDs from its Go module, its webhooks by URL on loopback.

Jobs and JobSets are queued; pods, Deployments and StatefulSets if a test file asks for it. `configure` restarts it with settings
such as `waitForPodsReady`.
"""

from __future__ import annotations

import base64
import shutil
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from tests.real.build import locked, module_folder
from tests.real.processes import NotReady, free_port, serves
from tests.real.programs import PROGRAMS
from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.real.certificates import Certificates
    from tests.real.controllers import Controllers
    from tests.support.http import Api

MODULE = "sigs.k8s.io/kueue"
_KINDS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
_WANTED = ("job", "jobset", "clusterqueue", "cohort", "resourceflavor", "workload")
_FRAMEWORKS = ("batch/job", "jobset.x-k8s.io/jobset")
_PODS = ("pod", "deployment", "statefulset")
_QUEUE = "kueue.x-k8s.io/queue-name"
_PATCHES = "config/components/crd/patches"
# Kueue reads the certificate of its metrics from here if it does not create its own; the path is not configurable.
_METRICS = Path("/etc/kueue/metrics/certs")


class KueueManager:
    """Started by its constructor; pods and their controllers are queued if `pods` is set."""

    def __init__(self, plane: Controllers, api: Api, *, pods: bool = False) -> None:
        self._plane, self._api = plane, api
        self._pods = _PODS if pods else ()
        self._folder = plane.folder / "kueue"
        self._module = module_folder(PROGRAMS["kueue"], MODULE)
        self._port, self._health = free_port(), free_port()
        self._more: dict[str, Any] = {}
        self._lay_certificates()
        self._authority = base64.b64encode(plane.certificates.authority.read_bytes()).decode()
        self._define()
        self._api.post("/api/v1/namespaces", {"metadata": {"name": "kueue-system"}})
        self._start()
        self._register_webhooks()

    def configure(self, **more: Any) -> None:
        """Restart it with these settings in its configuration."""
        if more == self._more:
            return
        self._more = more
        self._plane.processes["kueue"].kill()
        self._start()

    def _start(self) -> None:
        config = self._folder / "config.yaml"
        config.write_text(yaml.dump(self._configuration()))
        arguments = (f"--kubeconfig={self._plane.kubeconfig}", f"--config={config}", "--feature-gates=VisibilityOnDemand=false")
        process = self._plane.run("kueue", *arguments)
        process.wait_until(lambda: serves(f"http://127.0.0.1:{self._health}/readyz"))

    def _configuration(self) -> dict[str, Any]:
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "webhook": {"port": self._port, "host": "127.0.0.1", "certDir": str(self._folder)},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "metrics": {"bindAddress": "0"},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            # No other client uses this API server: Kueue's default rate limits would only slow down the tests.
            "clientConnection": {"qps": 500, "burst": 1000},
            "integrations": {"frameworks": [*_FRAMEWORKS, *self._pods]},
            **self._more,
        }

    def _lay_certificates(self) -> None:
        lay_certificate(self._plane.certificates, self._folder)
        try:
            lay_certificate(self._plane.certificates, _METRICS)
        except PermissionError as error:
            raise NotReady(f"Kueue needs a certificate in {_METRICS}, which cannot be written: {error}") from error

    def _define(self) -> None:
        converted = {file.stem.removeprefix("webhook_in_") for file in (self._module / _PATCHES).glob("webhook_in_*.yaml")}
        for file in sorted((self._module / "config/components/crd/bases").glob("*.yaml")):
            definition = yaml.load(file.read_text(), yaml.CSafeLoader)
            if definition["spec"]["names"]["plural"] in converted - {"resourceflavors"}:
                client = {"url": f"https://127.0.0.1:{self._port}/convert", "caBundle": self._authority}
                webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
                definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
                _store_newest(definition)
            self._api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).ok(201)
        eventually(self._served, what="Kueue's kinds are served")

    def _served(self) -> bool:
        result = self._api.get("/apis/kueue.x-k8s.io/v1beta2")
        return result.status == 200 and {"workloads", "clusterqueues", "cohorts"} <= {
            resource["name"] for resource in result.json["resources"]
        }

    def _register_webhooks(self) -> None:
        documents = yaml.load_all((self._module / "config/components/webhook/manifests.yaml").read_text(), yaml.CSafeLoader)
        for document in documents:
            expected = (*_WANTED, *self._pods)
            document["webhooks"] = [
                webhook for webhook in document["webhooks"] if webhook["name"][1:].removesuffix(".kb.io") in expected
            ]
            for webhook in document["webhooks"]:
                path = webhook["clientConfig"]["service"]["path"]
                webhook["clientConfig"] = {"url": f"https://127.0.0.1:{self._port}{path}", "caBundle": self._authority}
            document["metadata"]["name"] = f"kueue-{document['metadata']['name']}"
            self._api.post(f"/apis/admissionregistration.k8s.io/v1/{_KINDS[document['kind']]}", document).ok(201)
        eventually(self._webhooks_called, what="the API server calls Kueue's webhooks")

    def _webhooks_called(self) -> bool:
        """Whether the API server calls the webhooks; mutating and validating ones arrive on separate watches."""
        pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
        home, dry = "/apis/batch/v1/namespaces/default/jobs", {"dryRun": "All"}
        taken, refused = (
            self._api.post(home, {"metadata": {"name": "probe", "labels": {_QUEUE: queue}}, "spec": {"template": pod}}, dry)
            for queue in ("queue", "Not_A_Name")
        )
        return taken.status == 201 and bool(taken.json["spec"]["suspend"]) and "admission webhook" in refused.text


def lay_certificate(made: Certificates, folder: Path) -> None:
    """Write a certificate and its key into a shared folder. An existing pair is kept, because a Kueue that starts at the same
    time would read one file of the old pair and one of the new.
    """
    with locked(folder):
        if not _is_pair(folder):
            shutil.copy(made.serving, folder / "tls.crt")
            shutil.copy(made.serving_key, folder / "tls.key")


def _is_pair(folder: Path) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(folder / "tls.crt", folder / "tls.key")
    except OSError:
        return False
    return True


def _store_newest(definition: dict[str, Any]) -> None:
    """Kueue uses v1beta2 and stores v1beta1, so every object would be converted at every read and write."""
    for version in definition["spec"]["versions"]:
        version["storage"] = version["name"] == "v1beta2"
