"""Stages: which objects match, after which delay, and what changes. Loads and validates stage files."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base.errors import InvalidDocument, SliceworksError

if TYPE_CHECKING:
    from collections.abc import Mapping
Obj = dict[str, Any]
_TOKEN = re.compile(r"""\.(?P<key>[A-Za-z0-9_-]+)|\["(?P<quoted>[^"]+)"\]|\[(?P<each>\*)\]|\[(?P<field>\w+)=(?P<value>[^\]]+)\]""")
_RELATED = ("node", "cloud")
"""Prefixes of paths into related objects instead of the object itself."""


class PathStep(NamedTuple):
    """One step of a path: a key, or the items of a list, all or those whose `field` is `value`."""

    key: str = ""
    field: str = ""
    value: str = ""


class Path:
    """A parsed path into an object."""

    __slots__ = ("_plain", "_steps", "expression", "is_related")

    def __init__(self, expression: str) -> None:
        self.expression = expression
        self.is_related = _related_prefix(expression) != ""
        self._steps = _parse(expression)
        self._plain = tuple(step.key for step in self._steps) if all(step.key for step in self._steps) else None

    def values(self, obj: Obj, node: Obj | None = None) -> list[Any]:
        """The values at the path in the object, or in the related object `node`; nulls are skipped."""
        start: Any = node if self.is_related else obj
        if self._plain is not None:
            for key in self._plain:
                start = start.get(key) if isinstance(start, dict) else None
                if start is None:
                    return []
            return [start]
        values = [start]
        for step in self._steps:
            values = [child for value in values for child in _children(value, step)]
        return values

    @property
    def keys(self) -> tuple[str, ...] | None:
        """The keys of a path without lists, else None."""
        return self._plain

    def first(self, obj: Obj, node: Obj | None = None) -> Any:
        """The first value, or None."""
        values = self.values(obj, node)
        return values[0] if values else None

    def __repr__(self) -> str:
        return f"Path({self.expression!r})"


@lru_cache(512)
def path(expression: str) -> Path:
    """Parse a path (cached)."""
    return Path(expression)


def _related_prefix(expression: str) -> str:
    return next((name for name in _RELATED if expression.startswith(name + ".")), "")


def _parse(expression: str) -> tuple[PathStep, ...]:
    rest = expression.removeprefix(_related_prefix(expression))
    steps, position = [], 0
    while position < len(rest):
        token = _TOKEN.match(rest, position)
        if token is None:
            raise SliceworksError(f"invalid path {expression!r}: unexpected {rest[position:]!r}")
        steps.append(PathStep(token["key"] or token["quoted"] or "", token["field"] or "", token["value"] or ""))
        position = token.end()
    if not steps:
        raise SliceworksError("invalid path: must not be empty")
    return tuple(steps)


def _children(value: Any, step: PathStep) -> list[Any]:
    if step.key:
        child = value.get(step.key) if isinstance(value, dict) else None
        return [] if child is None else [child]
    if not isinstance(value, list):
        return []
    if not step.field:
        return value
    return [item for item in value if isinstance(item, dict) and str(item.get(step.field)) == step.value]


@dataclass(frozen=True, slots=True)
class Value:
    """A literal, or the value at the first path that exists."""

    literal: Any = None
    paths: tuple[Path, ...] = ()

    def resolve(self, obj: Obj, node: Obj | None) -> Any:
        """The value for an object."""
        for path in self.paths:
            value = path.first(obj, node)
            if value is not None:
                return value
        return self.literal


@dataclass(frozen=True, slots=True)
class Match:
    """A condition of a stage: a value that is in a set or not, exists or not, or is below a number; or a named predicate."""

    path: Path | None = None
    within: frozenset[str] | None = None
    outside: frozenset[str] | None = None
    exists: bool | None = None
    below: Value | None = None
    named: str = ""


@dataclass(frozen=True, slots=True)
class Delay:
    """A delay of `seconds` from the time at `since`, or from when the stage first matched.

    `spread` adds a random part; `doubling` doubles the seconds with each count at a path; `most` is the maximum.
    """

    seconds: Value = Value(0)
    spread: Value = Value(0)
    since: Path | None = None
    most: Value | None = None
    doubling: Path | None = None


@dataclass(frozen=True, slots=True)
class ContainerChange:
    """A change of container statuses: of all, of those that an annotation names, or of those to restart."""

    state: str = ""
    which: str = "all"
    ready: bool = False
    restarted: bool = False
    reason: Value = Value("")
    message: Value = Value("")
    exit_code: Value = Value(0)


@dataclass(frozen=True, slots=True)
class EventTemplate:
    """An event with placeholders in its message."""

    reason: str
    message: str
    type: str = "Normal"


