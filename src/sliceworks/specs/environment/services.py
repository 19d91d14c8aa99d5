"""What stands around a cluster: identities, buckets, registry, TensorBoard, load metrics, mesh and self-service."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from sliceworks.specs.environment.values import AccountName, DatasetName, ResourceName, Role
from sliceworks.specs.model import Name, Spec


class NodeIdentity(Spec):
    """The account that nodes run as."""

    name: AccountName = "gke-nodes"
    existing: str = Field(default="", description="The e-mail address of an account that is there already.")
    roles: list[Role] = Field(
        default_factory=lambda: [
            "roles/artifactregistry.reader",
            "roles/logging.logWriter",
            "roles/monitoring.metricWriter",
            "roles/monitoring.viewer",
            "roles/storage.objectAdmin",
        ]
    )


class WorkloadIdentity(Spec):
    """A Google service account that pods act as: those of one Kubernetes service account."""

    existing: str = Field(default="", description="The e-mail address of an account that is there already.")
    roles: list[Role] = Field(default_factory=lambda: ["roles/logging.logWriter", "roles/storage.objectAdmin"])
    namespace: Name
    service_account: Name | None = Field(
        default=None, description="The Kubernetes service account; the identity's name when left out."
    )


class Identities(Spec):
    """Who acts in this environment."""

    nodes: NodeIdentity = NodeIdentity()
    workloads: dict[AccountName, WorkloadIdentity] = Field(default_factory=dict)


class Bucket(Spec):
    """A bucket for data, checkpoints or models."""

    location: str = Field(default="", description="The environment's region when left out.")
    storage_class: Literal["STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE"] = "STANDARD"
    versioning: bool = False
    readers: list[AccountName] = Field(default_factory=list, description="Workload identities that may list and read it.")
    writers: list[AccountName] = Field(default_factory=list, description="Workload identities that may change it.")
    delete_after_days: int | None = Field(default=None, ge=1)


class Registry(Spec):
    """Container images."""

    name: ResourceName | None = Field(default=None, description="`PREFIX-images` when left out.")
    location: str = Field(default="", description="The environment's region when left out.")
    existing: str = Field(default="", description="`LOCATION-docker.pkg.dev/PROJECT/NAME` of one that is there already.")
    build: list[Literal["gateway", "converter", "load-worker", "controllers"]] = Field(
        default_factory=list, description="Our images that are built into it."
    )


class TensorBoard(Spec):
    """A Vertex AI TensorBoard."""

    name: str = Field(default="", description="`PREFIX-tensorboard` when left out.")


class LoadMetrics(Spec):
    """Where load tests keep their records: a Pub/Sub topic with a schema, written into a BigQuery table."""

    topic: ResourceName | None = None
    dataset: DatasetName | None = None
    table: DatasetName = "requests"
    location: str = Field(default="", description="The environment's region when left out.")


class ConfigConnector(Spec):
    """Google Cloud's resources as objects of the cluster, for self-service graphs."""

    service_account: AccountName = "config-connector"
    roles: list[Role] = Field(default_factory=list, description="Beside those that the published graphs need.")
    grants: list[Role] | None = Field(
        default=None, description="Roles in the project that it may give to others, beside those that the published graphs give."
    )


class ProjectObject(Spec):
    """The Project object that graphs refer to, under its folder or organisation."""

    name: Name = "acquire-namespace-project"
    folder: str = ""
    organization: str = ""

    @model_validator(mode="after")
    def _one_parent(self) -> Self:
        if bool(self.folder) == bool(self.organization):
            raise ValueError("give the folder or the organization that the project is under")
        return self


class ModelRegistry(Spec):
    """Credentials of a model registry, read from a file on this machine when the environment is applied, never stored in it."""

    secret: Name = "kaggle-secret"
    file: str = Field(description="A JSON file of names and values, such as kaggle.json.")


class SelfService(Spec):
    """What end users get: a namespace, the published graphs, and what these need."""

    namespace: Name = "config-connector"
    config_connector: ConfigConnector = ConfigConnector()
    project: ProjectObject | None = None
    model_registries: list[ModelRegistry] = Field(default_factory=list)
    graphs: list[str] = Field(default_factory=list, description="Files with ResourceGraphDefinitions to publish.")
