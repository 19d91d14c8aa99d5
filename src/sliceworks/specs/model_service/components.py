"""What model services of all engines share: accelerator, autoscaling, identity, gateway, route, canary."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sliceworks.specs.common import Amount, Name, Positive, Spec, Variable, check_unique, exactly_one_of, matching
from sliceworks.specs.gateway import Digest, HealthCheck, Limits, LoadBalancing, RateLimits, Retries, Timeouts, Tracing

_IMAGE = r"[a-z0-9][A-Za-z0-9.:_/-]*(:[A-Za-z0-9_][A-Za-z0-9._-]*|@sha256:[0-9a-f]{64})"
_BUCKET = r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]"
_GCS_URL = rf"gs://{_BUCKET}(/[^\s]*)?"
_SAX_ROOT = rf"{_GCS_URL}|grpc://[a-z0-9.-]+:[0-9]+"
_SAX_ROOT_RULE = "a Cloud Storage URL such as gs://models/sax-root, or the address grpc://HOST:PORT of an admin server"
_MODEL_RULE = "a model name of up to 63 letters, digits, dots, hyphens and underscores"

Image = Annotated[str, matching(_IMAGE, "an image with a tag or a digest, such as registry/name:1.2")]
GcsUrl = Annotated[str, matching(_GCS_URL, "a Cloud Storage URL such as gs://models/llama")]
SaxRoot = Annotated[str, matching(_SAX_ROOT, _SAX_ROOT_RULE)]
Bucket = Annotated[str, matching(_BUCKET, "a bucket name")]
ModelName = Annotated[str, matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", _MODEL_RULE)]
Percent = Annotated[int, Field(ge=0, le=100)]


class Accelerator(Spec):
    """What one replica runs on: a type such as `v5litepod-4` or `l4-1`, an accelerator with its topology, or a GPU machine."""

    type: str = ""
    accelerator: str = Field(
        default="", description="For example tpu-v5-lite-podslice, with a topology; or the GPU of a machineType."
    )
    topology: str = ""
    chips_per_host: Positive | None = None
    machine_type: str = Field(default="", description="A machine type with GPUs, such as n1-standard-4.")
    count: Positive | None = Field(default=None, description="Number of GPUs attached to the machineType.")
    capacity: Literal["on-demand", "spot", "reservation"] = "on-demand"
    reservation: str = Field(default="", description="Name of the reservation, with capacity: reservation.")

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        forms = [bool(self.type), bool(self.machine_type), bool(self.accelerator and not self.machine_type)]
        if sum(forms) != 1:
            raise ValueError("exactly one of type, accelerator (with topology) and machineType is required")
        if self.accelerator and not (self.topology or self.machine_type):
            raise ValueError(f"accelerator {self.accelerator} requires a topology or a machineType")
        if self.machine_type and (self.topology or self.chips_per_host):
            raise ValueError("topology and chipsPerHost cannot be combined with machineType")
        if self.count is not None and not self.machine_type:
            raise ValueError("count requires a machineType; use replicas for the number of replicas")
        if (self.capacity == "reservation") != bool(self.reservation):
            raise ValueError("capacity: reservation and the name of a reservation require each other")
        return self


class Autoscaling(Spec):
    """Autoscaling of replicas by a metric of the engine."""

    min: Positive = 1
    max: Positive
    metric: str = Field(
        default="",
        description="A gauge of the engine, or the full name of any metric of the adapter; waiting requests by default.",
    )
    target: Amount = Field(default="10", description="Target average value per replica.")
    source: Literal["google", "prometheus"] = Field(
        default="google", description="The custom metrics adapter of the cluster: Cloud Monitoring's or Prometheus'."
    )

    @model_validator(mode="after")
    def _check_replicas(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min must be at most max, got {self.min} and {self.max}")
        return self


class Identity(Spec):
    """The identity of the pods."""

    service_account: Name = Field(description="The Kubernetes service account.")
    google_service_account: str = Field(
        default="",
        pattern=r"^([a-z0-9-]+@[a-z0-9.-]+\.gserviceaccount\.com)?$",
        description="Email of a Google service account. If set, the Kubernetes service account is created and bound to it; "
        "otherwise it must exist.",
    )


class Pool(Spec):
    """The node pool of pods without accelerators; any by default."""

    name: str = Field(default="", description="Name of the node pool.")
    labels: dict[str, str] = Field(default_factory=dict, description="Node labels, instead of a name.")
    tolerates: list[str] = Field(default_factory=list, description="Keys of the taints to tolerate.")


class Canary(Spec):
    """A second version that gets a share of the requests."""

    weight: Percent = Field(description="Percentage of requests; the rest goes to the stable version.")
    replicas: Positive = 1
    image: Image | None = None
    args: list[str] = Field(default_factory=list, description="Arguments added to those of the stable version.")
    env: dict[Variable, str] = Field(default_factory=dict)


class SecretKeyRef(Spec):
    """A key of a Secret."""

    secret: Name
    key: str = "token"


class ServiceGatewayKey(Spec):
    """An API key: its SHA-256 digest, or the key itself in a Secret."""

    name: Name
    sha256: Digest | None = None
    secret: SecretKeyRef | None = None
    models: Annotated[list[str], Field(min_length=1)] = Field(
        default_factory=lambda: ["*"], description="Models that the key may use: names, or prefixes that end in *."
    )
    rate_limit: RateLimits = RateLimits()

    _check_source = exactly_one_of("sha256", "secret")


class ServiceGateway(Spec):
    """The gateway of a model service. Services of a namespace share a gateway of the same name; the service deployed last
    configures it.
    """

    name: Name = "gateway"
    image: Image = Field(description="Image of the gateway, from the environment's registry.")
    replicas: Positive = Field(default=2, description="Minimum number of replicas; autoscaled up to maxReplicas.")
    max_replicas: Positive = 5
    pool: Pool = Pool()
    cpu: Amount = "1"
    memory: Amount = "512Mi"
    identity: Identity | None = Field(
        default=None, description="Identity of its pods; with Saxml the service's identity by default."
    )
    keys: list[ServiceGatewayKey] = Field(default_factory=list, description="Without keys, requests need no key.")
    admin_key: SecretKeyRef | None = Field(default=None, description="Key for the admin listener, which publishes models.")
    tls: Name | None = Field(default=None, description="A Secret of type kubernetes.io/tls.")
    allow_from: list[Name] = Field(default_factory=list, description="Namespaces that may call it, in addition to its own.")
    limits: Limits | None = None
    timeouts: Timeouts | None = None
    retries: Retries | None = None
    load_balancing: LoadBalancing | None = None
    health_check: HealthCheck | None = None
    tracing: Tracing | None = None
    access_log: bool = False

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if self.replicas > self.max_replicas:
            raise ValueError(f"replicas must be at most maxReplicas, got {self.replicas} and {self.max_replicas}")
        check_unique("key name", [key.name for key in self.keys])
        return self


class Route(Spec):
    """The route for requests from outside the cluster."""

    via: Literal["gateway-api", "istio"]
    hosts: Annotated[list[str], Field(min_length=1)]
    exposure: Literal["internal", "public"] = Field(default="internal", description="public requires keys of the gateway and TLS.")
    tls: Name | None = Field(
        default=None,
        description="Secret with the certificate of the hosts; with Istio, in the namespace of its gateway pods.",
    )
    class_name: str = Field(
        default="",
        alias="class",
        description="The GatewayClass; by default one of GKE's that fits the exposure. `istio` for Istio's.",
    )
    selector: dict[str, str] = Field(
        default_factory=lambda: {"istio": "ingressgateway"}, description="Labels of Istio's gateway pods."
    )


class Monitoring(Spec):
    """Scraping of the engine's metrics by Managed Service for Prometheus."""

    interval: Annotated[str, Field(pattern=r"^[1-9][0-9]*s$")] = "15s"
