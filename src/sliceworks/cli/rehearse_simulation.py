"""Runs the simulation of `rehearse` with live progress, and keeps its twin on request."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import clock, duration, progress
from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.cli.terminal import LiveDisplay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.platform.document_set import DocumentSet
    from sliceworks.platform.twin_home import Home
    from sliceworks.rehearsal.record import RunRecord, StepRecord
    from sliceworks.rehearsal.simulation.observer import Observer
    from sliceworks.rehearsal.simulation.runner import Options

_UPDATE_INTERVAL = 0.1  # seconds between updates
_LOGGED_SECONDS, _LOGGED_PARTS = 86_400.0, 10
"""A step that is longer than this on the twin is logged in so many parts where stderr is not a terminal."""
_MEASURED_SECONDS = 2.0
"""Real seconds after which the time left is estimated."""
_MARKS = {"done": ("✓", "32"), "failed": ("✗", "31"), "skipped": ("–", "2")}


class SimulationDisplay(LiveDisplay):
    """Shows progress: live on a terminal, a line per step elsewhere, nothing with --quiet."""

    def __init__(self) -> None:
        super().__init__()
        self._title = self._progress = ""
        self._drawn = 0.0
        self._step: StepClock | None = None

    def begin(self, title: str, seconds: float = 0.0) -> None:
        """A step has started."""
        self._title, self._progress = title, ""
        self._step = StepClock(seconds) if seconds else None
        self._draw()

    def report(self, message: str) -> None:
        """Show the progress of the step."""
        self._progress = message
        self._draw()

    def tick(self, observer: Observer) -> None:
        """Show the twin's time, usage and the real time that is left while the twin advances."""
        step = self._step
        if self.display is None:
            if step is not None and step.is_next_part():
                progress.say(f"… {self._title}: {step.describe()}, {_usage(observer)}")
        elif self._title and clock.real_perf_counter() - self._drawn >= _UPDATE_INTERVAL:
            self._drawn = clock.real_perf_counter()
            self._draw(", ".join([*([step.describe()] if step is not None else []), _usage(observer)]))

    def end(self, step: StepRecord, seconds: float) -> None:
        """A step has ended."""
        self._title, self._progress, self._step = "", "", None
        mark, color = _MARKS[step.result]
        if progress.is_colored():
            mark = f"\x1b[{color}m{mark}\x1b[0m"
        simulated = f"{duration.human(step.duration)} on the twin, " if step.duration >= 1 else ""
        line = f"{mark} {step.title}: {step.summary or step.result} {progress.dim(f'({simulated}{seconds:.1f} s here)')}"
        if self.display is None:
            progress.say(line)
        else:
            self.display.console.print(_text(line, ansi=True), highlight=False, soft_wrap=True)

    def _draw(self, usage: str = "") -> None:
        if self.display is not None:
            state = self._progress or usage
            self.display.update(_text(f"… {self._title}{f': {state}' if state else ''}"), refresh=True)


