"""What a load test asks, and whom: its target, its prompts, and what is wanted beside them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, model_validator

from sliceworks.specs.gateway import Secret
from sliceworks.specs.model import Name, Seconds, Spec, number

Positive = Annotated[int, Field(ge=1)]


class ServiceTarget(Spec):
    """A model service that is deployed, by its name or by its document: address, API, model and key are found in the cluster."""

    name: Name | None = None
    namespace: Name | None = Field(default=None, description="The command's when left out, or the one in the file.")
    file: str = Field(default="", description="The document of the model service, beside this one.")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.name) == bool(self.file):
            raise ValueError("give name or file, one of them")
        return self


class Target(Spec):
    """Who is asked."""

    url: str = ""
    model_service: ServiceTarget | None = None
    key: Secret | None = Field(
        default=None,
        description="Where the key is kept that is sent as a bearer token. "
        "For a model service it is found in the gateway's Secret where left out.",
    )
    authority: str = Field(default="", description="A file of certificates to trust for https.")

    @model_validator(mode="after")
    def _address(self) -> Self:
        if bool(self.url) == bool(self.model_service):
            raise ValueError("give url or modelService, one of them")
        parts = urlsplit(self.url)
        if self.url and (parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment):
            raise ValueError(f"a url is such as http://127.0.0.1:8080, found {self.url!r}")
        return self


class Lengths(Spec):
    """How long something is, in tokens: always the same, evenly between two bounds, or around a mean, never outside the bounds."""

    mean: Positive
    deviation: Annotated[float, Field(ge=0), BeforeValidator(number)] = 0.0
    least: Positive = 1
    most: Positive = 1_000_000
    shape: Literal["normal", "lognormal", "uniform"] = Field(
        default="normal", description="uniform is even between least and most."
    )

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if not self.least <= self.mean <= self.most:
            raise ValueError(f"the mean {self.mean} is not between least {self.least} and most {self.most}")
        return self


class SharedPrefix(Spec):
    """A beginning that several prompts have in common, such as a system prompt: servers that keep it answer sooner."""

    tokens: Positive
    groups: Positive = 1


class Synthetic(Spec):
    """Prompts made up of common words, about as long as asked for."""

    input: Lengths
    output: Lengths | None = Field(default=None, description="What each request asks for at most; the options' when left out.")
    prefix: SharedPrefix | None = None
    count: Positive = Field(default=1_000, description="How many different ones; then they come again.")


class Prompts(Spec):
    """What is sent: lines of a file, made-up texts, or a trace with the moments at which its requests came."""

    file: str = Field(
        default="", description="JSON lines: a text, or an object with a prompt or messages. Also gs://bucket/prompts.jsonl."
    )
    field: str = Field(default="prompt", description="The field of the text.")
    order: Literal["as-written", "shuffled"] = "as-written"
    synthetic: Synthetic | None = None
    texts: list[str] = Field(default_factory=list)
    trace: str = Field(
        default="",
        description="JSON lines with timestamp in ms, and prompt, or input_length and output_length in tokens. Also gs://.",
    )
    turns: Positive = Field(default=1, description="Requests of one conversation, each with what was said before; a chat only.")
    think: Seconds = Field(default=0.0, description="From an answer to the next turn.")

    @property
    def source(self) -> str:
        """The name of the file that they are in; nothing where they are in none."""
        return self.file or self.trace

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum(map(bool, (self.file, self.synthetic, self.texts, self.trace))) != 1:
            raise ValueError("give one of file, synthetic, texts and trace")
        return self


class Options(Spec):
    """What is asked of the model beside the prompt."""

    max_tokens: Positive = 128
    temperature: Annotated[float, Field(ge=0), BeforeValidator(number)] | None = None
    ignore_eos: bool = Field(default=False, description="Go on to maxTokens whatever the model says; vLLM's field.")
    extra: dict[str, Any] = Field(default_factory=dict, description="Put into the request as they are.")


class Plain(Spec):
    """A request of plain HTTP. `{prompt}` in the body is replaced by the prompt, as the inside of a JSON string."""

    method: Literal["GET", "POST", "PUT"] = "POST"
    path: str = "/"
    headers: dict[str, str] = Field(default_factory=dict)
    body: str = ""
