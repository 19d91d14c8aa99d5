"""Terraform state, automation, network, cluster and node pools of an Environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from sliceworks.specs.common import Name, Natural, Positive, Spec, at_most_one_of, check_unique
from sliceworks.specs.environment.field_types import (
    AccountName,
    BucketName,
    ClusterName,
    KmsKey,
    PoolName,
    Project,
    Range,
    ResourceName,
    Role,
    Service,
    Zone,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class State(Spec):
    """The backend of Terraform's state; each stage has its own folder under the prefix."""

    bucket: BucketName | None = Field(default=None, description="Default: the automation bucket.")
    prefix: str = Field(default="", description="Default: `ENVIRONMENT/terraform`.")


class Automation(Spec):
    """The service account that provisions the environment, and its bucket."""

    create: bool = Field(default=True, description="False if the bucket and the account already exist.")
    bucket: BucketName
    location: str = Field(default="", description="Default: the environment's region.")
    service_account: AccountName = "automation"
    services: list[Service] = Field(default_factory=list, description="Additional services to enable.")
    roles: list[Role] = Field(default_factory=list, description="Additional roles of the account.")
    cloud_build: bool = Field(default=True, description="Creates the service account that image builds run as, `ACCOUNT-build`.")
    build_machine_type: Literal["", "e2-medium", "e2-highcpu-8", "e2-highcpu-32", "n1-highcpu-8", "n1-highcpu-32"] = Field(
        default="", description="Machine type of Cloud Build. Default: that of Cloud Build, and e2-highcpu-8 for images."
    )


class Subnet(Spec):
    """The cluster's subnet and IP ranges."""

    name: ResourceName | None = Field(default=None, description="Default: `NETWORK-REGION`.")
    nodes: Range = "10.129.0.0/20"
    pods: Range | None = Field(
        default=None,
        description="Default: 192.168.64.0/20, or a larger range at 10.192.0.0 for pools of twice the size. It cannot change.",
    )
    services: Range = "192.168.80.0/20"


class ExistingNetwork(Spec):
    """An existing network of this project or a Shared VPC host project."""

    host_project: Project | None = None
    network: ResourceName
    subnet: ResourceName
    pods_range: str = Field(default="pods", description="Name of the subnet's secondary range.")
    services_range: str = "services"


class Network(Spec):
    """A new network, or an existing one."""

    name: ResourceName | None = Field(default=None, description="Default: `PREFIX-network`.")
    subnet: Subnet = Subnet()
    nat: bool = Field(default=True, description="Cloud NAT, for nodes without public addresses.")
    flow_logs: bool = Field(default=False, description="VPC flow logs of the subnet.")
    existing: ExistingNetwork | None = None

    @model_validator(mode="after")
    def _check_existing(self) -> Self:
        if self.existing is not None and (self.name is not None or self.model_fields_set & {"subnet", "nat", "flow_logs"}):
            raise ValueError("existing excludes name, subnet, nat and flowLogs")
        return self


class PrivateCluster(Spec):
    """Private nodes, and who reaches the control plane."""

    nodes: bool = Field(default=True, description="Nodes without public addresses.")
    endpoint: bool = Field(default=False, description="True: the control plane has no public IP address.")
    control_plane_range: Range | None = None
    authorized_networks: dict[str, Range] = Field(
        default_factory=dict, description="Ranges that reach the IP address of the control plane, by name. Default: none."
    )
    dns_endpoint: bool = Field(
        default=True,
        description="Clients reach the control plane by its DNS name, and IAM decides; `env apply` needs this or a range.",
    )


Timestamp = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")]


class RecurringWindow(Spec):
    """A recurring maintenance window."""

    start: Timestamp
    end: Timestamp = Field(description="End of the first window.")
    recurrence: str = Field(description="RFC 5545 rule, such as `FREQ=WEEKLY;BYDAY=SA,SU`.")


class Exclusion(Spec):
    """A time without upgrades."""

    start: Timestamp
    end: Timestamp | None = Field(default=None, description="Default: the end of support of the cluster's version.")
    scope: Literal["NO_UPGRADES", "NO_MINOR_UPGRADES", "NO_MINOR_OR_NODE_UPGRADES"] = "NO_MINOR_OR_NODE_UPGRADES"

    @model_validator(mode="after")
    def _check_end(self) -> Self:
        if self.scope == "NO_UPGRADES" and self.end is None:
            raise ValueError("scope NO_UPGRADES requires end")
        return self


class Maintenance(Spec):
    """Maintenance windows in UTC, and exclusions."""

    start: Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")] | None = Field(
        default=None, description="Start of a daily window, such as 03:00."
    )
    recurring: RecurringWindow | None = None
    exclusions: dict[Name, Exclusion] = Field(default_factory=dict)

    _check_window = at_most_one_of("start", "recurring")


class Security(Spec):
    """Optional hardening of the cluster. The service agents of GKE and Compute Engine must be allowed to use the keys."""

    secrets_key: KmsKey | None = Field(default=None, description="KMS key that encrypts Secrets in etcd.")
    boot_disk_key: KmsKey | None = Field(default=None, description="KMS key of the boot disks of nodes.")
    binary_authorization: bool = Field(default=False, description="Enforces the project's Binary Authorization policy.")
    posture: Literal["basic", "vulnerabilities"] | None = Field(
        default=None, description="GKE security posture: configuration audits, or image vulnerabilities too."
    )
    intranode_visibility: bool = Field(default=False, description="Traffic between pods of one node appears in flow logs.")
    control_plane_logs: list[Literal["APISERVER", "CONTROLLER_MANAGER", "SCHEDULER"]] = Field(
        default_factory=list, description="Control plane components that write logs."
    )
    group: str = Field(default="", description="Google group for RBAC, `gke-security-groups@DOMAIN`.")
    kubelet_read_only_port: bool = Field(default=False, description="Kubelets serve their unauthenticated port 10255.")


