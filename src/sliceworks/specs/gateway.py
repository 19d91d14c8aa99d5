"""Gateway: one endpoint in front of model servers, with API keys, rate limits, timeouts, retries and health checks."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Annotated, Literal, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from sliceworks.base import quantity
from sliceworks.specs.common import (
    Name,
    NamespacedMetadata,
    Natural,
    Positive,
    Ratio,
    Seconds,
    Spec,
    check_unique,
    exactly_one_of,
    matching,
)

Kind = Literal["openai", "triton", "jetstream", "sax", "echo"]
Port = Annotated[int, Field(ge=0, le=65535)]

_WILDCARD_HOSTS = {"0.0.0.0", "::"}
_SAX_PATH = re.compile(r"/sax/[^/\s]+/[^/\s]+")


def _parse_size(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("must be a size such as 64Mi")
    size = int(quantity.parse(str(value)))
    if size < 1:
        raise ValueError(f"must be at least 1, got {value}")
    return size


def _check_digest(value: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", value):  # the message does not contain the value, which may be the key itself
        raise ValueError("must be the SHA-256 digest of the key, 64 hexadecimal digits; `sliceworks gateway key` prints one")
    return value


def _has_valid_host(parts: SplitResult) -> bool:
    """Whether the host name and the port are valid."""
    try:
        return bool(parts.hostname and parts.hostname.encode("idna")) and parts.port != 0
    except ValueError:
        return False


Bytes = Annotated[int, BeforeValidator(_parse_size)]
Digest = Annotated[str, AfterValidator(_check_digest)]
ModelName = Annotated[str, matching(r"[^\s\"\\\x00-\x1f]+", "a model name without spaces, quotes and backslashes")]


class Secret(Spec):
    """A secret in a file or an environment variable, never in the document."""

    file: str = ""
    env: str = ""

    _check_source = exactly_one_of("file", "env")


class Tls(Spec):
    """TLS certificate of the gateway, and the CA of client certificates. The files are reloaded when they change."""

    cert_file: str
    key_file: str
    client_ca_file: str = Field(
        default="", alias="clientCAFile", description="If set, clients must present a certificate signed by this CA."
    )


class Listen(Spec):
    """Addresses on which the gateway listens."""

    host: str = Field(default="127.0.0.1", description="Address to listen on; loopback by default.")
    port: Port = 8080
    grpc_port: Port | None = Field(default=None, description="Port for gRPC: the Open Inference Protocol and JetStream.")
    tls: Tls | None = None


class Admin(Spec):
    """The admin listener: metrics, status, reload, drain and publication of Sax models, with a separate port and key."""

    host: str = "127.0.0.1"
    port: Port = 8081
    key: Secret | None = Field(default=None, description="Without a key only probes are served, and /metrics if public.")
    public_metrics: bool = Field(default=False, description="Serve /metrics without the admin key.")


class RateLimits(Spec):
    """Limits of a key or a model. A minute's allowance can be used in one burst."""

    requests_per_minute: Positive | None = Field(default=None, description="Each message of a gRPC stream is a request.")
    tokens_per_minute: Positive | None = Field(
        default=None,
        description="Prompt and completion tokens together, as reported by the backend, else estimated. A request reserves its"
        " prompt and its token limit; what it does not use is returned when it ends.",
    )
    max_parallel_requests: Positive | None = Field(default=None, description="Requests in flight at the same time.")


class Key(Spec):
    """An API key."""

    name: Name
    sha256: Digest | None = Field(default=None, description="SHA-256 digest of the key.")
    secret: Secret | None = Field(default=None, description="The key itself, in a file or an environment variable.")
    models: Annotated[list[str], Field(min_length=1)] = Field(
        default_factory=lambda: ["*"], description="Models that the key may use: names, or prefixes that end in *."
    )
    rate_limit: RateLimits = RateLimits()

    _check_source = exactly_one_of("sha256", "secret")


class Backend(Spec):
    """One server of the model."""

    kind: Kind
    url: str = Field(description="For example http://gemma:8000; for sax the model's path, such as /sax/test/llama7b.")
    grpc: str = Field(default="", description="host:port for gRPC; with TLS if the url is https.")
    model: ModelName | None = Field(default=None, description="The backend's name for the model, if it differs.")
    weight: Annotated[float, Field(gt=0)] = 1.0
    credential: Secret | None = Field(default=None, description="Token to send as `Authorization: Bearer`.")
    ca_file: str = Field(default="", description="CA certificates to trust for https. Reloaded when the file changes.")

    @model_validator(mode="after")
    def _check_url(self) -> Self:
        if self.kind == "sax":
            if not _SAX_PATH.fullmatch(self.url):
                raise ValueError(f"url of a sax backend must be a path such as /sax/test/llama7b, got {self.url!r}")
            return self
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or parts.query or parts.fragment or not _has_valid_host(parts):
            raise ValueError(f"url must be an HTTP URL such as http://gemma:8000, got {self.url!r}")
        return self

    @property
    def uses_tls(self) -> bool:
        """Whether connections to it use TLS, for gRPC as well."""
        return urlsplit(self.url).scheme == "https"


class Discovery(Spec):
    """Backends discovered in the cluster: the ready pods of the Services with these labels."""

    kind: Kind
    namespace: Name | None = Field(default=None, description="The gateway's own namespace by default.")
    labels: Annotated[dict[str, str], Field(min_length=1)]
    port: str = Field(default="http", description="Name or number of the Service port.")
    grpc_port: str = ""
    model: ModelName | None = None


