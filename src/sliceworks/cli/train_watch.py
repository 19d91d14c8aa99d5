"""Training jobs as they change: a table that is drawn anew on a terminal, a row for each change elsewhere."""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress, tables
from sliceworks.cli import train_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.cli.train_rows import Row, Table
    from sliceworks.kube import Client

Object = dict[str, Any]
_BREATH = 0.2
_REDRAW = 1.0  # ages go on while nothing changes
_OPEN_SECONDS = 30.0


async def watch_jobs(client: Client, namespace: str | None, table: Table) -> None:
    """Show all jobs, then what changes, until somebody ends it."""
    from sliceworks.kube import Informers

    await train_cluster.all_jobsets(client, namespace, limit=1)  # says at once what is missing
    news = asyncio.Event()
    async with Informers(client) as informers:
        jobsets = informers.open(train_cluster.JOBSETS, namespace or "", labels=table.filter.labels())
        await jobsets.wait_synced(_OPEN_SECONDS)
        jobsets.add_handler(lambda _delta: news.set())
        with _screen(table) as draw:
            while True:
                news.clear()
                draw(table.wanted(jobsets.store))
                await _changed(news, _REDRAW if _lively(table) else None)


async def _changed(news: asyncio.Event, most: float | None) -> None:
    try:
        async with asyncio.timeout(most):
            await news.wait()
    except TimeoutError:
        return
    await asyncio.sleep(_BREATH)


def _lively(table: Table) -> bool:
    return table.form in ("table", "wide") and progress.lively(sys.stdout)


@contextmanager
def _screen(table: Table) -> Iterator[Callable[[list[Object]], None]]:
    if not _lively(table):
        yield Appender(table).draw
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:

        def draw(jobsets: list[Object]) -> None:
            rows = [table.row(each) for each in jobsets[: console.height - 1]]  # more than fit are not worked out
            text = tables.render(table.columns, rows)
            live.update(Text(text, no_wrap=True), refresh=True)

        yield draw


class Appender:
    """Prints each row that is new or has changed; as JSON each job is a line."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._shown: dict[str, Row] = {}
        self._header = True

    def draw(self, jobsets: list[Object]) -> None:
        """Only what differs from before."""
        now = {each["metadata"]["uid"]: each for each in jobsets}
        news = [each for uid, each in now.items() if self._shown.get(uid) != self._table.still(each)]
        self._shown = {uid: self._table.still(each) for uid, each in now.items()}
        if news:
            self._print(news)

    def _print(self, jobsets: list[Object]) -> None:
        form = self._table.form
        if form in ("json", "yaml"):
            import orjson

            click.echo(b"\n".join(map(orjson.dumps, jobsets)))
        elif form == "name":
            click.echo("\n".join(f"jobset/{each['metadata']['name']}" for each in jobsets))
        else:
            rows = [self._table.row(each) for each in jobsets]
            click.echo(tables.render(self._table.columns, rows, header=self._header), nl=False)
            self._header = False