class Cluster(Spec):
    """The GKE cluster."""

    name: ClusterName | None = Field(default=None, description="Default: `PREFIX-cluster`.")
    description: str = "Training and serving on accelerator slices"
    mode: Literal["standard", "autopilot"] = "standard"
    zonal: bool = Field(default=False, description="A zonal cluster in the environment's first zone.")
    version: str = Field(default="", description="Minimum version. Default: the channel's default.")
    release_channel: Literal["none", "rapid", "regular", "stable"] = "regular"
    auto_upgrade: bool = Field(
        default=True,
        description="Upgrades nodes. In a release channel, false is a maintenance exclusion until the version's end of support.",
    )
    private: PrivateCluster | None = Field(
        default_factory=PrivateCluster,
        description="Null: nodes have public addresses, and every address reaches the control plane.",
    )
    maintenance: Maintenance = Maintenance()
    security: Security = Security()

    @model_validator(mode="after")
    def _check_autopilot(self) -> Self:
        if self.mode == "autopilot" and (self.release_channel == "none" or self.zonal):
            raise ValueError("an Autopilot cluster must be regional and in a release channel")
        return self


MAX_SLICES = 1000
"""Slices of one pool: each is a node pool, and a cluster has at most 15,000 nodes."""


class Taint(Spec):
    """A taint of the pool's nodes."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


class Disk(Spec):
    """The boot disk of each node."""

    type: Literal["pd-standard", "pd-balanced", "pd-ssd", "hyperdisk-balanced"] | None = Field(
        default=None, description="Default: the machine type's default."
    )
    gib: Positive = 200


class Autoscaling(Spec):
    """Limits of the cluster autoscaler, over all zones of the pool."""

    min: Natural = 0
    max: Positive

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min must be at most max, got {self.min} and {self.max}")
        return self


class Reservation(Spec):
    """A Compute Engine reservation."""

    name: str
    project: str = Field(default="", description="Project of a shared reservation. Default: this project.")


class Pool(Spec):
    """Fields of all node pools."""

    zones: list[Zone] = Field(default_factory=list, description="Default: the environment's zones.")
    max_pods: Annotated[int, Field(ge=8, le=256)] | None = Field(
        default=None,
        description="Maximum number of pods per node; it sets the pod addresses that a node takes. Default: 32 for TPUs, else 110.",
    )
    disk: Disk = Disk()
    labels: dict[str, str] = Field(default_factory=dict)
    taints: list[Taint] = Field(default_factory=list)
    tags: list[str] = Field(default_factory=list, description="Network tags.")
    spot: bool = False
    reservation: Reservation | None = None

    _check_capacity = at_most_one_of("spot", "reservation")


class MachinePool(Pool):
    """A pool of single nodes, with a fixed size or autoscaled."""

    default_nodes: ClassVar[int] = 1
    nodes: Natural | None = None
    autoscaling: Autoscaling | None = None

    _check_size = at_most_one_of("nodes", "autoscaling")

    @property
    def max_nodes(self) -> int:
        """The largest number of nodes."""
        return self.autoscaling.max if self.autoscaling else self.default_nodes if self.nodes is None else self.nodes


class CpuPool(MachinePool):
    """A pool of CPU machines."""

    default_nodes: ClassVar[int] = 3
    machine_type: str = "n1-standard-4"
    nodes: Natural | None = Field(default=None, description="Fixed size. Default: 3 without autoscaling.")


class TpuPool(Pool):
    """Slices of one type; each is a node pool, named NAME-0, NAME-1, …"""

    type: str = Field(description="Such as v4-32 or v5litepod-16.")
    topology: str = Field(default="", description="Default: the type's default topology.")
    count: Annotated[int, Field(ge=0, le=MAX_SLICES)] = Field(default=1, description="Number of slices; 0 creates none.")
    autoscaling: bool = Field(default=False, description="Lets the cluster autoscaler create and delete slices.")
    group: str = Field(default="", description="Label of the slices of one multi-slice group.")


class GpuPool(MachinePool):
    """A pool of GPU machines."""

    machine_type: str = "n1-standard-4"
    accelerator: str = Field(
        default="", description="GPU to attach, such as nvidia-tesla-t4, for machine types without built-in GPUs."
    )
    accelerator_count: Positive | None = None
    driver: Literal["default", "latest", "none"] = Field(default="default", description="NVIDIA driver that GKE installs.")
    gvnic: bool = False
    local_ssds: Natural = 0
    nodes: Natural | None = Field(default=None, description="Fixed size. Default: 1 without autoscaling.")


class Pools(Spec):
    """All node pools, by name."""

    cpu: dict[PoolName, CpuPool] = Field(default_factory=dict)
    tpu: dict[PoolName, TpuPool] = Field(default_factory=dict)
    gpu: dict[PoolName, GpuPool] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_unique_names(self) -> Self:
        check_unique("pool name", [*self.cpu, *self.tpu, *self.gpu])
        return self

    def entries(self) -> Iterator[tuple[str, str, CpuPool | TpuPool | GpuPool]]:
        """Kind (cpu, tpu or gpu), name and pool of all entries."""
        yield from (("cpu", name, pool) for name, pool in self.cpu.items())
        yield from (("tpu", name, pool) for name, pool in self.tpu.items())
        yield from (("gpu", name, pool) for name, pool in self.gpu.items())
