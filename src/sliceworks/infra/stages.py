"""Stages: what each Terraform stage of an environment is given, and what it takes from the ones before it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.infra import needs
from sliceworks.infra.names import CONTROLLER, Names
from sliceworks.infra.pools import pools

if TYPE_CHECKING:
    from sliceworks.specs.environment import Environment, EnvironmentSpec

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stage:
    """One root module with a state of its own. `takes` are outputs of earlier stages, given to it as variables."""

    name: str
    variables: Object
    takes: dict[str, str] = field(default_factory=dict)
    """By the name of the output, the stage that has it."""
    expected: Object = field(default_factory=dict)
    """What its outputs will be, for planning the stages behind it before it is made."""


def stages(environment: Environment) -> tuple[Stage, ...]:
    """The stages of an environment, in the order in which they are applied."""
    spec, names = environment.spec, Names(environment)
    found = [_base(spec, names), _cluster(spec, names)]
    if spec.automation.create:
        found.insert(0, _bootstrap(spec, names))
    if spec.addons.mesh:
        found.append(_serving(spec, names))
    if spec.load_metrics:
        found.append(_load(spec, names))
    return tuple(found)


def _common(spec: EnvironmentSpec) -> Object:
    return {"project_id": spec.project, "region": spec.region, "labels": dict(spec.labels)}


def _acting(spec: EnvironmentSpec, names: Names) -> tuple[Object, dict[str, str]]:
    """Whom a stage acts as: the account that the bootstrap made, or the one that was there."""
    if spec.automation.create:
        return {}, {"bootstrap": "0-bootstrap"}
    return {"bootstrap": {"service_account": names.automation_account}}, {}


def _bootstrap(spec: EnvironmentSpec, names: Names) -> Stage:
    automation = spec.automation
    return Stage(
        "0-bootstrap",
        {
            **_common(spec),
            "environment": names.environment.metadata.name,
            "automation": {
                "bucket": {"name": automation.bucket, "location": automation.location or spec.region},
                "service_account": automation.service_account,
                "services": needs.services(spec),
                "roles": needs.roles(spec),
                "cloud_build": automation.cloud_build,
            },
            "state_prefix": names.state_prefix,
            "force_destroy": spec.force_destroy,
        },
        expected={"bootstrap": {"bucket": automation.bucket, "service_account": names.automation_account}},
    )


def _base(spec: EnvironmentSpec, names: Names) -> Stage:
    acting, takes = _acting(spec, names)
    registry = spec.registry
    return Stage(
        "1-base",
        {
            **_common(spec),
            **acting,
            "environment": names.environment.metadata.name,
            "network": _network(spec, names),
            "nodes": _nodes(spec),
            "buckets": {
                name: {
                    "location": bucket.location or spec.region,
                    "storage_class": bucket.storage_class,
                    "versioning": bucket.versioning,
                    "delete_after_days": bucket.delete_after_days,
                }
                for name, bucket in spec.buckets.items()
            },
            "registry": (
                {"name": names.registry, "location": registry.location or spec.region}
                if registry and not registry.existing
                else None
            ),
            "tensorboard": names.tensorboard if spec.tensorboard else None,
            "force_destroy": spec.force_destroy,
        },
        takes,
        {"base": _expected_base(spec, names)},
    )


def _expected_base(spec: EnvironmentSpec, names: Names) -> Object:
    existing = spec.network.existing
    project = (existing.host_project if existing else None) or spec.project
    network, subnet = (existing.network, existing.subnet) if existing else (names.network, names.subnet)
    return {
        "network": {
            "network": f"projects/{project}/global/networks/{network}",
            "subnet": f"projects/{project}/regions/{spec.region}/subnetworks/{subnet}",
            "pods_range": existing.pods_range if existing else "pods",
            "services_range": existing.services_range if existing else "services",
        },
        "node_service_account": spec.identities.nodes.existing or names.account(spec.identities.nodes.name),
    }


def _network(spec: EnvironmentSpec, names: Names) -> Object:
    network = spec.network
    if network.existing:
        existing = network.existing
        return {
            "existing": {
                "host_project": existing.host_project,
                "network": existing.network,
                "subnet": existing.subnet,
                "pods_range": existing.pods_range,
                "services_range": existing.services_range,
            }
        }
    subnet = network.subnet
    ranges = {"nodes": subnet.nodes, "pods": subnet.pods, "services": subnet.services}
    return {"name": names.network, "subnet": {"name": names.subnet, **ranges}, "nat": network.nat}


def _nodes(spec: EnvironmentSpec) -> Object:
    nodes = spec.identities.nodes
    return {"existing": nodes.existing} if nodes.existing else {"name": nodes.name, "roles": list(nodes.roles)}


def _cluster(spec: EnvironmentSpec, names: Names) -> Stage:
    acting, takes = _acting(spec, names)
    cluster = spec.cluster
    private = cluster.private
    return Stage(
        "2-cluster",
        {
            **_common(spec),
            **acting,
            "environment": names.environment.metadata.name,
            "cluster": {
                "name": names.cluster,
                "description": cluster.description,
                "location": names.location,
                "node_locations": None if cluster.zonal else list(spec.zones) or None,
                "mode": cluster.mode,
                "min_version": cluster.version or None,
                "release_channel": cluster.release_channel,
                "auto_upgrade": cluster.auto_upgrade,
                "maintenance_start": cluster.maintenance.start if cluster.maintenance else None,
                "private": private.model_dump() if private else None,
                "gateway_api": spec.addons.gateway,
            },
            "pools": pools(spec),
            "identities": {name: _identity(spec, name) for name in spec.identities.workloads} | _controllers(spec),
            "config_connector": _config_connector(spec),
            "deletion_protection": spec.deletion_protection,
        },
        {**takes, "base": "1-base"},
        {"cluster": {"id": f"projects/{spec.project}/locations/{names.location}/clusters/{names.cluster}", "name": names.cluster}},
    )


def _identity(spec: EnvironmentSpec, name: str) -> Object:
    identity = spec.identities.workloads[name]
    access = {bucket: "read" for bucket, each in spec.buckets.items() if name in each.readers}
    access |= {bucket: "write" for bucket, each in spec.buckets.items() if name in each.writers}
    return {
        "existing": identity.existing or None,
        "roles": list(identity.roles),
        "namespace": identity.namespace,
        "kubernetes_service_account": identity.service_account or name,
        "buckets": access,
    }


def _controllers(spec: EnvironmentSpec) -> dict[str, Object]:
    """Whom our controllers act as in Google Cloud: only the one of slices does."""
    if not spec.addons.slices:
        return {}
    own: Object = {"existing": None, "roles": list(CONTROLLER.roles), "namespace": CONTROLLER.namespace}
    return {CONTROLLER.account: {**own, "kubernetes_service_account": CONTROLLER.kubernetes, "buckets": {}}}


def _config_connector(spec: EnvironmentSpec) -> Object | None:
    if spec.self_service is None:
        return None
    connector = spec.self_service.config_connector
    grants = None if connector.grants is None else list(connector.grants)
    return {"name": connector.service_account, "roles": list(connector.roles), "grants": grants}


def _serving(spec: EnvironmentSpec, names: Names) -> Stage:
    acting, takes = _acting(spec, names)
    return Stage("3-serving", {**_common(spec), **acting, "mesh": spec.addons.mesh}, {**takes, "cluster": "2-cluster"})


def _load(spec: EnvironmentSpec, names: Names) -> Stage:
    acting, takes = _acting(spec, names)
    metrics = spec.load_metrics
    assert metrics is not None
    return Stage(
        "4-load",
        {
            **_common(spec),
            **acting,
            "load_metrics": {
                "location": metrics.location or spec.region,
                "topic": names.topic,
                "dataset": names.dataset,
                "table": metrics.table,
                "publishers": {},
            },
            "deletion_protection": spec.deletion_protection,
            "force_destroy": spec.force_destroy,
        },
        takes,
    )
