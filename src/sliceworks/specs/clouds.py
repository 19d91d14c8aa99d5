"""What a Scenario says of the cloud: how it behaves, what there is to be had in it, and what goes wrong."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sliceworks.specs.model import Seconds, Spec

Fault = Literal[
    "PermissionDenied",
    "ExpiredCredentials",
    "TooManyOperations",
    "IncompatibleOperation",
    "RateLimited",
    "QuotaExceeded",
    "Unavailable",
    "InternalError",
    "LostAnswers",
    "SlowAnswers",
    "SlowOperations",
    "StuckOperations",
    "FailedOperations",
    "Stockout",
    "MachineQuotaExceeded",
    "ServiceAccountMissing",
    "SlowBoot",
]
Count = Annotated[int, Field(ge=0)]


class CloudMatch(Spec):
    """Which calls, operations or machines a fault strikes. Texts may have `*` in them; what is left out is any."""

    service: str | None = None
    method: str | None = Field(default=None, description="Google's name of a method, such as nodePools.create.")
    project: str | None = None
    location: str | None = None
    region: str | None = None
    zone: str | None = None
    cluster: str | None = None
    node_pool: str | None = None
    machine_type: str | None = None
    spot: bool | None = None
    reservation: str | None = None
    operation_type: str | None = Field(default=None, description="Such as CREATE_NODE_POOL.")


class CloudFault(Spec):
    """Something goes wrong in the cloud, for a while, so many times, or until it is ended by its name."""

    fault: Fault
    name: str | None = None
    match: CloudMatch | None = None
    lasting: Seconds | None = Field(default=None, alias="for")
    count: Annotated[int, Field(ge=1)] | None = None
    probability: Annotated[float, Field(gt=0, le=1)] | None = None
    seconds: Seconds | None = Field(default=None, description="How long what is slow takes, or how long machines are asked for.")
    message: str | None = None


class CloudQuota(Spec):
    """A regional quota. Without a limit there is none any more."""

    metric: str = Field(description="Such as CPUS or TPU_LITE_PODSLICE_V5.")
    region: str
    project: str | None = None
    limit: Annotated[float, Field(ge=0)] | None = None


class CloudReservation(Spec):
    """Machines that are set aside in a zone. Without a number the reservation is gone."""

    name: str
    zone: str
    machine_type: str | None = None
    nodes: Count | None = None


class CloudCapacity(Spec):
    """How many machines there are in a zone, beside those that are reserved. Without a number there are enough."""

    zone: str | None = None
    machine_type: str | None = None
    spot: bool | None = None
    nodes: Count | None = None


class CloudCluster(Spec):
    """A cluster that has been there all along; the first one is the twin's own."""

    project: str
    location: str
    name: str


class SetCloud(Spec):
    """How the container API behaves from now on; what is left out stays as it is."""

    operations: Annotated[int, Field(ge=1)] | None = Field(default=None, description="How many run at once in a cluster.")
    seconds: dict[str, Seconds] | None = Field(default=None, description="How long things take, by name, such as boot.")
    quotas: list[CloudQuota] | None = None
    reservations: list[CloudReservation] | None = None
    capacity: list[CloudCapacity] | None = None
    clusters: list[CloudCluster] | None = None


class EndCloudFault(Spec):
    """A fault of the cloud is over."""

    name: str
