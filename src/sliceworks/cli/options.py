"""Options that mean the same on every command."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sliceworks.base import progress
from sliceworks.base.errors import SliceworksError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Command = TypeVar("Command", bound="Callable[..., Any]")


def quiet(command: Command) -> Command:
    """`--quiet`: print only data and errors."""

    def apply(_context: click.Context, _parameter: click.Parameter, value: bool) -> None:
        if value:
            progress.set_quiet(True)

    return click.option("-q", "--quiet", is_flag=True, expose_value=False, callback=apply, help="Print only data and errors.")(
        command
    )


def parse_pairs(flag: str, values: Iterable[str]) -> dict[str, str]:
    """Parse the values of a repeatable NAME=VALUE flag."""
    result = {}
    for item in values:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise UsageError(f"{flag} {item}: expected NAME=VALUE")
        result[name] = value
    return result


def output(*formats: str) -> Callable[[Command], Command]:
    """`-o`: the first format is the default."""
    return click.option("-o", "--output", type=click.Choice(formats), default=formats[0], show_default=True, help="Output format.")


def timeout(default: float) -> Callable[[Command], Command]:
    """`--timeout`: how long to wait before exit code 3."""
    return click.option("--timeout", type=DURATION, default=f"{default:g}s", show_default=True, help="How long to wait.")


def watchdog_timeout(help_text: str = "Exit with status 75") -> Callable[[Command], Command]:
    """`--watchdog-timeout`: what happens to a process whose event loop stays blocked."""
    text = f"{help_text} if the event loop is blocked for this long; 0s: only log what blocks it."
    return click.option("--watchdog-timeout", type=DURATION, default="0s", show_default=True, help=text)


def yes(command: Command) -> Command:
    """`-y`: do not ask for confirmation."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")(command)


def confirm(question: str, yes: bool) -> None:
    """Return if the user confirms, or did so with `-y`; otherwise raise."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("stdin is not a terminal; pass --yes to confirm", hint=f"to be confirmed: {question}")
    with _interruptible():
        confirmed = click.confirm(question, err=True)
    if not confirmed:
        raise SliceworksError("not confirmed; nothing was changed")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C interrupt the prompt at once; an event loop would deliver it after the answer."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _TwinOption(click.Option):
    """`--twin[=NAME]`. The root command takes the name off before click parses the flag."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        return None if record is None else ("--twin[=NAME]", record[1])


def twin(text: str) -> Callable[[Command], Command]:
    """`--twin[=NAME]`: the twin instead of a cluster or of Google Cloud."""
    return click.option("--twin", is_flag=True, cls=_TwinOption, help=text)


def cluster(command: Command) -> Command:
    """`--kubeconfig`, `--context`, `--twin`: the target cluster."""
    for option in (
        twin("Use a twin on this machine.  [default name: $SLICEWORKS_TWIN, or default]"),
        click.option("--context", metavar="NAME", help="Context of the kubeconfig to use."),
        click.option("--kubeconfig", metavar="FILE", help="Path of the kubeconfig.  [default: $KUBECONFIG, or ~/.kube/config]"),
    ):
        command = option(command)
    return command


def namespace(command: Command) -> Command:
    """`-n`: the namespace, instead of the context's."""
    return click.option("-n", "--namespace", metavar="NAME", default="", help="Namespace.  [default: the context's]")(command)


def all_namespaces(command: Command) -> Command:
    """`-A`: all namespaces."""
    return click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces.")(command)


def watch(command: Command) -> Command:
    """`-w`: keep running and print changes."""
    return click.option("-w", "--watch", is_flag=True, help="Keep running and print changes until Ctrl-C.")(command)


class _Duration(click.ParamType[float]):
    """Seconds, written as a Go duration (`90s`, `1m30s`) or as a bare number."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from sliceworks.base import duration

        try:
            seconds = float(value) if str(value).replace(".", "", 1).isdigit() else duration.parse(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a valid duration (examples: 30s, 1m30s)", param, ctx)
        if seconds < 0:
            self.fail(f"must not be negative, got {value!r}", param, ctx)
        return seconds


DURATION = _Duration()
