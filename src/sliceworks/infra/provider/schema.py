"""The google provider's schema, reduced to names and types."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a block. `type` is Terraform's type expression: a word, or a list such as ["map", "string"]."""

    type: Any
    required: bool
    optional: bool
    computed: bool

    @property
    def only_computed(self) -> bool:
        """Whether it cannot be configured."""
        return self.computed and not self.optional


@dataclass(frozen=True, slots=True)
class Block:
    """Attributes and nested blocks."""

    attributes: dict[str, Attribute]
    blocks: dict[str, Nested] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Nested:
    """A nested block: its nesting mode and how often it may occur."""

    block: Block
    nesting: str
    min: int
    max: int

    @property
    def single(self) -> bool:
        """Whether it occurs at most once: an object in the API, a list or set in Terraform."""
        return self.nesting == "single" or self.max == 1


@dataclass(frozen=True, slots=True)
class ResourceRules:
    """What the provider's code adds to the schema of a resource; a path is `a.b.c`."""

    force_new: tuple[str, ...] = ()
    """Attributes, and blocks, whose change replaces the resource."""
    conflicts: dict[str, list[str]] = field(default_factory=dict)
    required_with: dict[str, list[str]] = field(default_factory=dict)
    exactly_one_of: tuple[list[str], ...] = ()
    at_least_one_of: tuple[list[str], ...] = ()
    values: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProviderSchema:
    """Schemas of the provider, its resources and its data sources."""

    provider: Block
    resources: dict[str, Block]
    data_sources: dict[str, Block]
    rules: dict[str, ResourceRules]
    version: str


@cache
def google_schema() -> ProviderSchema:
    """The schema of the google provider."""
    data = orjson.loads(resources.files(__package__).joinpath("data/google.json").read_bytes())
    return ProviderSchema(
        _block(data["provider"]),
        {name: _block(block) for name, block in data["resources"].items()},
        {name: _block(block) for name, block in data["data_sources"].items()},
        {name: ResourceRules(**rules) for name, rules in data["rules"].items()},
        str(data["provider_version"]).partition("-")[0],
    )


def _block(data: dict[str, Any]) -> Block:
    return Block(
        {name: _attribute(entry) for name, entry in data.get("attributes", {}).items()},
        {
            name: Nested(_block(entry), entry["nesting"], entry["min"], entry["max"])
            for name, entry in data.get("blocks", {}).items()
        },
    )


def _attribute(data: dict[str, Any]) -> Attribute:
    use = data["use"].split(",")
    return Attribute(data["type"], "required" in use, "optional" in use, "computed" in use)
