"""Teams and queues: who shares the slices, how much each may count on, and what goes first."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from sliceworks.specs.environment.values import AccountName, Checksum, Duration, Member, Natural
from sliceworks.specs.model import Name, Spec

PRIORITIES = {"very-low": 100, "low": 250, "medium": 500, "high": 750, "very-high": 1000}


class Share(Spec):
    """How much of one accelerator type a team can count on, in chips."""

    chips: Natural
    borrow: Natural | None = Field(default=None, description="How many more it may borrow; any number when left out.")
    lend: Natural | None = Field(default=None, description="How many it lends when idle; all when left out.")


class Team(Spec):
    """People who submit work."""

    namespace: Name | None = Field(default=None, description="The team's name when left out.")
    queue: Name = "queue"
    members: list[Member] = Field(default_factory=list)
    service_account: Name | None = Field(default=None, description="The Kubernetes service account of its jobs.")
    identity: AccountName | None = Field(default=None, description="The workload identity that its jobs act as.")
    shares: dict[str, Share] = Field(
        default_factory=dict, description="By accelerator type, `v4-16` or `v4-16-spot`; only with a cohort."
    )
    most_jobs: Natural | None = Field(default=None, description="How many JobSets the namespace may hold.")


class Queues(Spec):
    """How work is ordered and admitted."""

    sharing: Literal["one-queue", "cohort"] = Field(
        default="one-queue", description="One queue for all teams, or one for each, lending to each other."
    )
    name: Name = "slices"
    strategy: Literal["BestEffortFIFO", "StrictFIFO"] = "BestEffortFIFO"
    preemption: bool = Field(default=True, description="Work of higher priority takes the place of lower.")
    reclaim: bool = Field(default=True, description="What was lent is taken back when it is needed.")
    priorities: dict[Name, int] = Field(default_factory=lambda: dict(PRIORITIES))
    cpu: str = Field(default="", description="Quota of CPU; what the CPU pools can hold when left out.")
    memory: str = Field(default="", description="Quota of memory; what the CPU pools can hold when left out.")
    ready_within: Duration = Field(
        default="", description="Admitted work whose pods are not ready in this time goes back, such as 10m; never when left out."
    )


class Versions(Spec):
    """Versions of what is installed in the cluster."""

    jobset: str = "v0.12.0"
    kueue: str = "v0.15.0"
    config_connector: str = "1.155.0"


class Checksums(Spec):
    """SHA-256 of release files: what was fetched and is another file is refused."""

    jobset: Checksum = Field(default="", description="Of `manifests.yaml`; that of the file fetched first when left out.")
    kueue: Checksum = Field(default="", description="Of `manifests.yaml`; that of the file fetched first when left out.")
    config_connector: Checksum = Field(
        default="", description="Of `release-bundle.tar.gz`; that of the file fetched first when left out."
    )


class Addons(Spec):
    """What is installed in the cluster beside the workloads."""

    jobset: bool = True
    kueue: bool = True
    slices: bool = Field(default=False, description="The controller that makes node pools for waiting jobs.")
    graphs: bool = Field(default=False, description="The controller of self-service graphs.")
    image: str = Field(default="", description="The image of our controllers; `REGISTRY/controllers:VERSION` when left out.")
    gateway: bool = Field(
        default=False, description="Gateways in front of model servers: their image is built, and the Gateway API is on."
    )
    mesh: bool = Field(default=False, description="Fleet membership and managed service mesh.")
    versions: Versions = Versions()
    checksums: Checksums = Checksums()

    @model_validator(mode="after")
    def _kueue_needs_jobset(self) -> Self:
        if self.slices and not self.jobset:
            raise ValueError("slices need jobset")
        return self
