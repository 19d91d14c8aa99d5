"""Reads, merges, follows and prints the logs of many pods."""

from __future__ import annotations

import asyncio
import heapq
import sys
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import BadRequest, NotFound, SliceworksError, Unreachable
from sliceworks.base.stream_decoder import read_lines
from sliceworks.cli.train_client import watch_job
from sliceworks.training import log_source
from sliceworks.training.status import FINISHED_STATES, job_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.cli.train_client import JobSnapshot
    from sliceworks.kube import Client
    from sliceworks.kube.requests import LogOptions
    from sliceworks.training.log_source import LogSource, PodSelection

_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class LogWindow:
    """Which part of each log to read."""

    tail: int | None = None
    since: int | None = None

    def options(self, source: LogSource) -> LogOptions:
        """Return the query parameters; timestamps are always requested, to sort lines."""
        log_options: LogOptions = {"container": source.container, "timestamps": True}
        if self.tail is not None:
            log_options["tail_lines"] = self.tail
        if self.since is not None:
            log_options["since_seconds"] = self.since
        if source.previous:
            log_options["previous"] = True
        return log_options


@dataclass(frozen=True, slots=True)
class LogLine:
    """One log line of one host."""

    at: str
    text: str
    source: LogSource


def parse_line(text: str, source: LogSource) -> LogLine:
    """Parse a line that starts with its timestamp."""
    at, space, rest = text.partition(" ")
    return LogLine(at, rest, source) if space or at.endswith("Z") else LogLine("", text, source)


async def read_logs(client: Client, sources: Iterable[LogSource], part: LogWindow) -> Iterator[LogLine]:
    """Read all lines of all pods, sorted by time. A deleted pod has none."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def read(source: LogSource) -> list[LogLine]:
        async with gate:
            text = await _text(client, source, part)
        return [parse_line(splitline, source) for splitline in text.splitlines()]

    streams = await asyncio.gather(*(read(item) for item in sources))
    return heapq.merge(*streams, key=lambda line: line.at)


async def _text(client: Client, source: LogSource, part: LogWindow) -> str:
    metadata = source.pod["metadata"]
    try:
        return await client.logs(metadata["name"], metadata["namespace"], **part.options(source))
    except NotFound as error:
        if not error.details:  # the error for a deleted pod has details
            raise logs_unavailable() from error
        return ""
    except BadRequest:
        return ""


def logs_unavailable() -> SliceworksError:
    """Return the error for a twin that simulates pods."""
    return SliceworksError(
        "this twin only simulates pods, so they have no logs", hint="run programs with: sliceworks twin start --processes"
    )


_COLORS = ("36", "33", "32", "35", "34", "96", "93", "92", "95", "94")


class LogPrinter:
    """Prints log lines, with a prefix and a color for each host."""

    def __init__(self, *, as_json: bool = False, timestamps: bool = False, single_source: bool = False) -> None:
        self._as_json, self._timestamps, self._single_source = as_json, timestamps, single_source
        self._colored = progress.is_colored(sys.stdout)
        self._colors: dict[str, str] = {}

    def write(self, line: LogLine) -> None:
        """Print one line."""
        if self._as_json:
            import orjson

            host = line.source.host
            fields = {"at": line.at or None, "job": host.job, "slice": host.slice, "host": host.index, "attempt": host.attempt}
            click.echo(orjson.dumps({**fields, "pod": host.pod, "line": line.text}))
            return
        stamp = f"{line.at} " if self._timestamps else ""
        click.echo(f"{self._prefix(line)}{stamp}{line.text}")

    def _prefix(self, line: LogLine) -> str:
        if self._single_source:
            return ""
        label = line.source.host.label
        if not self._colored:
            return f"{label} | "
        color = self._colors.setdefault(label, _COLORS[len(self._colors) % len(_COLORS)])
        return f"\x1b[{color}m{label} |\x1b[0m "


Object = dict[str, Any]
_AGAIN = 0.5


class LogFollower:
    """Follows the logs of a job through restarts."""

    def __init__(self, client: Client, jobset: Object, choice: PodSelection, part: LogWindow, printer: LogPrinter) -> None:
        self._client, self._jobset, self._choice, self._part, self._printer = client, jobset, choice, part, printer
        self._tails: dict[str, asyncio.Task[None]] = {}
        self._pods: dict[str, LogSource] = {}
        self._attempt = 0

    async def run(self) -> None:
        """Run until the job has ended and all of its output is printed."""
        try:
            async with asyncio.TaskGroup() as group:
                await self._run(group)
        except ExceptionGroup as several:
            raise several.exceptions[0] from None

    async def _run(self, group: asyncio.TaskGroup) -> None:
        async with watch_job(self._client, self._jobset) as follower, aclosing(follower.snapshots()) as snapshots:
            async for snapshot in snapshots:
                self._take(snapshot, group)
                # Watches are not ordered: the end of the job can arrive before the end of its pods.
                if (snapshot.is_deleted or job_state(snapshot.jobset) in FINISHED_STATES) and not self._goes_on():
                    break
            await asyncio.gather(*self._tails.values())

    def _take(self, snapshot: JobSnapshot, group: asyncio.TaskGroup) -> None:
        """Follow every pod that has started since the last call."""
        sources = log_source.list_sources(snapshot.jobset, snapshot.pods, self._choice)
        self._pods = {item.uid: item for item in sources}
        for source in sources:
            if source.started and source.uid not in self._tails:
                if self._tails and source.host.attempt > self._attempt:
                    progress.say(f"{snapshot.jobset['metadata']['name']} restarted: attempt {source.host.attempt}")
                self._attempt = max(self._attempt, source.host.attempt)
                self._tails[source.uid] = group.create_task(_Tail(self, source).run())

    def _goes_on(self) -> bool:
        """Whether a followed pod may still write."""
        return any(uid in self._tails and not source.ended for uid, source in self._pods.items())

    def now(self, source: LogSource) -> LogSource | None:
        """Return the current state of the pod; None if it was deleted."""
        return self._pods.get(source.uid)


class _Tail:
    """Follows the log of one pod; after a lost connection it resumes after the last printed line."""

    def __init__(self, home: LogFollower, source: LogSource) -> None:
        self._home, self._source = home, source
        self._last, self._same = "", 0

    async def run(self) -> None:
        """Run until the container has terminated for the last time."""
        while True:
            try:
                await self._stream()
            except NotFound as error:
                if not error.details:
                    raise logs_unavailable() from error
                return
            except (Unreachable, BadRequest):
                pass  # lost connection, or a restarting container
            now = self._home.now(self._source)
            if now is None or now.ended:
                return
            await asyncio.sleep(_AGAIN)

    async def _stream(self) -> None:
        options, metadata = self._home._part.options(self._source), self._source.pod["metadata"]
        if self._last:
            options = {"container": self._source.container, "timestamps": True, "since_time": self._last}
        skip = self._last, self._same
        stream = self._home._client.follow_logs(metadata["name"], metadata["namespace"], **options)
        async with aclosing(stream) as chunks:
            async for lines in read_lines(chunks):
                for line in lines:
                    skip = self._show(line.decode(errors="replace"), skip)

    def _show(self, text: str, skip: tuple[str, int]) -> tuple[str, int]:
        """Print a line unless already printed: `skip` is the last timestamp, and the number of lines that had it."""
        line = parse_line(text, self._source)
        before, count = skip
        if before and (line.at < before or (line.at == before and count > 0)):
            return before, count - (line.at == before)
        self._same = self._same + 1 if line.at == self._last else 1
        self._last = line.at
        self._home._printer.write(line)
        return skip
