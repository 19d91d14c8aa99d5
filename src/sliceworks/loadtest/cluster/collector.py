"""Collects the request log of one worker pod while it runs, and verifies digests at the end."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from sliceworks.loadtest.runner import Listener

    SendRequest = Callable[[str, str], Awaitable[bytes]]
    """Sends a request to the pod: method and path."""
    TerminationReason = Callable[[], Awaitable[str]]
    """Why the pod has terminated, or an empty string while it may still respond."""

_SILENCE_TIMEOUT = 60.0
FILE_KINDS = ("rows", "chunks", "texts")
"""The files of a worker, in the order of a response: rows come before the chunks they refer to."""

TOKEN_HEADER = "x-load-token"
"""The header with the token: the API server's proxy does not forward Authorization."""


@dataclass(frozen=True, slots=True)
class AgentReport:
    """New progress lines, new parts of the files, and the digests of all files once the worker has finished."""

    lines: list[dict[str, Any]]
    parts: dict[str, bytes]
    name: str = ""
    ended: bool = False
    problem: str = ""
    digests: dict[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The body of a response: a line of JSON with all but the parts, and the parts."""
        parts = [self.parts.get(kind, b"") for kind in FILE_KINDS]
        head = {"lines": self.lines, "name": self.name, "ended": self.ended, "problem": self.problem, "digests": self.digests}
        return orjson.dumps({**head, "sizes": list(map(len, parts))}) + b"\n" + b"".join(parts)


def decode_report(response: bytes) -> AgentReport:
    """Parse a response; raise ValueError if it is truncated."""
    line, newline, rest = response.partition(b"\n")
    if not newline:
        raise ValueError("truncated response")
    head = orjson.loads(line)
    parts, offset = {}, 0
    for kind, size in zip(FILE_KINDS, head.pop("sizes"), strict=True):
        parts[kind] = rest[offset : offset + size]
        offset += size
    if offset != len(rest):
        raise ValueError(f"response has {len(rest)} bytes, expected {offset}")
    return AgentReport(parts=parts, **head)


@dataclass(slots=True)
class Collector:
    """Collects the log of one pod into a folder."""

    index: int
    send: SendRequest
    termination_reason: TerminationReason
    folder: Path
    interval: float = 1.0
    lost: str = ""
    """Why the log is incomplete; empty if it is complete."""
    _sizes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FILE_KINDS, 0))
    _lines: int = 0
    _name: str = ""

    async def collect(self, listener: Listener) -> None:
        """Collect until the log is complete or the pod is lost."""
        last_response = clock.loop_time()
        while True:
            try:
                report = decode_report(await self.send("GET", self._poll_path()))
            except (SliceworksError, ValueError) as error:
                reason = await self.termination_reason()
                if reason or clock.loop_time() - last_response > _SILENCE_TIMEOUT:
                    self.lost = reason or f"no response: {error}"
                    return
                await clock.sleep(self.interval)
                continue
            last_response = clock.loop_time()
            try:
                self._append(report)
            except OSError as error:
                self.lost = f"cannot write its log: {error.strerror or error}"
                listener.stop(self.lost)
                return
            for line in report.lines:
                listener.handle_line(self.index, line)
            if report.ended:
                self.lost = report.problem or self._verify_digests(report.digests)
                return
            if not any(report.parts.values()) or not report.lines:
                await clock.sleep(self.interval)

    def _poll_path(self) -> str:
        sizes = "&".join(f"{kind}={self._sizes[kind]}" for kind in FILE_KINDS)
        return f"/report?lines={self._lines}&{sizes}"

    def _append(self, report: AgentReport) -> None:
        """Append new parts; chunks first, so that no row refers to missing chunks."""
        self._lines += len(report.lines)
        self._name = report.name or self._name
        for kind in reversed(FILE_KINDS):
            if part := report.parts[kind]:
                with (self.folder / f"{self._name}.{kind}").open("ab") as file:
                    file.truncate(self._sizes[kind])  # overwrite what a full disk truncated
                    file.write(part)
                self._sizes[kind] += len(part)

    def _verify_digests(self, digests: dict[str, str]) -> str:
        """Verify the digests of all files."""
        for kind, digest in digests.items():
            file = self.folder / f"{self._name}.{kind}"
            file.touch()
            with file.open("rb") as source:
                if hashlib.file_digest(source, "sha256").hexdigest() != digest:
                    return f"its {kind} are incomplete"
        return ""
