"""Changing one number of a document in place: everything else, comments too, stays as its author wrote it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import yaml

from sliceworks.base import yamls
from sliceworks.base.errors import InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Sequence

KIND = "Environment"


def set_number(text: str, place: str, path: Sequence[str], number: int) -> str:
    """The text with a number at a path of its Environment. The mapping that holds the field must be there, the field need not."""
    *above, field = path
    holder: yaml.Node | None = _root(text, place)
    for name in above:
        holder = _child(holder, name)
    if not isinstance(holder, yaml.MappingNode) or not holder.value:
        raise InvalidDocument(f"has no {'.'.join(above)}", place=place)
    present = _child(holder, field)
    changed = _put(text, present, number) if present is not None else _add(text, holder, field, number)
    _assure(text, changed, place, path, number)
    return changed


def _root(text: str, place: str) -> yaml.Node:
    yamls.load_all(text, place)  # whatever is wrong with it is said there, with its line
    nodes: list[yaml.Node] = [node for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if node is not None]
    for node in nodes:
        kind = _child(node, "kind")
        if isinstance(kind, yaml.ScalarNode) and kind.value == KIND:
            return node
    raise InvalidDocument(f"has no {KIND}", place=place)


def _child(node: yaml.Node | None, name: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for key, value in pairs if key.value == name), None)


def _put(text: str, node: yaml.Node, number: int) -> str:
    return f"{text[: node.start_mark.index]}{number}{text[node.end_mark.index :]}"


def _add(text: str, holder: yaml.MappingNode, field: str, number: int) -> str:
    first = holder.value[0][0].start_mark
    between = ", " if holder.flow_style else "\n" + " " * first.column
    return f"{text[: first.index]}{field}: {number}{between}{text[first.index :]}"


def _assure(before: str, after: str, place: str, path: Sequence[str], number: int) -> None:
    """Nothing but that number has changed. A document can be written in ways (anchors, merges) in which it would."""
    wanted = [orjson.loads(orjson.dumps(document.data)) for document in yamls.load_all(before, place)]  # shares nothing
    for data in wanted:
        if data.get("kind") == KIND:
            holder = data
            for name in path[:-1]:
                holder = holder[name]
            holder[path[-1]] = number
    if [document.data for document in yamls.load_all(after, place)] != wanted:
        raise InvalidDocument(f"{'.'.join(path)} cannot be changed by itself", place=place, hint="change it by hand, then apply")
