"""`sliceworks rehearse` of a whole day: its steps as they go on, its record, and the twin that may be left running."""

from __future__ import annotations

import os
import signal
import tempfile
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import clock, progress
from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.cli.rehearse_end import with_reports
from sliceworks.cli.rehearse_live import Live

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.rehearsal.course.course import Options
    from sliceworks.rehearsal.course.program import Program
    from sliceworks.rehearsal.day.record import Day
    from sliceworks.rehearsal.homes import Home

NAME = "rehearsal"
"""The twin that is left running."""
_START = 60.0


def perform(
    program: Program, page: Path, *, seed: int, seconds: float, skipped: frozenset[str], keep: bool, drill: float | None = None
) -> Day:
    """Rehearse it, and leave the twin running where that is wanted. Reports of load tests are put beside the day's page."""
    from sliceworks.rehearsal.course.course import Options, rehearse_day

    with tempfile.TemporaryDirectory(prefix="sliceworks-rehearsal-") as work, _ending_as_interrupted():
        # A day that is looked at afterwards ends now: what is seen then has the right age.
        start = clock.now() - timedelta(seconds=seconds) if keep else None
        asked = Options(Path(work), seed, seconds, skipped, keep, start, drill)
        if keep:
            return with_reports(_kept(program, asked), page)
        with Live() as live:
            return with_reports(rehearse_day(program, asked, live), page)


def skipped(only: tuple[str, ...], skip: tuple[str, ...]) -> frozenset[str]:
    """The steps that are left out."""
    from sliceworks.rehearsal.course.course import STEPS

    for name in (*only, *skip):
        if name not in STEPS:
            raise UsageError(f"there is no step {name!r}", hint=f"steps: {', '.join(STEPS)}")
    return frozenset(skip) | (frozenset(STEPS) - frozenset(only) if only else frozenset())


def show_record(day: Day, output: str) -> None:
    """The record for other programs."""
    from sliceworks.rehearsal.day.record import dumps

    if output == "json":
        click.echo(dumps(day), nl=False)
    elif output == "yaml":
        import orjson

        from sliceworks.base import yamls

        click.echo(yamls.dump(orjson.loads(dumps(day))), nl=False)
    else:
        for step in day.steps:
            click.echo(f"step/{step.name}")


def _kept(program: Program, asked: Options) -> Day:
    """In a store that outlives the rehearsal; then a twin of its own goes on from there."""
    from sliceworks.rehearsal import homes
    from sliceworks.rehearsal.course.course import rehearse_day
    from sliceworks.twin.store.journal import Journal
    from sliceworks.twin.store.store import Store

    home = homes.find(NAME)
    if home.holder():
        raise SliceworksError("a rehearsal that was kept is still running", hint=f"sliceworks twin stop --name {NAME}")
    _remove(home)
    home.create()
    try:
        with Live() as live:
            day = rehearse_day(program, asked, live, Store(Journal(home.directory / "store.db")))
        _go_on(home, program)
    except BaseException:
        _remove(home)
        raise
    return day


def _go_on(home: Home, program: Program) -> None:
    from sliceworks.rehearsal import homes, twins

    connector = program.environment is not None and program.environment.spec.self_service is not None
    with progress.working("Starting the twin as the day has left it"):
        state = twins.start(home, homes.Settings(config_connector=connector, steered=True), _START)
    for line in (
        f"Look at it:  export KUBECONFIG={state.kubeconfig}; kubectl get jobsets,pods -A",
        f"             SLICEWORKS_TWIN={NAME} sliceworks console --twin",
        f"Stop it:     sliceworks twin stop --name {NAME}",
    ):
        progress.say(line)


def _remove(home: Home) -> None:
    import shutil

    shutil.rmtree(home.directory, ignore_errors=True)


@contextmanager
def _ending_as_interrupted() -> Iterator[None]:
    """Who is told to end clears up as after Ctrl-C."""

    def end(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
