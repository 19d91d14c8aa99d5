"""Stages: what becomes of an object in some state, when, and how likely. They are data; this reads and checks them.

A document names a kind, or several, and lists stages in order: the first that matches is the one that happens. Stages that carry
a `weight` share the decision: of those that match, one is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import InvalidDocument
from sliceworks.twin.nodes.paths import Path, path

if TYPE_CHECKING:
    from collections.abc import Mapping

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Value:
    """Something written down, or read from the first of some paths that leads anywhere."""

    literal: Any = None
    paths: tuple[Path, ...] = ()

    def of(self, obj: Obj, node: Obj | None) -> Any:
        """What it is for this object."""
        for each in self.paths:
            found = each.first(obj, node)
            if found is not None:
                return found
        return self.literal


@dataclass(frozen=True, slots=True)
class Match:
    """One thing that must hold: a path leads to one of some values or to none of them, exists or not, is below a number, or the
    object is in a state that has a name."""

    path: Path | None = None
    within: frozenset[str] | None = None
    outside: frozenset[str] | None = None
    exists: bool | None = None
    below: Value | None = None
    named: str = ""


@dataclass(frozen=True, slots=True)
class Delay:
    """How long after what: `seconds` after the time at `since`, or after the state was first seen. `spread` adds up to so many
    seconds more; with `doubling` the seconds double with each count at that path. Never above `most`."""

    seconds: Value = Value(0)
    spread: Value = Value(0)
    since: Path | None = None
    most: Value | None = None
    doubling: Path | None = None


@dataclass(frozen=True, slots=True)
class ContainerChange:
    """What becomes of a pod's containers: all of them, those the stage's annotation names, or those that are to be restarted."""

    state: str = ""
    which: str = "all"
    ready: bool = False
    restarted: bool = False
    reason: Value = Value("")
    message: Value = Value("")
    exit_code: Value = Value(0)


@dataclass(frozen=True, slots=True)
class Told:
    """An event."""

    reason: str
    message: str
    type: str = "Normal"


@dataclass(frozen=True, slots=True)
class Next:
    """What a stage does: change containers, write into the status (`fill` only where nothing is yet) or the object itself, tell of
    it, delete."""

    containers: ContainerChange | None = None
    final: bool = False
    status: Obj = field(default_factory=dict)
    conditions: tuple[Obj, ...] = ()
    fill: Obj = field(default_factory=dict)
    patch: Obj = field(default_factory=dict)
    add_finalizers: tuple[str, ...] = ()
    remove_finalizers: tuple[str, ...] = ()
    events: tuple[Told, ...] = ()
    delete: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """What becomes of an object of a kind when all matches hold."""

    kind: str
    name: str
    when: tuple[Match, ...]
    then: Next
    delay: Delay = Delay()
    weight: Value | None = None
    limit: bool = False
    """Whether it waits beside the stage that comes next, and takes its place when its own time comes first."""


Stages = tuple[Stage, ...]


@cache
def built_in(kind: str) -> Stages:
    """The stages that come with the twin, for Pod or Node."""
    file = resources.files(__package__) / "stages" / f"{kind.lower()}.yaml"
    return load(file.read_text(), file.name)


def load(text: str, place: str) -> Stages:
    """The stages of a file. InvalidDocument says what is wrong with one."""
    from sliceworks.base import yamls

    found: list[Stage] = []
    for document in yamls.load_all(text, place):
        _known(document.data, {"kind", "kinds", "stages"}, place)
        for kind in document.data.get("kinds") or (document.data["kind"],):
            for index, raw in enumerate(document.data["stages"]):
                found.append(_stage(kind, raw, document.place("stages", index)))
    return tuple(found)


def _stage(kind: str, raw: Obj, place: str) -> Stage:
    _known(raw, {"name", "when", "delay", "weight", "limit", "next"}, place)
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
    _known(raw, {"path", "in", "notIn", "exists", "below", "is"}, place)
    if "is" in raw:
        return Match(named=raw["is"])
    return Match(
        path(raw["path"]),
        _texts(raw.get("in")),
        _texts(raw.get("notIn")),
        raw.get("exists"),
        _value(raw["below"], place) if "below" in raw else None,
    )


def _delay(raw: Obj, place: str) -> Delay:
    _known(raw, {"seconds", "spread", "since", "most", "doubling"}, place)
    return Delay(
        _value(raw.get("seconds", 0), place),
        _value(raw.get("spread", 0), place),
        path(raw["since"]) if "since" in raw else None,
        _value(raw["most"], place) if "most" in raw else None,
        path(raw["doubling"]) if "doubling" in raw else None,
    )


def _next(raw: Obj, place: str) -> Next:
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
    _known(raw, names, place)
    return Next(
        _containers(raw["containers"], place) if "containers" in raw else None,
        raw.get("final", False),
        raw.get("status") or {},
        tuple(raw.get("conditions") or ()),
        raw.get("fill") or {},
        raw.get("patch") or {},
        tuple(raw.get("addFinalizers") or ()),
        tuple(raw.get("removeFinalizers") or ()),
        tuple(Told(event["reason"], event["message"], event.get("type", "Normal")) for event in raw.get("events") or ()),
        raw.get("delete", False),
    )


def _containers(raw: Obj, place: str) -> ContainerChange:
    _known(raw, {"state", "which", "ready", "restarted", "reason", "message", "exitCode"}, place)
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
    _known(raw, {"from", "default"}, place)
    sources = raw["from"]
    return Value(raw.get("default"), tuple(path(text) for text in ([sources] if isinstance(sources, str) else sources)))


def _texts(raw: list[Any] | None) -> frozenset[str] | None:
    return None if raw is None else frozenset(str(item) for item in raw)


def _known(raw: Mapping[str, Any], names: set[str], place: str) -> None:
    if odd := sorted(set(raw) - names):
        raise InvalidDocument(f"a stage has no field {odd[0]!r}: there are {', '.join(sorted(names))}", place=place)
