"""What model services of every engine share: machines, scaling, identity, the gateway in front, routes and careful changes."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from sliceworks.specs.gateway import Balancing, Caps, Digest, Health, Positive, Rate, Retries, Timeouts, Tracing
from sliceworks.specs.model import Name, Spec
from sliceworks.specs.training import Amount, Variable

_IMAGE = re.compile(r"[a-z0-9][A-Za-z0-9.:_/-]*(:[A-Za-z0-9_][A-Za-z0-9._-]*|@sha256:[0-9a-f]{64})")
_PLACE = re.compile(r"gs://[a-z0-9][a-z0-9._-]{1,61}[a-z0-9](/[^\s]*)?")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def _matching(pattern: re.Pattern[str], says: str) -> AfterValidator:
    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise ValueError(f"must be {says}, found {value!r}")
        return value

    return AfterValidator(check)


Image = Annotated[str, _matching(_IMAGE, "an image with a tag or a digest, such as registry/name:1.2")]
Place = Annotated[str, _matching(_PLACE, "a folder of a bucket such as gs://models/llama")]
Bucket = Annotated[str, _matching(_BUCKET, "the name of a bucket")]
ModelName = Annotated[str, _matching(_MODEL, "a model's name: letters, digits, dots, hyphens and underscores, at most 63")]
Percent = Annotated[int, Field(ge=0, le=100)]


class Accelerator(Spec):
    """The machines of one replica: a type such as `v5litepod-4` or `l4-1`; an accelerator with its topology; or a GPU machine."""

    type: str = ""
    accelerator: str = Field(default="", description="Such as tpu-v5-lite-podslice, with a topology; or the GPU of a machine type.")
    topology: str = ""
    chips_per_host: Positive | None = None
    machine_type: str = Field(default="", description="A machine with GPUs, such as n1-standard-4.")
    count: Positive | None = Field(default=None, description="GPUs that are attached to that machine type.")
    capacity: Literal["on-demand", "spot", "reservation"] = "on-demand"
    reservation: str = Field(default="", description="The name of the reservation, with that capacity.")

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        ways = [bool(self.type), bool(self.machine_type), bool(self.accelerator and not self.machine_type)]
        if sum(ways) != 1:
            raise ValueError("give a type, an accelerator with its topology, or a machineType")
        if self.accelerator and not (self.topology or self.machine_type):
            raise ValueError(f"accelerator {self.accelerator} needs a topology, or a machineType that has it")
        if self.machine_type and (self.topology or self.chips_per_host):
            raise ValueError("a machineType has no topology and no chipsPerHost")
        if self.count is not None and not self.machine_type:
            raise ValueError("count goes with a machineType; replicas says how many of these there are")
        if (self.capacity == "reservation") != bool(self.reservation):
            raise ValueError("capacity: reservation and the reservation's name go together")
        return self


class Autoscaling(Spec):
    """Replicas follow the load, by what the engine itself measures."""

    min: Positive = 1
    max: Positive
    metric: str = Field(
        default="",
        description="A gauge of the engine, or the adapter's whole name of any metric; the requests that wait when left out.",
    )
    target: Amount = Field(default="10", description="What each replica should have of it on average.")
    source: Literal["google", "prometheus"] = Field(
        default="google", description="Which adapter gives metrics to the cluster: Cloud Monitoring's or Prometheus's."
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is more than max {self.max}")
        return self


class Identity(Spec):
    """Whom the pods act as."""

    service_account: Name = Field(description="The Kubernetes service account.")
    google_service_account: str = Field(
        default="",
        pattern=r"^([a-z0-9-]+@[a-z0-9.-]+\.gserviceaccount\.com)?$",
        description="Its e-mail address: the service account is made, and bound to it. Without it the service account is there.",
    )


class Pool(Spec):
    """The node pool for helpers without accelerators; any when left out."""

    name: str = Field(default="", description="The node pool's name.")
    labels: dict[str, str] = Field(default_factory=dict, description="Or labels of its nodes.")
    tolerates: list[str] = Field(default_factory=list, description="Keys of the taints that keep others away from it.")


class Canary(Spec):
    """A second version beside the first one, with its share of the requests."""

    weight: Percent = Field(description="Percent of the requests; the rest goes to the first version.")
    replicas: Positive = 1
    image: Image | None = None
    args: list[str] = Field(default_factory=list, description="After those of the first version.")
    env: dict[Variable, str] = Field(default_factory=dict)


class Token(Spec):
    """One key of a Secret."""

    secret: Name
    key: str = "token"


class FrontKey(Spec):
    """Who may call: by the SHA-256 of a key, or by the key itself in a Secret."""

    name: Name
    sha256: Digest | None = None
    secret: Token | None = None
    models: Annotated[list[str], Field(min_length=1)] = Field(default_factory=lambda: ["*"], description="Names, or * at the end.")
    rate: Rate = Rate()

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.sha256 is None) == (self.secret is None):
            raise ValueError("give sha256 or secret, one of them")
        return self


class Front(Spec):
    """The gateway. Model services of one namespace that name the same one share it and its address; the last one deployed says
    how it runs."""

    name: Name = "gateway"
    image: Image = Field(description="The gateway of the environment's registry.")
    replicas: Positive = Field(default=2, description="The least; it grows with its own load.")
    max_replicas: Positive = 5
    pool: Pool = Pool()
    cpu: Amount = "1"
    memory: Amount = "512Mi"
    identity: Identity | None = Field(default=None, description="Whom it acts as; with Saxml the service's own when left out.")
    keys: list[FrontKey] = Field(default_factory=list, description="Without any, whoever reaches it may call.")
    admin_key: Token | None = Field(default=None, description="The key that may publish models. Without it nobody may.")
    tls: Name | None = Field(default=None, description="A Secret of type kubernetes.io/tls.")
    allow_from: list[Name] = Field(default_factory=list, description="Namespaces that may call it, beside its own.")
    caps: Caps | None = None
    timeouts: Timeouts | None = None
    retries: Retries | None = None
    balancing: Balancing | None = None
    health: Health | None = None
    tracing: Tracing | None = None
    access_log: bool = False

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.replicas > self.max_replicas:
            raise ValueError(f"replicas {self.replicas} is more than maxReplicas {self.max_replicas}")
        named = [each.name for each in self.keys]
        twice = sorted({name for name in named if named.count(name) > 1})
        if twice:
            raise ValueError(f"a key is named twice: {twice[0]}")
        return self


class Route(Spec):
    """How requests come in from outside the cluster."""

    via: Literal["gateway-api", "istio"]
    hosts: Annotated[list[str], Field(min_length=1)]
    exposure: Literal["internal", "public"] = Field(default="internal", description="Public needs keys of the gateway, and TLS.")
    tls: Name | None = Field(
        default=None,
        description="The Secret with the certificate of the hosts; with Istio, in the namespace of its gateway's pods.",
    )
    class_name: str = Field(
        default="",
        alias="class",
        description="The GatewayClass; one of Google's by the exposure when left out, `istio` for Istio's.",
    )
    selector: dict[str, str] = Field(
        default_factory=lambda: {"istio": "ingressgateway"}, description="Labels of Istio's own gateway pods."
    )


class Monitoring(Spec):
    """Managed Prometheus reads the engine's metrics."""

    interval: Annotated[str, Field(pattern=r"^[1-9][0-9]*s$")] = "15s"
