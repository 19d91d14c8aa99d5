"""The Environment document, and validation across its parts."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from sliceworks.specs.common import InvalidFields, Metadata, Name, Spec
from sliceworks.specs.environment.cluster import Automation, Cluster, Network, Pools, State
from sliceworks.specs.environment.field_types import BucketName, Labels, Project, Region, ResourceName, Zone
from sliceworks.specs.environment.services import Bucket, Identities, LoadMetrics, Registry, SelfService, TensorBoard
from sliceworks.specs.environment.teams import Addons, Queues, Team


class EnvironmentSpec(Spec):
    """Spec of an Environment."""

    project: Project
    region: Region
    zones: list[Zone] = Field(default_factory=list, description="Zones of nodes. Default: chosen by GKE.")
    prefix: ResourceName | None = Field(default=None, description="Prefix of generated names. Default: the document's name.")
    labels: Labels = Field(default_factory=dict, description="Labels of every resource that supports them.")
    deletion_protection: bool = Field(default=True, description="Protects the cluster and the tables from deletion.")
    force_destroy: bool = Field(default=False, description="Deletes buckets and datasets that are not empty.")
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
    def _check_zones(self) -> Self:
        outside = [(("zones", index), zone) for index, zone in enumerate(self.zones) if not zone.startswith(f"{self.region}-")]
        if outside:
            raise InvalidFields([(path, f"must be in region {self.region}, got {zone}") for path, zone in outside])
        if self.cluster.zonal and not self.zones:
            raise InvalidFields([(("cluster", "zonal"), "requires zones")])
        return self

    @model_validator(mode="after")
    def _check_autopilot(self) -> Self:
        if self.cluster.mode == "autopilot" and (self.pools.cpu or self.pools.tpu or self.pools.gpu):
            raise InvalidFields([(("pools",), "must be empty: an Autopilot cluster manages its own nodes")])
        return self

    @model_validator(mode="after")
    def _check_identities(self) -> Self:
        used: list[tuple[tuple[str | int, ...], str]] = [
            (("buckets", name, field, index), identity)
            for name, bucket in self.buckets.items()
            for field, identities in (("readers", bucket.readers), ("writers", bucket.writers))
            for index, identity in enumerate(identities)
        ]
        used += [(("teams", name, "identity"), team.identity) for name, team in self.teams.items() if team.identity]
        known = self.identities.workloads
        if unknown := [
            (path, f"not found in identities.workloads: {identity}") for path, identity in used if identity not in known
        ]:
            raise InvalidFields(unknown)
        return self


class Environment(Spec):
    """An environment: everything that Terraform provisions and `env apply` installs."""

    api_version: Literal["sliceworks.dev/v1alpha1"]
    kind: Literal["Environment"]
    metadata: Metadata
    spec: EnvironmentSpec
