"""The manifests of the slice controller: a real cluster takes them as they are, strictly, and they give no more than is needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.support import kubectl
from tests.support.clusters import real_wanted

if TYPE_CHECKING:
    from tests.support.clusters import Cluster

Object = dict[str, Any]
FOLDER = Path(__file__).parents[2] / "deploy" / "slices"
EXAMPLE = FOLDER / "example-project" / "example-cluster"
NAMESPACE, ACCOUNT = "tpu-provisioner-system", "tpu-provisioner-controller-manager"


@pytest.mark.real
@pytest.mark.skipif(not real_wanted(), reason="needs kubectl built from its Go module: SLICEWORKS_REAL=1")
def test_a_cluster_takes_every_manifest(cluster: Cluster, tmp_path: Path) -> None:
    run = kubectl.Kubectl(cluster.kubeconfig, NAMESPACE, tmp_path)
    apply = ("apply", "--server-side", "--validate=strict", "-k", str(EXAMPLE))
    try:
        said = run(*apply).ok()
        assert "deployment.apps/tpu-provisioner-controller-manager serverside-applied" in said
        assert run(*apply).ok() == said
        assert allowed(run, "list", "pods")
        assert allowed(run, "patch", "pods/status")
        assert not allowed(run, "patch", "pods")
        assert not allowed(run, "delete", "pods")
        assert not allowed(run, "get", "secrets")
        assert not allowed(run, "patch", "nodes")
    finally:
        run("delete", "--ignore-not-found", "--wait=false", "-k", str(EXAMPLE))


def allowed(run: kubectl.Kubectl, verb: str, resource: str) -> bool:
    resource, _, below = resource.partition("/")
    part = (f"--subresource={below}",) if below else ()
    return run("auth", "can-i", verb, resource, *part, "-A", f"--as=system:serviceaccount:{NAMESPACE}:{ACCOUNT}").code == 0


def documents(folder: Path) -> list[Object]:
    return [each for file in sorted(folder.glob("*.yaml")) for each in yaml.safe_load_all(file.read_text()) if each]


def test_the_controller_is_confined() -> None:
    by_kind = {each["kind"]: each for each in documents(FOLDER / "base")}
    pod = by_kind["Deployment"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert by_kind["Namespace"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    rules = by_kind["ClusterRole"]["rules"]
    assert not any("*" in rule["verbs"] + rule["resources"] + rule["apiGroups"] for rule in rules)
    assert not any({"delete", "deletecollection"} & set(rule["verbs"]) for rule in rules)


def test_an_example_names_its_identity_and_known_settings() -> None:
    from sliceworks.controllers.slices import settings

    accounts = [each for each in documents(EXAMPLE) if each["kind"] == "ServiceAccount"]
    assert [each["metadata"]["name"] for each in accounts] == [ACCOUNT]
    identity = accounts[0]["metadata"]["annotations"]["iam.gke.io/gcp-service-account"]
    assert identity == "tpu-provisioner@example-project.iam.gserviceaccount.com"
    lines = (EXAMPLE / "settings.env").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    offered = dict(line[1:].split("=", 1) for line in lines if line.startswith("#") and "=" in line)
    assert set(offered) <= set(settings.variables().values())
    assert set(given) <= set(settings.variables().values())
    read = settings.read(given)
    assert (read.project, read.cluster, read.location, read.zones) == (
        "example-project",
        "example-cluster",
        "us-central2",
        ("us-central2-b",),
    )
