"""The real JobSet beside an API server: its CRD from its Go module, its webhooks by URL on loopback."""

from __future__ import annotations

import base64
import os
import shutil
from typing import TYPE_CHECKING, Any

import yaml
from tests.real.build import module_folder
from tests.real.processes import free_port, serves
from tests.real.programs import PROGRAMS
from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.real.controllers import Controllers
    from tests.support.http import Api

MODULE = "sigs.k8s.io/jobset"
_PATHS = (
    "/mutate-jobset-x-k8s-io-v1alpha2-jobset",
    "/validate-jobset-x-k8s-io-v1alpha2-jobset",
    "/mutate--v1-pod",
    "/validate--v1-pod",
)
_KINDS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}


class JobSetManager:
    """Started by its constructor; `set_gates` restarts it with other feature gates."""

    def __init__(self, plane: Controllers, api: Api) -> None:
        self._plane, self._api = plane, api
        self._folder = plane.folder / "jobset"
        self._module = module_folder(PROGRAMS["jobset"], MODULE)
        self._port, self._health = free_port(), free_port()
        self._gates: dict[str, bool] = {}
        self._lay_certificate()
        self._define()
        self._start()
        self._register_webhooks()

    def set_gates(self, **gates: bool) -> None:
        """Restart it with these feature gates."""
        if gates == self._gates:
            return
        self._gates = gates
        self._plane.processes["jobset"].kill()
        self._start()

    def _start(self) -> None:
        config = self._folder / "config.yaml"
        config.write_text(yaml.dump(self._configuration()))
        # The folder of the webhooks' certificate is not configurable; it is below the folder for temporary files.
        environment = {**os.environ, "TMPDIR": str(self._folder)}
        process = self._plane.run("jobset", f"--kubeconfig={self._plane.kubeconfig}", f"--config={config}", env=environment)
        process.wait_until(lambda: serves(f"http://127.0.0.1:{self._health}/readyz"))
        # It reports ready before its webhooks are registered.
        process.wait_until(lambda: all(serves(f"https://127.0.0.1:{self._port}{path}") for path in _PATHS))

    def _configuration(self) -> dict[str, Any]:
        return {
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "webhook": {"port": self._port, "host": "127.0.0.1"},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "metrics": {"bindAddress": "0"},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "featureGates": self._gates,
        }

    def _lay_certificate(self) -> None:
        folder = self._folder / "k8s-webhook-server" / "serving-certs"
        folder.mkdir(parents=True)
        shutil.copy(self._plane.certificates.serving, folder / "tls.crt")
        shutil.copy(self._plane.certificates.serving_key, folder / "tls.key")

    def _define(self) -> None:
        for file in sorted((self._module / "config/components/crd/bases").glob("*.yaml")):
            definition = yaml.load(file.read_text(), yaml.CSafeLoader)
            self._api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).ok(201)
        eventually(lambda: self._api.get("/apis/jobset.x-k8s.io/v1alpha2/jobsets").status == 200, what="JobSets are served")

    def _register_webhooks(self) -> None:
        documents = yaml.load_all((self._module / "config/components/webhook/manifests.yaml").read_text(), yaml.CSafeLoader)
        authority = base64.b64encode(self._plane.certificates.authority.read_bytes()).decode()
        for document in documents:
            for webhook in document["webhooks"]:
                path = webhook["clientConfig"]["service"]["path"]
                webhook["clientConfig"] = {"url": f"https://127.0.0.1:{self._port}{path}", "caBundle": authority}
                if webhook["name"] in ("mpod.kb.io", "vpod.kb.io"):
                    # As installed: the webhook covers only pods of a JobSet.
                    exists = {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}
                    webhook["objectSelector"] = {"matchExpressions": [exists]}
            document["metadata"]["name"] = f"jobset-{document['metadata']['name']}"
            self._api.post(f"/apis/admissionregistration.k8s.io/v1/{_KINDS[document['kind']]}", document).ok(201)
        eventually(self._webhooks_called, what="the API server calls JobSet's webhooks")

    def _webhooks_called(self) -> bool:
        """Whether the API server calls the webhooks; mutating and validating ones arrive on separate watches."""
        job = {"name": "a", "template": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}}}
        body = {"metadata": {"name": "probe"}, "spec": {"replicatedJobs": [job]}}
        wrong = {"replicatedJobs": [job], "successPolicy": {"operator": "All", "targetReplicatedJobs": ["other"]}}
        kind = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
        home, dry = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets", {"dryRun": "All"}
        taken, refused = (self._api.post(home, {**kind, **item}, dry) for item in (body, {**body, "spec": wrong}))
        return taken.status == 201 and "startupPolicy" in taken.json["spec"] and "admission webhook" in refused.text
