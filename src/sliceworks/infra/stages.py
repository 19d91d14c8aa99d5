"""Terraform stages of an Environment: names, services and roles, variables and outputs. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.infra.pools import node_pools, pods_range
from sliceworks.specs.environment.services import LoadMetrics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.specs.environment import Environment, EnvironmentSpec
    from sliceworks.specs.environment.cluster import Security


class GoogleAccount(NamedTuple):
    """A Google service account, and the Kubernetes one that acts as it."""

    account: str
    namespace: str
    kubernetes: str


CONTROLLER = GoogleAccount("tpu-provisioner", "tpu-provisioner-system", "tpu-provisioner-controller-manager")
"""The account of the slices controller. It creates node pools, whose nodes use another account; its role is a custom one."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names of resources, shared by Terraform, Cloud Build and the objects in the cluster."""

    environment: Environment

    @property
    def prefix(self) -> str:
        return self.environment.spec.prefix or self.environment.metadata.name

    @property
    def network(self) -> str:
        return self.environment.spec.network.name or f"{self.prefix}-network"

    @property
    def subnet(self) -> str:
        return self.environment.spec.network.subnet.name or f"{self.network}-{self.environment.spec.region}"

    @property
    def cluster(self) -> str:
        return self.environment.spec.cluster.name or f"{self.prefix}-cluster"

    @property
    def location(self) -> str:
        """The location of the cluster: its zone or its region."""
        spec = self.environment.spec
        return spec.zones[0] if spec.cluster.zonal else spec.region

    @property
    def registry(self) -> str:
        registry = self.environment.spec.registry
        return (registry.name if registry else None) or f"{self.prefix}-images"

    @property
    def images(self) -> str:
        """The prefix of image names."""
        spec = self.environment.spec
        if spec.registry is None:
            return ""
        return spec.registry.existing or f"{spec.registry.location or spec.region}-docker.pkg.dev/{spec.project}/{self.registry}"

    @property
    def tensorboard(self) -> str:
        board = self.environment.spec.tensorboard
        return (board.name if board else "") or f"{self.prefix}-tensorboard"

    @property
    def topic(self) -> str:
        metrics = self.environment.spec.load_metrics
        return (metrics.topic if metrics else None) or f"{self.prefix}-load-records"

    @property
    def schema(self) -> str:
        metrics = self.environment.spec.load_metrics
        return (metrics.schema_name if metrics else None) or f"{self.topic}-schema"

    @property
    def subscription(self) -> str:
        metrics = self.environment.spec.load_metrics
        return (metrics.subscription if metrics else None) or f"{self.topic}-to-bigquery"

    @property
    def dataset(self) -> str:
        metrics = self.environment.spec.load_metrics
        return (metrics.dataset if metrics else None) or f"{self.prefix}_load".replace("-", "_")

    @property
    def state_bucket(self) -> str:
        return self.environment.spec.state.bucket or self.environment.spec.automation.bucket

    @property
    def state_prefix(self) -> str:
        return self.environment.spec.state.prefix.strip("/") or f"{self.environment.metadata.name}/terraform"

    @property
    def own_prefixes(self) -> tuple[str, ...]:
        """Prefixes of the objects that Sliceworks writes to the automation bucket: states, prepared files and image sources."""
        return (f"{self.state_prefix}/", "providers/", "tfvars/", "sources/")

    @property
    def automation_account(self) -> str:
        return self.account(self.environment.spec.automation.service_account)

    @property
    def build_account(self) -> str:
        """The id of the service account of image builds; empty if the automation account runs them."""
        automation = self.environment.spec.automation
        return f"{automation.service_account[:24]}-build" if automation.create and automation.cloud_build else ""

    @property
    def slices_role(self) -> str:
        """The full name of the custom role of the slices controller."""
        name = f"{self.environment.metadata.name}_slices".replace("-", "_")
        return f"projects/{self.environment.spec.project}/roles/{name}"

    def account(self, name: str) -> str:
        """The e-mail address of a service account of this project."""
        return f"{name}@{self.environment.spec.project}.iam.gserviceaccount.com"


