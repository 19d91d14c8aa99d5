"""`sliceworks version` and `sliceworks doctor`: what is installed in a cluster, and what is wrong with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.clusters import TwinCluster
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin
from tests.support.jobset_install import install_older_jobset

from sliceworks import __version__
from sliceworks.base import clock
from sliceworks.cli.main import run
from sliceworks.controllers.graphs.controller import install
from sliceworks.controllers.graphs.manifests import build_crds
from sliceworks.controllers.graphs.well_known import GRAPH_DEFINITION
from sliceworks.infra.cluster.composition import component_manifests
from sliceworks.kube.client import Client
from sliceworks.kube.requests import PatchType
from sliceworks.kube.resources import CLUSTER_ROLE, CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT
from sliceworks.platform import installation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from sliceworks.platform.installation import Check

_UPGRADE = f"helm upgrade --install {{}} sliceworks-{__version__}.tgz --namespace {{}} --create-namespace --values values.yaml"
_VERSION = f"  # with install.yaml and the images of version {__version__}"
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "machine",
        "labels": {"sliceworks.dev/node": "simulated", "iam.gke.io/gke-metadata-server-enabled": "true"},
    },
    "status": {"capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
}


def examined(change: Callable[[Client], Awaitable[Any]] | None, *, nodes: bool = True) -> dict[str, Check]:
    """The checks of a twin with both controllers, after a change; without one, of an empty twin."""
    result: dict[str, Check] = {}

    async def main(twin: EmbeddedTwin) -> None:
        client = Client(twin.cluster.transport())
        if change is not None:
            await install(client)
            for obj in (*component_manifests("graphs"), *component_manifests("slices"), *([NODE] if nodes else ())):
                await client.apply(obj, field_manager="test")
            await clock.sleep(60)
            await change(client)
        result.update({f"{check.area}/{check.name}": check for check in await installation.examine(client)})

    run_on_twin(main, workloads=True)
    return result


async def nothing(_client: Client) -> None:
    """No change."""


def test_healthy_installation_has_no_problems() -> None:
    checks = examined(nothing)
    assert {name: check.message for name, check in checks.items() if check.state not in ("ok", "skipped")} == {}
    assert checks["controllers/graphs"].message == f"2 of 2 replicas available, version {__version__}"
    assert checks["rights/slices"].message.endswith("has all permissions")


def test_empty_cluster_names_the_command_that_installs() -> None:
    checks = examined(None)
    missing = {name for name, check in checks.items() if check.state == "warning"}
    assert missing >= {"controllers/graphs", "controllers/slices", "crds/resourcegraphdefinitions.kro.run"}
    assert all(checks[name].repair for name in missing)
    assert checks["controllers/slices"].repair == (
        f"{_UPGRADE.format('sliceworks', 'sliceworks-system')} --set slices.enabled=true"
    )


@pytest.mark.parametrize(
    ("metadata", "repair"),
    [
        (
            {"annotations": {"meta.helm.sh/release-name": "mine", "meta.helm.sh/release-namespace": "tools"}},
            f"{_UPGRADE.format('mine', 'tools')} --force-conflicts  # Helm 3: without --force-conflicts",
        ),
        ({"labels": {"sliceworks.dev/environment": "demo"}}, "sliceworks env apply -f FILE  # the document of Environment demo"),
        ({}, f"kubectl apply --server-side --force-conflicts -k FOLDER{_VERSION}"),
    ],
)
def test_repair_is_for_the_way_of_installation(metadata: dict[str, Any], repair: str) -> None:
    async def change(client: Client) -> None:
        await client.patch(DEPLOYMENT, "kro", {"metadata": metadata}, "kro-system")
        await client.patch(CLUSTER_ROLE, "tpu-provisioner-manager-role", {"rules": []})

    assert examined(change)["rights/slices"].repair == repair


@pytest.mark.parametrize(("kubernetes", "jobset"), [("v1.31.4", "v0.10.1"), ("v1.35.4", "v0.12.0")])
def test_missing_programs_are_installed_in_versions_that_kubernetes_accepts(
    kubernetes: str, jobset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result: list[Check] = []

    async def read_versions(_client: Client) -> dict[str, str]:
        return {"Kubernetes": kubernetes}

    async def main(twin: EmbeddedTwin) -> None:
        result.extend(await installation.examine(Client(twin.cluster.transport())))

    monkeypatch.setattr(installation, "read_versions", read_versions)
    run_on_twin(main)
    source = "kubectl apply --server-side -f https://github.com/kubernetes-sigs/{}/releases/download/{}/manifests.yaml"
    repairs = {check.name: check.repair for check in result if check.area == "versions" and check.state == "warning"}
    assert repairs == {"JobSet": source.format("jobset", jobset), "Kueue": source.format("kueue", "v0.15.0")}


def test_jobset_without_message_patterns_is_an_error() -> None:
    check = examined(install_older_jobset)["versions/JobSet"]
    assert (check.state, check.repair.split("/")[-2]) == ("error", "v0.12.0")
    assert "has no onJobFailureMessagePatterns" in check.message


def test_pods_that_do_not_run_are_an_error() -> None:
    check = examined(nothing, nodes=False)["controllers/slices"]
    assert check.state == "error"
    assert check.message.startswith(f"0 of 2 replicas available, version {__version__}: pod tpu-provisioner-controller-manager-")
    assert check.message.endswith("is not scheduled: no nodes available to schedule pods")
    assert check.repair.startswith("kubectl -n tpu-provisioner-system describe deployment")


async def change_pods(client: Client, spec: dict[str, Any]) -> None:
    """Change the pods of the slices controller."""
    template = {"spec": {"template": {"spec": spec}}}
    await client.patch(
        DEPLOYMENT, "tpu-provisioner-controller-manager", template, "tpu-provisioner-system", kind=PatchType.STRATEGIC
    )
    await clock.sleep(60)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"nodeSelector": {"disk": "none"}}, "is not scheduled: 0/1 nodes are available"),
        ({"priorityClassName": "missing"}, "no PriorityClass with name missing was found"),
    ],
)
def test_upgrade_whose_pods_do_not_run_is_reported(spec: dict[str, Any], reason: str) -> None:
    check = examined(lambda client: change_pods(client, spec))["controllers/slices"]
    assert check.state == "warning"
    assert check.message.startswith(f"the rollout of version {__version__} is not complete: ")
    assert check.repair.endswith(" || kubectl -n tpu-provisioner-system rollout undo deployment tpu-provisioner-controller-manager")
    assert reason in check.message


def test_missing_permissions_are_an_error() -> None:
    async def change(client: Client) -> None:
        await client.patch(CLUSTER_ROLE, "tpu-provisioner-manager-role", {"rules": []})
        await client.create(webhook("Ignore"))

    checks = examined(change)
    assert checks["webhooks/services"].message == "1 webhook, all reachable"
    check = checks["rights/slices"]
    assert check.state == "error"
    assert "cannot get pods, list pods, watch pods and" in check.message


def test_other_versions_are_reported() -> None:
    async def change(client: Client) -> None:
        crd = await client.get(CUSTOM_RESOURCE_DEFINITION, "graphrevisions.internal.kro.run")
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "another version"
        await client.replace(crd)
        image = {"name": "manager", "image": "registry.example/controllers:0.0.9"}
        await change_pods(client, {"containers": [image]})

    checks = examined(change)
    assert checks["crds/graphrevisions.internal.kro.run"].state == "warning"
    assert checks["crds/resourcegraphdefinitions.kro.run"].state == "ok"
    assert f"version 0.0.9; this command has version {__version__}" in checks["controllers/slices"].message


def of_release(status: str, revision: int) -> dict[str, Any]:
    labels = {"owner": "helm", "name": "mine", "status": status, "version": str(revision)}
    name = f"sh.helm.release.v1.mine.v{revision}"
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1", "metadata": metadata}


_MINE = _UPGRADE.format("mine", "default")


@pytest.mark.parametrize(
    ("statuses", "state", "repair"),
    [
        (("superseded", "deployed"), "ok", ""),
        (("superseded", "deployed", "failed"), "warning", "helm rollback mine 10 --namespace default  #"),
        (("deployed", "failed", "pending-upgrade"), "error", "helm rollback mine 9 --namespace default  #"),
        (("failed",), "warning", _MINE),
        (("pending-install",), "error", f"helm uninstall mine --namespace default --wait && {_MINE}"),
    ],
)
def test_interrupted_release_is_an_error(statuses: tuple[str, ...], state: str, repair: str) -> None:
    async def change(client: Client) -> None:
        names = {"meta.helm.sh/release-name": "mine", "meta.helm.sh/release-namespace": "default"}
        await client.patch(DEPLOYMENT, "kro", {"metadata": {"annotations": names}}, "kro-system")
        for revision, status in enumerate(statuses, 9):
            await client.create(of_release(status, revision))

    check = examined(change)["releases/mine"]
    assert (check.state, check.repair[: len(repair)]) == (state, repair)
    assert check.message.startswith(f"revision {8 + len(statuses)} is {statuses[-1]}")


def test_leftovers_of_an_uninstalled_controller_are_reported() -> None:
    async def change(client: Client) -> None:
        definition = {"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition"}
        metadata = {"name": "stuck", "finalizers": ["kro.run/finalizer"]}
        spec = {"schema": {"apiVersion": "v1alpha1", "kind": "Thing", "spec": {}}, "resources": []}
        await client.create({**definition, "metadata": metadata, "spec": spec})
        await client.delete(GRAPH_DEFINITION, "stuck")
        await client.delete(DEPLOYMENT, "kro", "kro-system")
        await clock.sleep(60)

    checks = examined(change)
    assert checks["leftovers/kro:controller"].repair == "kubectl delete clusterrole kro:controller"
    assert checks["leftovers/stuck"].state == "error"
    assert not [name for name in examined(nothing) if name.startswith("leftovers/")]


@pytest.mark.parametrize(
    ("arguments", "repair"),
    [
        ([], "kubectl -n kro-system rollout restart deployment kro"),
        (["--no-install-crds"], f"kubectl apply --server-side -k FOLDER{_VERSION}"),
    ],
)
def test_deleted_crd_is_installed_again(arguments: list[str], repair: str) -> None:
    """By the controller, unless it does not install CRDs."""

    async def change(client: Client) -> None:
        container = {"name": "manager", "image": f"registry.example/controllers:{__version__}", "args": arguments}
        template = {"spec": {"template": {"spec": {"containers": [container]}}}}
        await client.patch(DEPLOYMENT, "kro", template, "kro-system")
        await client.delete(CUSTOM_RESOURCE_DEFINITION, "graphrevisions.internal.kro.run")
        await clock.sleep(60)

    check = examined(change)["crds/graphrevisions.internal.kro.run"]
    assert (check.message, check.repair) == ("not installed", repair)


@pytest.mark.parametrize(
    ("annotations", "repair"),
    [
        ({}, "kubectl -n kro-system scale deployment kro --replicas 2"),
        (
            {"meta.helm.sh/release-name": "mine", "meta.helm.sh/release-namespace": "default"},
            f"{_MINE} --set graphs.replicas=2 --force-conflicts  # Helm 3: without --force-conflicts",
        ),
    ],
)
def test_controller_without_replicas_is_an_error(annotations: dict[str, str], repair: str) -> None:
    async def change(client: Client) -> None:
        change = {"metadata": {"annotations": annotations}, "spec": {"replicas": 0}}
        await client.patch(DEPLOYMENT, "kro", change, "kro-system")
        await clock.sleep(60)

    checks = examined(change)
    assert checks["controllers/graphs"].repair == repair
    assert checks["controllers/graphs"].state == "error"
    assert checks["controllers/graphs"].message.startswith("0 of 0 replicas available")


@pytest.mark.parametrize(
    ("accepted", "message", "repair"),
    [
        (
            "True",
            "kro-system/kro cannot get configmaps, list configmaps, watch configmaps and 3 more",
            "kubectl get rgd thing -o yaml |",
        ),
        ("False", "unknown kind Nope", "kubectl edit rgd thing"),
    ],
)
def test_reason_of_an_inactive_definition_is_reported(accepted: str, message: str, repair: str) -> None:
    template = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    schema = {"apiVersion": "v1alpha1", "kind": "Thing", "spec": {}}
    definition = {
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": {"name": "thing"},
        "spec": {"schema": schema, "resources": [{"id": "map", "template": template}]},
    }
    conditions = [
        {"type": "GraphAccepted", "status": accepted},
        {"type": "Ready", "status": "False", "message": "unknown kind Nope"},
    ]

    async def change(client: Client) -> None:
        await client.create(definition)
        status = {"status": {"state": "Inactive", "conditions": conditions}}
        await client.patch(GRAPH_DEFINITION, "thing", status, subresource="status")

    check = examined(change)["graphs/thing"]
    assert check.message == f"the definition is not active: {message}"
    assert check.repair.startswith(repair)


def test_other_crds_are_taken_over() -> None:
    result: list[Check] = []

    async def main(twin: EmbeddedTwin) -> None:
        client = Client(twin.cluster.transport())
        crd = next(obj for obj in build_crds() if obj["metadata"]["name"] == "graphrevisions.internal.kro.run")
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "another version"
        await client.create(crd)
        await clock.sleep(5)
        result.extend(await installation.examine(client))

    run_on_twin(main)
    [repair] = [check.repair for check in result if "its schema is not" in check.message]
    assert repair.endswith("--take-ownership --force-conflicts  # Helm 3: without --force-conflicts")


def webhook(failure_policy: str) -> dict[str, Any]:
    """A webhook configuration whose Service has no endpoints."""
    client = {"service": {"namespace": "default", "name": failure_policy.lower()}}
    checks = {
        "name": "checks.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": failure_policy,
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    return {**kind, "metadata": {"name": failure_policy.lower()}, "webhooks": [{**checks, "clientConfig": client}]}


def test_problems_around_the_controllers_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "KUBERNETES", ((1, 20), (1, 21)))
    monkeypatch.setattr(installation, "_APIS", {"JobSet": ("jobset.x-k8s.io", "v9", "jobset"), "Kueue": ("nowhere", "v1", "kueue")})

    async def change(client: Client) -> None:
        await client.patch(DEPLOYMENT, "tpu-provisioner-controller-manager", {"spec": {"replicas": 1}}, "tpu-provisioner-system")
        holder = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": clock.micro_timestamp()}
        metadata = {"name": "ecaf1259.google.com", "namespace": "tpu-provisioner-system"}
        await client.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": holder})
        for policy in ("Fail", "Ignore"):
            await client.create(webhook(policy))
        spec = {"schema": {"apiVersion": "v1alpha1", "kind": "Thing", "spec": {}}, "resources": []}
        definition = {
            "apiVersion": "kro.run/v1alpha1",
            "kind": "ResourceGraphDefinition",
            "metadata": {"name": "bad"},
            "spec": spec,
        }
        await client.create(definition)
        await client.patch(GRAPH_DEFINITION, "bad", {"status": {"state": "Inactive"}}, subresource="status")
        await client.patch(DEPLOYMENT, "kro", {"metadata": {"labels": {"app.kubernetes.io/name": "kro"}}}, "kro-system")
        await clock.sleep(60)

    checks = examined(change)
    assert checks["controllers/kro"].repair.startswith("kubectl apply --server-side --force-conflicts -k FOLDER  # ")
    assert checks["webhooks/default/fail"].repair == "kubectl delete validatingwebhookconfigurations fail"
    problems = {name: (check.state, check.message) for name, check in checks.items() if check.state in ("warning", "error")}
    assert {name for name in problems if not checks[name].repair} == set()
    assert problems.pop("controllers/slices leader")[1].startswith("a renewed the Lease ")
    assert problems.pop("versions/Kubernetes")[1].endswith("(supported: 1.20 to 1.21)")
    assert problems == {
        "versions/JobSet": ("error", "jobset.x-k8s.io serves v1alpha2, but not v9"),
        "versions/Kueue": ("warning", "Kueue is not installed"),
        "controllers/graphs": ("warning", "not installed"),
        "controllers/kro": ("warning", "the Deployment kro-system/kro is not the graphs controller of Sliceworks"),
        "controllers/slices": (
            "warning",
            f"1 of 1 replicas available, version {__version__}; an upgrade or a failed node interrupts it",
        ),
        "webhooks/default/fail": (
            "error",
            "Service default/fail does not exist; requests that call checks.example.com fail",
        ),
        "graphs/bad": ("warning", "the definition is not active: its status has no reason"),
        "leftovers/kro:controller": ("warning", "a ClusterRole without a controller"),
    }


def test_checks_without_permission_are_skipped() -> None:
    result: list[Check] = []

    async def main(twin: EmbeddedTwin) -> None:
        request = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}}
        token = await twin.do("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", request)
        result.extend(await installation.examine(Client(twin.cluster.transport(token["status"]["token"]))))

    run_on_twin(main)
    skipped = {check.area: check.repair for check in result if check.state == "skipped"}
    assert skipped.keys() >= {"versions", "crds", "controllers", "rights", "webhooks", "releases", "leftovers"}
    assert set(skipped.values()) == {"run it as a cluster administrator"}
    assert not [check for check in result if check.state in ("warning", "error")]


def test_commands_on_a_twin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = TwinCluster(tmp_path)
    try:
        where = ("--kubeconfig", str(cluster.kubeconfig))
        assert run(["doctor", *where, "-o", "json"]) == 0
        checks = json.loads(capsys.readouterr().out)
        assert {check["area"] for check in checks} >= {"versions", "crds", "controllers", "webhooks"}
        assert run(["doctor", *where]) == 0
        printed = capsys.readouterr()
        assert "not installed" in printed.out
        assert "repair controllers/graphs: helm upgrade" in printed.err
        assert f"first run: export KUBECONFIG={cluster.kubeconfig}\n" in printed.err
        assert run(["version", "--cluster", *where, "-o", "json"]) == 0
        [versions] = json.loads(capsys.readouterr().out)
        assert versions["sliceworks"] == __version__
        assert versions["Kubernetes"].startswith("v1.")
    finally:
        cluster.stop()
    assert run(["version"]) == 0
    assert __version__ in capsys.readouterr().out
