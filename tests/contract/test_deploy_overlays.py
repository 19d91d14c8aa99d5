"""The rendered manifests and the overlays of examples/deploy: a cluster accepts them strictly, twice, and pods run restricted."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.support import kubectl
from tests.support.clusters import real_enabled
from tests.support.deployments import DEPLOY, EXAMPLE, OVERLAYS, is_terminating, manifests
from tests.support.polling import eventually

from sliceworks.base import yaml_documents
from sliceworks.controllers.slices import settings
from sliceworks.specs import documents

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clusters import Cluster
    from tests.support.http import Api

BASES = sorted(path.parent for path in DEPLOY.rglob("kustomization.yaml"))


# The service accounts of each example, and some permissions that they have and have not.
RIGHTS = {
    "example-gateway": {"models:gateway": ({"list pods", "watch services"}, {"get secrets", "patch pods", "list nodes"})},
    "example-cluster": {
        "kro-system:kro": ({"patch deployments", "create customresourcedefinitions"}, {"get secrets", "delete nodes"}),
        "tpu-provisioner-system:tpu-provisioner-controller-manager": (
            {"list pods", "patch pods/status"},
            {"patch pods", "delete pods", "get secrets", "patch nodes"},
        ),
    },
}


def _name(folder: Path) -> str:
    return folder.name


def test_every_base_has_an_overlay() -> None:
    used = {(folder / yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"][0]).resolve() for folder in OVERLAYS}
    assert used == set(BASES)


@pytest.mark.real
@pytest.mark.skipif(not real_enabled(), reason="needs kubectl built from its Go module: SLICEWORKS_REAL=1")
@pytest.mark.parametrize("folder", OVERLAYS, ids=_name)
def test_cluster_accepts_overlay(cluster: Cluster, tmp_path: Path, folder: Path) -> None:
    run = kubectl.Kubectl(cluster.kubeconfig, "", tmp_path)
    for account in RIGHTS[_name(folder)]:
        space = account.partition(":")[0]
        eventually(partial(_is_usable, cluster.api, space), what=f"{space} of another test is deleted")
    apply = ("apply", "--server-side", "--validate=strict", "-k", str(folder))
    try:
        output = run(*apply).ok()
        assert output.count("serverside-applied") == output.count("\n") >= len(manifests(folder))
        assert run(*apply).ok() == output
        for whom, (can, cannot) in RIGHTS[_name(folder)].items():
            # The aggregation controller needs a moment to combine a ClusterRole.
            eventually(partial(_all_allowed, run, whom, can), what=f"{whom} may {', '.join(sorted(can))}")
            assert not [right for right in sorted(cannot) if _allowed(run, whom, right)]
    finally:
        run("delete", "--ignore-not-found", "--wait=false", "-k", str(folder))


def _is_usable(api: Api, namespace: str) -> bool:
    return not is_terminating(api, namespace)


def _all_allowed(run: kubectl.Kubectl, account: str, rights: set[str]) -> bool:
    return all(_allowed(run, account, right) for right in rights)


def _allowed(run: kubectl.Kubectl, account: str, right: str) -> bool:
    verb, _, resource = right.partition(" ")
    resource, _, below = resource.partition("/")
    part = (f"--subresource={below}",) if below else ()
    who = (f"--namespace={account.partition(':')[0]}", f"--as=system:serviceaccount:{account}")
    return run("auth", "can-i", verb, resource, *part, *who).code == 0


@pytest.mark.parametrize("folder", BASES, ids=_name)
def test_overlay_pods_are_restricted(folder: Path) -> None:
    result = manifests(folder)
    pods = [item["spec"]["template"]["spec"] for item in result if item["kind"] == "Deployment"]
    assert pods
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert set(container["resources"]) == {"requests", "limits"}
        assert {item["topologyKey"] for item in pod["topologySpreadConstraints"]} >= {"kubernetes.io/hostname"}
    namespaces = [item for item in result if item["kind"] == "Namespace"]
    assert len(namespaces) == len(pods)
    assert {item["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] for item in namespaces} == {"restricted"}
    for kind in ("PodDisruptionBudget", "NetworkPolicy", "PriorityClass"):
        assert len([item for item in result if item["kind"] == kind]) == len(pods), kind


@pytest.mark.parametrize("folder", BASES, ids=_name)
def test_overlay_rules_have_descriptions(folder: Path) -> None:
    roles = [obj for obj in manifests(folder) if obj["kind"] in ("Role", "ClusterRole")]
    assert roles
    for rule in [rule for role in roles for rule in role.get("rules", ())]:
        assert "*" not in rule["verbs"], rule


def test_slices_overlay_sets_identity_and_known_settings() -> None:
    folder = EXAMPLE
    account = yaml.safe_load((folder / "account.yaml").read_text())
    assert f"{account['metadata']['namespace']}:{account['metadata']['name']}" in RIGHTS[_name(folder)]
    identity = account["metadata"]["annotations"]["iam.gke.io/gcp-service-account"]
    assert identity == "tpu-provisioner@example-project.iam.gserviceaccount.com"
    lines = (folder / "settings.env").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    offered = dict(line[1:].split("=", 1) for line in lines if line.startswith("#") and "=" in line)
    assert {*offered, *given} <= set(settings.variables().values())
    values = yaml.safe_load((folder / "values.yaml").read_text())
    assert values["slices"]["settings"] == given
    assert values["slices"]["googleServiceAccount"] == identity
    read = settings.read(given)
    assert (read.project, read.cluster, read.location) == ("example-project", "example-cluster", "us-central2")
    assert read.zones == ("us-central2-b",)


@pytest.mark.real
@pytest.mark.skipif(not real_enabled(), reason="needs kubectl built from its Go module: SLICEWORKS_REAL=1")
def test_changed_setting_restarts_the_slices_controller(tmp_path: Path) -> None:
    """The pods read settings.env from a ConfigMap with a hash of its content in its name."""
    for part in ("deploy", "examples/deploy"):
        shutil.copytree(DEPLOY.parent / part, tmp_path / part)
    folder = tmp_path / EXAMPLE.relative_to(DEPLOY.parent)
    before, name = _slices_settings(folder, tmp_path)
    assert before["GCP_ZONE"] == "us-central2-b"
    (folder / "settings.env").write_text((folder / "settings.env").read_text().replace("central2-b", "central2-a"))
    after, other = _slices_settings(folder, tmp_path)
    assert (after["GCP_ZONE"], after["GCP_CLUSTER"]) == ("us-central2-a", before["GCP_CLUSTER"])
    assert other != name


def _slices_settings(folder: Path, home: Path) -> tuple[dict[str, str], str]:
    """The settings that win in the pods of the slices controller, and the name of their ConfigMap."""
    objects = list(yaml.safe_load_all(kubectl.Kubectl(home / "none", "", home)("kustomize", str(folder)).ok()))
    [pod] = [
        obj["spec"]["template"]["spec"]
        for obj in objects
        if (obj["kind"], obj["metadata"]["name"]) == ("Deployment", "tpu-provisioner-controller-manager")
    ]
    name = pod["containers"][0]["envFrom"][-1]["configMapRef"]["name"]
    [data] = [obj["data"] for obj in objects if (obj["kind"], obj["metadata"]["name"]) == ("ConfigMap", name)]
    return data, name


def test_gateway_document_is_valid() -> None:
    (document,) = yaml_documents.load_path(EXAMPLE.parent / "example-gateway" / "gateway.yaml")
    _, problems = documents.check(document)
    assert problems == []
    (config,) = yaml.safe_load((EXAMPLE.parent / "example-gateway" / "kustomization.yaml").read_text())["configMapGenerator"]
    assert config == {"name": "gateway", "namespace": "models", "behavior": "replace", "files": ["gateway.yaml"]}
