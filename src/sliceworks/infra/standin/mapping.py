"""Between Terraform's attributes and the fields of Google's APIs.

Nearly always `some_name` is `someName` and a block of which there is one is an object; what differs is said by data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sliceworks.base.names import camel
from sliceworks.infra.standin.values import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.infra.standin.schemas import Attribute, Block, Nested

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Names:
    """Where fields differ from the rule, by their path in Terraform (`node_config.taint`).

    `renamed` gives the path of the API's field beside its siblings (`a.b` goes deeper); `local` are known to Terraform
    alone; `sent` are computed by the provider and sent all the same.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    local: frozenset[str] = frozenset()
    sent: frozenset[str] = frozenset()
    upper: frozenset[str] = frozenset()
    """What the API writes in capitals and people need not."""


def body(block: Block, state: Object, names: Names, at: str = "") -> Object:
    """What an API is sent for a block's values: nothing for what is not set."""
    made: Object = {}
    for name, attribute in block.attributes.items():
        value = state.get(name)
        path = at + name
        silent = path in names.local or (attribute.only_computed and path not in names.sent)
        if silent or value is None or value is UNKNOWN:
            continue
        _put(made, names.renamed.get(path, camel(name)), _to_api(value))
    for name, nested in block.blocks.items():
        path = at + name
        if path in names.local or not state.get(name):
            continue
        _put(made, names.renamed.get(path, camel(name)), _to_object(nested, state[name], names, f"{path}."))
    return made


def _to_object(nested: Nested, value: Any, names: Names, at: str) -> Any:
    if nested.nesting == "single":
        return body(nested.block, value, names, at)
    if nested.single:
        return body(nested.block, value[0], names, at)
    return [body(nested.block, each, names, at) for each in value]


def _to_api(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


IMPORTED = "sliceworks:imported"
"""Stands in what is known of a thing that is only just taken over: whatever the API says of it is taken over, too."""


def state(block: Block, answer: Object, known: Object, names: Names, at: str = "") -> Object:
    """A block's values after an API has answered: its own word first, and what only Terraform knows as it was."""
    whole = bool(known.get(IMPORTED))
    made: Object = {}
    for name, attribute in block.attributes.items():
        path = at + name
        before = None if known.get(name) is UNKNOWN else known.get(name)
        found = None if path in names.local else _get(answer, names.renamed.get(path, camel(name)))
        # What people left out and only they decide stays out, whatever the API fills in.
        theirs = before is None and not attribute.computed and not attribute.required and not (whole and found)
        same = _alike(before, found) or (path in names.upper and isinstance(before, str) and before.upper() == found)
        made[name] = before if found is None or theirs or same else _from_api(attribute, found)
    for name, nested in block.blocks.items():
        path = at + name
        before = known.get(name)
        found = None if path in names.local else _get(answer, names.renamed.get(path, camel(name)))
        made[name] = (
            _taken_over(nested, found, names, f"{path}.") if whole else _from_object(nested, found, before, names, f"{path}.")
        )
    return made


def _taken_over(nested: Nested, found: Any, names: Names, at: str) -> Any:
    """A block as the API has it; one that says nothing is not there."""
    known = {IMPORTED: True}
    if nested.nesting == "single":
        return state(nested.block, found, known, names, at) if found else None
    items = [] if not found else [found] if nested.single else list(found)
    made = [state(nested.block, each, known, names, at) for each in items if isinstance(each, dict)]
    return [each for each in made if any(each.values())]


def _alike(one: Any, other: Any) -> bool:
    """Whether two texts name the same thing: one by its path, the other by its whole address."""
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    return "projects/" in one and one.partition("projects/")[2] == other.partition("projects/")[2]


def _from_object(nested: Nested, found: Any, before: Any, names: Names, at: str) -> Any:
    if nested.nesting == "single":
        return before if found is None else state(nested.block, found, before or {}, names, at)
    earlier = before if isinstance(before, list) else []
    if found is None or not earlier:
        # A block that nobody wrote is not taken over from the answer: the provider adds nothing to what people wrote.
        return _without_unknown(nested, earlier)
    items = [found] if nested.single else list(found)
    if len(items) != len(earlier) or nested.nesting == "set":
        return [state(nested.block, each, {}, names, at) for each in items]
    return [state(nested.block, each, one, names, at) for each, one in zip(items, earlier, strict=True)]


def _without_unknown(nested: Nested, items: list[Any]) -> list[Any]:
    return [settled(nested.block, each) for each in items]


def settled(block: Block, values: Object) -> Object:
    """What is still unknown after the API answered is nothing."""
    made = {name: None if values.get(name) is UNKNOWN else values.get(name) for name in block.attributes}
    for name, nested in block.blocks.items():
        found = values.get(name)
        made[name] = _without_unknown(nested, found) if isinstance(found, list) else None if found is UNKNOWN else found
    return made


def _from_api(attribute: Attribute, value: Any) -> Any:
    kind = attribute.type
    if kind == "number" and isinstance(value, str):
        return int(value)
    if kind == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


def quoted(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")


def _put(target: Object, path: str, value: Any) -> None:
    *steps, last = path.split(".")
    for step in steps:
        target = target.setdefault(step, {})
    target[last] = value


def _get(source: Any, path: str) -> Any:
    for step in path.split("."):
        if not isinstance(source, dict):
            return None
        source = source.get(step)
    return source
