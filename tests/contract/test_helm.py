"""The chart with the real Helm, on the twin and on a real API server: install, upgrade, rollback, uninstall, reinstall."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.packaging.test_upgrade import OLD
from tests.real.build import build
from tests.real.definitions import monitoring
from tests.real.programs import PROGRAMS
from tests.support.clusters import real_enabled
from tests.support.deployments import DEPLOY, EXAMPLE, is_terminating
from tests.support.helm import CHART, TAKE_OVER, Helm
from tests.support.kubectl import Kubectl
from tests.support.oci_registry import run_registry
from tests.support.polling import eventually

from sliceworks import __version__
from sliceworks.base import yaml_documents
from sliceworks.specs import documents
from sliceworks.specs.gateway import Gateway

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clusters import Cluster
    from tests.support.http import Api

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not real_enabled(), reason="needs Helm built from its Go module: SLICEWORKS_REAL=1"),
]
RELEASE = ("sliceworks", str(CHART), "--namespace=helm-releases", "--create-namespace", "--set=image.registry=registry.example")
# Namespaces of their own: other tests of the same cluster install the controllers too.
SPACES = {"graphs": "helm-graphs", "slices": "helm-slices", "gateway": "helm-gateway"}
GATEWAY = ("--set=gateway.enabled=true", "--set-json=gateway.spec.models=[]")
VALUES = (*GATEWAY, *(f"--set={component}.namespace={name}" for component, name in SPACES.items()))
KINDS = (
    "/api/v1/namespaces",
    "/api/v1/configmaps",
    "/api/v1/serviceaccounts",
    "/api/v1/services",
    "/apis/apps/v1/deployments",
    "/apis/autoscaling/v2/horizontalpodautoscalers",
    "/apis/networking.k8s.io/v1/networkpolicies",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/roles",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
)
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GRAPHS = f"{CRDS}/resourcegraphdefinitions.kro.run"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{SPACES['graphs']}/deployments/kro"


def managed(api: Api) -> list[str]:
    """Everything that belongs to the release."""
    result = []
    for path in KINDS:
        for item in api.get(path, query={"labelSelector": "app.kubernetes.io/managed-by=Helm"}).ok(200).json["items"]:
            metadata = item["metadata"]
            if (metadata.get("annotations") or {}).get("meta.helm.sh/release-namespace") == "helm-releases":
                result.append(f"{path.rpartition('/')[2]} {metadata['name']}")
    return result


def in_release_namespaces(api: Api) -> list[str]:
    """Namespaces of the release that still exist."""
    return [name for name in SPACES.values() if api.get(f"/api/v1/namespaces/{name}").status != 404]


def are_crds_stable(api: Api) -> bool:
    """Whether no CRD is still being deleted: other tests of the same cluster delete the controllers without waiting."""
    return not any(item["metadata"].get("deletionTimestamp") for item in api.get(CRDS).ok(200).json["items"])


def deployment(api: Api) -> Any:
    return api.get(DEPLOYMENT).ok(200).json


def test_release_lifecycle(cluster: Cluster, tmp_path: Path) -> None:
    api, helm = cluster.api, Helm(tmp_path, cluster.kubeconfig)
    eventually(lambda: are_crds_stable(api), what="no CRD is being deleted")
    # Other tests leave objects of the controllers behind, and kube-controller-manager can recreate an aggregated ClusterRole
    # that is deleted while it updates it.
    try:
        assert "STATUS: deployed" in helm("install", *RELEASE, *VALUES, "--set=image.tag=v1", *TAKE_OVER)
        first = deployment(api)
        assert first["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/controllers:v1"
        assert len(managed(api)) >= 33
        crd = api.get(GRAPHS).ok(200).json["metadata"]["uid"]

        helm("upgrade", *RELEASE, *VALUES, "--set=image.tag=v2", "--set=graphs.replicas=3")
        second = deployment(api)
        assert second["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/controllers:v2"
        assert (second["spec"]["replicas"], second["metadata"]["uid"]) == (3, first["metadata"]["uid"])

        helm("rollback", "sliceworks", "1", "--namespace=helm-releases")
        assert deployment(api)["spec"] == first["spec"]
        assert helm("history", "sliceworks", "--namespace=helm-releases").count("superseded") == 2

        helm("uninstall", "sliceworks", "--namespace=helm-releases")
        # The gateway's namespace can hold model servers of the user.
        eventually(lambda: in_release_namespaces(api) == [SPACES["gateway"]], what="the namespaces of the controllers are deleted")
        assert managed(api) == [f"namespaces {SPACES['gateway']}"]
        assert api.get(GRAPHS).ok(200).json["metadata"]["uid"] == crd
        secrets = api.get("/api/v1/namespaces/helm-releases/secrets").ok(200).json["items"]
        assert [item["metadata"]["name"] for item in secrets if item.get("type") == "helm.sh/release.v1"] == []

        helm("install", *RELEASE, *VALUES, "--set=crds.keep=false", "--set=gateway.keepNamespace=false", *TAKE_OVER)
        assert api.get(GRAPHS).ok(200).json["metadata"]["uid"] == crd
        helm("uninstall", "sliceworks", "--namespace=helm-releases")
        eventually(lambda: api.get(GRAPHS).status == 404, what="the CRDs are deleted as asked")
        eventually(lambda: not in_release_namespaces(api), what="the namespaces of the release are deleted")
        assert managed(api) == []
    finally:
        helm.attempt("uninstall", "sliceworks", "--namespace=helm-releases", "--ignore-not-found")


DEPLOYMENTS_0_1 = {
    "kro-system": "kro",
    "tpu-provisioner-system": "tpu-provisioner-controller-manager",
    "models": "gateway",
}


@pytest.fixture
def bases(tmp_path: Path) -> list[Path]:
    """The Kustomize bases that version 0.1 was installed from."""
    command = ["git", "archive", "--format=zip", OLD, "deploy"]
    packed = subprocess.run(command, cwd=DEPLOY.parent, capture_output=True, check=False)
    if packed.returncode:
        pytest.skip(f"commit {OLD} is not in this clone")
    with zipfile.ZipFile(BytesIO(packed.stdout)) as archive:
        archive.extractall(tmp_path / "old")
    return [tmp_path / "old" / "deploy" / component / "base" for component in ("graphs", "slices", "gateway")]


def labelled_cluster_objects(api: Api) -> list[str]:
    """Cluster-scoped objects of Sliceworks."""
    kinds = ("rbac.authorization.k8s.io/v1/clusterroles", "rbac.authorization.k8s.io/v1/clusterrolebindings")
    query = {"labelSelector": "app.kubernetes.io/name=sliceworks"}
    return [item["metadata"]["name"] for kind in kinds for item in api.get(f"/apis/{kind}", query=query).ok(200).json["items"]]


def test_installation_of_version_0_1_is_upgraded(cluster: Cluster, bases: list[Path], tmp_path: Path) -> None:
    api, helm, run = cluster.api, Helm(tmp_path, cluster.kubeconfig), Kubectl(cluster.kubeconfig, "", tmp_path)
    eventually(lambda: not any(is_terminating(api, name) for name in DEPLOYMENTS_0_1), what="no namespace is being deleted")
    eventually(lambda: are_crds_stable(api), what="no CRD is being deleted")
    paths = [f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}" for namespace, name in DEPLOYMENTS_0_1.items()]
    try:
        for base in bases:
            run("apply", "--server-side", "-k", str(base)).ok()
        before = [api.get(path).ok(200).json for path in paths]
        helm("upgrade", "--install", *RELEASE, *GATEWAY, *TAKE_OVER)
        after = [api.get(path).ok(200).json for path in paths]
        assert [item["metadata"]["uid"] for item in after] == [item["metadata"]["uid"] for item in before]
        assert [item["spec"]["selector"] for item in after] == [item["spec"]["selector"] for item in before]
        images = [item["spec"]["template"]["spec"]["containers"][0]["image"] for item in after]
        assert all(image.startswith("registry.example/") for image in images), images
        helm("uninstall", "sliceworks", "--namespace=helm-releases")
        spaces = ("kro-system", "tpu-provisioner-system")
        eventually(lambda: all(api.get(f"/api/v1/namespaces/{name}").status == 404 for name in spaces), what="they are deleted")
        eventually(lambda: not labelled_cluster_objects(api), what="no roles are left")
        assert api.get("/api/v1/namespaces/models").ok(200).json["status"]["phase"] == "Active"
        assert api.get(GRAPHS).status == 200
        for base in bases:
            run("apply", "--server-side", "-k", str(base)).ok()
        assert [api.get(path).ok(200).json["spec"] for path in paths] == [item["spec"] for item in before]
    finally:
        helm.attempt("uninstall", "sliceworks", "--namespace=helm-releases", "--ignore-not-found")
        for name in DEPLOYMENTS_0_1:
            api.delete(f"/api/v1/namespaces/{name}")


def is_served(api: Api, path: str) -> bool:
    return api.get(path).status == 200


MONITORING = ("serviceMonitor", "prometheusRule", "podMonitoring", "googleRules", "dashboards")


def test_cluster_accepts_monitoring_of_the_chart(cluster: Cluster, tmp_path: Path) -> None:
    """Prometheus' operator and Managed Service for Prometheus know every field, and their selectors match the Services and pods."""
    api, crds = cluster.api, monitoring()
    enabled = [f"--set=monitoring.{name}.enabled=true" for name in MONITORING]
    text = Helm(tmp_path)("template", *RELEASE[:2], *RELEASE[3:], "--namespace=default", *GATEWAY, *enabled)
    objects = [item for item in yaml.safe_load_all(text) if item]
    resources = {crd["spec"]["names"]["kind"]: (crd["spec"]["group"], crd["spec"]["names"]["plural"]) for crd in crds}
    created = [crd for crd in crds if api.post(CRDS, crd).status == 201]
    try:
        for obj in objects:
            if obj["kind"] not in resources:
                continue
            path = "/apis/{}/v1/namespaces/default/{}".format(*resources[obj["kind"]])
            eventually(partial(is_served, api, path), what=f"{path} is served")
            obj["metadata"]["namespace"] = "default"
            api.post(path, obj, query={"dryRun": "All", "fieldValidation": "Strict"}).ok(201)
    finally:
        for crd in created:
            api.delete(f"{CRDS}/{crd['metadata']['name']}")
    kinds = [obj["kind"] for obj in objects]
    assert [kinds.count(kind) for kind in ("ServiceMonitor", "PodMonitoring", "PrometheusRule", "Rules")] == [3, 3, 4, 4]
    services = [obj for obj in objects if obj["kind"] == "Service"]
    for item in objects:
        if item["kind"] == "ServiceMonitor":
            wanted = item["spec"]["selector"]["matchLabels"].items()
            [service] = [service for service in services if wanted <= service["metadata"]["labels"].items()]
            assert item["spec"]["endpoints"][0]["port"] in [port["name"] for port in service["spec"]["ports"]]


