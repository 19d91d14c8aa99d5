"""What an environment puts into its cluster, compared with files that a person has read; and what each field does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support import environments

from sliceworks.base.errors import InvalidDocument
from sliceworks.base.yamls import load_all
from sliceworks.infra import checks
from sliceworks.infra.cluster import compose, controllers, kustomize, notes
from sliceworks.infra.cluster.objects import OWNER, identity, merged, namespace
from sliceworks.infra.cluster.steps import Answers, Available, Holds, Served

if TYPE_CHECKING:
    from sliceworks.infra.cluster.steps import Step

Object = dict[str, Any]
GOLDENS = Path(__file__).parents[1] / "goldens"


def written(steps: tuple[Step, ...]) -> list[Object]:
    return [
        {
            "step": step.name,
            # What others publish is told by name: it is not ours to compare.
            "objects": [str(identity(obj)) if step.validation == "Warn" else obj for obj in step.objects],
            "waits": [type(wait).__name__ for wait in step.waits],
        }
        for step in steps
    ]


@pytest.mark.parametrize("name", environments.NAMES)
def test_the_examples_have_the_objects_that_were_read_over(name: str) -> None:
    seen = orjson.loads(orjson.dumps(written(environments.on_twin(environments.example(name)))))
    path = GOLDENS / f"cluster-{name}.json"
    if os.environ.get("SLICEWORKS_RECORD") == "1":
        path.write_bytes(orjson.dumps(seen, option=orjson.OPT_INDENT_2) + b"\n")
        pytest.fail(f"{path.name} was written: read it")
    assert seen == orjson.loads(path.read_bytes())


def objects(text: str, kind: str, **more: Any) -> list[Object]:
    steps = environments.on_twin(environments.small(text), **more)
    return [obj for step in steps for obj in step.objects if obj["kind"] == kind]


def test_everything_carries_the_environments_label() -> None:
    for name in environments.NAMES:
        for step in environments.on_twin(environments.example(name)):
            assert all(obj["metadata"]["labels"][OWNER] == name for obj in step.objects), step.name


def test_pods_of_an_identity_act_as_the_account_that_terraform_made() -> None:
    text = "  identities: {workloads: {trainer: {namespace: jobs, serviceAccount: runner}}}\n"
    [account] = objects(text, "ServiceAccount", emails={"trainer": "made@by.terraform"})
    assert account["metadata"]["name"] == "runner"
    assert account["metadata"]["annotations"] == {"iam.gke.io/gcp-service-account": "made@by.terraform"}
    [existing] = objects(
        "  identities: {workloads: {trainer: {namespace: jobs, existing: robot@elsewhere.iam}}}\n", "ServiceAccount"
    )
    assert existing["metadata"]["annotations"] == {"iam.gke.io/gcp-service-account": "robot@elsewhere.iam"}


def test_a_team_and_its_identity_share_one_account_and_one_namespace() -> None:
    steps = environments.on_twin(environments.example("training"))
    [places] = [step for step in steps if step.name == "namespaces"]
    named = [str(identity(obj)) for obj in places.objects]
    assert named.count("Namespace tpu-training") == named.count("ServiceAccount tpu-training/cloud-tpu-sa") == 1
    [space] = [obj for obj in places.objects if str(identity(obj)) == "Namespace tpu-training"]
    assert space["metadata"]["labels"]["sliceworks.dev/team"] == "tpu-training"


@pytest.mark.parametrize(
    ("team", "wrong"),
    [
        ("{identity: trainer, namespace: jobs}", ""),
        ("{identity: trainer}", "its jobs run as research/trainer, and trainer is for jobs/trainer"),
        ("{identity: trainer, namespace: jobs, serviceAccount: x}", "its jobs run as jobs/x, and trainer is for jobs/trainer"),
        ("{}", ""),
    ],
)
def test_a_team_whose_jobs_could_not_act_as_their_identity_is_found(team: str, wrong: str) -> None:
    text = f"  identities: {{workloads: {{trainer: {{namespace: jobs}}}}}}\n  teams: {{research: {team}}}\n"
    assert [each.problem for each in checks.check(environments.small(text))] == ([wrong] if wrong else [])


def test_two_parts_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidDocument, match="Namespace a, metadata, labels, x would have to be '1' and '2'"):
        merged([namespace("a", labels={"x": "1"}), namespace("a", labels={"x": "2"})])


def test_ready_within_is_kueues_setting_and_starts_it_anew() -> None:
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"}}
    plain["data"] = {"controller_manager_config.yaml": "kind: Configuration\nwebhook: {port: 9443}\n"}
    pods = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"annotations": {"theirs": "x"}}, "spec": {}}}
    manager = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "m", "namespace": "kueue-system"}, "spec": pods}
    marks = []
    for text in ("", "  queues: {readyWithin: 10m}\n", "  queues: {readyWithin: 20m}\n"):
        found = environments.on_twin(environments.small(text), releases={"kueue": [plain, manager]})
        [step] = [each for each in found if each.name == "kueue"]
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


def test_a_kueue_that_is_there_gets_settings_only_when_they_are_ours_to_make() -> None:
    text = "  queues: {readyWithin: 10m}\n"
    assert [each["metadata"]["name"] for each in objects(text, "ConfigMap")] == ["kueue-manager-config"]
    assert objects(text, "ConfigMap", settles_kueue=False) == []
    assert objects("", "ConfigMap") == []


def test_jobset_and_kueue_are_waited_for_until_their_webhooks_answer() -> None:
    steps = {step.name: step for step in environments.on_twin(environments.small())}
    asked = [wait for name in ("jobset", "kueue") for wait in steps[name].waits if isinstance(wait, Answers)]
    assert [(wait.who, wait.probe["kind"]) for wait in asked] == [("JobSet", "JobSet"), ("Kueue", "ResourceFlavor")]


def test_without_kueue_teams_get_no_queues_and_without_jobset_nothing_of_it() -> None:
    text = "  addons: {jobset: false, kueue: false}\n  teams: {research: {}}\n"
    steps = environments.on_twin(environments.small(text))
    assert not [obj for step in steps for obj in step.objects if obj["apiVersion"].startswith(("kueue", "jobset"))]
    assert [step.name for step in steps] == ["namespaces"]
    assert "teams: without addons.kueue they get namespaces and accounts, and no queues" in list(
        notes.undone(environments.small(text))
    )


SLICES = """  addons: {slices: true, image: registry.example/sliceworks:1}
  identities: {nodes: {name: gke-nodes}}
