"""Teams, quotas, queues, priorities and add-ons."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from sliceworks.specs.common import Name, Natural, Spec
from sliceworks.specs.environment.field_types import AccountName, Checksum, Duration, Member, Quota

PRIORITIES = {"very-low": 100, "low": 250, "medium": 500, "high": 750, "very-high": 1000}


class Share(Spec):
    """A team's quota of one accelerator type, in chips."""

    chips: Natural
    borrow: Natural | None = Field(default=None, description="Borrowing limit. Default: unlimited.")
    lend: Natural | None = Field(default=None, description="Lending limit. Default: all idle chips.")


class Team(Spec):
    """A team: its namespace, members and quota."""

    namespace: Name | None = Field(default=None, description="Default: the team's name.")
    queue: Name = "queue"
    members: list[Member] = Field(default_factory=list)
    service_account: Name | None = Field(default=None, description="Kubernetes service account of its jobs.")
    identity: AccountName | None = Field(default=None, description="Workload identity of its jobs.")
    shares: dict[str, Share] = Field(
        default_factory=dict, description="Quota by accelerator type, `v4-16` or `v4-16-spot`; requires `sharing: cohort`."
    )
    max_jobs: Natural | None = Field(default=None, description="Maximum number of JobSets in the namespace.")


class Queues(Spec):
    """How workloads are ordered and admitted."""

    sharing: Literal["one-queue", "cohort"] = Field(
        default="one-queue", description="One ClusterQueue for all teams, or one per team in a cohort."
    )
    name: Name = "slices"
    strategy: Literal["BestEffortFIFO", "StrictFIFO"] = "BestEffortFIFO"
    preemption: bool = Field(default=True, description="Workloads of higher priority preempt lower ones.")
    reclaim: bool = Field(default=True, description="Teams reclaim lent quota by preemption.")
    priorities: dict[Name, int] = Field(default_factory=lambda: dict(PRIORITIES))
    cpu: Quota = Field(default="", description="CPU quota. Default: the capacity of the CPU pools.")
    memory: Quota = Field(default="", description="Memory quota. Default: the capacity of the CPU pools.")
    ready_within: Duration = Field(
        default="",
        description="Requeues admitted workloads whose pods are not ready in time, such as 10m. Default: off.",
    )


class Versions(Spec):
    """Versions of the add-ons."""

    jobset: str = "v0.12.0"
    kueue: str = "v0.15.0"
    config_connector: str = "1.155.0"


class Checksums(Spec):
    """SHA-256 checksums of release files; a file with another checksum is refused."""

    jobset: Checksum = Field(default="", description="Of `manifests.yaml`. Default: that of the first download.")
    kueue: Checksum = Field(default="", description="Of `manifests.yaml`. Default: that of the first download.")
    config_connector: Checksum = Field(default="", description="Of `release-bundle.tar.gz`. Default: that of the first download.")


class Addons(Spec):
    """Add-ons of the cluster."""

    jobset: bool = True
    kueue: bool = True
    slices: bool = Field(default=False, description="The slices controller, which creates node pools for pending jobs.")
    graphs: bool = Field(default=False, description="The graphs controller.")
    image: str = Field(default="", description="Image of the controllers. Default: `REGISTRY/controllers:VERSION`.")
    gateway: bool = Field(default=False, description="Gateways for model servers: builds their image and enables the Gateway API.")
    mesh: bool = Field(
        default=False,
        description="Fleet membership, managed service mesh, injection labels on namespaces of identities, an ingress gateway.",
    )
    mesh_channel: Literal["", "rapid", "regular", "stable"] = Field(
        default="", description="Release channel of the mesh. Default: it follows the channel of the cluster."
    )
    ingress_namespace: str = Field(
        default="", description="Namespace of the mesh's ingress gateway. Default: that of the first workload identity."
    )
    versions: Versions = Versions()
    checksums: Checksums = Checksums()

    @model_validator(mode="after")
    def _check_dependencies(self) -> Self:
        if self.slices and not self.jobset:
            raise ValueError("slices requires jobset")
        if not self.mesh and (self.mesh_channel or self.ingress_namespace):
            raise ValueError("meshChannel and ingressNamespace require mesh")
        return self