@dataclass(frozen=True, slots=True)
class StageNext:
    """The effect of a stage: container statuses, status (`fill` only sets empty fields), patch, finalizers, events, deletion."""

    containers: ContainerChange | None = None
    final: bool = False
    status: Obj = field(default_factory=dict)
    conditions: tuple[Obj, ...] = ()
    fill: Obj = field(default_factory=dict)
    patch: Obj = field(default_factory=dict)
    add_finalizers: tuple[str, ...] = ()
    remove_finalizers: tuple[str, ...] = ()
    events: tuple[EventTemplate, ...] = ()
    delete: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """The change of an object of a kind when all conditions match."""

    kind: str
    name: str
    when: tuple[Match, ...]
    then: StageNext
    delay: Delay = Delay()
    weight: Value | None = None
    limit: bool = False
    """Whether it competes with the next stage and replaces it if it is due earlier, like a deadline."""


Stages = tuple[Stage, ...]


@cache
def builtin_stages(kind: str) -> Stages:
    """The built-in stages of Pod or Node."""
    file = resources.files(__package__) / "stages" / f"{kind.lower()}.yaml"
    return load_stages(file.read_text(), file.name)


def load_stages(content: str, place: str) -> Stages:
    """Parse a stage file; raises InvalidDocument."""
    from sliceworks.base import yaml_documents

    stages: list[Stage] = []
    for document in yaml_documents.load_all(content, place):
        _check_fields(document.data, {"kind", "kinds", "stages"}, place)
        for kind in document.data.get("kinds") or (document.data["kind"],):
            for index, raw in enumerate(document.data["stages"]):
                stages.append(_stage(kind, raw, document.place("stages", index)))
    return tuple(stages)


def _stage(kind: str, raw: Obj, place: str) -> Stage:
    _check_fields(raw, {"name", "when", "delay", "weight", "limit", "next"}, place)
    weight = raw.get("weight")
    return Stage(
        kind,
        raw["name"],
        tuple(_match(item, place) for item in raw.get("when") or ()),
        _next(raw.get("next") or {}, place),
        _delay(raw.get("delay") or {}, place),
        None if weight is None else _value(weight, place),
        raw.get("limit", False),
    )


def _match(raw: Obj, place: str) -> Match:
    _check_fields(raw, {"path", "in", "notIn", "exists", "below", "is"}, place)
    if "is" in raw:
        return Match(named=raw["is"])
    return Match(
        path(raw["path"]),
        _strings(raw.get("in")),
        _strings(raw.get("notIn")),
        raw.get("exists"),
        _value(raw["below"], place) if "below" in raw else None,
    )


def _delay(raw: Obj, place: str) -> Delay:
    _check_fields(raw, {"seconds", "spread", "since", "most", "doubling"}, place)
    return Delay(
        _value(raw.get("seconds", 0), place),
        _value(raw.get("spread", 0), place),
        path(raw["since"]) if "since" in raw else None,
        _value(raw["most"], place) if "most" in raw else None,
        path(raw["doubling"]) if "doubling" in raw else None,
    )


def _next(raw: Obj, place: str) -> StageNext:
    names = {
        "containers",
        "final",
        "status",
        "conditions",
        "fill",
        "patch",
        "addFinalizers",
        "removeFinalizers",
        "events",
        "delete",
    }
    _check_fields(raw, names, place)
    return StageNext(
        _containers(raw["containers"], place) if "containers" in raw else None,
        raw.get("final", False),
        raw.get("status") or {},
        tuple(raw.get("conditions") or ()),
        raw.get("fill") or {},
        raw.get("patch") or {},
        tuple(raw.get("addFinalizers") or ()),
        tuple(raw.get("removeFinalizers") or ()),
        tuple(EventTemplate(event["reason"], event["message"], event.get("type", "Normal")) for event in raw.get("events") or ()),
        raw.get("delete", False),
    )


def _containers(raw: Obj, place: str) -> ContainerChange:
    _check_fields(raw, {"state", "which", "ready", "restarted", "reason", "message", "exitCode"}, place)
    return ContainerChange(
        raw.get("state", ""),
        raw.get("which", "all"),
        raw.get("ready", False),
        raw.get("restarted", False),
        _value(raw.get("reason", ""), place),
        _value(raw.get("message", ""), place),
        _value(raw.get("exitCode", 0), place),
    )


def _value(raw: Any, place: str) -> Value:
    if not isinstance(raw, dict):
        return Value(raw)
    _check_fields(raw, {"from", "default"}, place)
    sources = raw["from"]
    return Value(raw.get("default"), tuple(path(source) for source in ([sources] if isinstance(sources, str) else sources)))


def _strings(raw: list[Any] | None) -> frozenset[str] | None:
    return None if raw is None else frozenset(str(item) for item in raw)


def _check_fields(raw: Mapping[str, Any], names: set[str], place: str) -> None:
    if unknown := sorted(set(raw) - names):
        raise InvalidDocument(f"{unknown[0]}: unknown field of a stage (known: {', '.join(sorted(names))})", place=place)
