"""From an Environment to the ordered steps that its cluster needs: namespaces, accounts, controllers, Secrets."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks import __version__
from sliceworks.base import yaml_documents
from sliceworks.base.errors import InvalidDocument
from sliceworks.graph.rbac import cluster_role, graph_rules
from sliceworks.infra import images
from sliceworks.infra.cluster import addon, mesh, self_service
from sliceworks.infra.cluster.addon import sha256
from sliceworks.infra.cluster.inventory import (
    KindsServed,
    Step,
    add_owner_label,
    availability_waits,
    build_namespace,
    merge_objects,
)
from sliceworks.infra.stages import CONTROLLER, Names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sliceworks.specs.environment import Environment

Object = dict[str, Any]
_COMPONENT = "app.kubernetes.io/component"


def component_manifests(component: str) -> list[Object]:
    """The objects of a controller in `deploy/controllers/install.yaml`, which is rendered from the Helm chart."""
    packed = Path(__file__).parents[1] / "deploy"
    folder = packed if packed.is_dir() else Path(__file__).parents[4] / "deploy"
    objects = [document.data for document in yaml_documents.load_path(folder / "controllers" / "install.yaml")]
    return [obj for obj in objects if obj["metadata"]["labels"][_COMPONENT] == component]


_GRAPHS = (("kro.run/v1alpha1", "ResourceGraphDefinition"),)


def controller_image(environment: Environment) -> str:
    """The image of the controllers: spec.addons.image, else the one in the environment's registry."""
    registry = Names(environment).images
    return environment.spec.addons.image or (f"{registry}/controllers:{__version__}" if registry else "")


def slices_controller(environment: Environment, emails: Mapping[str, str]) -> Step:
    """The slices controller, which creates node pools for pending jobs."""
    names = Names(environment)
    account = emails.get(CONTROLLER.account) or names.account(CONTROLLER.account)
    settings = _settings(environment, names)
    config_map = _config_map("tpu-provisioner-manager", CONTROLLER.namespace, settings)
    own = [
        config_map if obj["kind"] == "ConfigMap" else obj
        for obj in _set_image(component_manifests("slices"), controller_image(environment))
    ]
    for obj in own:
        if obj["kind"] == "ServiceAccount":
            obj["metadata"].setdefault("annotations", {})["iam.gke.io/gcp-service-account"] = account
        if obj["kind"] == "Deployment":
            [container] = obj["spec"]["template"]["spec"]["containers"]
            container["envFrom"] = [{"configMapRef": {"name": config_map["metadata"]["name"]}}]
    return Step("slices", tuple(own), availability_waits(own))


def graphs_controller(
    environment: Environment, definitions: Iterable[Object], plurals: Mapping[tuple[str, str], str] | None = None
) -> Step:
    """The graphs controller, with the RBAC rules that the published graphs need."""
    own = list(_set_image(component_manifests("graphs"), controller_image(environment)))
    needed = graph_rules(definitions, plurals)
    if needed:
        own.insert(1, cluster_role(environment.metadata.name, needed))
    return Step("graphs", tuple(own), (*availability_waits(own), KindsServed(_GRAPHS)))


def _settings(environment: Environment, names: Names) -> dict[str, str]:
    """The environment variables of the slices controller, as in the values of the chart."""
    spec = environment.spec
    held = [pool.reservation.name for pool in spec.pools.tpu.values() if pool.reservation]
    kinds = [*(f"reservation={name}" for name in dict.fromkeys(held))]
    kinds += ["spot"] if any(pool.spot for pool in spec.pools.tpu.values()) else []
    settings = {
        "GCP_PROJECT_ID": spec.project,
        "GCP_CLUSTER": names.cluster,
        "GCP_CLUSTER_LOCATION": names.location,
        "GCP_ZONE": ",".join(spec.zones),
        "GCP_NODE_SERVICE_ACCOUNT": spec.identities.nodes.existing or names.account(spec.identities.nodes.name),
        "SLICES_CAPACITY": ",".join([*kinds, "on-demand"]) if kinds else "",
    }
    return {key: value for key, value in settings.items() if value}


