"""The objects of an environment's cluster, compared with reviewed golden files; and the effect of each field."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support import environments

from sliceworks.base.errors import InvalidDocument
from sliceworks.base.yaml_documents import load_all
from sliceworks.infra import preflight
from sliceworks.infra.cluster import composition
from sliceworks.infra.cluster.inventory import (
    OWNER,
    Available,
    ConditionTrue,
    KindsServed,
    WebhookReady,
    build_namespace,
    merge_objects,
    reference_to,
)

if TYPE_CHECKING:
    from sliceworks.infra.cluster.inventory import Step

Object = dict[str, Any]
GOLDENS = Path(__file__).parents[1] / "goldens"


def written(steps: tuple[Step, ...]) -> list[Object]:
    return [
        {
            "step": step.name,
            # Published releases are listed by name only.
            "objects": [str(reference_to(obj)) if step.validation == "Warn" else obj for obj in step.objects],
            "waits": [type(wait).__name__ for wait in step.waits],
        }
        for step in steps
    ]


@pytest.mark.parametrize("name", environments.NAMES)
def test_examples_match_goldens(name: str) -> None:
    seen = orjson.loads(orjson.dumps(written(environments.on_twin(environments.example(name)))))
    path = GOLDENS / f"cluster-{name}.json"
    if os.environ.get("SLICEWORKS_RECORD") == "1":
        path.write_bytes(orjson.dumps(seen, option=orjson.OPT_INDENT_2) + b"\n")
        pytest.fail(f"{path.name} was written: read it")
    assert seen == orjson.loads(path.read_bytes())


def objects(text: str, kind: str, **more: Any) -> list[Object]:
    steps = environments.on_twin(environments.small(text), **more)
    return [obj for step in steps for obj in step.objects if obj["kind"] == kind]


def test_all_objects_have_the_environment_label() -> None:
    for name in environments.NAMES:
        for step in environments.on_twin(environments.example(name)):
            assert all(obj["metadata"]["labels"][OWNER] == name for obj in step.objects), step.name


def test_identity_uses_the_google_account_of_terraform() -> None:
    text = "  identities: {workloads: {trainer: {namespace: jobs, serviceAccount: runner}}}\n"
    [account] = objects(text, "ServiceAccount", emails={"trainer": "made@by.terraform"})
    assert account["metadata"]["name"] == "runner"
    assert account["metadata"]["annotations"] == {"iam.gke.io/gcp-service-account": "made@by.terraform"}
    [existing] = objects(
        "  identities: {workloads: {trainer: {namespace: jobs, existing: robot@elsewhere.iam}}}\n", "ServiceAccount"
    )
    assert existing["metadata"]["annotations"] == {"iam.gke.io/gcp-service-account": "robot@elsewhere.iam"}


def test_team_and_identity_share_account_and_namespace() -> None:
    steps = environments.on_twin(environments.example("training"))
    [places] = [step for step in steps if step.name == "namespaces"]
    named = [str(reference_to(obj)) for obj in places.objects]
    assert named.count("Namespace tpu-training") == named.count("ServiceAccount tpu-training/cloud-tpu-sa") == 1
    [space] = [obj for obj in places.objects if str(reference_to(obj)) == "Namespace tpu-training"]
    assert space["metadata"]["labels"]["sliceworks.dev/team"] == "tpu-training"


@pytest.mark.parametrize(
    ("team", "wrong"),
    [
        ("{identity: trainer, namespace: jobs}", ""),
        ("{identity: trainer}", "jobs run as research/trainer, but identity trainer is bound to jobs/trainer"),
        (
            "{identity: trainer, namespace: jobs, serviceAccount: x}",
            "jobs run as jobs/x, but identity trainer is bound to jobs/trainer",
        ),
        ("{}", ""),
    ],
)
def test_team_with_unusable_identity_is_an_error(team: str, wrong: str) -> None:
    text = f"  identities: {{workloads: {{trainer: {{namespace: jobs}}}}}}\n  teams: {{research: {team}}}\n"
    assert [item.message for item in preflight.check(environments.small(text))] == ([wrong] if wrong else [])


def test_conflicting_parts_are_an_error() -> None:
    with pytest.raises(InvalidDocument, match="Namespace a, metadata, labels, x: conflicting values '1' and '2'"):
        merge_objects([build_namespace("a", labels={"x": "1"}), build_namespace("a", labels={"x": "2"})])


def test_ready_within_configures_and_restarts_kueue() -> None:
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"}}
    plain["data"] = {"controller_manager_config.yaml": "kind: Configuration\nwebhook: {port: 9443}\n"}
    pods = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"annotations": {"theirs": "x"}}, "spec": {}}}
    manager = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "m", "namespace": "kueue-system"}, "spec": pods}
    marks = []
    for text in ("", "  queues: {readyWithin: 10m}\n", "  queues: {readyWithin: 20m}\n"):
        result = environments.on_twin(environments.small(text), releases={"kueue": [plain, manager]})
        [step] = [item for item in result if item.name == "kueue"]
        config, deployment = step.objects
        [settings] = load_all(config["data"]["controller_manager_config.yaml"], "config")
        assert settings.data["webhook"] == {"port": 9443}
        wait = settings.data.get("waitForPodsReady")
        assert (wait or {}).get("timeout") == (text.partition("Within: ")[2].rstrip("}\n") or None)
        annotations = deployment["spec"]["template"]["metadata"]["annotations"]
        assert annotations["theirs"] == "x"
        marks.append(annotations.get("sliceworks.dev/configuration"))
        assert Available("Deployment", "kueue-system", "m") in step.waits
    assert len(set(marks)) == 3


def test_existing_kueue_is_configured_only_if_owned() -> None:
    text = "  queues: {readyWithin: 10m}\n"
    assert [obj["metadata"]["name"] for obj in objects(text, "ConfigMap")] == ["kueue-manager-config"]
    assert objects(text, "ConfigMap", configures_kueue=False) == []
    assert objects("", "ConfigMap") == []


def test_steps_wait_for_webhooks_of_jobset_and_kueue() -> None:
    steps = {step.name: step for step in environments.on_twin(environments.small())}
    requested = [wait for name in ("jobset", "kueue") for wait in steps[name].waits if isinstance(wait, WebhookReady)]
    assert [(wait.component, wait.probe["kind"]) for wait in requested] == [("JobSet", "JobSet"), ("Kueue", "ResourceFlavor")]


def test_no_queues_without_kueue() -> None:
    text = "  addons: {jobset: false, kueue: false}\n  teams: {research: {}}\n"
    steps = environments.on_twin(environments.small(text))
    assert not [obj for step in steps for obj in step.objects if obj["apiVersion"].startswith(("kueue", "jobset"))]
    assert [step.name for step in steps] == ["namespaces"]
    assert "teams: without addons.kueue, teams get namespaces and service accounts but no queues" in list(
        composition.manual_steps(environments.small(text))
    )


SLICES = """  addons: {slices: true, image: registry.example/sliceworks:1}
  identities: {nodes: {name: gke-nodes}}