def test_committed_manifests_are_rendered_from_the_chart(tmp_path: Path) -> None:
    command = [sys.executable, str(DEPLOY / "charts" / "render.py"), "--check"]
    environment = {"HELM": str(build(PROGRAMS["helm"])), "HOME": str(tmp_path), "PATH": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_chart_is_clean_and_values_are_checked(tmp_path: Path) -> None:
    helm = Helm(tmp_path)
    registry = "--set=image.registry=registry.example"
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART), registry)
    # Helm 4 writes /graphs/replicas, Helm 3 graphs.replicas.
    for value, message in {
        "graphs.replicas=0": "graphs[/.]replicas",
        "unknown=1": "dditional propert(ies|y) '?unknown'?",
        "slices.settings.lower=x": "lower.* does not match|settings.*lower",
        "image.tag=a b": "image[/.]tag",
        "stallTimeout=soon": "stallTimeout",
        "gateway.enabled=true": "gateway[/.]spec.*models",
        "gateway.spec.listen.port=80": "gateway[/.]spec[/.]listen[/.]port",
        "graphs=null": "graphs",
        "networkPolicy.scrapers=null": "networkPolicy.*scrapers",
        "gateway.enabled=true,gateway.spec.models={},gateway.minReplicas=20": "gateway.minReplicas: must be at most",
    }.items():
        refused = helm.attempt("template", "x", str(CHART), registry, f"--set={value}")
        assert refused.returncode != 0
        assert re.search(message, refused.stderr), refused.stderr
    assert "image.registry: set the registry" in helm.attempt("template", "x", str(CHART)).stderr


