"""Printers, and cells that many kinds share: ages, selectors, containers, conditions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sliceworks.base import duration
from sliceworks.base.conditions import find_condition
from sliceworks.kube.selectors import from_label_selector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Row = Callable[[dict[str, Any], datetime], list[Any]]

Obj = dict[str, Any]
NONE, UNSET, UNKNOWN = "<none>", "<unset>", "<unknown>"


@dataclass(frozen=True, slots=True)
class Printer:
    """The columns of a kind, its rows, and the conditions of a row.

    A column is written `Name`, with `:integer` or another type, `:name` for the column that names the object, and `:wide` for one
    that only `-o wide` prints.
    """

    columns: tuple[str, ...]
    row: Row
    conditions: Callable[[Obj], list[dict[str, str]] | None] | None = None


def printer(columns: str, row: Row, conditions: Callable[[Obj], list[dict[str, str]] | None] | None = None) -> Printer:
    """A printer whose columns are separated by bars."""
    return Printer(tuple(name.strip() for name in columns.split("|")), row, conditions)


@lru_cache(maxsize=4096)
def parse_time(timestamp: str) -> datetime | None:
    """The time of a timestamp; None if it is malformed."""
    try:
        time = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def age_since(timestamp: str | None, now: datetime) -> str:
    """The time since a timestamp, as kubectl prints it."""
    start = parse_time(timestamp) if timestamp else None
    return UNKNOWN if start is None else duration.human((now - start).total_seconds())


def duration_between(start: str, end: str) -> str:
    """The time between two timestamps, as kubectl prints it."""
    first, last = parse_time(start), parse_time(end)
    return duration.human((last - first).total_seconds()) if first and last else UNKNOWN


def age(obj: Obj, now: datetime) -> str:
    return age_since(obj["metadata"].get("creationTimestamp"), now)


def name_of(obj: Obj) -> str:
    return str(obj["metadata"].get("name", ""))


def spec_of(obj: Obj) -> Obj:
    return obj.get("spec") or {}


def status_of(obj: Obj) -> Obj:
    return obj.get("status") or {}


def format_labels(values: dict[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(values.items())) if values else NONE


def format_selector(value: dict[str, Any] | None) -> str:
    """A label selector as a string, or <none>."""
    return str(from_label_selector(value)) or NONE


def format_go_selector(selector: Mapping[str, Any] | None) -> str:
    """A label selector as Go formats it."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{item['key']},Operator:{item['operator']},Values:[{' '.join(item.get('values') or ())}],}},"
        for item in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def container_cells(template: dict[str, Any] | None) -> list[str]:
    """Two cells of a pod template: the names and the images of its containers."""
    containers = ((template or {}).get("spec") or {}).get("containers") or []
    return [",".join(container.get(key, "") for container in containers) for key in ("name", "image")]


def first_few(listed: Iterable[str], shown: int, *, empty: str) -> str:
    """The first values of a list, and how many more there are."""
    values = list(listed)
    if not values:
        return empty
    joined = ",".join(values[:shown])
    return f"{joined} + {len(values) - shown} more..." if len(values) > shown else joined


def condition_status(obj: Obj, kind: str) -> str | None:
    """The status of a condition: True, False, Unknown, or None without that condition."""
    return find_condition(obj, kind).get("status")
