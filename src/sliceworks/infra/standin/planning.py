"""What a change will come to: computed values that are not known yet, and whether the thing must be made anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.infra.standin.values import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.infra.standin.schemas import Block

Object = dict[str, Any]


def planned(block: Block, prior: Object | None, proposed: Object, config: Object) -> Object:
    """The state that will be: for a new thing, what nobody wrote and the cloud decides is unknown."""
    return _unknown_where_computed(block, proposed, config) if prior is None else proposed


def _unknown_where_computed(block: Block, proposed: Object, config: Object) -> Object:
    state = dict(proposed)
    for name, attribute in block.attributes.items():
        if attribute.computed and config.get(name) is None:
            state[name] = UNKNOWN
    for name, nested in block.blocks.items():
        written, given = config.get(name), proposed.get(name)
        if isinstance(given, list) and isinstance(written, list) and len(given) == len(written):
            state[name] = [
                _unknown_where_computed(nested.block, one, other) if isinstance(one, dict) and isinstance(other, dict) else one
                for one, other in zip(given, written, strict=True)
            ]
    return state


def in_capitals(prior: Object | None, state: Object, names: Iterable[str]) -> Object:
    """What the cloud writes in capitals is the same word in the document: a thing that was taken over is not made anew for it."""
    if prior is None:
        return state
    same = [name for name in names if str(prior.get(name)).upper() == str(state.get(name)).upper()]
    return {**state, **{name: prior[name] for name in same}}


def replaced(prior: Object | None, state: Object, fixed: Iterable[str]) -> list[str]:
    """The attributes that differ and cannot change on a thing that exists."""
    if prior is None:
        return []
    return [path for path in fixed if _said(_at(prior, path)) != _said(_at(state, path))]


def _said(value: Any) -> Any:
    """What a value says: nothing, no, none and nought are the same to the cloud."""
    if isinstance(value, dict):
        return {key: _said(each) for key, each in value.items() if _said(each)} or None
    if isinstance(value, list):
        return [_said(each) for each in value] or None
    return value or None


def _at(state: Any, path: str) -> Any:
    """The value at `a.b.c`; a list of at most one block counts as the block."""
    for step in path.split("."):
        if isinstance(state, list):
            state = state[0] if state else None
        if not isinstance(state, dict):
            return None
        state = state.get(step)
    return state
