"""The Environment document itself, and what its parts ask of each other."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from sliceworks.specs.environment.foundations import Automation, Cluster, Network, State
from sliceworks.specs.environment.pools import Pools
from sliceworks.specs.environment.services import Bucket, Identities, LoadMetrics, Registry, SelfService, TensorBoard
from sliceworks.specs.environment.teams import Addons, Queues, Team
from sliceworks.specs.environment.values import BucketName, Labels, Project, Region, ResourceName, Zone
from sliceworks.specs.model import Metadata, Name, Spec


class EnvironmentSpec(Spec):
    """Everything that a platform stands on."""

    project: Project
    region: Region
    zones: list[Zone] = Field(default_factory=list, description="Where nodes may be; the region's own choice when left out.")
    prefix: ResourceName | None = Field(
        default=None, description="Begins the names that are not given; the document's name when left out."
    )
    labels: Labels = Field(default_factory=dict, description="On every resource that takes labels.")
    deletion_protection: bool = Field(
        default=True, description="The cluster and the tables cannot be destroyed before this is false."
    )
    force_destroy: bool = Field(default=False, description="Buckets and datasets are destroyed with what is in them.")
    state: State = State()
    automation: Automation
    network: Network = Network()
    cluster: Cluster = Cluster()
    pools: Pools = Pools()
    identities: Identities = Identities()
    buckets: dict[BucketName, Bucket] = Field(default_factory=dict)
    registry: Registry | None = None
    tensorboard: TensorBoard | None = None
    load_metrics: LoadMetrics | None = None
    self_service: SelfService | None = None
    addons: Addons = Addons()
    queues: Queues = Queues()
    teams: dict[Name, Team] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _zones_in_region(self) -> Self:
        strays = [zone for zone in self.zones if not zone.startswith(f"{self.region}-")]
        if strays:
            raise ValueError(f"zones must be of region {self.region}, found {', '.join(strays)}")
        if self.cluster.zonal and not self.zones:
            raise ValueError("a zonal cluster needs its zone: give zones")
        return self

    @model_validator(mode="after")
    def _autopilot_has_no_pools(self) -> Self:
        if self.cluster.mode == "autopilot" and (self.pools.cpu or self.pools.tpu or self.pools.gpu):
            raise ValueError("an Autopilot cluster makes its own nodes: leave pools out")
        return self

    @model_validator(mode="after")
    def _identities_exist(self) -> Self:
        known = self.identities.workloads
        used = [name for bucket in self.buckets.values() for name in (*bucket.readers, *bucket.writers)]
        used += [team.identity for team in self.teams.values() if team.identity]
        missing = sorted({name for name in used if name not in known})
        if missing:
            raise ValueError(f"identities.workloads has no {', '.join(missing)}")
        return self


class Environment(Spec):
    """The document."""

    api_version: Literal["sliceworks.dev/v1alpha1"]
    kind: Literal["Environment"]
    metadata: Metadata
    spec: EnvironmentSpec
