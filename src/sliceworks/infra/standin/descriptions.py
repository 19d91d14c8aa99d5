"""The schema as Terraform asks for it: in its own messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from sliceworks.infra.standin import messages

if TYPE_CHECKING:
    from sliceworks.infra.standin.schemas import Block

_NESTING: Final = {"single": 1, "list": 2, "set": 3, "map": 4}


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
