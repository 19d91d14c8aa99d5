"""LoadTest: what is asked of a model server, how often, for how long, and what would be good enough."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from sliceworks.specs.load_asking import Options, Plain, Positive, Prompts, Target
from sliceworks.specs.model import Metadata, Name, Seconds, Spec, number
from sliceworks.specs.objectives import parse
from sliceworks.specs.serving.parts import Image, Pool
from sliceworks.specs.serving.parts import Place as Bucketed
from sliceworks.specs.training import Amount

Natural = Annotated[int, Field(ge=0)]
Rate = Annotated[float, Field(gt=0, le=1_000_000)]
Share = Annotated[float, Field(ge=0, le=1)]
Api = Literal["openai-chat", "openai-completions", "oip-infer", "oip-generate", "sax", "jetstream", "http"]
DATATYPES = frozenset(
    {"BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES"}
)
"""Of tensors whose values can be made up."""


def _lasting(value: float) -> float:
    if value <= 0:
        raise ValueError("must be more than nothing")
    return value


def _objective(value: str) -> str:
    parse(value)
    return value


PerSecond = Annotated[Rate, BeforeValidator(number)]
Lasting = Annotated[Seconds, AfterValidator(_lasting)]
Objective = Annotated[str, AfterValidator(_objective)]
Weight = Annotated[Share, BeforeValidator(number)]


class Ramp(Spec):
    """A rate that grows, or falls, evenly."""

    first: PerSecond
    last: PerSecond


class Steps(Spec):
    """One rate after the other, each as long."""

    rates: Annotated[list[PerSecond], Field(min_length=1)]
    arrivals: Literal["poisson", "constant"] = "poisson"


class Stage(Spec):
    """A part of a test. All but `users` are open: requests leave at their moment, whether or not others were answered."""

    constant: PerSecond | None = Field(default=None, description="Requests per second, evenly apart.")
    poisson: PerSecond | None = Field(
        default=None, description="Requests per second, as many people who do not know of each other send them."
    )
    ramp: Ramp | None = None
    steps: Steps | None = None
    users: Positive | None = Field(default=None, description="Closed: so many send one request after the other's answer.")
    replay: Annotated[float, Field(gt=0), BeforeValidator(number)] | None = Field(
        default=None, description="The trace, so many times as fast as it was."
    )
    lasts: Lasting | None = Field(default=None, alias="for", description="How long; each step of steps. A replay may do without.")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = (self.constant, self.poisson, self.ramp, self.steps, self.users, self.replay)
        if sum(each is not None for each in given) != 1:
            raise ValueError("give one of constant, poisson, ramp, steps, users and replay")
        if self.lasts is None and self.replay is None:
            raise ValueError("for: how long it lasts is missing")
        return self


class Times(Spec):
    """When a request is given up."""

    connect: Lasting = 10.0
    idle: Lasting = Field(default=120.0, description="From one piece of an answer to the next, and until the first.")
    total: Lasting = 600.0


class StopRule(Spec):
    """When to end a test early: what has been measured by then is kept."""

    errors: Weight = Field(default=0.5, description="Share of requests that fail,")
    over: Lasting = Field(default=10.0, description="in so much time,")
    at_least: Positive = Field(default=20, description="of so many requests or more.")
    delay: Lasting | None = Field(default=None, description="Requests leave so much later than they should.")


class Delivery(Spec):
    """When a run counts: it sent what was asked for, when it was asked for. Otherwise it measured the sender."""

    share: Weight = Field(default=0.99, description="Of the requests that were to be sent.")
    delay: Lasting = Field(default=0.05, description="Between when a request was to leave and when it did, p99.")


class Workers(Spec):
    """Who sends: processes of this machine, or pods of the cluster that the command means."""

    count: Annotated[int, Field(ge=1, le=1_000)] = 1
    where: Literal["here", "cluster"] = "here"
    image: Image | None = Field(default=None, description="The load-worker of the environment's registry; a cluster needs it.")
    pool: Pool = Pool()
    cpu: Amount = Field(default="1", description="That each asks for: a sender uses one core.")
    memory: Amount = "1Gi"
    service_account: Name | None = Field(default=None, description="Whom they act as, to read prompts from a bucket.")
    start_within: Lasting = Field(default=300.0, description="How long all of them may take to start.")

    @model_validator(mode="after")
    def _an_image(self) -> Self:
        if self.where == "cluster" and self.image is None:
            raise ValueError("workers on a cluster need an image: the load-worker of the environment's registry")
        return self


class Tokens(Spec):
    """How tokens are counted where the server does not report them."""

    tokenizer: str = Field(
        description="The model's tokenizer.json, here or at gs://. Answers are kept until they have been counted, and no longer."
    )


class Results(Spec):
    """Where results go."""

    folder: str = "load-tests"
    bucket: Bucketed | None = Field(default=None, description="Also there, such as gs://bucket/load-tests: a folder for each run.")


class LoadTestSpec(Spec):
    """What a load test does."""

    target: Target
    api: Api = Field(default="openai-chat", description="Of a model service: what it speaks, where left out.")
    model: str = Field(default="", description="Of a model service: the one that it serves, where left out.")
    stream: bool = True
    options: Options = Options()
    http: Plain | None = None
    infer: dict[str, Any] | None = Field(
        default=None,
        description="The body of an infer request of the Open Inference Protocol. Inputs without data get made-up values.",
    )
    prompts: Prompts | None = None
    stages: Annotated[list[Stage], Field(min_length=1)]
    warm_up: Seconds = Field(default=0.0, description="At the beginning; sent, and not counted.")
    slo: list[Objective] = Field(default_factory=list, description="Such as `ttft p99 < 500ms` and `errors < 1%`.")
    stop: StopRule = StopRule()
    delivery: Delivery = Delivery()
    times: Times = Times()
    tokens: Tokens | None = Field(default=None, description="Without it, a server that reports none has its pieces counted.")
    workers: Workers = Workers()
    tags: dict[str, str] = Field(default_factory=dict)
    results: Results = Results()
    seed: Natural = 0

    @property
    def decided(self) -> bool:
        """Whether API and model are known; those of a model service may be left to it."""
        return self.target.model_service is None or bool(self.model and "api" in self.model_fields_set)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for problem in [*_times(self), *(asked_wrongly(self) if self.decided else ())]:
            raise ValueError(problem)
        return self


def asked_wrongly(spec: LoadTestSpec) -> list[str]:
    """What is wrong between the API and what is to be asked of it."""
    found = []
    if spec.api == "http" and spec.http is None:
        found.append("api http needs the field http: what is sent")
    if spec.api != "http" and spec.http is not None:
        found.append(f"http is for api http, not for {spec.api}")
    if spec.api == "oip-infer" and spec.infer is None:
        found.append("api oip-infer needs the field infer: the body of the request")
    found += infer_problems(spec.infer or {})
    if spec.api != "http" and not spec.model:
        found.append("model is required")
    if spec.api not in {"http", "oip-infer"} and spec.prompts is None:
        found.append("prompts are required")
    if spec.prompts and spec.prompts.turns > 1 and spec.api != "openai-chat":
        found.append("several turns need api openai-chat")
    return found


def infer_problems(infer: dict[str, Any]) -> list[str]:
    """What is wrong with tensors whose values are to be made up."""
    found, inputs = [], infer.get("inputs", [])
    if not isinstance(inputs, list) or not all(isinstance(each, dict) for each in inputs):
        return ["infer.inputs is a list of tensors"]
    for index, each in enumerate(inputs):
        shape, kind = each.get("shape"), each.get("datatype")
        if "data" in each:
            continue
        if not isinstance(shape, list) or not all(isinstance(side, int) and side > 0 for side in shape):
            found.append(f"infer.inputs[{index}] has no data, and no shape to make some up for")
        elif kind not in DATATYPES:
            found.append(f"infer.inputs[{index}] has no data, and none can be made up of datatype {kind}")
    return found


def _times(spec: LoadTestSpec) -> list[str]:
    """What is wrong between stages and the rest."""
    found = []
    if any(stage.replay for stage in spec.stages) and not (spec.prompts and spec.prompts.trace):
        found.append("a replay needs prompts with a trace")
    if spec.prompts and spec.prompts.turns > 1 and any(stage.users is None for stage in spec.stages):
        found.append("several turns need stages of users: a turn waits for the answer before it")
    lasting = sum(stage.lasts * (len(stage.steps.rates) if stage.steps else 1) for stage in spec.stages if stage.lasts)
    if spec.warm_up and lasting and spec.warm_up >= lasting:
        found.append(f"the warm-up of {spec.warm_up:g}s leaves nothing of the {lasting:g}s to be counted")
    return found


class LoadTest(Spec):
    """The document."""

    api_version: Literal["sliceworks.dev/v1alpha1"]
    kind: Literal["LoadTest"]
    metadata: Metadata
    spec: LoadTestSpec