def _config_map(name: str, namespace: str, data: Mapping[str, str]) -> Object:
    """A ConfigMap with a hash in its name, so that a change restarts the controller."""
    mark = sha256("\n".join(f"{key}={value}" for key, value in sorted(data.items())).encode())[:10]
    metadata = {"name": f"{name}-{mark}", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


def _set_image(objects: Iterable[Object], image: str) -> Iterable[Object]:
    """Copies of the objects with the image set."""
    for obj in objects:
        own = copy.deepcopy(obj)
        if own.get("aggregationRule"):
            own.pop("rules", None)  # the cluster aggregates them; applying them would empty them
        if own["kind"] == "Deployment":
            for container in own["spec"]["template"]["spec"]["containers"]:
                container["image"] = image or container["image"]
        yield own


def missing_secret_files(environment: Environment, folder: Path) -> list[Path]:
    """Secret files that do not exist; paths are relative to the document's folder."""
    service = environment.spec.self_service
    return [folder / item.file for item in (service.model_registries if service else ()) if not (folder / item.file).is_file()]


def read_secrets(environment: Environment, folder: Path) -> dict[str, dict[str, str]]:
    """The data of each Secret by its name; missing files are skipped."""
    service = environment.spec.self_service
    model_registries = service.model_registries if service else ()
    return {item.secret: _values(folder / item.file) for item in model_registries if (folder / item.file).is_file()}


def _values(file: Path) -> dict[str, str]:
    try:
        data = orjson.loads(file.read_bytes())
    except OSError as error:
        raise InvalidDocument((error.strerror or "cannot be read").lower(), place=str(file)) from error
    except orjson.JSONDecodeError:
        data = None  # the decoder's message may contain a part of the secret
    if not isinstance(data, dict) or not data or not all(isinstance(value, str) for value in data.values()):
        raise InvalidDocument("expected a JSON object with string values, such as kaggle.json", place=str(file)) from None
    return data


def manual_steps(environment: Environment, *, builds: bool = True) -> Iterator[str]:
    """What the user has to do besides applying. `builds`: whether sources to build images from exist."""
    spec, addons = environment.spec, environment.spec.addons
    for name, pool in spec.pools.gpu.items():
        if pool.driver == "none":
            yield f"pools.gpu.{name}: driver is none: install the NVIDIA driver with your own DaemonSet"
    controllers = [name for name in ("slices", "graphs") if getattr(addons, name)]
    if controllers and not controller_image(environment):
        yield f"addons.{controllers[0]}: no controller image: set registry with build: [controllers], or addons.image"
    wanted_images = images.required_images(environment)
    if wanted_images and not builds:
        listed = ", ".join(wanted_images)
        yield f"registry.build: no sources to build images from ({listed}): pass a checkout with --sources"
    if addons.gateway and not spec.registry:
        yield "addons.gateway: no registry to push its image to: set registry, or set an image in each model service"
    if spec.teams and not addons.kueue:
        yield "teams: without addons.kueue, teams get namespaces and service accounts but no queues"
    if spec.self_service and spec.self_service.graphs and not addons.graphs:
        yield "selfService.graphs: no controller serves them: set addons.graphs to true"


def remaining_resources(environment: Environment) -> Iterator[str]:
    """What remains after `env destroy`."""
    spec, names = environment.spec, Names(environment)
    yield f"project {spec.project}, and the services that are enabled in it"
    existing = spec.network.existing
    if existing:
        yield f"network {existing.network} of project {existing.host_project or spec.project}"
    for email in (spec.identities.nodes.existing, *(workload.existing for workload in spec.identities.workloads.values())):
        if email:
            yield f"service account {email}"
    if spec.registry and spec.registry.existing:
        yield f"registry {spec.registry.existing}, with its images"
    if not spec.automation.create:
        yield f"bucket {spec.automation.bucket} and service account {names.automation_account}"
    if names.state_bucket != spec.automation.bucket:
        yield f"bucket {names.state_bucket}, with the state of this environment"


_PLACES = ("Namespace", "ServiceAccount")
_IDENTITY = "iam.gke.io/gcp-service-account"


@dataclass(frozen=True, slots=True)
class ClusterInputs:
    """Inputs beside the Environment document."""

    emails: Mapping[str, str] = field(default_factory=dict)
    """E-mail addresses of the service accounts that Terraform created, by short name."""
    queues: Sequence[Object] = ()
    """Kueue objects and namespaces of the teams, in order."""
    releases: Mapping[str, Sequence[Object]] = field(default_factory=dict)
    """Objects of the releases to install; without those that the cluster already has from elsewhere."""
    graphs: Sequence[Object] = ()
    secrets: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """Credentials of model registries by Secret name. Secrets that are not listed stay unchanged."""
    configures_kueue: bool = True
    """Whether this environment manages Kueue's configuration."""
    plurals: Mapping[tuple[str, str], str] = field(default_factory=dict)


def compose_steps(environment: Environment, inputs: ClusterInputs) -> tuple[Step, ...]:
    """The steps in apply order; every object carries the label of the environment."""
    name = environment.metadata.name
    steps = (step for step in _steps(environment, inputs) if step.objects or step.waits or step.keeps)
    return tuple(replace(item, objects=tuple(add_owner_label(obj, name) for obj in merge_objects(item.objects))) for item in steps)


def _steps(environment: Environment, inputs: ClusterInputs) -> Iterator[Step]:
    spec, addons = environment.spec, environment.spec.addons
    queues = [queue for queue in inputs.queues if addons.kueue or not str(queue["apiVersion"]).startswith("kueue.x-k8s.io/")]
    yield Step(
        "namespaces", (*_namespaces_and_accounts(environment, inputs), *(queue for queue in queues if queue["kind"] in _PLACES))
    )
    if addons.jobset:
        yield addon.jobset_step(inputs.releases.get("jobset", ()))
    if addons.kueue:
        yield addon.kueue_step(spec, inputs.releases.get("kueue", ()), configures=inputs.configures_kueue)
    yield addon.queues_step(item for item in queues if item["kind"] not in _PLACES)
    if addons.slices:
        yield slices_controller(environment, inputs.emails)
    if spec.self_service:
        yield from self_service.config_connector_step(environment, inputs.releases.get("config-connector", ()), inputs.emails)
        yield self_service.namespace_objects(environment)
        yield self_service.secret_objects(environment, inputs.secrets)
    if addons.mesh:
        yield from mesh.mesh_steps(environment)
    if addons.graphs:
        yield graphs_controller(environment, inputs.graphs, inputs.plurals)
        yield self_service.graphs_step(inputs.graphs)


def _namespaces_and_accounts(environment: Environment, inputs: ClusterInputs) -> Iterator[Object]:
    """Namespaces, then service accounts, annotated with their Google service account."""
    spec = environment.spec
    if spec.self_service:
        yield build_namespace(spec.self_service.namespace, annotations=self_service.project_annotations(environment))
    for workload in spec.identities.workloads.values():
        yield build_namespace(workload.namespace, labels=mesh.injection_labels(environment))
    for name, workload in spec.identities.workloads.items():
        email = inputs.emails.get(name) or workload.existing or Names(environment).account(name)
        metadata = {"name": workload.service_account or name, "namespace": workload.namespace, "annotations": {_IDENTITY: email}}
        yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