class Limits(Spec):
    """Limits of a single request."""

    max_body_size: Bytes = Field(default=64 * 1024 * 1024, description="Size of a request body.")
    max_tokens: Positive | None = Field(
        default=None,
        description="Completion tokens of a request, in all its completions (prompts × n or best_of). A request for more is"
        " rejected; one without a limit gets this one, except tensors (`/infer` and gRPC), which keep their server's default.",
    )


class Timeouts(Spec):
    """Timeouts of a request."""

    connect: Seconds = Field(default=2.0, description="To find an available backend and connect to it.")
    first_token: Seconds = Field(default=120.0, description="From the request to the first token of a stream.")
    idle: Seconds = Field(default=60.0, description="Between two chunks of a response.")
    total: Seconds = Field(default=600.0, description="From the request to the end of its response, retries included.")


class Retries(Spec):
    """Retries on another backend, until the first byte of the response is sent to the client."""

    attempts: Natural = Field(default=2, description="Retries after the first attempt.")
    retry_ratio: Ratio = Field(default=0.2, description="Retry budget: the ratio of retries to requests.")
    min_retries_per_second: Natural = Field(default=10, description="Retries that the budget always allows.")


class LoadBalancing(Spec):
    """Weighted least-request load balancing."""

    slow_start: Seconds = Field(default=10.0, description="Window in which a new backend gets less than its share of requests.")
    max_pending_requests: Natural = Field(
        default=1000, description="Requests per model that wait while it has no available backend."
    )
    hedging_delay: Seconds | None = Field(
        default=None, description="Send the request to a second backend if the first has not responded by then."
    )


class HealthCheck(Spec):
    """Active health checks, and ejection of backends whose requests fail."""

    path: str = Field(default="", description="The engine's health route by default.")
    interval: Seconds = 5.0
    timeout: Seconds = 2.0
    unhealthy_threshold: Positive = Field(default=2, description="Failed checks before a backend is unhealthy.")
    healthy_threshold: Positive = Field(default=1, description="Passed checks before a backend is healthy again.")
    consecutive_failures: Positive = Field(default=5, description="Failed requests in a row that open the circuit.")
    ejection_time: Seconds = Field(default=10.0, description="How long an open circuit admits no request.")


class Model(Spec):
    """A model and its backends."""

    name: ModelName
    aliases: list[ModelName] = Field(default_factory=list)
    backends: list[Backend] = Field(default_factory=list)
    discovery: Discovery | None = None
    rate_limit: RateLimits = RateLimits()
    max_tokens: Positive | None = Field(default=None, description="Overrides limits.maxTokens.")
    timeouts: Timeouts | None = Field(default=None, description="Overrides the gateway's timeouts.")

    @model_validator(mode="after")
    def _check_backends(self) -> Self:
        if not self.backends and self.discovery is None:
            raise ValueError("backends or discovery is required")
        kinds = {backend.kind for backend in self.backends} | ({self.discovery.kind} if self.discovery else set())
        if len(kinds) > 1:
            raise ValueError(f"all backends of a model must have the same kind, got {' and '.join(sorted(kinds))}")
        return self

    @property
    def kind(self) -> Kind:
        """The kind of its backends."""
        if self.backends:
            return self.backends[0].kind
        assert self.discovery is not None
        return self.discovery.kind


class Tracing(Spec):
    """OpenTelemetry traces. Requires the extra `tracing`."""

    endpoint: str = Field(description="OTLP/HTTP endpoint of a collector, such as http://collector:4318/v1/traces.")
    sampling_ratio: Ratio = 0.1


class GatewaySpec(Spec):
    """Configuration of a gateway."""

    listen: Listen = Listen()
    admin: Admin | None = None
    anonymous: bool = Field(default=False, description="Serve requests without a key. Otherwise keys are required.")
    keys: list[Key] = Field(default_factory=list)
    models: Annotated[list[Model], Field(min_length=1)]
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    retries: Retries = Retries()
    load_balancing: LoadBalancing = LoadBalancing()
    health_check: HealthCheck = HealthCheck()
    tracing: Tracing | None = None
    drain_timeout: Seconds = Field(default=30.0, description="How long a stopping gateway waits for requests in flight.")
    access_log: bool = Field(
        default=False, description="Log each request: key, model, status, duration, tokens; never prompts or completions."
    )

    @model_validator(mode="after")
    def _check_unique_names(self) -> Self:
        check_unique("key name", [key.name for key in self.keys])
        check_unique("model name", [name for model in self.models for name in (model.name, *model.aliases)])
        return self

    @model_validator(mode="after")
    def _check_unique_ports(self) -> Self:
        ports = [("listen.port", self.listen.host, self.listen.port), ("listen.grpcPort", self.listen.host, self.listen.grpc_port)]
        ports += [("admin.port", self.admin.host, self.admin.port)] if self.admin else []
        for (field, host, port), (other_field, other_host, other_port) in combinations(ports, 2):
            if port and port == other_port and (host == other_host or _WILDCARD_HOSTS & {host, other_host}):
                raise ValueError(f"{field} and {other_field} must differ, both are {port}")
        return self

    @model_validator(mode="after")
    def _check_access(self) -> Self:
        if not self.keys and not self.anonymous:
            raise ValueError("keys: required, unless anonymous is true")
        return self


class Gateway(Spec):
    """The Gateway document."""

    api_version: Literal["sliceworks.dev/v1alpha1"]
    kind: Literal["Gateway"]
    metadata: NamespacedMetadata
    spec: GatewaySpec
