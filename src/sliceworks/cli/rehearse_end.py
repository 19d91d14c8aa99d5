"""How `rehearse` ends: the page of the day in a file, closing words on the terminal, and an exit code."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sliceworks.base import files, progress
from sliceworks.base.errors import SliceworksError
from sliceworks.cli import browsing

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.rehearsal.day.record import Day

Command = TypeVar("Command", bound="Callable[..., Any]")
_WIDE = 200  # where nobody looks, lines need no end
_COLOURS = {True: "\x1b[32m", False: "\x1b[31m"}


def report_options(command: Command) -> Command:
    """`--report` and `--open`."""
    for option in (
        click.option("--open", "open_it", is_flag=True, help="Open the page of the day in a browser, if there is one."),
        click.option(
            "--report",
            metavar="FILE",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Where the page of the day is written.  [default: in the folder of Sliceworks' own files]",
        ),
    ):
        command = option(command)
    return command


def finish(day: Day, report: Path | None = None, *, open_it: bool = False, words: bool = True) -> int:
    """Write the page, say how the day went, and return the exit code: 1 when something did not end as it was expected to."""
    file = write_page(day, report)
    if words:
        click.echo(_closing(day), nl=False)
    progress.say(f"The page of the day: {file}")
    if open_it and not browse(file):
        progress.say("There is no browser here to open it with.")
    return 0 if day.kept else 1


def write_page(day: Day, report: Path | None = None) -> Path:
    """The page in its file, whole or not at all."""
    from sliceworks.rehearsal.day.page import render

    file = page_file(day.name, report)
    try:
        files.put(file, render(day).encode())
    except OSError as error:
        raise SliceworksError(
            f"the page cannot be written to {file}: {error.strerror}", hint="choose another --report FILE"
        ) from error
    return file


def page_file(name: str, report: Path | None) -> Path:
    """Where the page of a day is written: where somebody wants it, or among our own files."""
    if report is not None:
        return report.absolute()
    from sliceworks.rehearsal import homes

    folder = homes.root() / "rehearsals"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / f"{_plain(name)}.html"


def with_reports(day: Day, file: Path) -> Day:
    """The day with the reports of its load tests beside the page: what is in a folder for the time being is copied."""
    runs = []
    for run in day.measured.load_runs:
        kept = file.with_name(f"{file.stem}-{_plain(run.name)}.html")
        try:
            shutil.copyfile(run.report, kept)
            runs.append(replace(run, report=kept.name))
        except OSError:
            runs.append(replace(run, report=""))  # the page tells the same in short
    return replace(day, measured=replace(day.measured, load_runs=tuple(runs)))


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip(".-") or "day"


def _closing(day: Day) -> str:
    from sliceworks.rehearsal.day.closing import closing

    width = shutil.get_terminal_size((_WIDE, 24)).columns
    if not progress.coloured(sys.stdout):
        return closing(day, width)
    return closing(day, width, lambda text, good: f"{_COLOURS[good]}{text}\x1b[0m")


def browse(file: Path) -> bool:
    """Open a file in a browser with a window of its own; False where there is none."""
    return browsing.browse(file.as_uri())
