"""What a job that was just submitted can expect: one line, from a short forecast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import duration, progress

if TYPE_CHECKING:
    from sliceworks.kube import Client
    from sliceworks.rehearsal.forecast.outlook import Expectation


async def tell(client: Client, jobset: dict[str, Any]) -> None:
    """Say when it will start; nothing where that takes too long to find out, or may not be known."""
    from sliceworks.rehearsal.forecast.quick import expectation

    found = await expectation(client, jobset)
    if found is not None:
        progress.say(words(found))


def words(found: Expectation) -> str:
    """The line."""
    name = found.job.name
    if found.verdict == "never":
        return f"{name} never starts: {found.reason}."
    if found.starts is None:
        return f"It cannot be told when {name} starts: {found.reason}."
    first = found.starts
    if first.high < 1:
        return f"{name} starts at once."
    span = f"90 %: {duration.human(first.low)} – {duration.human(first.high)}"
    return f"{name} starts in about {duration.human(first.median)} ({span}). See: sliceworks train forecast {name}"