class StepClock:
    """How much of a step that takes `seconds` on the twin has passed, and how much real time is left."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._started, self._real_start = clock.loop_time(), clock.real_perf_counter()
        self._parts = 0

    @property
    def share(self) -> float:
        """The part of the step that has passed, from 0 to 1."""
        return min(1.0, (clock.loop_time() - self._started) / self._seconds)

    def is_next_part(self) -> bool:
        """Whether a further part of a long step has passed since the last call."""
        if self._seconds <= _LOGGED_SECONDS:
            return False
        before, self._parts = self._parts, int(self.share * _LOGGED_PARTS)
        return before < self._parts < _LOGGED_PARTS

    def describe(self) -> str:
        """The share in percent, and the real time left once it can be estimated."""
        share, elapsed = self.share, clock.real_perf_counter() - self._real_start
        percent = f"{share:.0%}"
        if not share or elapsed < _MEASURED_SECONDS:
            return percent
        return f"{percent}, about {duration.human(elapsed * (1 - share) / share)} left"


def _usage(observer: Observer) -> str:
    jobs, chips = observer.jobs, observer.chips
    pending = f", {jobs.waiting} pending" if jobs.waiting else ""
    return f"{clock.now():%H:%M}  {jobs.running} jobs running{pending}, {chips.used} of {chips.total} chips in use"


def _text(line: str, *, ansi: bool = False) -> Any:
    """Return one line that a narrow terminal truncates instead of wrapping."""
    from rich.text import Text

    result = Text.from_ansi(line) if ansi else Text(line)
    result.no_wrap, result.overflow = not ansi, "ellipsis"
    return result


TWIN_NAME = "rehearsal"
"""Name of the twin that --keep leaves running."""

_START_TIMEOUT = 60.0


def run_simulation(
    documents: DocumentSet,
    page: Path,
    *,
    seed: int,
    seconds: float,
    skipped: frozenset[str],
    keep: bool,
    drill: float | None = None,
) -> RunRecord:
    """Run the simulation, and keep the twin if requested. Load test reports go next to the report file."""
    from sliceworks.rehearsal.simulation.runner import Options, simulate

    with tempfile.TemporaryDirectory(prefix="sliceworks-rehearsal-") as work, _terminate_as_interrupt():
        # A kept simulation ends at the present time, so that ages shown later are right.
        start = clock.now() - timedelta(seconds=seconds) if keep else None
        run_options = Options(Path(work), seed, seconds, skipped, keep, start, drill)
        if keep:
            return attach_reports(_run_on_kept_twin(documents, run_options), page)
        with SimulationDisplay() as live:
            return attach_reports(simulate(documents, run_options, live), page)


def report_path(name: str, report: Path | None) -> Path:
    """Return the path of the report: `--report`, or a file in the data folder."""
    if report is not None:
        return report.absolute()
    from sliceworks.platform import twin_home

    folder = twin_home.state_root() / "rehearsals"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / f"{_file_name(name)}.html"


def attach_reports(record: RunRecord, file: Path) -> RunRecord:
    """Return the record with the reports of its load tests copied next to the report file."""
    runs = []
    for run in record.measured.load_runs:
        copy = file.with_name(f"{file.stem}-{_file_name(run.name)}.html")
        try:
            shutil.copyfile(run.report, copy)
            runs.append(replace(run, report=copy.name))
        except OSError:
            runs.append(replace(run, report=""))  # the report has a summary of it
    return replace(record, measured=replace(record.measured, load_runs=tuple(runs)))


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip(".-") or "rehearsal"


def skipped_steps(only: tuple[str, ...], skip: tuple[str, ...]) -> frozenset[str]:
    """Return the steps to skip."""
    from sliceworks.rehearsal.simulation.steps import STEPS

    for name in (*only, *skip):
        if name not in STEPS:
            raise UsageError(f"step {name!r} not found", hint=f"steps: {', '.join(STEPS)}")
    return frozenset(skip) | (frozenset(STEPS) - frozenset(only) if only else frozenset())


def print_record(record: RunRecord, output: str) -> None:
    """Print the record as data."""
    from sliceworks.rehearsal.record import dumps

    if output == "json":
        click.echo(dumps(record), nl=False)
    elif output == "yaml":
        import orjson

        from sliceworks.base import yaml_documents

        click.echo(yaml_documents.dump(orjson.loads(dumps(record))), nl=False)
    else:
        for step in record.steps:
            click.echo(f"step/{step.name}")


def _run_on_kept_twin(documents: DocumentSet, run_options: Options) -> RunRecord:
    """Run the simulation on a persistent store, then start a twin from it."""
    from sliceworks.platform import twin_home
    from sliceworks.rehearsal.simulation.runner import simulate
    from sliceworks.twin.store.journal import Journal
    from sliceworks.twin.store.store import Store

    home = twin_home.find(TWIN_NAME)
    if home.owner_pid():
        raise SliceworksError("the twin of a previous rehearsal is still running", hint=f"sliceworks twin stop --name {TWIN_NAME}")
    _remove(home)
    home.create()
    try:
        with SimulationDisplay() as live:
            record = simulate(documents, run_options, live, Store(Journal(home.directory / "store.db")))
        _start_twin(home, documents)
    except BaseException:
        _remove(home)
        raise
    return record


def _start_twin(home: Home, documents: DocumentSet) -> None:
    from sliceworks.platform import twin_home, twin_process

    connector = documents.environment is not None and documents.environment.spec.self_service is not None
    with progress.task("Starting the twin with the final state"):
        state = twin_process.start(home, twin_home.Settings(config_connector=connector, steered=True), _START_TIMEOUT)
    for line in (
        f"Inspect it:  export KUBECONFIG={state.kubeconfig}; kubectl get jobsets,pods -A",
        f"             SLICEWORKS_TWIN={TWIN_NAME} sliceworks console --twin",
        f"Stop it:     sliceworks twin stop --name {TWIN_NAME}",
    ):
        progress.say(line)


def _remove(home: Home) -> None:
    shutil.rmtree(home.directory, ignore_errors=True)


@contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that cleanup runs."""

    def end(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
