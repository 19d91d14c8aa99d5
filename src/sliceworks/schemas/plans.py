"""Where in a schema there is something to do: a tree of only those places, so that a walk over a value skips all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.schemas.model import Schema

Work = TypeVar("Work")


class Plan(Generic[Work]):
    """The work at one place, and the plans of the places below it."""

    __slots__ = ("fields", "items", "schema", "values", "work")

    def __init__(self, schema: Schema, work: Work | None) -> None:
        self.schema, self.work = schema, work
        self.fields: dict[str, Plan[Work]] = {}
        self.items: Plan[Work] | None = None
        self.values: Plan[Work] | None = None

    def __bool__(self) -> bool:
        return bool(self.work or self.fields or self.items is not None or self.values is not None)


def plan(schema: Schema, topic: str, work_of: Callable[[Schema], Work | None]) -> Plan[Work] | None:
    """The plan of a schema for one topic, or None when there is nothing to do in it. Made once and kept on the schema."""
    if topic in schema.planned:
        found: Plan[Work] | None = schema.planned[topic]
        return found
    made = Plan(schema, work_of(schema))
    # A recursive type meets its own unfinished plan here, which then counts as work: more walking, nothing missed.
    schema.planned[topic] = made
    for field, child in schema.properties.items():
        below = plan(child, topic, work_of)
        if below is not None:
            made.fields[field] = below
    if schema.items is not None:
        made.items = plan(schema.items, topic, work_of)
    if schema.additional is not None:
        made.values = plan(schema.additional, topic, work_of)
    schema.planned[topic] = made or None
    return made or None
