"""The ModelService document."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from sliceworks.specs.gateway import Natural, Positive
from sliceworks.specs.model import Metadata, Name, Seconds, Spec
from sliceworks.specs.serving.engines import ENGINES, JetStream, Model, Saxml, Triton, Vllm
from sliceworks.specs.serving.parts import Accelerator, Autoscaling, Canary, Front, Identity, Image, Monitoring, Route
from sliceworks.specs.training import Amount, Secret, Variable


class ModelServiceSpec(Spec):
    """An engine and its models; the block that is named like the engine says what is its own."""

    engine: Literal["saxml", "triton", "jetstream", "vllm"]
    accelerator: Accelerator | None = Field(default=None, description="What one replica runs on. Triton also runs without any.")
    replicas: Natural = Field(default=1, description="0: no servers, whatever autoscaling says.")
    spare: bool = Field(
        default=False, description="A change starts a new server before an old one goes, on a machine more than there are replicas."
    )
    autoscaling: Autoscaling | None = Field(default=None, description="In place of a fixed number of replicas.")
    image: Image | None = Field(default=None, description="The model server; a pinned one for the engine when left out.")
    command: list[str] = Field(default_factory=list, description="In place of the image's own.")
    args: list[str] = Field(default_factory=list, description="After those that follow from the document.")
    env: dict[Variable, str] = Field(default_factory=dict)
    secrets: list[Secret] = Field(default_factory=list)
    cpu: Amount | None = Field(default=None, description="That each host asks for; most of what it has when left out.")
    memory: Amount | None = Field(default=None, description="That each host asks for; most of what it has when left out.")
    user: Positive = Field(default=1000, description="The user id that containers run as; never root.")
    read_only_root: bool = Field(default=True, description="Servers write to /tmp alone.")
    identity: Identity | None = None
    start_within: Seconds = Field(default=1800.0, description="How long a server may take to load its model.")
    drain: Seconds = Field(default=60.0, description="How long a server that is to go may finish its answers.")
    saxml: Saxml | None = None
    triton: Triton | None = None
    jetstream: JetStream | None = None
    vllm: Vllm | None = None
    canary: Canary | None = None
    gateway: Front | None = Field(default=None, description="Without it callers go to the engine itself.")
    route: Route | None = None
    monitoring: Monitoring | None = Monitoring()

    @property
    def stopped(self) -> bool:
        """Whether there are to be no servers."""
        return self.replicas == 0

    @property
    def models(self) -> list[Model]:
        """What is served."""
        if self.saxml:
            return list(self.saxml.models)
        if self.triton:
            return list(self.triton.models)
        part = self.jetstream or self.vllm
        assert part is not None
        return [part.model]

    @model_validator(mode="after")
    def _one_engine(self) -> Self:
        given = [name for name in ENGINES if getattr(self, name) is not None]
        if given != [self.engine]:
            other = next((name for name in given if name != self.engine), "")
            raise ValueError(
                f"engine {self.engine} does not take {other}" if other else f"engine {self.engine} needs {self.engine}:"
            )
        if self.accelerator is None and self.engine != "triton":
            raise ValueError(f"engine {self.engine} needs an accelerator")
        return self

    @model_validator(mode="after")
    def _names_once(self) -> Self:
        named = [each.name for each in self.models]
        twice = sorted({name for name in named if named.count(name) > 1})
        if twice:
            raise ValueError(f"a model is named twice: {twice[0]}")
        return self


class ModelServiceMetadata(Metadata):
    """Who it is, and in which namespace."""

    namespace: Name | None = None


class ModelService(Spec):
    """The document."""

    api_version: Literal["sliceworks.dev/v1alpha1"]
    kind: Literal["ModelService"]
    metadata: ModelServiceMetadata
    spec: ModelServiceSpec
