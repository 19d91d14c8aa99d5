"""Logs of many pods, read at once and put into the order of time."""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.base.errors import BadRequest, NotFound, SliceworksError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.kube import Client
    from sliceworks.kube.options import LogOptions
    from sliceworks.training.choosing import Source

_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Part:
    """How much of each log."""

    tail: int | None = None
    since: int | None = None

    def options(self, source: Source) -> LogOptions:
        """What to ask a server for; times are always asked for, since lines are put in order by them."""
        found: LogOptions = {"container": source.container, "timestamps": True}
        if self.tail is not None:
            found["tail_lines"] = self.tail
        if self.since is not None:
            found["since_seconds"] = self.since
        if source.previous:
            found["previous"] = True
        return found


@dataclass(frozen=True, slots=True)
class Line:
    """One line of one host."""

    at: str
    text: str
    source: Source


def split(text: str, source: Source) -> Line:
    """A line as a server sends it, its time in front."""
    at, space, rest = text.partition(" ")
    return Line(at, rest, source) if space or at.endswith("Z") else Line("", text, source)


async def read_all(client: Client, sources: Iterable[Source], part: Part) -> Iterator[Line]:
    """All lines of all of them, by time. A pod that is gone meanwhile has none."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def read(source: Source) -> list[Line]:
        async with gate:
            text = await _text(client, source, part)
        return [split(each, source) for each in text.splitlines()]

    found = await asyncio.gather(*(read(each) for each in sources))
    return heapq.merge(*found, key=lambda line: line.at)


async def _text(client: Client, source: Source, part: Part) -> str:
    metadata = source.pod["metadata"]
    try:
        return await client.logs(metadata["name"], metadata["namespace"], **part.options(source))
    except NotFound as error:
        if not error.details:  # a pod that is gone would be named
            raise no_processes() from error
        return ""
    except BadRequest:
        return ""


def no_processes() -> SliceworksError:
    """A twin that only plays pods."""
    return SliceworksError(
        "this twin plays pods and runs no programs, so nothing is written", hint="sliceworks twin start --processes runs them"
    )