_SERVICES = (
    "artifactregistry",
    "cloudbuild",
    "cloudkms",
    "cloudresourcemanager",
    "cloudtrace",
    "compute",
    "container",
    "iam",
    "iamcredentials",
    "logging",
    "monitoring",
    "serviceusage",
    "stackdriver",
    "storage",
    "storage-component",
    "sts",
)

_ROLES = (
    "artifactregistry.admin",
    "compute.networkAdmin",
    "compute.viewer",  # the provider reads the instance groups of node pools
    "container.admin",
    "iam.serviceAccountAdmin",
    "iam.serviceAccountUser",
    "logging.logWriter",
    "storage.admin",
)


def required_services(spec: EnvironmentSpec) -> list[str]:
    """Full names of the services to enable."""
    services = set(_SERVICES)
    if spec.tensorboard:
        services.add("aiplatform")
    if spec.load_metrics:
        services |= {"bigquery", "pubsub"}
    if spec.addons.mesh:
        services |= {"gkehub", "mesh", "meshconfig"}
    return sorted({f"{word}.googleapis.com" for word in services} | set(spec.automation.services))


def required_roles(spec: EnvironmentSpec) -> list[str]:
    """Roles of the automation account."""
    roles = set(_ROLES)
    if spec.tensorboard:
        roles.add("aiplatform.user")
    if spec.load_metrics:
        roles |= {"bigquery.admin", "pubsub.admin"}
    if spec.addons.mesh:
        roles.add("gkehub.admin")
    if spec.addons.slices:
        roles.add("iam.roleAdmin")
    if any(pool.type.startswith(("tpu7x", "7x")) for pool in spec.pools.tpu.values()):
        roles.add("compute.admin")  # placement policies are resources of Compute Engine
    return sorted({f"roles/{word}" for word in roles} | set(spec.automation.roles))


def granted_roles(environment: Environment) -> list[str]:
    """Project roles that the stages grant: all that the automation account may grant."""
    spec, names = environment.spec, Names(environment)
    roles = {*spec.identities.nodes.roles} if not spec.identities.nodes.existing else set()
    for workload in spec.identities.workloads.values():
        roles |= set() if workload.existing else {*workload.roles}
    if spec.self_service is not None:
        roles |= {*spec.self_service.config_connector.roles}
    if spec.addons.slices:
        roles.add(names.slices_role)
    return sorted(roles)


_GRANTED = re.compile(r"'((?:roles|projects|organizations)/[^']+)'")


def keep_deployed_roles(stage: Stage, resources: Iterable[tuple[str, Object]]) -> Stage:
    """The bootstrap stage with the roles that its account has in a state besides those of the document.

    The account needs them, and may remove roles that it granted, until the later stages have deleted what the document dropped.
    """
    member = f"serviceAccount:{stage.expected['bootstrap']['service_account']}"
    automation = dict(stage.variables["automation"])
    roles, grants = set(automation["roles"]), set(automation["grants"])
    for kind, attributes in resources:
        if kind == "google_project_iam_member" and attributes["member"] == member:
            conditions = [str(condition["expression"]) for condition in attributes.get("condition") or ()]
            grants |= {role for expression in conditions for role in _GRANTED.findall(expression)}
            roles |= set() if conditions else {attributes["role"]}
    return replace(
        stage, variables={**stage.variables, "automation": {**automation, "roles": sorted(roles), "grants": sorted(grants)}}
    )


Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stage:
    """A root module with its own state. `takes`: outputs of earlier stages that it needs as variables."""

    name: str
    variables: Object
    takes: dict[str, str] = field(default_factory=dict)
    """Stage by output name."""
    expected: Object = field(default_factory=dict)
    """Expected outputs, to plan later stages before this one is applied."""
    dropped: bool = False
    """Whether the document no longer has it: its resources are destroyed."""


OPTIONAL: dict[str, Object] = {"3-serving": {"addons": {"mesh": True}}, "4-load": {"load_metrics": LoadMetrics()}}
"""The fields that an optional stage needs, by its name."""


