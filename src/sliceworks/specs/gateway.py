"""Gateway: one address in front of model servers. Which model is served where, who may ask for it, how much, and for how long."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Annotated, Literal, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from sliceworks.base import quantity
from sliceworks.specs.model import Metadata, Name, Seconds, Spec

Kind = Literal["openai", "triton", "jetstream", "sax", "echo"]
Port = Annotated[int, Field(ge=0, le=65535)]
Positive = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]

_EVERYWHERE = {"0.0.0.0", "::"}
_DIGEST = re.compile(r"[0-9a-f]{64}")
_CELL = re.compile(r"/sax/[^/\s]+/[^/\s]+")
_MODEL = re.compile(r"[^\s\"\\\x00-\x1f]+")


def _bytes(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("must be a size such as 64Mi")
    size = int(quantity.parse(str(value)))
    if size < 1:
        raise ValueError("must be more than nothing")
    return size


def _digest(value: str) -> str:
    if not _DIGEST.fullmatch(value):
        raise ValueError("must be the SHA-256 of the key, 64 hexadecimal digits: sliceworks gateway key prints one")
    return value


def _model_name(value: str) -> str:
    if not _MODEL.fullmatch(value):
        raise ValueError(f"must be a model's name without spaces, quotes and backslashes, found {value!r}")
    return value


def _names_a_place(parts: SplitResult) -> bool:
    """Whether there can be a machine of this name, and such a port."""
    try:
        return bool(parts.hostname and parts.hostname.encode("idna")) and parts.port != 0
    except ValueError:
        return False


Bytes = Annotated[int, BeforeValidator(_bytes)]
Digest = Annotated[str, AfterValidator(_digest)]
ModelName = Annotated[str, AfterValidator(_model_name)]


class Secret(Spec):
    """A word that nobody else knows, kept in a file or in a variable of the environment, never in the document."""

    file: str = ""
    env: str = ""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if bool(self.file) == bool(self.env):
            raise ValueError("give file or env, one of them")
        return self


class Tls(Spec):
    """The certificate that the gateway shows, and whose certificates it asks clients for. Files are read again when they change."""

    certificate: str
    key: str
    client_authority: str = Field(default="", description="Clients must show a certificate that this authority signed.")


class Listen(Spec):
    """Where the gateway listens."""

    host: str = Field(default="127.0.0.1", description="Loopback unless told otherwise.")
    port: Port = 8080
    grpc_port: Port | None = Field(default=None, description="Where gRPC of the Open Inference Protocol is passed through.")
    tls: Tls | None = None


class Admin(Spec):
    """Numbers, state and changes, on a port and with a key of their own."""

    host: str = "127.0.0.1"
    port: Port = 8081
    key: Secret | None = Field(default=None, description="Without one only probes are answered, and numbers if those are open.")
    open_metrics: bool = Field(default=False, description="Serve /metrics without the key.")


class Rate(Spec):
    """How much may be asked for in a minute. What is left of a minute can be used at once."""

    requests_per_minute: Positive | None = None
    tokens_per_minute: Positive | None = Field(
        default=None, description="Of prompts and answers together, as servers count them, else about as many."
    )
    concurrent: Positive | None = Field(default=None, description="Requests under way at once.")


class Key(Spec):
    """Who may ask."""

    name: Name
    sha256: Digest | None = Field(default=None, description="SHA-256 of the key, in place of the key itself.")
    secret: Secret | None = Field(default=None, description="Where the key itself is kept.")
    models: Annotated[list[str], Field(min_length=1)] = Field(
        default_factory=lambda: ["*"], description="Names of models, or * at the end of a beginning."
    )
    rate: Rate = Rate()

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.sha256 is None) == (self.secret is None):
            raise ValueError("give sha256 or secret, one of them")
        return self


class Backend(Spec):
    """One server that has the model."""

    kind: Kind
    url: str = Field(description="Such as http://gemma:8000; for sax the model's path, such as /sax/test/llama7b.")
    grpc: str = Field(default="", description="host:port of its gRPC side; with TLS where the url is https.")
    model: ModelName | None = Field(default=None, description="What the model is called there, if not as here.")
    weight: Annotated[float, Field(gt=0)] = 1.0
    credential: Secret | None = Field(default=None, description="Sent as a bearer token.")
    authority: str = Field(default="", description="A file of certificates to trust for https. It is read again when it changes.")

    @model_validator(mode="after")
    def _address(self) -> Self:
        if self.kind == "sax":
            if not _CELL.fullmatch(self.url):
                raise ValueError(f"the url of a sax backend is a path such as /sax/test/llama7b, found {self.url!r}")
            return self
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or parts.query or parts.fragment or not _names_a_place(parts):
            raise ValueError(f"a url is such as http://gemma:8000, found {self.url!r}")
        return self

    @property
    def secure(self) -> bool:
        """Whether it is reached with TLS, over gRPC as well."""
        return urlsplit(self.url).scheme == "https"


class Discovery(Spec):
    """Backends that the cluster knows: one for each ready address of the Services that have these labels."""

    kind: Kind
    namespace: Name | None = Field(default=None, description="The gateway's own when left out.")
    labels: Annotated[dict[str, str], Field(min_length=1)]
    port: str = Field(default="http", description="Name or number of the Service's port.")
    grpc_port: str = ""
    model: ModelName | None = None


class Caps(Spec):
    """The most that one request may ask for."""

    body: Bytes = Field(default=64 * 1024 * 1024, description="Bytes of a request.")
    max_tokens: Positive | None = Field(
        default=None, description="Tokens of an answer. Who asks for more is refused; who does not say gets this."
    )


class Timeouts(Spec):
    """How long it is waited for what."""

    connect: Seconds = 2.0
    first_token: Seconds = Field(default=120.0, description="From the request to the first piece of a stream.")
    idle: Seconds = Field(default=60.0, description="Between two pieces of an answer.")
    total: Seconds = Field(default=600.0, description="From the request to the end of its answer.")


class Retries(Spec):
    """Another try on another server, as long as the client has not been sent a byte."""

    attempts: Natural = Field(default=2, description="Tries after the first.")
    budget: Share = Field(default=0.2, description="The share of requests that may be tried again.")
    minimum: Natural = Field(default=10, description="Tries a second that are allowed whatever the share.")


class Balancing(Spec):
    """Which server gets a request: the one with the fewest under way."""

    slow_start: Seconds = Field(default=10.0, description="How long a server that has just come gets less than its share.")
    waiting: Natural = Field(default=1000, description="Requests that wait while no server of their model is well.")
    hedge_after: Seconds | None = Field(default=None, description="Ask a second server when the first has not answered by then.")


class Health(Spec):
    """Servers are asked how they are, and left alone for a while when they fail."""

    path: str = Field(default="", description="The engine's own when left out.")
    every: Seconds = 5.0
    timeout: Seconds = 2.0
    unhealthy_after: Positive = 2
    healthy_after: Positive = 1
    failures: Positive = Field(default=5, description="Requests that fail in a row before the circuit opens.")
    open: Seconds = Field(default=10.0, description="How long it stays open before one request is let through.")


class Model(Spec):
    """A model and where it is served."""

    name: ModelName
    aliases: list[ModelName] = Field(default_factory=list)
    backends: list[Backend] = Field(default_factory=list)
    discover: Discovery | None = None
    rate: Rate = Rate()
    max_tokens: Positive | None = Field(default=None, description="In place of the gateway's own cap.")
    timeouts: Timeouts | None = Field(default=None, description="In place of the gateway's own.")

    @model_validator(mode="after")
    def _somewhere(self) -> Self:
        if not self.backends and self.discover is None:
            raise ValueError("give backends, or discover")
        if len({each.kind for each in self.backends} | ({self.discover.kind} if self.discover else set())) > 1:
            raise ValueError("all backends of a model are of one kind")
        return self

    @property
    def kind(self) -> Kind:
        """What its servers speak."""
        if self.backends:
            return self.backends[0].kind
        assert self.discover is not None
        return self.discover.kind


class Tracing(Spec):
    """Spans for OpenTelemetry. Needs the extra `tracing`."""

    endpoint: str = Field(description="Of a collector that takes OTLP over HTTP, such as http://collector:4318/v1/traces.")
    sample: Share = 0.1


class GatewaySpec(Spec):
    """The gateway."""

    listen: Listen = Listen()
    admin: Admin | None = None
    anonymous: bool = Field(default=False, description="Serve whoever asks. Otherwise there must be keys.")
    keys: list[Key] = Field(default_factory=list)
    models: Annotated[list[Model], Field(min_length=1)]
    caps: Caps = Caps()
    timeouts: Timeouts = Timeouts()
    retries: Retries = Retries()
    balancing: Balancing = Balancing()
    health: Health = Health()
    tracing: Tracing | None = None
    drain: Seconds = Field(default=30.0, description="How long requests under way are let finish when the gateway ends.")
    access_log: bool = Field(default=False, description="A line for each request: key, model, status, times, tokens; never text.")

    @model_validator(mode="after")
    def _names_once(self) -> Self:
        for what, named in (
            ("a key", [each.name for each in self.keys]),
            ("a model", [name for each in self.models for name in (each.name, *each.aliases)]),
        ):
            twice = sorted({name for name in named if named.count(name) > 1})
            if twice:
                raise ValueError(f"{what} is named twice: {twice[0]}")
        return self

    @model_validator(mode="after")
    def _ports_apart(self) -> Self:
        places = [("listen.port", self.listen.host, self.listen.port), ("listen.grpcPort", self.listen.host, self.listen.grpc_port)]
        places += [("admin.port", self.admin.host, self.admin.port)] if self.admin else []
        for (one, here, first), (other, there, second) in combinations(places, 2):
            if first and first == second and (here == there or _EVERYWHERE & {here, there}):
                raise ValueError(f"{one} and {other} are both {first}")
        return self

    @model_validator(mode="after")
    def _somebody(self) -> Self:
        if not self.keys and not self.anonymous:
            raise ValueError("there are no keys: give some, or say anonymous: true")
        return self


class GatewayMetadata(Metadata):
    """Which gateway it is."""

    namespace: Name | None = None


class Gateway(Spec):
    """The document."""

    api_version: Literal["sliceworks.dev/v1alpha1"]
    kind: Literal["Gateway"]
    metadata: GatewayMetadata
    spec: GatewaySpec
