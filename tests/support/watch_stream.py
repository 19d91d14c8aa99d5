"""A watch in a test: events in order, each read with a deadline."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, Any, Self

import orjson

if TYPE_CHECKING:
    import http.client


class Watch:
    """An open watch stream; a read that exceeds the connection's timeout fails the test."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._response = response
        self.status = response.status
        self.content_type = response.getheader("Content-Type", "")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._response.close()
        self._connection.close()

    def hang_up(self) -> None:
        """Close a stream that another thread reads."""
        if self._connection.sock is not None:
            with contextlib.suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)

    def body(self) -> Any:
        """The JSON body of a rejected watch."""
        return orjson.loads(self._response.read())

    def event(self) -> dict[str, Any] | None:
        """The next event, None after the server ended the stream."""
        line = self._response.readline()
        return orjson.loads(line) if line.strip() else None

    def next(self) -> dict[str, Any]:
        """The next event; fails if the stream has ended."""
        event = self.event()
        assert event is not None, "the watch ended"
        return event

    def take(self, count: int) -> list[tuple[str, str]]:
        """The next events as (type, name)."""
        return [brief(self.next()) for _ in range(count)]

    def rest(self) -> list[dict[str, Any]]:
        """All events until the server ends the stream."""
        events = []
        while (event := self.event()) is not None:
            events.append(event)
        return events

    def until(self, kind: str, name: str = "") -> list[dict[str, Any]]:
        """The events up to and including the first of this type (and name)."""
        events = []
        while True:
            events.append(self.next())
            if events[-1]["type"] == kind and (not name or events[-1]["object"]["metadata"].get("name") == name):
                return events


def brief(event: dict[str, Any]) -> tuple[str, str]:
    """An event as (type, name)."""
    return event["type"], event["object"].get("metadata", {}).get("name", "")