def dropped_stage(environment: Environment, name: str) -> Stage:
    """An optional stage that the document does not have, for its destruction."""
    spec, more = environment.spec, dict(OPTIONAL[name])
    if isinstance(addons := more.get("addons"), dict):
        more["addons"] = spec.addons.model_copy(update=addons)
    other = environment.model_copy(update={"spec": spec.model_copy(update=more)})
    return replace(next(stage for stage in compile_stages(other) if stage.name == name), dropped=True)


def compile_stages(environment: Environment) -> tuple[Stage, ...]:
    """The stages of an environment in apply order."""
    spec, names = environment.spec, Names(environment)
    stages = [_base(spec, names), _cluster(spec, names)]
    if spec.automation.create:
        stages.insert(0, _bootstrap(spec, names))
    if spec.addons.mesh:
        stages.append(_serving(spec, names))
    if spec.load_metrics:
        stages.append(_load(spec, names))
    return tuple(stages)


def _common(spec: EnvironmentSpec) -> Object:
    return {"project_id": spec.project, "region": spec.region, "labels": dict(spec.labels)}


def _acting(spec: EnvironmentSpec, names: Names) -> tuple[Object, dict[str, str]]:
    """The account that a stage impersonates: created by the bootstrap, or existing."""
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
                "services": required_services(spec),
                "roles": required_roles(spec),
                "grants": granted_roles(names.environment),
                "build_account": names.build_account or None,
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
    ranges = {"nodes": subnet.nodes, "pods": pods_range(spec), "services": subnet.services}
    return {"name": names.network, "subnet": {"name": names.subnet, **ranges}, "nat": network.nat, "flow_logs": network.flow_logs}


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
                "maintenance": cluster.maintenance.model_dump(),
                "security": _security(cluster.security),
                "private": private.model_dump() if private else None,
                "gateway_api": spec.addons.gateway,
            },
            "pools": node_pools(spec),
            "identities": {name: _identity(spec, name) for name in spec.identities.workloads},
            "slices_controller": _slices_controller(spec),
            "config_connector": _config_connector(spec),
            "deletion_protection": spec.deletion_protection,
        },
        {**takes, "base": "1-base"},
        {"cluster": {"id": f"projects/{spec.project}/locations/{names.location}/clusters/{names.cluster}", "name": names.cluster}},
    )


def _identity(spec: EnvironmentSpec, name: str) -> Object:
    identity = spec.identities.workloads[name]
    access = {bucket: "read" for bucket, settings in spec.buckets.items() if name in settings.readers}
    access |= {bucket: "write" for bucket, settings in spec.buckets.items() if name in settings.writers}
    return {
        "existing": identity.existing or None,
        "roles": list(identity.roles),
        "namespace": identity.namespace,
        "kubernetes_service_account": identity.service_account or name,
        "buckets": access,
    }


def _security(security: Security) -> Object:
    settings = security.model_dump()
    port = settings.pop("kubelet_read_only_port")
    return {**settings, "group": security.group or None, "kubelet_readonly_port": port}


def _slices_controller(spec: EnvironmentSpec) -> Object | None:
    """The Google service account of the slices controller."""
    if not spec.addons.slices:
        return None
    name, namespace, account = CONTROLLER
    return {"name": name, "namespace": namespace, "kubernetes_service_account": account}


def _config_connector(spec: EnvironmentSpec) -> Object | None:
    if spec.self_service is None:
        return None
    connector = spec.self_service.config_connector
    grants = None if connector.grants is None else list(connector.grants)
    return {"name": connector.service_account, "roles": list(connector.roles), "grants": grants}


def contents_stage(environment: Environment) -> str:
    """The stage after which objects are applied in the cluster: the mesh provides kinds that they need."""
    return "3-serving" if environment.spec.addons.mesh else "2-cluster"


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
                "schema": names.schema,
                "subscription": names.subscription,
                "dataset": names.dataset,
                "table": metrics.table,
                "publishers": {},
            },
            "deletion_protection": spec.deletion_protection,
            "force_destroy": spec.force_destroy,
        },
        takes,
    )
