"""Reports breaking changes between two versions of a generated CustomResourceDefinition. Pure.

A change is breaking if it can invalidate an existing object or removes a field: removed properties, changed types, newly required
fields, narrower enums, patterns and bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.kube.resources import Object

_MAX_SHOWN = 3
_ABSENT = object()
# The name of a bound in messages, and whether a higher value is narrower.
_BOUNDS = {
    "minimum": ("Minimum", True),
    "maximum": ("Maximum", False),
    "minLength": ("MinLength", True),
    "maxLength": ("MaxLength", False),
    "minItems": ("MinItems", True),
    "maxItems": ("MaxItems", False),
}


@dataclass(slots=True)
class Report:
    """The changes: a message per breaking one, and whether there are others."""

    breaking: list[str] = field(default_factory=list)
    other: bool = False

    @property
    def changed(self) -> bool:
        """Whether there is any change."""
        return self.other or bool(self.breaking)

    def __str__(self) -> str:
        more = len(self.breaking) - _MAX_SHOWN
        return "; ".join(self.breaking[:_MAX_SHOWN] + ([f"and {more} more changes"] if more > 0 else []))


def compare(old: Object, new: Object) -> Report:
    """Compare two entries of `spec.versions` of one kind."""
    report = Report()
    if old["name"] != new["name"]:
        report.breaking.append(f"Type changed from {old['name']} to {new['name']}")
        return report
    _compare(old["schema"]["openAPIV3Schema"], new["schema"]["openAPIV3Schema"], report)
    if old.get("served") and not new.get("served"):
        report.breaking.append("Type changed from true to false")
    if "status" in (old.get("subresources") or {}) and "status" not in (new.get("subresources") or {}):
        report.breaking.append("Property status was removed")
    if (old.get("additionalPrinterColumns") or []) != (new.get("additionalPrinterColumns") or []):
        report.other = True
    return report


def _compare(old: Object, new: Object, report: Report) -> None:
    if _without_children(old) != _without_children(new):
        report.other = True
    if old.get("type") != new.get("type"):
        report.breaking.append(f"Type changed from {old.get('type', '')} to {new.get('type', '')}")
        return
    report.breaking += _patterns(old.get("pattern"), new.get("pattern"))
    for name, (word, higher_is_narrower) in _BOUNDS.items():
        report.breaking += _bound(word, old.get(name), new.get(name), higher_is_narrower)
    _properties(old, new, report)
    report.breaking += _required(old, new)
    report.breaking += _enums(old.get("enum") or [], new.get("enum") or [])
    _items(old, new, report)


def _without_children(schema: Object) -> Object:
    """A schema without its child schemas."""
    return {name: value for name, value in schema.items() if name not in ("properties", "items")}


def _patterns(old: str | None, new: str | None) -> Iterator[str]:
    if new and not old:
        yield f"Validation pattern {new} was added"
    elif new and old != new:
        yield f"Validation pattern changed from {old} to {new}"


def _bound(word: str, old: float | None, new: float | None, higher_is_narrower: bool) -> Iterator[str]:
    if new is None or old == new:
        return
    if old is None:
        yield f"{word} constraint {_number(new)} was added"
    elif (new > old) is higher_is_narrower:
        yield f"{word} was {'increased' if higher_is_narrower else 'decreased'} from {_number(old)} to {_number(new)}"


def _properties(old: Object, new: Object, report: Report) -> None:
    before, after = old.get("properties") or {}, new.get("properties") or {}
    for name, schema in before.items():
        if name in after:
            _compare(schema, after[name], report)
        else:
            report.breaking.append(f"Property {name} was removed")
    for name in after.keys() - before.keys():
        if name in (new.get("required") or ()) and "default" not in after[name]:
            report.breaking.append(f"Required property {name} was added")
        else:
            report.other = True


def _required(old: Object, new: Object) -> Iterator[str]:
    before, after = set(old.get("required") or ()), set(new.get("required") or ())
    known, now = old.get("properties") or {}, new.get("properties") or {}
    for name in sorted(after & known.keys()):
        if name not in before:
            yield f"Field {name} is newly required"
        elif "default" in known[name] and "default" not in now.get(name, {}):
            yield f"Default value removed from required field {name}"


def _enums(old: list[Any], new: list[Any]) -> Iterator[str]:
    if old and new:
        yield from (f"Enum value {orjson.dumps(value).decode()} was removed" for value in old if value not in new)


def _items(old: Object, new: Object, report: Report) -> None:
    before, after = old.get("items", _ABSENT), new.get("items", _ABSENT)
    if isinstance(before, dict) and isinstance(after, dict):
        _compare(before, after, report)
    elif isinstance(before, dict):
        report.breaking.append("Property items was removed")
    elif isinstance(after, dict):
        report.other = True


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
