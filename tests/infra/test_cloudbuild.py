"""Builds that create and destroy an environment: the stages in order, as the automation account."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import yaml
from tests.support.environments import EXAMPLES, example, small

from sliceworks.base.errors import InvalidDocument
from sliceworks.base.yaml_documents import load_path
from sliceworks.infra.cloudbuild import TritonService, builds
from sliceworks.infra.stack import Workspace
from sliceworks.infra.stages import compile_stages
from sliceworks.serving.compiler import manifests
from sliceworks.serving.validation import parse_valid
from sliceworks.training.queues import build_manifests

if TYPE_CHECKING:
    from pathlib import Path


def build(name: str, verb: str) -> dict[str, Any]:
    result: dict[str, Any] = yaml.safe_load(builds(example(name))[f"cloudbuild.{verb}.yaml"])
    return result


def test_stages_are_created_in_order_and_destroyed_in_reverse() -> None:
    created = [step["dir"] for step in build("saxml", "provision")["steps"]]
    removed = [step["dir"] for step in build("saxml", "destroy")["steps"]]
    assert created == ["stages/1-base", "stages/2-cluster", "stages/4-load", "stages/4-load"]
    assert removed == ["stages/4-load", "stages/2-cluster", "stages/1-base"]


def test_build_has_automation_account_and_tag() -> None:
    result = build("saxml", "provision")
    assert result["serviceAccount"] == "projects/my-project/serviceAccounts/${_SERVICE_ACCOUNT}"
    assert result["substitutions"]["_SERVICE_ACCOUNT"] == "saxml-automation@my-project.iam.gserviceaccount.com"
    assert result["tags"] == ["saxml-infra-deployment", "provision"]


def test_stage_outputs_reach_the_next_stage() -> None:
    script = build("training", "provision")["steps"][1]["args"][1]
    assert 'terraform output -json base)") > base.auto.tfvars.json' in script


def test_machine_type_of_builds() -> None:
    spec = example("saxml").spec
    automation = spec.automation.model_copy(update={"build_machine_type": "e2-highcpu-32"})
    result = example("saxml").model_copy(update={"spec": spec.model_copy(update={"automation": automation})})
    options = [yaml.safe_load(item)["options"] for item in builds(result).values()]
    assert [item["machineType"] for item in options] == ["E2_HIGHCPU_32"] * 3
    assert "machineType" not in build("saxml", "provision")["options"]


def test_last_step_lists_all_resources() -> None:
    step = build("training", "provision")["steps"][-1]
    assert step["id"] == "show resources and outputs"
    assert "cd ../2-cluster && terraform state list" in step["args"][1]


def test_build_impersonates_no_account(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "build")
    workspace.copy_modules()
    for stage in compile_stages(example("training")):
        workspace.write_for_builds(stage)
    written = orjson.loads((tmp_path / "build/stages/2-cluster/environment.auto.tfvars.json").read_bytes())
    assert written["bootstrap"] == {"service_account": None}
    assert written["cluster"]["name"] == "training-cluster"
    assert (tmp_path / "build/modules/network/main.tf").exists()


def triton(namespace: str = "triton") -> TritonService:
    [document] = load_path(EXAMPLES / "models" / "densenet-triton-mesh.yaml")
    return TritonService("densenet-mesh", namespace, manifests(parse_valid(document)), ["densenet_onnx"])


def triton_steps(verb: str) -> dict[str, Any]:
    result = yaml.safe_load(builds(example("triton"), [triton()])[f"cloudbuild.{verb}.yaml"])
    return {step["id"]: step for step in result["steps"]}


def test_mesh_and_services_are_deployed_after_terraform_and_checked() -> None:
    assert list(triton_steps("provision")) == [
        "apply 1-base",
        "apply 2-cluster",
        "apply 3-serving",
        "create namespaces",
        "deploy ingress gateway",
        "deploy densenet-mesh",
        "check densenet-mesh",
        "show resources and outputs",
    ]
    files = builds(example("triton"), [triton()])
    assert "istio-ingressgateway" in files["manifests/ingress.yaml"]
    kinds = [item["kind"] for item in yaml.safe_load_all(files["manifests/namespaces.yaml"])]
    assert kinds == ["Namespace", "ServiceAccount"]
    assert "kind: VirtualService" in files["manifests/densenet-mesh.yaml"]


def test_queues_are_created_after_their_controllers(tmp_path: Path) -> None:
    files = builds(example("training"), queues=build_manifests(example("training")))
    result = yaml.safe_load(files["cloudbuild.provision.yaml"])
    steps = {step["id"]: step for step in result["steps"]}
    assert [name for name in steps if not name.startswith("apply")] == [
        *("create namespaces", "install jobset", "install kueue", "create queues", "show resources and outputs")
    ]
    assert {key: result["substitutions"][key] for key in ("_JOBSET_VERSION", "_KUEUE_VERSION")} == {
        "_JOBSET_VERSION": "v0.12.0",
        "_KUEUE_VERSION": "v0.15.0",
    }
    assert "/kueue/releases/download/${_KUEUE_VERSION}/manifests.yaml" in steps["install kueue"]["args"][1]
    kinds = {item["kind"] for item in yaml.safe_load_all(files["manifests/queues.yaml"])}
    assert {"ResourceFlavor", "ClusterQueue", "LocalQueue", "RoleBinding"} <= kinds
    assert "name: tpu-training" in files["manifests/namespaces.yaml"]
    code, calls = run_step(steps["create queues"], tmp_path, "")
    assert (code, calls[-1]) == (0, "kubectl apply --server-side -f manifests/queues.yaml")
    destroy = yaml.safe_load(files["cloudbuild.destroy.yaml"])
    assert "kubectl delete namespace research tpu-training" in destroy["steps"][0]["args"][1]
    assert "_KUEUE_VERSION" not in destroy["substitutions"]


def test_environment_without_mesh_and_services_only_runs_terraform() -> None:
    assert not [name for name in builds(example("saxml")) if name.startswith("manifests/")]


def run_step(step: dict[str, Any], folder: Path, failing: str) -> tuple[int, list[str]]:
    """Run the script of a step with programs that record their calls; kubectl fails on calls that contain `failing`."""
    log = folder / "calls"
    for name, failure in (("gcloud", ""), ("kubectl", failing)):
        program = folder / name
        test = f'case "$*" in *"{failure}"*) exit 22;; esac\n' if failure else ""
        program.write_text(f'#!/bin/sh\necho {name} "$@" >> {log}\n{test}')
        program.chmod(0o755)
    path = {"PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run([step["entrypoint"], *step["args"]], env=path, cwd=folder, timeout=60, check=False)
    return done.returncode, log.read_text().splitlines()


@pytest.mark.parametrize(
    ("failing", "status"),
    [
        ("", 0),
        ("rollout status deployment/densenet-mesh-canary", 22),
        ("/v2/health/ready", 22),
        ("/v2/models/densenet_onnx/ready", 22),
    ],
)
def test_health_check_fails_unless_servers_and_models_are_ready(tmp_path: Path, failing: str, status: int) -> None:
    result, calls = run_step(triton_steps("provision")["check densenet-mesh"], tmp_path, failing)
    assert result == status
    assert calls[0].startswith("gcloud container clusters get-credentials triton-cluster")
    assert failing in calls[-1]


def test_namespaces_are_deleted_before_the_cluster() -> None:
    steps = triton_steps("destroy")
    assert next(iter(steps)) == "delete namespaces"
    assert "kubectl delete namespace triton --ignore-not-found" in steps["delete namespaces"]["args"][1]


def test_protected_cluster_keeps_its_namespaces(tmp_path: Path) -> None:
    result = yaml.safe_load(builds(small("  addons: {mesh: true}\n"))["cloudbuild.destroy.yaml"])
    assert result["steps"][0]["id"] == "check protection"
    done = subprocess.run(["sh", *result["steps"][0]["args"]], capture_output=True, cwd=tmp_path, timeout=60, check=False)
    assert (done.returncode, b"spec.deletionProtection" in done.stderr) == (1, True)
    assert "delete namespace" not in str(result)


def test_service_in_another_namespace_is_refused() -> None:
    with pytest.raises(InvalidDocument, match="must be a namespace of the environment, got default"):
        builds(example("triton"), [triton("default")])


def test_lock_file_of_a_stage_is_kept(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "build")
    workspace.copy_modules()
    lock = workspace.stage("1-base") / ".terraform.lock.hcl"
    lock.write_text("# checksums\n")
    workspace.copy_modules()
    assert lock.read_text() == "# checksums\n"
