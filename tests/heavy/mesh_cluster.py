"""A mesh on one machine: a real control plane with Istio, model servers as pods, and Envoys in front of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import orjson
from tests.heavy import mesh_istio
from tests.heavy.mesh_kubelet import Kubelet
from tests.heavy.mesh_network import Network
from tests.heavy.mesh_servers import ModelServer
from tests.real.build import build
from tests.real.control_plane import ControlPlane
from tests.real.controllers import CONTROLLERS
from tests.real.processes import Process
from tests.support.http import Api

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.heavy.mesh_kubelet import Running

Object = dict[str, Any]
WORKLOADS = ("deployment-controller", "endpointslice-controller", "replicaset-controller")
INGRESS, SELECTOR = "istio-ingress", {"istio": "internal-ingressgateway"}
PLACE = "triton"
_PORTS = {"http": (80, 8080), "https": (443, 8443)}


class Mesh:
    """The mesh, started by its constructor."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        build(mesh_istio.ISTIOD)
        mesh_istio.envoy()
        self.network = Network()
        self.plane = ControlPlane(folder, controllers=(*CONTROLLERS, *WORKLOADS))
        self.api = Api(self.plane.url, self.plane.authority, self.plane.token)
        self.kubelet = Kubelet(self.api, self._run)
        try:
            mesh_istio.install(self.api)
            mesh_istio.start(self.plane, self.network, self.api)
            self._ingress()
            for path, name in (("/api/v1/namespaces", PLACE), (f"/api/v1/namespaces/{PLACE}/serviceaccounts", "triton-sa")):
                self.api.post(path, {"metadata": {"name": name}}).ok(201)
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop everything."""
        try:
            self.kubelet.stop()
        finally:
            self.api.close()
            self.plane.stop()
            self.network.close()

    def running(self, labels: Mapping[str, str]) -> list[Any]:
        """The running programs of pods with these labels that are not terminating."""
        return self.kubelet.running(labels)

    def deploy(self, text: str) -> int:
        """Run `sliceworks models deploy` to its end."""
        return self.deploy_later(text)()

    def deploy_later(self, text: str) -> Callable[[], int]:
        """Run it in the background; the returned function waits for it and returns its exit code."""
        file = self.folder / "model.yaml"
        file.write_text(text)
        words = (
            "models",
            "deploy",
            "-f",
            str(file),
            "--kubeconfig",
            str(self.plane.kubeconfig),
            "--yes",
            "--quiet",
            "--timeout",
            "2m",
        )
        return subprocess.Popen((sys.executable, "-m", "sliceworks", *words), stdout=subprocess.DEVNULL).wait

    def delete_pod(self, address: str) -> None:
        """Evict a pod, as `kubectl drain` does."""
        pods = self.api.get(f"/api/v1/namespaces/{PLACE}/pods").ok().json["items"]
        [name] = [pod["metadata"]["name"] for pod in pods if pod["status"].get("podIP") == address]
        self.api.delete(f"/api/v1/namespaces/{PLACE}/pods/{name}").ok()

    def _run(self, pod: Object) -> Running:
        [container] = pod["spec"]["containers"]
        if container["name"] == "istio-proxy":
            return mesh_istio.Proxy(self.api, self.network, self.folder, pod)
        if container["name"] == "gateway":
            return Front(self, pod)
        if Path(container["command"][0]).exists():
            return Program(self, pod, container)
        track = pod["metadata"]["labels"]["sliceworks.dev/track"]
        return ModelServer(track, self.network.address())

    def _ingress(self) -> None:
        """Istio's gateway as its chart creates it: labelled pods, an account that reads Secrets, a Service."""
        core, apps, rbac = (
            f"{path}/namespaces/{INGRESS}" for path in ("/api/v1", "/apis/apps/v1", "/apis/rbac.authorization.k8s.io/v1")
        )
        self.api.post("/api/v1/namespaces", {"metadata": {"name": INGRESS}}).ok(201)
        named = {"metadata": {"name": "gateway"}}
        self.api.post(f"{core}/serviceaccounts", named).ok(201)
        rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "watch", "list"]}]
        self.api.post(f"{rbac}/roles", {**named, "rules": rules}).ok(201)
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "gateway"}
        bound = {**named, "roleRef": role, "subjects": [{"kind": "ServiceAccount", "name": "gateway", "namespace": INGRESS}]}
        self.api.post(f"{rbac}/rolebindings", bound).ok(201)
        ports = [{"name": name, "port": port, "targetPort": target} for name, (port, target) in _PORTS.items()]
        self.api.post(f"{core}/services", {**named, "spec": {"selector": SELECTOR, "ports": ports}}).ok(201)
        pod = {"serviceAccountName": "gateway", "containers": [{"name": "istio-proxy", "image": "auto"}]}
        template = {"metadata": {"labels": SELECTOR}, "spec": pod}
        self.api.post(f"{apps}/deployments", {**named, "spec": {"selector": {"matchLabels": SELECTOR}, "template": template}}).ok(
            201
        )


class Front:
    """A Sliceworks gateway as its pod runs it: its program with the document of its ConfigMap, on the pod's address."""

    def __init__(self, mesh: Mesh, pod: Object) -> None:
        name, place = pod["metadata"]["labels"]["app.kubernetes.io/name"], pod["metadata"]["namespace"]
        self.address = mesh.network.address()
        document = mesh.api.get(f"/api/v1/namespaces/{place}/configmaps/{name}").ok().json["data"]["gateway.yaml"]
        file = mesh.folder / f"{pod['metadata']['name']}.yaml"
        file.write_text(document.replace("0.0.0.0", self.address))
        command = (sys.executable, "-m", "sliceworks", "gateway", "run", "-f", str(file), "--host", self.address)
        config = orjson.loads(mesh.plane.kubeconfig.read_bytes())
        config["contexts"][0]["context"]["namespace"] = place  # as the pod's service account token says
        file.with_suffix(".kubeconfig").write_bytes(orjson.dumps(config))
        env = {**os.environ, "KUBECONFIG": str(file.with_suffix(".kubeconfig")), "POD_IP": self.address}
        self.process = Process(name, command, file.with_suffix(".log"), env=env)

    def ready(self) -> bool:
        """Whether its readiness probe succeeds."""
        return mesh_istio.answers(f"http://{self.address}:8081/readyz")

    def stop(self) -> None:
        """Stop it immediately."""
        self.process.kill()


class Program:
    """A server that its pod names by a local path."""

    def __init__(self, mesh: Mesh, pod: Object, container: Object) -> None:
        self.address = mesh.network.address()
        probe = container["readinessProbe"]["httpGet"]
        [port] = [port["containerPort"] for port in container["ports"] if port["name"] == probe["port"]]
        self._asked = f"http://{self.address}:{port}{probe['path']}"
        words = [word.replace("$(POD_IP)", self.address) for word in (*container["command"], *container["args"])]
        env = {**os.environ, **{variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}}
        name = pod["metadata"]["name"]
        self.process = Process(name, words, mesh.folder / f"{name}.log", env=env)

    def ready(self) -> bool:
        """Whether its readiness probe succeeds."""
        return mesh_istio.answers(self._asked)

    def stop(self) -> None:
        """Stop it immediately."""
        self.process.kill()
