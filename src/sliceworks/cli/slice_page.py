"""What a person reads about one slice, or about the slices of a JobSet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, duration, tables
from sliceworks.base.conditions import condition
from sliceworks.controllers.slices import reading, words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.cli.slice_sources import Found
    from sliceworks.cli.slice_views import SliceView


def page(found: Found) -> str:
    """The page of what a name stands for."""
    if found.slices and found.slices[0].name == found.name:
        return _slice(found)
    return _jobset(found)


def _slice(found: Found) -> str:
    view = found.slices[0]
    facts = [(label, text) for label, text in _facts(view, found.jobset) if text]
    width = max(len(label) for label, _ in facts) + 2
    lines = [f"{label:<{width}}{text}" for label, text in facts]
    if found.nodes:
        rows = [_node(node) for node in found.nodes]
        lines += ["", tables.render(("node", "ready", "zone", "age"), rows).rstrip("\n")]
    return "\n".join(lines)


def _facts(view: SliceView, jobset: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    pool, price = view.pool, view.price
    yield "Slice", view.name
    yield "Type", f"{view.type_name}, topology {pool.topology}" if pool.topology else view.type_name
    yield "Hosts", f"{view.ready} of {pool.nodes} ready, {pool.machine}"
    yield "Zone", pool.zone
    yield "Capacity", view.capacity
    yield "State", f"{view.state} ({pool.status})"
    yield "Message", view.message
    yield "Owner", f"JobSet {view.owner}, Job {pool.job.name}" if view.owner else "not made for a JobSet"
    yield "Its slices", _condition(jobset)
    yield "Try", str(pool.attempt + 1) if pool.attempt else ""
    yield "Age", _age(view)
    yield "USD per hour", f"{price} ({price.source.title}, {price.source.date})" if price else "unknown"


def _jobset(found: Found) -> str:
    ended = reading.read_jobset(found.jobset).ended if found.jobset is not None else "gone"
    lines = [f"JobSet {found.name}"]
    if ended:
        lines.append(f"It has {ended}." if ended != "gone" else "It is gone.")
    elif text := _condition(found.jobset):
        lines.append(text)
    if not found.slices:
        return "\n".join([*lines, "It has no slices."])
    rows = [
        (
            view.name,
            view.type_name,
            f"{view.ready}/{view.pool.nodes}",
            view.pool.zone,
            view.capacity,
            view.state,
            view.price or "unknown",
        )
        for view in found.slices
    ]
    columns = ("slice", "type", "hosts", "zone", "capacity", "state", "usd/hour")
    lines += ["", tables.render(columns, rows).rstrip("\n")]
    lines += [f"{view.name}: {view.message}" for view in found.slices if view.message]
    return "\n".join(lines)


def _condition(jobset: dict[str, Any] | None) -> str:
    """What the controller says of the JobSet's slices as a whole."""
    told = condition(jobset, words.JOBSET_CONDITION)
    return f"{told.get('reason')}: {told.get('message')}" if told else ""


def _node(node: dict[str, Any]) -> tuple[object, ...]:
    metadata = node["metadata"]
    ready = condition(node, "Ready").get("status", "Unknown")
    born = clock.parse(metadata.get("creationTimestamp"))
    age = duration.human(clock.since(born).total_seconds()) if born else "unknown"
    return (metadata["name"], ready, (metadata.get("labels") or {}).get(words.ZONE), age)


def _age(view: SliceView) -> str:
    return duration.human(clock.since(view.created).total_seconds()) if view.created else ""
