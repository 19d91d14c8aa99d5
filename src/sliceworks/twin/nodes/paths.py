"""Paths into an object, as stages write them.

.status.phase
.metadata.annotations["sliceworks.dev/run-seconds"]
.status.conditions[type=Ready].status          of the items where a field has a value
.status.containerStatuses[*].state.running     of each item
node.metadata.annotations["..."]               of the node that a pod is on
cloud.project                                  of what the cloud knows of an object that stands for something in it
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

from sliceworks.base.errors import SliceworksError

Obj = dict[str, Any]
_TOKEN = re.compile(r"""\.(?P<key>[A-Za-z0-9_-]+)|\["(?P<quoted>[^"]+)"\]|\[(?P<each>\*)\]|\[(?P<field>\w+)=(?P<value>[^\]]+)\]""")
_BESIDE = ("node", "cloud")
"""The names of what may be looked at beside the object itself."""


class Step(NamedTuple):
    """One step down: by key, or over the items of a list, all or those where `field` has `value`."""

    key: str = ""
    field: str = ""
    value: str = ""


class Path:
    """A path that has been read once and is walked often."""

    __slots__ = ("_plain", "_steps", "of_node", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.of_node = _beside(text) != ""
        self._steps = _read(text)
        self._plain = tuple(step.key for step in self._steps) if all(step.key for step in self._steps) else None

    def values(self, obj: Obj, node: Obj | None = None) -> list[Any]:
        """What lies there: nothing, one value, or one for each item on the way. Nulls do not count."""
        start: Any = node if self.of_node else obj
        if self._plain is not None:
            for key in self._plain:
                start = start.get(key) if isinstance(start, dict) else None
                if start is None:
                    return []
            return [start]
        found = [start]
        for step in self._steps:
            found = [below for value in found for below in _below(value, step)]
        return found

    @property
    def keys(self) -> tuple[str, ...] | None:
        """The keys on the way down, where the path leads through no list."""
        return self._plain

    def first(self, obj: Obj, node: Obj | None = None) -> Any:
        """The first value there, or None."""
        values = self.values(obj, node)
        return values[0] if values else None

    def __repr__(self) -> str:
        return f"Path({self.text!r})"


@lru_cache(512)
def path(text: str) -> Path:
    """The path that a text writes."""
    return Path(text)


def _beside(text: str) -> str:
    return next((name for name in _BESIDE if text.startswith(name + ".")), "")


def _read(text: str) -> tuple[Step, ...]:
    rest = text.removeprefix(_beside(text))
    steps, at = [], 0
    while at < len(rest):
        token = _TOKEN.match(rest, at)
        if token is None:
            raise SliceworksError(f"{text!r} is no path: it cannot be read from {rest[at:]!r} on")
        steps.append(Step(token["key"] or token["quoted"] or "", token["field"] or "", token["value"] or ""))
        at = token.end()
    if not steps:
        raise SliceworksError("a path cannot be empty")
    return tuple(steps)


def _below(value: Any, step: Step) -> list[Any]:
    if step.key:
        found = value.get(step.key) if isinstance(value, dict) else None
        return [] if found is None else [found]
    if not isinstance(value, list):
        return []
    if not step.field:
        return value
    return [item for item in value if isinstance(item, dict) and str(item.get(step.field)) == step.value]