"""


def test_slices_controller_has_cluster_and_account() -> None:
    environment = environments.small(SLICES)
    step = composition.slices_controller(environment, {"tpu-provisioner": "tpu-provisioner@my-project.iam.gserviceaccount.com"})
    by_kind = {obj["kind"]: obj for obj in step.objects}
    assert by_kind["ConfigMap"]["data"] == {
        "GCP_PROJECT_ID": "my-project",
        "GCP_CLUSTER": "small-cluster",
        "GCP_CLUSTER_LOCATION": "us-central2",
        "GCP_ZONE": "us-central2-b",
        "GCP_NODE_SERVICE_ACCOUNT": "gke-nodes@my-project.iam.gserviceaccount.com",
    }
    account = by_kind["ServiceAccount"]["metadata"]["annotations"]["iam.gke.io/gcp-service-account"]
    assert account == "tpu-provisioner@my-project.iam.gserviceaccount.com"
    [container] = by_kind["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/sliceworks:1"
    assert container["envFrom"] == [{"configMapRef": {"name": by_kind["ConfigMap"]["metadata"]["name"]}}]
    order = [obj["kind"] for obj in step.objects]
    assert order.index("ConfigMap") < order.index("Deployment")


def test_changed_settings_change_the_config_map() -> None:
    one = composition.slices_controller(environments.small(SLICES), {})
    other = composition.slices_controller(environments.small(SLICES.replace("gke-nodes", "other-nodes")), {})
    names = [next(obj["metadata"]["name"] for obj in step.objects if obj["kind"] == "ConfigMap") for step in (one, other)]
    assert names[0] != names[1]


def test_capacity_order_of_the_controller() -> None:
    text = SLICES + "  pools: {tpu: {a: {type: v4-8, reservation: {name: ours}}, b: {type: v4-8, spot: true}}}\n"
    text = (environments.SMALL + text).replace("  pools: {cpu: {cpu: {nodes: 1}}, tpu: {slice: {type: v4-16}}}\n", "")
    [document] = load_all(text, "environment.yaml")
    from sliceworks.specs.environment import Environment

    step = composition.slices_controller(Environment.model_validate(document.data), {})
    data = next(obj["data"] for obj in step.objects if obj["kind"] == "ConfigMap")
    assert data["SLICES_CAPACITY"] == "reservation=ours,spot,on-demand"


def test_image_of_document_or_registry() -> None:
    assert composition.controller_image(environments.small()) == ""
    assert composition.controller_image(environments.small("  addons: {image: a/b:c}\n")) == "a/b:c"
    from sliceworks import __version__

    result = composition.controller_image(environments.small("  registry: {}\n"))
    assert result == f"us-central2-docker.pkg.dev/my-project/small-images/controllers:{__version__}"


def test_graph_definitions_follow_their_controller() -> None:
    steps = environments.on_twin(environments.example("self-service"))
    order = [step.name for step in steps]
    assert order == [
        "namespaces",
        "config-connector",
        "config-connector-settings",
        "self-service",
        "secrets",
        "graphs",
        "definitions",
    ]
    assert KindsServed((("kro.run/v1alpha1", "ResourceGraphDefinition"),)) in steps[5].waits
    assert steps[6].waits == (ConditionTrue("kro.run/v1alpha1", "ResourceGraphDefinition", "", "gemmaontpuserver.kro.run"),)


def test_project_is_adopted_and_never_deleted() -> None:
    service = "  selfService: {namespace: team, project: {%s}}\n"
    for parent, ref in (("folder: '12'", "folderRef"), ("organization: '34'", "organizationRef")):
        [project] = objects(service % parent, "Project")
        assert project["spec"] == {"name": "", "resourceID": "my-project", ref: {"external": parent.partition("'")[2][:-1]}}
        assert project["metadata"]["annotations"] == {
            "cnrm.cloud.google.com/auto-create-network": "false",
            "cnrm.cloud.google.com/deletion-policy": "abandon",
        }
    [space] = [obj for obj in objects(service % "folder: '12'", "Namespace") if obj["metadata"]["name"] == "team"]
    assert space["metadata"]["annotations"] == {"cnrm.cloud.google.com/project-id": "my-project"}


def test_secret_without_file_is_kept() -> None:
    service = "  selfService: {modelRegistries: [{secret: kaggle-secret, file: kaggle.json}]}\n"
    environment = environments.small(service)
    result = {
        step.name: step for step in composition.compose_steps(environment, environments.cluster_inputs(environment, secrets={}))
    }
    assert result["secrets"].objects == ()
    assert [str(who) for who in result["secrets"].keeps] == ["Secret config-connector/kaggle-secret"]


def test_secret_values_are_never_shown() -> None:
    assert "registry-token" not in repr(environments.cluster_inputs(environments.example("self-service")))


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("  addons: {graphs: true}\n", "addons.graphs: no controller image"),
        ("  registry: {build: [controllers]}\n", "registry.build: no sources to build images from (controllers)"),
        ("  selfService: {graphs: [a.yaml]}\n", "selfService.graphs: no controller serves them"),
        ("  addons: {gateway: true}\n", "addons.gateway: no registry to push its image to"),
        ("  addons: {kueue: false}\n  teams: {a: {}}\n", "teams: without addons.kueue"),
    ],
)
def test_manual_steps_are_reported(text: str, output: str) -> None:
    assert any(step.startswith(output) for step in composition.manual_steps(environments.small(text), builds=False))


def test_buildable_images_are_not_reported() -> None:
    assert not [
        step for step in composition.manual_steps(environments.small("  registry: {build: [controllers]}\n")) if "images" in step
    ]


def test_kept_resources_are_reported() -> None:
    text = "  registry: {existing: eu-docker.pkg.dev/shared/images}\n  state: {bucket: elsewhere}\n"
    output = list(composition.remaining_resources(environments.small(text)))
    assert output == [
        "project my-project, and the services that are enabled in it",
        "registry eu-docker.pkg.dev/shared/images, with its images",
        "bucket elsewhere, with the state of this environment",
    ]


_MESH = "  identities:\n    workloads:\n      server: {namespace: serving}\n  addons: {mesh: true%s}\n"


def test_mesh_injects_proxies_and_has_an_ingress_gateway() -> None:
    [namespace] = objects(_MESH % "", "Namespace")
    assert namespace["metadata"]["labels"]["istio-injection"] == "enabled"
    [gateway] = [obj for obj in objects(_MESH % "", "Deployment") if obj["metadata"]["name"] == "istio-ingressgateway"]
    pod = gateway["spec"]["template"]
    assert gateway["metadata"]["namespace"] == "serving"
    assert pod["metadata"]["annotations"] == {"inject.istio.io/templates": "gateway"}
    assert pod["spec"]["containers"][0]["image"] == "auto"
    [service] = [obj for obj in objects(_MESH % "", "Service") if obj["metadata"]["name"] == "istio-ingressgateway"]
    assert service["metadata"]["annotations"] == {"networking.gke.io/load-balancer-type": "Internal"}
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


def test_mesh_channel_and_ingress_namespace() -> None:
    text = _MESH % ", meshChannel: rapid, ingressNamespace: edge"
    result = {obj["metadata"]["name"]: obj["metadata"]["labels"] for obj in objects(text, "Namespace")}
    assert {name: labels["istio.io/rev"] for name, labels in result.items()} == dict.fromkeys(
        ("serving", "edge"), "asm-managed-rapid"
    )
    with pytest.raises(InvalidDocument, match="require mesh"):
        objects("  addons: {meshChannel: rapid}\n", "Namespace")
