"""What the provider's code checks beyond the schema: attributes that exclude or need each other, their values, and replacements.

The rules are data, read from the provider's sources by `tests/real/provider_rules`. A path is `a.b.c`, without indexes of blocks.
Messages are those of Terraform's plugin SDK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.infra.provider.protocol import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.infra.provider.schema import Block, ResourceRules

Object = dict[str, Any]


def validate(rules: ResourceRules, config: Object) -> Iterator[str]:
    """Messages for a configuration that the provider rejects."""
    for path, others in rules.conflicts.items():
        if _is_set(config, path):
            yield from (f'"{path}": conflicts with {other}' for other in others if _is_set(config, other))
    for path, others in rules.required_with.items():
        if _is_set(config, path) and not all(_is_set(config, other) for other in others):
            yield f'"{path}": all of `{",".join([path, *others])}` must be specified'
    for group in rules.exactly_one_of:
        present = [path for path in group if _is_set(config, path)]
        if len(present) != 1 and _is_applicable(config, group):
            actual = f"but `{','.join(present)}` were specified" if present else "no one of them was"
            yield f'"{group[0]}": only one of `{",".join(group)}` can be specified, {actual}'
    for group in rules.at_least_one_of:
        if _is_applicable(config, group) and not any(_is_set(config, path) for path in group):
            yield f'"{group[0]}": one of `{",".join(group)}` must be specified'
    for path, values in rules.values.items():
        for value in values_at(config, path):
            if isinstance(value, str) and value not in values:
                known = " ".join(f'"{known}"' for known in values)
                yield f"expected {path} to be one of [{known}], got {value}"


def find_replaced(rules: ResourceRules, block: Block, prior: Object | None, planned: Object) -> list[str]:
    """Paths whose change replaces the resource: attributes by value, blocks by their number."""
    if prior is None:
        return []
    return [path for path in rules.force_new if _comparable(block, prior, path) != _comparable(block, planned, path)]


def _comparable(block: Block, state: Object, path: str) -> Any:
    values = values_at(state, path)
    if _is_block(block, path):
        return sum(isinstance(value, dict) for value in values)
    return [normalized for value in values if (normalized := normalize(value)) is not None]


def _is_block(block: Block, path: str) -> bool:
    name, _, rest = path.partition(".")
    nested = block.blocks.get(name)
    return nested is not None and (not rest or _is_block(nested.block, rest))


def normalize(value: Any) -> Any:
    """The value for comparison: null, false, empty and zero are equal to the cloud."""
    if isinstance(value, dict):
        return {key: normalize(item) for key, item in value.items() if normalize(item)} or None
    if isinstance(value, list):
        return [normalize(item) for item in value] or None
    return value or None


def values_at(state: Any, path: str) -> list[Any]:
    """All values at a path; blocks are lists of objects. What is inside an unknown value is unknown."""
    values = [state]
    for step in path.split("."):
        inside = (
            item.get(step) if isinstance(item, dict) else UNKNOWN for item in values if item is UNKNOWN or isinstance(item, dict)
        )
        values = [item for value in inside if value is not None for item in _items(value)]
    return values


def _items(value: Any) -> list[Any]:
    is_blocks = isinstance(value, list) and any(isinstance(item, dict) for item in value)
    return value if is_blocks else [] if value == [] else [value]


def _is_set(config: Object, path: str) -> bool:
    return any(value is not UNKNOWN for value in values_at(config, path))


def _is_applicable(config: Object, group: Iterable[str]) -> bool:
    """Whether the blocks around a group are configured, and no member is unknown."""
    parents = {path.rpartition(".")[0] for path in group}
    if any(value is UNKNOWN for path in group for value in values_at(config, path)):
        return False
    return all(not parent or values_at(config, parent) for parent in parents)