def test_gateway_needs_only_models(tmp_path: Path) -> None:
    """The other fields of its document have defaults: the ports are those of the Service and of the probes."""
    model = '{"name": "gemma", "discovery": {"kind": "openai", "labels": {"app": "gemma"}}}'
    settings = (f"--set-json=gateway.spec.models=[{model}]", "--set-json=gateway.spec.anonymous=true", "--set=gateway.enabled=true")
    text = Helm(tmp_path)("template", "x", str(CHART), "--set=image.registry=registry.example", *settings)
    objects = [item for item in yaml.safe_load_all(text) if item and item["metadata"].get("namespace") == "models"]
    [rendered] = [item["data"]["gateway.yaml"] for item in objects if item["kind"] == "ConfigMap"]
    [document] = yaml_documents.load_all(rendered, "gateway.yaml")
    gateway, problems = documents.check(document)
    assert problems == []
    assert isinstance(gateway, Gateway)
    assert gateway.spec.admin is not None
    [container] = [item["spec"]["template"]["spec"]["containers"][0] for item in objects if item["kind"] == "Deployment"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": gateway.spec.listen.port, "admin": gateway.spec.admin.port}
    assert gateway.spec.admin.host == "0.0.0.0"


def test_each_image_has_its_own_digest(tmp_path: Path) -> None:
    digests = {"controllers": f"sha256:{'a' * 64}", "gateway": f"sha256:{'b' * 64}"}
    settings = [f"--set=image.digests.{name}={digest}" for name, digest in digests.items()]
    enabled = ("--set=image.registry=registry.example", *GATEWAY)
    text = Helm(tmp_path)("template", "x", str(CHART), *enabled, *settings)
    images = set(re.findall(r"^ +image: (.+)$", text, re.MULTILINE))
    assert images == {f"registry.example/{name}:{__version__}@{digest}" for name, digest in digests.items()}
    refused = Helm(tmp_path).attempt("template", "x", str(CHART), *enabled, "--set=image.digests.gateway=latest")
    assert re.search("image[/.]digests[/.]gateway", refused.stderr), refused.stderr


def test_chart_is_pushed_to_a_registry(tmp_path: Path) -> None:
    helm = Helm(tmp_path / "helm")
    helm("package", str(CHART), f"--destination={tmp_path / 'dist'}")
    with run_registry() as registry:
        (tmp_path / "sign").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/signed\n')
        (tmp_path / "sign").chmod(0o755)
        settings = {
            "VERSION": __version__,
            "REGISTRY": registry,
            "HELM": str(build(PROGRAMS["helm"])),
            "HELM_FLAGS": "--plain-http",
        }
        command = ["make", f"--makefile={DEPLOY.parent / 'Makefile'}", "push-chart", f"SIGN={tmp_path / 'sign'}"]
        pushed = subprocess.run(
            [*command, *(f"{name}={value}" for name, value in settings.items())],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert pushed.returncode == 0, pushed.stdout + pushed.stderr
        [digest] = re.findall(r"Digest: (sha256:[0-9a-f]{64})", pushed.stdout)
        assert (tmp_path / "signed").read_text() == f"{registry}/charts/sliceworks@{digest}\n"
        source = (f"oci://{registry}/charts/sliceworks", f"--version={__version__}", "--plain-http")
        text = helm("template", "x", *source, "--set=image.registry=registry.example")
        assert text == helm("template", "x", str(CHART), "--set=image.registry=registry.example")


def test_values_of_the_example_render(tmp_path: Path) -> None:
    text = Helm(tmp_path)("template", "x", str(CHART), f"--values={EXAMPLE / 'values.yaml'}")
    objects = [item for item in yaml.safe_load_all(text) if item]
    kinds = [obj["kind"] for obj in objects]
    assert kinds.count("PodMonitoring") == 2
    assert kinds.count("Rules") == 3
    [settings] = [obj["data"] for obj in objects if obj["metadata"]["name"] == "tpu-provisioner-manager"]
    assert settings["GCP_CLUSTER"] == "example-cluster"
