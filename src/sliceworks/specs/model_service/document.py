"""The ModelService document."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from sliceworks.specs.common import Amount, NamespacedMetadata, Natural, Positive, Seconds, Spec, Variable, check_unique
from sliceworks.specs.model_service.components import (
    Accelerator,
    Autoscaling,
    Canary,
    Identity,
    Image,
    Monitoring,
    Route,
    ServiceGateway,
)
from sliceworks.specs.model_service.engines import ENGINES, JetStream, Model, Saxml, Triton, Vllm
from sliceworks.specs.training import Secret


class ModelServiceSpec(Spec):
    """An engine and its models. The field named after the engine holds its settings."""

    engine: Literal["saxml", "triton", "jetstream", "vllm"]
    accelerator: Accelerator | None = Field(
        default=None, description="What one replica runs on. Only Triton runs without an accelerator."
    )
    replicas: Natural = Field(default=1, description="0 stops all servers and disables autoscaling.")
    surge: bool = Field(
        default=False, description="During an update, start a new server before stopping an old one; requires a spare node."
    )
    autoscaling: Autoscaling | None = Field(default=None, description="Instead of a fixed number of replicas.")
    image: Image | None = Field(default=None, description="Image of the model server; a pinned image of the engine by default.")
    command: list[str] = Field(default_factory=list, description="Overrides the image's command.")
    args: list[str] = Field(default_factory=list, description="Arguments added to those derived from this document.")
    env: dict[Variable, str] = Field(default_factory=dict)
    secrets: list[Secret] = Field(default_factory=list)
    cpu: Amount | None = Field(default=None, description="Request of each host; most of its capacity by default.")
    memory: Amount | None = Field(default=None, description="Request of each host; most of its capacity by default.")
    user: Positive = Field(default=1000, description="User ID of the containers; never root.")
    read_only_root_filesystem: bool = Field(default=True, description="Servers can write only to /tmp.")
    identity: Identity | None = None
    startup_timeout: Seconds = Field(default=1800.0, description="How long a server may take to load its model.")
    drain_timeout: Seconds = Field(default=60.0, description="How long a terminating server may finish its requests.")
    saxml: Saxml | None = None
    triton: Triton | None = None
    jetstream: JetStream | None = None
    vllm: Vllm | None = None
    canary: Canary | None = None
    gateway: ServiceGateway | None = Field(default=None, description="Without a gateway, clients call the engine directly.")
    route: Route | None = None
    monitoring: Monitoring | None = Monitoring()

    @property
    def stopped(self) -> bool:
        """Whether the service runs no servers."""
        return self.replicas == 0

    @property
    def models(self) -> list[Model]:
        """The served models."""
        if self.saxml:
            return list(self.saxml.models)
        if self.triton:
            return list(self.triton.models)
        engine = self.jetstream or self.vllm
        assert engine is not None
        return [engine.model]

    @model_validator(mode="after")
    def _check_engine(self) -> Self:
        sections = [name for name in ENGINES if getattr(self, name) is not None]
        if sections != [self.engine]:
            other = next((name for name in sections if name != self.engine), "")
            raise ValueError(
                f"{other} is not allowed with engine {self.engine}" if other else f"engine {self.engine} requires {self.engine}"
            )
        if self.accelerator is None and self.engine != "triton":
            raise ValueError(f"engine {self.engine} requires an accelerator")
        return self

    @model_validator(mode="after")
    def _check_unique_names(self) -> Self:
        check_unique("model name", [model.name for model in self.models])
        return self


class ModelService(Spec):
    """The ModelService document."""

    api_version: Literal["sliceworks.dev/v1alpha1"]
    kind: Literal["ModelService"]
    metadata: NamespacedMetadata
    spec: ModelServiceSpec
