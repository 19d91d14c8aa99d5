"""The manifests below deploy/: a cluster takes every example as it is, strictly, twice, and the pods in them are confined."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from tests.support import kubectl
from tests.support.clusters import real_wanted
from tests.support.deployments import DEPLOY, going, manifests
from tests.support.waiting import eventually

from sliceworks.base import yamls
from sliceworks.controllers.slices import settings
from sliceworks.specs import documents

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clusters import Cluster

BASES = sorted(path.parent for path in DEPLOY.rglob("base/kustomization.yaml"))
EXAMPLES = sorted(path.parent for path in DEPLOY.rglob("kustomization.yaml") if path.parent not in BASES)


# Whom each example runs as, and some of what that one may do and may not.
RIGHTS = {
    "gateway/example": ("models:gateway", {"list pods", "watch services"}, {"get secrets", "patch pods", "list nodes"}),
    "graphs/example": (
        "kro-system:kro",
        {"patch deployments", "create customresourcedefinitions"},
        {"get secrets", "delete nodes"},
    ),
    "slices/example-project/example-cluster": (
        "tpu-provisioner-system:tpu-provisioner-controller-manager",
        {"list pods", "patch pods/status"},
        {"patch pods", "delete pods", "get secrets", "patch nodes"},
    ),
}


def _name(folder: Path) -> str:
    return str(folder.relative_to(DEPLOY))


def test_every_base_has_an_example() -> None:
    assert {folder.parents[0] for folder in BASES} == {DEPLOY / _name(folder).split("/")[0] for folder in EXAMPLES}


@pytest.mark.real
@pytest.mark.skipif(not real_wanted(), reason="needs kubectl built from its Go module: SLICEWORKS_REAL=1")
@pytest.mark.parametrize("folder", EXAMPLES, ids=_name)
def test_a_cluster_takes_it(cluster: Cluster, tmp_path: Path, folder: Path) -> None:
    whom, can, cannot = RIGHTS[_name(folder)]
    namespace = whom.partition(":")[0]
    run = kubectl.Kubectl(cluster.kubeconfig, namespace, tmp_path)
    eventually(lambda: not going(cluster.api, namespace), what=f"{namespace} of another case is gone")
    apply = ("apply", "--server-side", "--validate=strict", "-k", str(folder))
    try:
        said = run(*apply).ok()
        assert said.count("serverside-applied") == said.count("\n") >= len(manifests(folder))
        assert run(*apply).ok() == said
        # A role that is put together from others takes a moment.
        eventually(lambda: all(_allowed(run, whom, right) for right in can), what=f"{whom} may {', '.join(sorted(can))}")
        assert not [right for right in sorted(cannot) if _allowed(run, whom, right)]
    finally:
        run("delete", "--ignore-not-found", "--wait=false", "-k", str(folder))


def _allowed(run: kubectl.Kubectl, account: str, right: str) -> bool:
    verb, _, resource = right.partition(" ")
    resource, _, below = resource.partition("/")
    part = (f"--subresource={below}",) if below else ()
    return run("auth", "can-i", verb, resource, *part, f"--as=system:serviceaccount:{account}").code == 0


@pytest.mark.parametrize("folder", BASES, ids=_name)
def test_its_pods_are_confined(folder: Path) -> None:
    found = manifests(folder)
    (pod,) = [each["spec"]["template"]["spec"] for each in found if each["kind"] == "Deployment"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert set(container["resources"]) == {"requests", "limits"}
    (namespace,) = [each for each in found if each["kind"] == "Namespace"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("folder", BASES, ids=_name)
def test_its_rights_name_what_they_are_for(folder: Path) -> None:
    roles = [each for each in manifests(folder) if each["kind"] in ("Role", "ClusterRole")]
    assert roles
    for rule in [rule for role in roles for rule in role.get("rules", ())]:
        assert "*" not in rule["verbs"], rule


def test_the_example_of_slices_names_its_identity_and_known_settings() -> None:
    folder = DEPLOY / "slices" / "example-project" / "example-cluster"
    account = yaml.safe_load((folder / "account.yaml").read_text())
    assert f"system:serviceaccount:{RIGHTS[_name(folder)][0]}".endswith(account["metadata"]["name"])
    identity = account["metadata"]["annotations"]["iam.gke.io/gcp-service-account"]
    assert identity == "tpu-provisioner@example-project.iam.gserviceaccount.com"
    lines = (folder / "settings.env").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    offered = dict(line[1:].split("=", 1) for line in lines if line.startswith("#") and "=" in line)
    assert {*offered, *given} <= set(settings.variables().values())
    read = settings.read(given)
    assert (read.project, read.cluster, read.location) == ("example-project", "example-cluster", "us-central2")
    assert read.zones == ("us-central2-b",)


def test_the_document_of_the_gateway_is_good() -> None:
    (document,) = yamls.load_path(DEPLOY / "gateway" / "example" / "gateway.yaml")
    _, problems = documents.check(document)
    assert problems == []
    (config,) = yaml.safe_load((DEPLOY / "gateway" / "example" / "kustomization.yaml").read_text())["configMapGenerator"]
    assert config == {"name": "gateway", "files": ["gateway.yaml"]}
