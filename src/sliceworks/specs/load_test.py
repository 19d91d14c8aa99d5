"""LoadTest: target, prompts, request options, arrival stages, objectives, workers and results."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from sliceworks.specs.common import Amount, Metadata, Name, Natural, Positive, Ratio, Seconds, Spec, exactly_one_of, number
from sliceworks.specs.gateway import Secret
from sliceworks.specs.model_service.components import GcsUrl, Image, Pool
from sliceworks.specs.objectives import parse_objective


class ServiceTarget(Spec):
    """A deployed ModelService, by name or document; address, API, model and key come from the cluster."""

    name: Name | None = None
    namespace: Name | None = Field(default=None, description="Default: the command's, or the file's.")
    file: str = Field(default="", description="The ModelService document, relative to this one.")

    _check_source = exactly_one_of("name", "file")


class Target(Spec):
    """The target of the requests."""

    url: str = ""
    model_service: ServiceTarget | None = None
    key: Secret | None = Field(
        default=None,
        description="Key to send as a bearer token. Default for a model service: the key in the gateway's Secret.",
    )
    authority: str = Field(default="", description="File with trusted CA certificates.")

    _check_address = exactly_one_of("url", "model_service")

    @model_validator(mode="after")
    def _check_url(self) -> Self:
        parts = urlsplit(self.url)
        if self.url and (parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment):
            raise ValueError(f"url: must be an HTTP URL such as http://127.0.0.1:8080, got {self.url!r}")
        return self


class Lengths(Spec):
    """A distribution of lengths in tokens, limited to min and max."""

    mean: Positive
    stddev: Annotated[float, Field(ge=0), BeforeValidator(number)] = 0.0
    min: Positive = 1
    max: Positive = 1_000_000
    distribution: Literal["normal", "lognormal", "uniform"] = Field(
        default="normal", description="A uniform distribution ranges from min to max."
    )

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if not self.min <= self.mean <= self.max:
            raise ValueError(f"mean: must be between min {self.min} and max {self.max}, got {self.mean}")
        return self


class SharedPrefix(Spec):
    """A prefix that prompts share, such as a system prompt; servers with prefix caching respond faster."""

    tokens: Positive
    groups: Positive = 1


class Synthetic(Spec):
    """Generated prompts of common words with about the requested length."""

    input: Lengths
    output: Lengths | None = Field(default=None, description="Maximum tokens of each response. Default: options.maxTokens.")
    prefix: SharedPrefix | None = None
    count: Positive = Field(default=1_000, description="Number of different prompts; they repeat.")


class Prompts(Spec):
    """The prompts: a file, generated ones, a list, or a trace with arrival times."""

    file: str = Field(
        default="", description="JSON lines: strings, or objects with a prompt or messages. Also gs://bucket/prompts.jsonl."
    )
    field: str = Field(default="prompt", description="Field of the prompt in each object.")
    order: Literal["as-written", "shuffled"] = "as-written"
    synthetic: Synthetic | None = None
    texts: list[str] = Field(default_factory=list)
    trace: str = Field(
        default="",
        description="JSON lines with timestamp in ms, and prompt, or input_length and output_length in tokens. Also gs://.",
    )
    turns: Positive = Field(default=1, description="Turns per conversation; chat only.")
    think: Seconds = Field(default=0.0, description="Think time between turns.")

    _check_source = exactly_one_of("file", "synthetic", "texts", "trace")

    @property
    def source(self) -> str:
        """The file of the prompts, or an empty string."""
        return self.file or self.trace


class RequestOptions(Spec):
    """Sampling options of the requests."""

    max_tokens: Positive = 128
    temperature: Annotated[float, Field(ge=0), BeforeValidator(number)] | None = None
    ignore_eos: bool = Field(
        default=False, description="Generate up to maxTokens, ignoring the end-of-sequence token; vLLM's field."
    )
    extra: dict[str, Any] = Field(default_factory=dict, description="Additional fields of the request.")


class HttpRequest(Spec):
    """A plain HTTP request. `{prompt}` in the body is replaced by the prompt, escaped for a JSON string."""

    method: Literal["GET", "POST", "PUT"] = "POST"
    path: str = "/"
    headers: dict[str, str] = Field(default_factory=dict)
    body: str = ""


Rate = Annotated[float, Field(gt=0, le=1_000_000)]
Api = Literal["openai-chat", "openai-completions", "oip-infer", "oip-generate", "sax", "jetstream", "http"]
DATATYPES = frozenset(
    {"BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES"}
)
"""Tensor types for which values can be generated."""


def _check_positive(value: float) -> float:
    if value <= 0:
        raise ValueError("must be greater than 0")
    return value


def _objective(value: str) -> str:
    parse_objective(value)
    return value


PerSecond = Annotated[Rate, BeforeValidator(number)]
PositiveSeconds = Annotated[Seconds, AfterValidator(_check_positive)]
Objective = Annotated[str, AfterValidator(_objective)]
Fraction = Annotated[Ratio, BeforeValidator(number)]


class Ramp(Spec):
    """A linear ramp of the rate."""

    first: PerSecond
    last: PerSecond


class Steps(Spec):
    """A sequence of rates with equal durations."""

    rates: Annotated[list[PerSecond], Field(min_length=1)]
    arrivals: Literal["poisson", "constant"] = "poisson"


class Stage(Spec):
    """One stage of a test. All but `users` are open loop: requests are sent on schedule, independent of responses."""

    constant: PerSecond | None = Field(default=None, description="Requests per second, at equal intervals.")
    poisson: PerSecond | None = Field(default=None, description="Requests per second, as a Poisson process.")
    ramp: Ramp | None = None
    steps: Steps | None = None
    users: Positive | None = Field(default=None, description="Closed loop: number of concurrent users.")
    replay: Annotated[float, Field(gt=0), BeforeValidator(number)] | None = Field(
        default=None, description="Replays the trace at this speed."
    )
    seconds: PositiveSeconds | None = Field(
        default=None, alias="for", description="Duration; of each step for steps. Optional for replay."
    )

    _check_arrivals = exactly_one_of("constant", "poisson", "ramp", "steps", "users", "replay")

    @model_validator(mode="after")
    def _check_seconds(self) -> Self:
        if self.seconds is None and self.replay is None:
            raise ValueError("for is required")
        return self


class RequestTimeouts(Spec):
    """Timeouts of a request."""

    connect: PositiveSeconds = 10.0
    idle: PositiveSeconds = Field(default=120.0, description="Between chunks of a response, and until the first.")
    total: PositiveSeconds = 600.0


class StopRule(Spec):
    """When to stop a test early; what was measured is kept."""

    errors: Fraction = Field(default=0.5, description="Fraction of failed requests,")
    over: PositiveSeconds = Field(default=10.0, description="within this time,")
    at_least: Positive = Field(default=20, description="of at least this many requests.")
    delay: PositiveSeconds | None = Field(default=None, description="Maximum send delay.")


class Delivery(Spec):
    """When a run is valid: requests were sent on schedule. Otherwise the run measured the load generator."""

    share: Fraction = Field(default=0.99, description="Fraction of the scheduled requests.")
    delay: PositiveSeconds = Field(default=0.05, description="Maximum send delay (p99).")


class Workers(Spec):
    """The workers: local processes, or pods of the cluster."""

    count: Annotated[int, Field(ge=1, le=1_000)] = 1
    where: Literal["here", "cluster"] = "here"
    image: Image | None = Field(default=None, description="The load-worker image; required for pods.")
    pool: Pool = Pool()
    cpu: Amount = Field(default="1", description="CPU request of each worker, which uses one core.")
    memory: Amount = "1Gi"
    service_account: Name | None = Field(default=None, description="Service account, to read prompts from a bucket.")
    start_within: PositiveSeconds = Field(default=300.0, description="Timeout for all workers to start.")

    @model_validator(mode="after")
    def _check_image(self) -> Self:
        if self.where == "cluster" and self.image is None:
            raise ValueError("image: required for workers on a cluster (the load-worker of the environment's registry)")
        return self


class Tokens(Spec):
    """How tokens are counted if the server does not report them."""

    tokenizer: str = Field(description="The model's tokenizer.json, local or gs://. Responses are deleted once they are counted.")


class Results(Spec):
    """Where results are written."""

    folder: str = "load-tests"
    bucket: GcsUrl | None = Field(default=None, description="Uploads each run, such as to gs://bucket/load-tests.")
    texts: bool = Field(default=False, description="Keeps prompts and responses, and publishes them; they may have personal data.")


class LoadTestSpec(Spec):
    """Spec of a LoadTest."""

    target: Target
    api: Api = Field(default="openai-chat", description="Default for a model service: its API.")
    model: str = Field(default="", description="Default for a model service: its only model.")
    stream: bool = True
    options: RequestOptions = RequestOptions()
    http: HttpRequest | None = None
    infer: dict[str, Any] | None = Field(
        default=None,
        description="Body of an Open Inference Protocol infer request; inputs without data get generated values.",
    )
    prompts: Prompts | None = None
    stages: Annotated[list[Stage], Field(min_length=1)]
    warm_up: Seconds = Field(default=0.0, description="Excluded from the results.")
    slo: list[Objective] = Field(default_factory=list, description="Such as `ttft p99 < 500ms` and `errors < 1%`.")
    stop: StopRule = StopRule()
    delivery: Delivery = Delivery()
    times: RequestTimeouts = RequestTimeouts()
    tokens: Tokens | None = Field(default=None, description="Default: chunks count as tokens if the server reports none.")
    workers: Workers = Workers()
    tags: dict[str, str] = Field(default_factory=dict)
    results: Results = Results()
    seed: Natural = 0

    @property
    def is_resolved(self) -> bool:
        """Whether API and model are known; a model service may provide them."""
        return self.target.model_service is None or bool(self.model and "api" in self.model_fields_set)

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        for problem in [*_check_stages(self), *(check_request(self) if self.is_resolved else ())]:
            raise ValueError(problem)
        return self


def check_request(spec: LoadTestSpec) -> list[str]:
    """The errors of fields that must match the API."""
    problems = []
    if spec.api == "http" and spec.http is None:
        problems.append("http: required with api http")
    if spec.api != "http" and spec.http is not None:
        problems.append(f"http: only allowed with api http, got {spec.api}")
    if spec.api == "oip-infer" and spec.infer is None:
        problems.append("infer: required with api oip-infer")
    problems += check_infer(spec.infer or {})
    if spec.api != "http" and not spec.model:
        problems.append("model is required")
    if spec.api not in {"http", "oip-infer"} and spec.prompts is None:
        problems.append("prompts are required")
    if spec.prompts and spec.prompts.turns > 1 and spec.api != "openai-chat":
        problems.append("turns: requires api openai-chat")
    return problems


def check_infer(infer: dict[str, Any]) -> list[str]:
    """The errors of tensors whose values are generated."""
    problems, inputs = [], infer.get("inputs", [])
    if not isinstance(inputs, list) or not all(isinstance(item, dict) for item in inputs):
        return ["infer.inputs: must be a list of tensors"]
    for index, tensor in enumerate(inputs):
        shape, kind = tensor.get("shape"), tensor.get("datatype")
        if "data" in tensor:
            continue
        if not isinstance(shape, list) or not all(isinstance(side, int) and side > 0 for side in shape):
            problems.append(f"infer.inputs[{index}] requires data or a shape")
        elif kind not in DATATYPES:
            problems.append(f"infer.inputs[{index}] requires data: values of datatype {kind} cannot be generated")
    return problems


def _check_stages(spec: LoadTestSpec) -> list[str]:
    """The errors of stages that conflict with other fields."""
    problems = []
    if any(stage.replay for stage in spec.stages) and not (spec.prompts and spec.prompts.trace):
        problems.append("replay: requires prompts.trace")
    if spec.prompts and spec.prompts.turns > 1 and any(stage.users is None for stage in spec.stages):
        problems.append("turns: requires stages with users")
    total = sum(stage.seconds * (len(stage.steps.rates) if stage.steps else 1) for stage in spec.stages if stage.seconds)
    if spec.warm_up and total and spec.warm_up >= total:
        problems.append(f"warmUp: must be shorter than the test ({total:g}s), got {spec.warm_up:g}s")
    return problems


class LoadTest(Spec):
    """The document."""

    api_version: Literal["sliceworks.dev/v1alpha1"]
    kind: Literal["LoadTest"]
    metadata: Metadata
    spec: LoadTestSpec
