"""Resources around the cluster: identities, buckets, registry, TensorBoard, load metrics and self-service."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sliceworks.specs.common import Name, Spec, exactly_one_of
from sliceworks.specs.environment.field_types import AccountName, DatasetName, ResourceName, Role


class NodeIdentity(Spec):
    """The service account of nodes."""

    name: AccountName = "gke-nodes"
    existing: str = Field(default="", description="Email address of an existing account.")
    roles: list[Role] = Field(
        default_factory=lambda: [
            "roles/artifactregistry.reader",
            "roles/container.defaultNodeServiceAccount",
        ]
    )


class WorkloadIdentity(Spec):
    """A Google service account, bound to a Kubernetes service account by Workload Identity."""

    existing: str = Field(default="", description="Email address of an existing account.")
    roles: list[Role] = Field(default_factory=lambda: ["roles/logging.logWriter"])
    namespace: Name
    service_account: Name | None = Field(default=None, description="The Kubernetes service account. Default: the identity's name.")


class Identities(Spec):
    """Service accounts of nodes and workloads."""

    nodes: NodeIdentity = NodeIdentity()
    workloads: dict[AccountName, WorkloadIdentity] = Field(default_factory=dict)


class Bucket(Spec):
    """A bucket for data, checkpoints or models."""

    location: str = Field(default="", description="Default: the environment's region.")
    storage_class: Literal["STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE"] = "STANDARD"
    versioning: bool = False
    readers: list[AccountName] = Field(default_factory=list, description="Workload identities that may list and read objects.")
    writers: list[AccountName] = Field(default_factory=list, description="Workload identities that may write objects.")
    delete_after_days: int | None = Field(default=None, ge=1)


class Registry(Spec):
    """The Artifact Registry repository of container images."""

    name: ResourceName | None = Field(default=None, description="Default: `PREFIX-images`.")
    location: str = Field(default="", description="Default: the environment's region.")
    existing: str = Field(default="", description="`LOCATION-docker.pkg.dev/PROJECT/NAME` of an existing repository.")
    build: list[Literal["gateway", "converter", "load-worker", "controllers"]] = Field(
        default_factory=list, description="Sliceworks images to build and push."
    )


class TensorBoard(Spec):
    """A Vertex AI TensorBoard."""

    name: str = Field(default="", description="Default: `PREFIX-tensorboard`.")


class LoadMetrics(Spec):
    """Destination of load test records: a Pub/Sub topic with a schema, exported to a BigQuery table."""

    topic: ResourceName | None = Field(default=None, description="Default: `PREFIX-load-records`.")
    schema_name: ResourceName | None = Field(default=None, description="Pub/Sub schema of the topic. Default: `TOPIC-schema`.")
    subscription: ResourceName | None = Field(default=None, description="Default: `TOPIC-to-bigquery`.")
    dataset: DatasetName | None = Field(default=None, description="Default: `PREFIX_load`.")
    table: DatasetName = "requests"
    location: str = Field(default="", description="Default: the environment's region.")


class ConfigConnector(Spec):
    """Config Connector, for self-service graphs."""

    service_account: AccountName = "config-connector"
    roles: list[Role] = Field(default_factory=list, description="Additional roles; those that the published graphs need are added.")
    grants: list[Role] | None = Field(
        default=None, description="Additional project roles that it may grant; those that the published graphs grant are added."
    )


class ProjectObject(Spec):
    """The Project object that graphs refer to."""

    name: Name = "acquire-namespace-project"
    folder: str = ""
    organization: str = ""

    _check_parent = exactly_one_of("folder", "organization")


class ModelRegistry(Spec):
    """Credentials of a model registry, read from a local file on apply and never stored in the environment."""

    secret: Name = "kaggle-secret"
    file: str = Field(description="A JSON file of keys and values, such as kaggle.json.")


class SelfService(Spec):
    """Self-service for end users: a namespace, the published graphs and their prerequisites."""

    namespace: Name = "config-connector"
    config_connector: ConfigConnector = ConfigConnector()
    project: ProjectObject | None = None
    model_registries: list[ModelRegistry] = Field(default_factory=list)
    graphs: list[str] = Field(default_factory=list, description="Files with ResourceGraphDefinitions to publish.")
