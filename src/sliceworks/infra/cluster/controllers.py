"""Our own controllers in an environment's cluster: the manifests of `deploy/`, with image, identity and settings filled in."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from sliceworks import __version__
from sliceworks.infra.cluster import kustomize
from sliceworks.infra.cluster.graph_needs import rules
from sliceworks.infra.cluster.releases import sha256
from sliceworks.infra.cluster.steps import Served, Step, available
from sliceworks.infra.names import CONTROLLER, Names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.specs.environment import Environment

Object = dict[str, Any]
_AGGREGATED = {"rbac.kro.run/aggregate-to-controller": "true"}
_GRAPHS = (("kro.run/v1alpha1", "ResourceGraphDefinition"),)


def image(environment: Environment) -> str:
    """The image of the controllers: the document's, else the one that lies in the environment's registry."""
    registry = Names(environment).images
    return environment.spec.addons.image or (f"{registry}/controllers:{__version__}" if registry else "")


def slices(environment: Environment, emails: Mapping[str, str]) -> Step:
    """The controller that makes node pools for waiting jobs."""
    names = Names(environment)
    account = emails.get(CONTROLLER.account) or names.account(CONTROLLER.account)
    settings = _settings(environment, names)
    config_map, own = _config_map("tpu-provisioner-manager", CONTROLLER.namespace, settings), list[Object]()
    for obj in _pictured(kustomize.build(kustomize.folder("slices") / "base"), image(environment)):
        if obj["kind"] == "ServiceAccount":
            obj["metadata"].setdefault("annotations", {})["iam.gke.io/gcp-service-account"] = account
        if obj["kind"] == "Deployment":
            [container] = obj["spec"]["template"]["spec"]["containers"]
            container["envFrom"] = [{"configMapRef": {"name": config_map["metadata"]["name"]}}]
            own.append(config_map)
        own.append(obj)
    return Step("slices", tuple(own), available(own))


def graphs(environment: Environment, definitions: Iterable[Object], plurals: Mapping[tuple[str, str], str] | None = None) -> Step:
    """The controller of graphs, with the rights that the published graphs need."""
    own = list(_pictured(kustomize.build(kustomize.folder("graphs") / "base"), image(environment)))
    needed = rules(definitions, plurals)
    if needed:
        metadata = {"name": f"kro:controller:{environment.metadata.name}", "labels": dict(_AGGREGATED)}
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": needed}
        own.insert(1, role)
    return Step("graphs", tuple(own), (*available(own), Served(_GRAPHS)))


def _settings(environment: Environment, names: Names) -> dict[str, str]:
    """The variables that the controller reads, as `deploy/slices` has them."""
    spec = environment.spec
    held = [pool.reservation.name for pool in spec.pools.tpu.values() if pool.reservation]
    kinds = [*(f"reservation={name}" for name in dict.fromkeys(held))]
    kinds += ["spot"] if any(pool.spot for pool in spec.pools.tpu.values()) else []
    found = {
        "GCP_PROJECT_ID": spec.project,
        "GCP_CLUSTER": names.cluster,
        "GCP_CLUSTER_LOCATION": names.location,
        "GCP_ZONE": ",".join(spec.zones),
        "GCP_NODE_SERVICE_ACCOUNT": spec.identities.nodes.existing or names.account(spec.identities.nodes.name),
        "SLICES_CAPACITY": ",".join([*kinds, "on-demand"]) if kinds else "",
    }
    return {key: value for key, value in found.items() if value}


def _config_map(name: str, namespace: str, data: Mapping[str, str]) -> Object:
    """Settings under a name that changes with them, so that the controller starts anew with other ones."""
    mark = sha256("\n".join(f"{key}={value}" for key, value in sorted(data.items())).encode())[:10]
    metadata = {"name": f"{name}-{mark}", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


def _pictured(objects: Iterable[Object], picture: str) -> Iterable[Object]:
    """Copies that may be changed, with the image in place of the manifests' own word for it."""
    for obj in objects:
        own = copy.deepcopy(obj)
        if own.get("aggregationRule"):
            own.pop("rules", None)  # the cluster fills them in; to own them would mean to empty them at every apply
        if own["kind"] == "Deployment":
            for container in own["spec"]["template"]["spec"]["containers"]:
                container["image"] = picture or container["image"]
        yield own
