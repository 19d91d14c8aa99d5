"""What the rows of many kinds have in common."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sliceworks.base import duration
from sliceworks.kube.selectors import from_label_selector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Row = Callable[[dict[str, Any], datetime], list[Any]]

Obj = dict[str, Any]
NONE, UNSET, UNKNOWN = "<none>", "<unset>", "<unknown>"


@dataclass(frozen=True, slots=True)
class Kind:
    """The columns of a kind and its rows.

    A column is written `Name`, with `:integer` or another type, `:name` for the column that names the object, and `:wide` for one
    that only `-o wide` shows.
    """

    columns: tuple[str, ...]
    row: Row


def kind(columns: str, row: Row) -> Kind:
    """A kind; its columns are separated by bars."""
    return Kind(tuple(name.strip() for name in columns.split("|")), row)


@lru_cache(maxsize=4096)
def moment(text: str) -> datetime | None:
    """The time that a timestamp names."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def since(text: str | None, now: datetime) -> str:
    """How long ago it was."""
    then = moment(text) if text else None
    return UNKNOWN if then is None else duration.human((now - then).total_seconds())


def between(start: str, end: str) -> str:
    """How long it took."""
    first, last = moment(start), moment(end)
    return duration.human((last - first).total_seconds()) if first and last else UNKNOWN


def age(obj: Obj, now: datetime) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)


def name(obj: Obj) -> str:
    return str(obj["metadata"].get("name", ""))


def spec(obj: Obj) -> Obj:
    return obj.get("spec") or {}


def status(obj: Obj) -> Obj:
    return obj.get("status") or {}


def labels(values: dict[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(values.items())) if values else NONE


def selector(value: dict[str, Any] | None) -> str:
    """A label selector as text, or <none>."""
    return str(from_label_selector(value)) or NONE


def containers(template: dict[str, Any] | None) -> list[str]:
    """The cells of a pod template's containers: their names and their images."""
    found = ((template or {}).get("spec") or {}).get("containers") or []
    return [",".join(one.get("name", "") for one in found), ",".join(one.get("image", "") for one in found)]


def more_than(listed: Iterable[str], shown: int, *, empty: str) -> str:
    """The first few of a list, and how many more there are."""
    found = list(listed)
    if not found:
        return empty
    text = ",".join(found[:shown])
    return f"{text} + {len(found) - shown} more..." if len(found) > shown else text


def condition(obj: Obj, wanted: str) -> str | None:
    """The status of a condition: True, False or Unknown."""
    for one in status(obj).get("conditions") or ():
        if one.get("type") == wanted:
            found: str | None = one.get("status")
            return found
    return None