"""


def test_the_controller_of_slices_knows_its_cluster_and_acts_as_its_account() -> None:
    environment = environments.small(SLICES)
    step = controllers.slices(environment, {"tpu-provisioner": "tpu-provisioner@my-project.iam.gserviceaccount.com"})
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


def test_other_settings_give_the_controller_another_config_map() -> None:
    one = controllers.slices(environments.small(SLICES), {})
    other = controllers.slices(environments.small(SLICES.replace("gke-nodes", "other-nodes")), {})
    names = [next(obj["metadata"]["name"] for obj in step.objects if obj["kind"] == "ConfigMap") for step in (one, other)]
    assert names[0] != names[1]


def test_spot_and_reservations_are_what_the_controller_tries_first() -> None:
    text = SLICES + "  pools: {tpu: {a: {type: v4-8, reservation: {name: ours}}, b: {type: v4-8, spot: true}}}\n"
    text = (environments.SMALL + text).replace("  pools: {cpu: {cpu: {nodes: 1}}, tpu: {slice: {type: v4-16}}}\n", "")
    [document] = load_all(text, "environment.yaml")
    from sliceworks.specs.environment import Environment

    step = controllers.slices(Environment.model_validate(document.data), {})
    data = next(obj["data"] for obj in step.objects if obj["kind"] == "ConfigMap")
    assert data["SLICES_CAPACITY"] == "reservation=ours,spot,on-demand"


def test_the_image_is_the_documents_else_the_registrys() -> None:
    assert controllers.image(environments.small()) == ""
    assert controllers.image(environments.small("  addons: {image: a/b:c}\n")) == "a/b:c"
    from sliceworks import __version__

    found = controllers.image(environments.small("  registry: {}\n"))
    assert found == f"us-central2-docker.pkg.dev/my-project/small-images/controllers:{__version__}"


def test_definitions_come_after_their_controller_and_are_waited_for() -> None:
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
    assert Served((("kro.run/v1alpha1", "ResourceGraphDefinition"),)) in steps[5].waits
    assert steps[6].waits == (Holds("kro.run/v1alpha1", "ResourceGraphDefinition", "", "gemmaontpuserver.kro.run"),)


def test_the_project_is_taken_over_under_its_parent_and_never_deleted() -> None:
    service = "  selfService: {namespace: team, project: {%s}}\n"
    for parent, ref in (("folder: '12'", "folderRef"), ("organization: '34'", "organizationRef")):
        [project] = objects(service % parent, "Project")
        assert project["spec"] == {"name": "", "resourceID": "my-project", ref: {"external": parent.partition("'")[2][:-1]}}
        assert project["metadata"]["annotations"] == {
            "cnrm.cloud.google.com/auto-create-network": "false",
            "cnrm.cloud.google.com/deletion-policy": "abandon",
        }
    [space] = [each for each in objects(service % "folder: '12'", "Namespace") if each["metadata"]["name"] == "team"]
    assert space["metadata"]["annotations"] == {"cnrm.cloud.google.com/project-id": "my-project"}


def test_a_secret_without_its_file_is_kept_as_it_is() -> None:
    service = "  selfService: {modelRegistries: [{secret: kaggle-secret, file: kaggle.json}]}\n"
    environment = environments.small(service)
    found = {step.name: step for step in compose.steps(environment, environments.given(environment, secrets={}))}
    assert found["secrets"].objects == ()
    assert [str(who) for who in found["secrets"].keeps] == ["Secret config-connector/kaggle-secret"]


def test_values_of_secrets_are_never_shown() -> None:
    assert "tell-nobody" not in repr(environments.given(environments.example("self-service")))


def test_a_base_that_uses_more_of_kustomize_than_we_do_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("kind: Kustomization\nresources: []\nnamePrefix: a-\n")
    with pytest.raises(InvalidDocument, match=r"kustomization\.yaml:3: namePrefix is not used in bases"):
        kustomize.build(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("  addons: {graphs: true}\n", "addons.graphs: there is no image of our controllers"),
        ("  registry: {build: [controllers]}\n", "registry.build: there are no sources here to build images from (controllers)"),
        ("  selfService: {graphs: [a.yaml]}\n", "selfService.graphs: nobody would serve them"),
        ("  addons: {gateway: true}\n", "addons.gateway: there is no registry to build its image into"),
        ("  addons: {kueue: false}\n  teams: {a: {}}\n", "teams: without addons.kueue"),
    ],
)
def test_what_apply_does_not_do_is_said(text: str, said: str) -> None:
    assert any(each.startswith(said) for each in notes.undone(environments.small(text), builds=False))


def test_images_that_can_be_built_are_nothing_to_tell_of() -> None:
    assert not [each for each in notes.undone(environments.small("  registry: {build: [controllers]}\n")) if "images" in each]


def test_what_stays_is_said() -> None:
    text = "  registry: {existing: eu-docker.pkg.dev/shared/images}\n  state: {bucket: elsewhere}\n"
    said = list(notes.staying(environments.small(text)))
    assert said == [
        "project my-project, and the services that are enabled in it",
        "registry eu-docker.pkg.dev/shared/images, with its images",
        "bucket elsewhere, with the state of this environment",
    ]
