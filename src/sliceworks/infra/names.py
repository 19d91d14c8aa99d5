"""The names of what an environment creates: those that the document gives, and those that follow from its prefix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sliceworks.specs.environment import Environment


class Account(NamedTuple):
    """A Google service account, the Kubernetes one that acts as it, and its roles in the project."""

    account: str
    namespace: str
    kubernetes: str
    roles: tuple[str, ...]


CONTROLLER = Account(
    "tpu-provisioner",
    "tpu-provisioner-system",
    "tpu-provisioner-controller-manager",
    ("roles/container.clusterAdmin", "roles/iam.serviceAccountUser"),
)
"""Whom the controller of slices acts as. It makes node pools, whose nodes act as another account."""


@dataclass(frozen=True, slots=True)
class Names:
    """One place that knows them, for Terraform, for Cloud Build and for what is applied in the cluster."""

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
        """Where the cluster is: its zone, or the whole region."""
        spec = self.environment.spec
        return spec.zones[0] if spec.cluster.zonal else spec.region

    @property
    def registry(self) -> str:
        registry = self.environment.spec.registry
        return (registry.name if registry else None) or f"{self.prefix}-images"

    @property
    def images(self) -> str:
        """What the names of images begin with."""
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
    def automation_account(self) -> str:
        return self.account(self.environment.spec.automation.service_account)

    def account(self, name: str) -> str:
        """The e-mail address of a service account of this project."""
        return f"{name}@{self.environment.spec.project}.iam.gserviceaccount.com"
