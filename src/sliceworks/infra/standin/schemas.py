"""The real provider's schema, reduced to names and types: read from data, and told to Terraform in its own messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Final

import orjson

from sliceworks.infra.standin import messages

_NESTING: Final = {"single": 1, "list": 2, "set": 3, "map": 4}


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


def as_message(block: Block) -> Any:
    """A block's schema as Terraform asks for it."""
    return messages.message("Schema")(version=0, block=_described(block))


def _described(block: Block) -> Any:
    described = messages.message("Block")()
    for name, attribute in sorted(block.attributes.items()):
        described.attributes.add(
            name=name,
            type=orjson.dumps(attribute.type),
            required=attribute.required,
            optional=attribute.optional,
            computed=attribute.computed,
        )
    for name, nested in sorted(block.blocks.items()):
        described.block_types.add(
            type_name=name,
            block=_described(nested.block),
            nesting=_NESTING[nested.nesting],
            min_items=nested.min,
            max_items=nested.max,
        )
    return described
