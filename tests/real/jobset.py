"""The real JobSet beside a real control plane: its definition from its Go module, its webhooks by URL on loopback."""

from __future__ import annotations

import base64
import os
import shutil
import ssl
from typing import TYPE_CHECKING, Any

import yaml
from tests.real.build import module_folder
from tests.real.processes import free_port
from tests.real.programs import PROGRAMS
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane
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
    """Started by its constructor. `set_gates` starts it again with other feature gates."""

    def __init__(self, plane: ControlPlane, api: Api) -> None:
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
        """Run with these feature gates from now on."""
        if gates == self._gates:
            return
        self._gates = gates
        self._plane.processes["jobset"].kill()
        self._start()

    def _start(self) -> None:
        config = self._folder / "config.yaml"
        config.write_text(yaml.dump(self._configuration()))
        # The folder of the webhooks' certificate is not configurable; it lies below the folder for temporary files.
        environment = {**os.environ, "TMPDIR": str(self._folder)}
        process = self._plane.run("jobset", f"--kubeconfig={self._plane.kubeconfig}", f"--config={config}", env=environment)
        process.wait_until(lambda: _answers(f"http://127.0.0.1:{self._health}/readyz"))
        # It calls itself ready before its webhooks are in their places.
        process.wait_until(lambda: all(_answers(f"https://127.0.0.1:{self._port}{path}") for path in _PATHS))

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
        authority = base64.b64encode(self._plane.authority.read_bytes()).decode()
        for document in documents:
            for webhook in document["webhooks"]:
                path = webhook["clientConfig"]["service"]["path"]
                webhook["clientConfig"] = {"url": f"https://127.0.0.1:{self._port}{path}", "caBundle": authority}
                if webhook["name"] in ("mpod.kb.io", "vpod.kb.io"):
                    # As it is installed: only pods that belong to a JobSet are looked at.
                    exists = {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}
                    webhook["objectSelector"] = {"matchExpressions": [exists]}
            document["metadata"]["name"] = f"jobset-{document['metadata']['name']}"
            self._api.post(f"/apis/admissionregistration.k8s.io/v1/{_KINDS[document['kind']]}", document).ok(201)
        eventually(self._asked, what="an API server that asks JobSet's webhooks")

    def _asked(self) -> bool:
        """Whether the API server knows the webhooks: on one line those that change objects, on another those that refuse some."""
        job = {"name": "a", "template": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}}}
        body = {"metadata": {"name": "probe"}, "spec": {"replicatedJobs": [job]}}
        wrong = {"replicatedJobs": [job], "successPolicy": {"operator": "All", "targetReplicatedJobs": ["other"]}}
        kind = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
        home, dry = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets", {"dryRun": "All"}
        taken, refused = (self._api.post(home, {**kind, **each}, dry) for each in (body, {**body, "spec": wrong}))
        return taken.status == 201 and "startupPolicy" in taken.json["spec"] and "admission webhook" in refused.text


def _answers(url: str) -> bool:
    """Whether somebody listens there and knows the path; a webhook that is asked for nothing refuses, which is an answer."""
    from urllib.error import HTTPError, URLError
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=2, context=ssl._create_unverified_context()) as response:
            return bool(response.status == 200)
    except HTTPError as error:
        return error.code not in (404, 500)
    except (URLError, OSError):
        return False
