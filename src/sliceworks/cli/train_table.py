"""The table of training jobs: filter, rows, and updates with `-w`."""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import clock, duration, progress, tables
from sliceworks.base.conditions import find_condition
from sliceworks.cli import train_client
from sliceworks.cli.output import Report
from sliceworks.kube.resources import JOBSET
from sliceworks.training.slice_request import slice_size
from sliceworks.training.status import (
    ACTIVE_STATES,
    FINISHED_STATES,
    PENDING_STATES,
    PRIORITY_LABEL,
    QUEUE_LABEL,
    TYPE_LABEL,
    final_condition,
    job_state,
    pod_spec,
    workers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sliceworks.kube import Client

Object = dict[str, Any]
Row = tuple[object, ...]
_COLUMNS = ("name", "queue", "priority", "type", "slices", "state", "restarts", "age")
_WIDE = (*_COLUMNS, "hosts", "chips", "ran", "image")


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Filter of jobs; unset fields match all."""

    queue: str | None = None
    kind: str | None = None
    states: tuple[str, ...] = ()
    namespaces: frozenset[str] | None = None

    def labels(self) -> str:
        """Return the label selector for the server."""
        pairs = ((QUEUE_LABEL, self.queue), (TYPE_LABEL, self.kind))
        return ",".join(f"{key}={value}" for key, value in pairs if value)

    def matches(self, jobset: Object, word: str) -> bool:
        """Whether a job matches the filters that the server cannot apply."""
        return (not self.states or word in self.states) and (
            self.namespaces is None or jobset["metadata"]["namespace"] in self.namespaces
        )


@dataclass(frozen=True, slots=True)
class JobTable:
    """Columns and data of each job."""

    filter: JobFilter
    form: str = "table"
    all_namespaces: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        columns = _WIDE if self.form == "wide" else _COLUMNS
        return ("namespace", *columns) if self.all_namespaces else columns

    def select(self, jobsets: Iterable[Object]) -> list[Object]:
        """Return the matching jobs, sorted."""
        states = [(word, jobset) for jobset in jobsets if self.filter.matches(jobset, word := job_state(jobset))]
        running = [obj for word, obj in states if word in ACTIVE_STATES]
        waiting = [obj for word, obj in states if word in PENDING_STATES]
        ended = [obj for word, obj in states if word in FINISHED_STATES]
        ended.sort(key=lambda obj: str(final_condition(obj).get("lastTransitionTime", "")), reverse=True)
        return [*sorted(running, key=_creation_time), *sorted(waiting, key=_creation_time), *ended]

    def row(self, jobset: Object) -> Row:
        """Return the row of a job; its age comes last, before the wide columns."""
        metadata = jobset["metadata"]
        labels = metadata.get("labels") or {}
        row: Row = (
            metadata["name"],
            *(labels.get(key, "-") for key in (QUEUE_LABEL, PRIORITY_LABEL, TYPE_LABEL)),
            workers(jobset).get("replicas", 1),
            job_state(jobset),
            (jobset.get("status") or {}).get("restarts", 0),
            duration.human(_since(metadata["creationTimestamp"])),
        )
        if self.form == "wide":
            row += (*slice_size(jobset), _ran(jobset), _image(jobset))
        return (metadata["namespace"], *row) if self.all_namespaces else row

    def without_ages(self, jobset: Object) -> Row:
        """Return a row without its ages, to detect changes."""
        ages = {self.columns.index("age"), self.columns.index("ran") if "ran" in self.columns else -1}
        return tuple(cell for number, cell in enumerate(self.row(jobset)) if number not in ages)

    def report(self, jobsets: list[Object]) -> Report:
        """Return the report of all jobs."""
        rows = [self.row(jobset) for jobset in jobsets] if self.form in ("table", "wide") else []
        return Report(self.columns, rows, jobsets, [f"jobset/{item['metadata']['name']}" for item in jobsets])


def _creation_time(jobset: Object) -> tuple[str, str]:
    return jobset["metadata"]["creationTimestamp"], jobset["metadata"]["name"]


def _since(timestamp: str) -> float:
    return max(clock.since(datetime.fromisoformat(timestamp)).total_seconds(), 0)


def _container(jobset: Object) -> Object:
    containers: list[Object] = pod_spec(jobset)["containers"]
    return containers[0]


def _image(jobset: Object) -> str:
    return str(_container(jobset).get("image", ""))


def _ran(jobset: Object) -> str:
    """Return the run time since admission."""
    if job_state(jobset) in PENDING_STATES:
        return "-"
    resumed = find_condition(jobset, "Suspended")
    started = resumed["lastTransitionTime"] if resumed.get("status") == "False" else jobset["metadata"]["creationTimestamp"]
    over = final_condition(jobset).get("lastTransitionTime")
    seconds = _since(started) - (_since(over) if over else 0)
    return duration.human(max(seconds, 0))


_DEBOUNCE = 0.2
_REDRAW = 1.0  # seconds; ages change even without events
_OPEN_SECONDS = 30.0


async def watch_jobs(client: Client, namespace: str | None, table: JobTable) -> None:
    """Show all jobs, then changes, until interrupted."""
    from sliceworks.kube import Informers

    await train_client.list_jobsets(client, namespace, limit=1)  # fails early if JobSet is not installed
    changed = asyncio.Event()
    async with Informers(client) as informers:
        jobsets = informers.open(JOBSET, namespace or "", labels=table.filter.labels())
        await jobsets.wait_synced(_OPEN_SECONDS)
        jobsets.add_handler(lambda _delta: changed.set())
        with _screen(table) as draw:
            while True:
                changed.clear()
                draw(table.select(jobsets.store))
                await _changed(changed, _REDRAW if _is_live(table) else None)


async def _changed(changed: asyncio.Event, timeout: float | None) -> None:
    try:
        async with asyncio.timeout(timeout):
            await changed.wait()
    except TimeoutError:
        return
    await asyncio.sleep(_DEBOUNCE)


def _is_live(table: JobTable) -> bool:
    return table.form in ("table", "wide") and progress.is_interactive(sys.stdout)


@contextmanager
def _screen(table: JobTable) -> Iterator[Callable[[list[Object]], None]]:
    if not _is_live(table):
        yield RowAppender(table).draw
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:

        def draw(jobsets: list[Object]) -> None:
            rows = [table.row(jobset) for jobset in jobsets[: console.height - 1]]  # only the rows that fit the screen
            text = tables.render(table.columns, rows)
            live.update(Text(text, no_wrap=True), refresh=True)

        yield draw


class RowAppender:
    """Prints each new or changed row; as JSON, one job per line."""

    def __init__(self, table: JobTable) -> None:
        self._table = table
        self._shown: dict[str, Row] = {}
        self._header = True

    def draw(self, jobsets: list[Object]) -> None:
        """Print only rows that differ from the previous ones."""
        now = {jobset["metadata"]["uid"]: jobset for jobset in jobsets}
        changed = [obj for uid, obj in now.items() if self._shown.get(uid) != self._table.without_ages(obj)]
        self._shown = {uid: self._table.without_ages(obj) for uid, obj in now.items()}
        if changed:
            self._print(changed)

    def _print(self, jobsets: list[Object]) -> None:
        form = self._table.form
        if form in ("json", "yaml"):
            import orjson

            click.echo(b"\n".join(map(orjson.dumps, jobsets)))
        elif form == "name":
            click.echo("\n".join(f"jobset/{item['metadata']['name']}" for item in jobsets))
        else:
            rows = [self._table.row(jobset) for jobset in jobsets]
            click.echo(tables.render(self._table.columns, rows, header=self._header), nl=False)
            self._header = False
