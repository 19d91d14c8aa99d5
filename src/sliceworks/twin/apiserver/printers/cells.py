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
    Cell = Callable[[dict[str, Any], datetime], Any]
    RowConditions = Callable[[dict[str, Any]], list[dict[str, str]] | None]

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
    conditions: RowConditions | None = None


def printer(
    columns: str, cells: Row | None = None, *, name: Cell | None = None, conditions: RowConditions | None = None
) -> Printer:
    """A printer whose columns are separated by bars.

    A column shows the field, or the length of the field, after its equals sign. `Name` and `Age` show the same in all kinds.
    `cells` returns all other cells.
    """
    known: dict[str, Cell] = {"Name": name or name_of, "Age": age}
    titles: list[str] = []
    sources: list[Cell | None] = []
    for column in columns.split("|"):
        title, _, path = column.strip().partition("=")
        titles.append(title)
        sources.append(_field_cell(title, path) if path else known.get(title.partition(":")[0]))

    def row(obj: Obj, now: datetime) -> list[Any]:
        others = iter(cells(obj, now) if cells is not None else ())
        return [next(others) if source is None else source(obj, now) for source in sources] + list(others)

    return Printer(tuple(titles), row, conditions)


def _field_cell(column: str, path: str) -> Cell:
    """The cell of a field: `spec.type`, `len(spec.rules)`, or `spec.replicas or 0` for a number in a column of strings."""
    path, is_number, _ = path.partition(" or 0")
    counts = path.startswith("len(")
    default: Any = () if counts else 0 if is_number or ":integer" in column else False if ":boolean" in column else ""
    *parents, field = path.removeprefix("len(").removesuffix(")").split(".")

    def cell(obj: Obj, now: datetime) -> Any:
        for parent in parents:
            obj = obj.get(parent) or {}
        value = obj.get(field) or default
        return len(value) if counts else value

    return cell


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


def name_of(obj: Obj, now: datetime) -> str:
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


def first_few(listed: Iterable[str], shown: int, *, empty: str, separator: str = ",") -> str:
    """The first values of a list, and how many more there are."""
    values = list(listed)
    if not values:
        return empty
    joined = separator.join(values[:shown])
    return f"{joined} + {len(values) - shown} more..." if len(values) > shown else joined


def condition_status(obj: Obj, kind: str) -> str | None:
    """The status of a condition: True, False, Unknown, or None without that condition."""
    return find_condition(obj, kind).get("status")
