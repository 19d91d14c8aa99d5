"""The real provider's schema, reduced to names and types, read from data."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Attribute:
    """A value of a block. `type` is Terraform's own notation: a word, or a list such as ["map", "string"]."""

    type: Any
    required: bool
    optional: bool
    computed: bool

    @property
    def only_computed(self) -> bool:
        """Whether it is never written by people."""
        return self.computed and not self.optional


@dataclass(frozen=True, slots=True)
class Block:
    """Attributes, and blocks inside of it."""

    attributes: dict[str, Attribute]
    blocks: dict[str, Nested] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Nested:
    """A block inside of another: how often it may be there, and in which form."""

    block: Block
    nesting: str
    min: int
    max: int

    @property
    def single(self) -> bool:
        """Whether there is at most one of it, which APIs write as an object and Terraform as a list or a set."""
        return self.nesting == "single" or self.max == 1


@dataclass(frozen=True, slots=True)
class Schemas:
    """All that the provider knows."""

    provider: Block
    resources: dict[str, Block]
    data_sources: dict[str, Block]
    version: str


@cache
def google() -> Schemas:
    """The schema of the google provider."""
    data = orjson.loads(resources.files(__package__).joinpath("data/google.json").read_bytes())
    return Schemas(
        _block(data["provider"]),
        {name: _block(each) for name, each in data["resources"].items()},
        {name: _block(each) for name, each in data["data_sources"].items()},
        str(data["provider_version"]).partition("-")[0],
    )


def _block(data: dict[str, Any]) -> Block:
    return Block(
        {name: _attribute(each) for name, each in data.get("attributes", {}).items()},
        {name: Nested(_block(each), each["nesting"], each["min"], each["max"]) for name, each in data.get("blocks", {}).items()},
    )


def _attribute(data: dict[str, Any]) -> Attribute:
    use = data["use"].split(",")
    return Attribute(data["type"], "required" in use, "optional" in use, "computed" in use)
