"""The lines of a watch, read into events."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import orjson

from sliceworks.base.errors import ApiError, Unreachable, from_status
from sliceworks.kube.decoding import without_collector

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from sliceworks.kube.resources import Object


class Event(NamedTuple):
    """One change that a watch tells of: ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: Object


Batch: TypeAlias = list[Event]

_AT_ONCE = 500  # decoded events take ten times the room of their lines


async def batches(stream: AsyncIterator[bytes]) -> AsyncGenerator[Batch, None]:
    """Events as they arrive, many together. What came before an ERROR is given before it is raised."""
    rest = b""
    async for piece in stream:
        lines = (rest + piece).split(b"\n") if rest else piece.split(b"\n")
        rest = lines.pop()
        for start in range(0, len(lines), _AT_ONCE):
            some = lines[start : start + _AT_ONCE]
            events, error = without_collector(decode, some) if len(piece) > 1 << 15 else decode(some)
            if events:
                yield events
            if error is not None:
                raise error
    if rest.strip():
        # The server ends a line before it ends a watch: half a line means that the connection broke.
        raise Unreachable("the watch broke off in the middle of an event")


def decode(lines: list[bytes]) -> tuple[list[Event], ApiError | None]:
    """The events in these lines, up to an ERROR, and that error."""
    events: list[Event] = []
    loads = orjson.loads
    for line in lines:
        if not line:
            continue
        try:
            event = loads(line)
            kind, obj = event["type"], event["object"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise Unreachable("the watch sent something that is no event") from error
        if kind == "ERROR":
            return events, from_status(obj.get("code") or 500, obj)
        events.append(Event(kind, obj))
    return events, None
