"""Node pools: CPU machines, TPU slices and GPU machines, each with what is special about it."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from sliceworks.specs.environment.values import Natural, PoolName, Positive, Zone
from sliceworks.specs.model import Spec


class Taint(Spec):
    """Keeps pods away that do not tolerate it."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


class Disk(Spec):
    """The boot disk of each node."""

    type: Literal["pd-standard", "pd-balanced", "pd-ssd", "hyperdisk-balanced"] | None = Field(
        default=None, description="The first that the machine takes when left out."
    )
    gib: Positive = 200


class Autoscaling(Spec):
    """As many nodes as are needed, within limits, over all zones of the pool."""

    min: Natural = 0
    max: Positive

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min is {self.min}, above max, which is {self.max}")
        return self


class Reservation(Spec):
    """Capacity that was reserved before."""

    name: str
    project: str = Field(default="", description="The project that shares it; this one when left out.")


class Pool(Spec):
    """What all pools have."""

    zones: list[Zone] = Field(default_factory=list, description="The environment's zones when left out.")
    disk: Disk = Disk()
    labels: dict[str, str] = Field(default_factory=dict)
    taints: list[Taint] = Field(default_factory=list)
    tags: list[str] = Field(default_factory=list, description="Network tags.")
    spot: bool = False
    reservation: Reservation | None = None

    @model_validator(mode="after")
    def _one_capacity(self) -> Self:
        if self.spot and self.reservation is not None:
            raise ValueError("a pool is spot or of a reservation, not both")
        return self


class Machines(Pool):
    """Nodes that come and go one by one: so many, or as many as are needed."""

    nodes: Natural | None = None
    autoscaling: Autoscaling | None = None

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if self.nodes is not None and self.autoscaling is not None:
            raise ValueError("give nodes or autoscaling, not both")
        return self


class CpuPool(Machines):
    """Ordinary machines."""

    machine_type: str = "n1-standard-4"
    nodes: Natural | None = Field(default=None, description="A fixed number; 3 when there is no autoscaling either.")


class TpuPool(Pool):
    """Slices of one type, each a node pool of its own named NAME-0, NAME-1, …"""

    type: str = Field(description="Such as v4-32 or v5litepod-16.")
    topology: str = Field(default="", description="Another topology than the type's usual one.")
    count: Natural = Field(default=1, description="How many slices. Zero keeps the entry and costs nothing.")
    autoscaling: bool = Field(default=False, description="Slices come and go with the jobs that need them.")
    group: str = Field(default="", description="Slices of one multi-slice group share this label.")


class GpuPool(Machines):
    """Machines with GPUs."""

    machine_type: str = "n1-standard-4"
    accelerator: str = Field(
        default="", description="Such as nvidia-tesla-t4, for machines that do not come with GPUs of their own."
    )
    accelerator_count: Positive | None = None
    driver: Literal["default", "latest", "none"] = Field(default="default", description="Which NVIDIA driver GKE installs.")
    gvnic: bool = False
    local_ssds: Natural = 0
    nodes: Natural | None = Field(default=None, description="A fixed number; 1 when there is no autoscaling either.")


class Pools(Spec):
    """All node pools, by name."""

    cpu: dict[PoolName, CpuPool] = Field(default_factory=dict)
    tpu: dict[PoolName, TpuPool] = Field(default_factory=dict)
    gpu: dict[PoolName, GpuPool] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_once(self) -> Self:
        named = [*self.cpu, *self.tpu, *self.gpu]
        twice = sorted({name for name in named if named.count(name) > 1})
        if twice:
            raise ValueError(f"a pool is named twice: {', '.join(twice)}")
        return self
