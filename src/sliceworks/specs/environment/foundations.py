"""What an environment stands on: state, automation, network and cluster."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sliceworks.specs.environment.values import AccountName, BucketName, ClusterName, Project, Range, ResourceName, Role, Service
from sliceworks.specs.model import Spec


class State(Spec):
    """Where Terraform keeps what it made. Each stage has a folder of its own under the prefix."""

    bucket: BucketName | None = Field(default=None, description="The automation bucket when left out.")
    prefix: str = Field(default="", description="`ENVIRONMENT/terraform` when left out.")


class Automation(Spec):
    """The account that provisions the environment, and the bucket it keeps its things in."""

    create: bool = Field(default=True, description="False: the bucket and the account exist, made by somebody else.")
    bucket: BucketName
    location: str = Field(default="", description="The environment's region when left out.")
    service_account: AccountName = "automation"
    services: list[Service] = Field(default_factory=list, description="Services to enable beside those that the rest needs.")
    roles: list[Role] = Field(default_factory=list, description="Roles of the account beside those that the rest needs.")
    cloud_build: bool = Field(default=True, description="Cloud Build may act as this account.")


class Subnet(Spec):
    """The cluster's part of the network."""

    name: ResourceName | None = Field(default=None, description="The network's name with `-REGION` when left out.")
    nodes: Range = "10.129.0.0/20"
    pods: Range = "192.168.64.0/20"
    services: Range = "192.168.80.0/20"


class ExistingNetwork(Spec):
    """A network that is there already, of this project or shared by another."""

    host_project: Project | None = None
    network: ResourceName
    subnet: ResourceName
    pods_range: str = Field(default="pods", description="The name of the subnet's secondary range.")
    services_range: str = "services"


class Network(Spec):
    """A network of its own, or an existing one."""

    name: ResourceName | None = Field(default=None, description="`PREFIX-network` when left out.")
    subnet: Subnet = Subnet()
    nat: bool = Field(default=True, description="Nodes without public addresses reach the outside through it.")
    existing: ExistingNetwork | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.existing is not None and (self.name is not None or self.model_fields_set & {"subnet", "nat"}):
            raise ValueError("give name, subnet and nat for a new network, or existing, not both")
        return self


class Private(Spec):
    """Nodes without public addresses; a control plane that only named ranges reach."""

    nodes: bool = True
    endpoint: bool = Field(default=False, description="True: the control plane has no public address either.")
    control_plane_range: Range | None = None
    authorized_networks: dict[str, Range] = Field(default_factory=dict, description="Who may reach the control plane, by name.")


class Maintenance(Spec):
    """When Google may work on the cluster: a window every day, in UTC."""

    start: Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")] = "03:00"


class Cluster(Spec):
    """The GKE cluster."""

    name: ClusterName | None = Field(default=None, description="`PREFIX-cluster` when left out.")
    description: str = "Training and serving on accelerator slices"
    mode: Literal["standard", "autopilot"] = "standard"
    zonal: bool = Field(default=False, description="One zone only: the first of the environment's.")
    version: str = Field(default="", description="The oldest version that will do; the channel's default when left out.")
    release_channel: Literal["none", "rapid", "regular", "stable"] = "regular"
    auto_upgrade: bool = Field(default=True, description="Nodes follow the control plane. Must stay on in a release channel.")
    private: Private | None = None
    maintenance: Maintenance | None = None

    @model_validator(mode="after")
    def _channel(self) -> Self:
        if self.release_channel != "none" and not self.auto_upgrade:
            raise ValueError("nodes are always upgraded in a release channel: set releaseChannel to none to switch autoUpgrade off")
        if self.mode == "autopilot" and (self.release_channel == "none" or self.zonal):
            raise ValueError("an Autopilot cluster is regional and follows a release channel")
        return self
