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
    """`--quiet`: data and errors, nothing else."""

    def apply(_context: click.Context, _parameter: click.Parameter, value: bool) -> None:
        if value:
            progress.set_quiet(True)

    return click.option(
        "-q", "--quiet", is_flag=True, expose_value=False, callback=apply, help="Print data and errors, nothing else."
    )(command)


def pairs(flag: str, values: Iterable[str]) -> dict[str, str]:
    """What was given to a flag that takes NAME=VALUE and may be said again."""
    found = {}
    for each in values:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise UsageError(f"{flag} {each}: NAME=VALUE is wanted")
        found[name] = value
    return found


def output(*formats: str) -> Callable[[Command], Command]:
    """`-o`: the first format is the default."""
    return click.option("-o", "--output", type=click.Choice(formats), default=formats[0], show_default=True, help="Output format.")


def timeout(default: float) -> Callable[[Command], Command]:
    """`--timeout`: how long to wait before giving up with exit code 3."""
    return click.option("--timeout", type=DURATION, default=f"{default:g}s", show_default=True, help="How long to wait.")


def yes(command: Command) -> Command:
    """`-y`: do not ask."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask.")(command)


def confirm(question: str, yes: bool) -> None:
    """Go on only if a person says so, or said so with `-y`."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("there is nobody to ask", hint="say yes with -y")
    with _interruptible():
        said = click.confirm(question, err=True)
    if not said:
        raise SliceworksError("nothing was done: the answer was no")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C ends the question at once, also inside an event loop, which would have it wait for an answer first."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def cluster(command: Command) -> Command:
    """`--kubeconfig`, `--context`, `--twin`: which cluster is meant."""
    for option in (
        click.option("--twin", is_flag=True, help="The twin of this machine; SLICEWORKS_TWIN names one that is not the default."),
        click.option("--context", metavar="NAME", help="A context of the kubeconfig."),
        click.option("--kubeconfig", metavar="FILE", help="The kubeconfig.  [default: $KUBECONFIG, or ~/.kube/config]"),
    ):
        command = option(command)
    return command


def namespace(command: Command) -> Command:
    """`-n`: the namespace, if it is not the context's."""
    return click.option("-n", "--namespace", metavar="NAME", default="", help="The namespace.  [default: the context's]")(command)


def all_namespaces(command: Command) -> Command:
    """`-A`: all of them."""
    return click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="All namespaces.")(command)


def watch(command: Command) -> Command:
    """`-w`: go on and print what changes."""
    return click.option("-w", "--watch", is_flag=True, help="Go on and print what changes, until Ctrl-C.")(command)


class _Duration(click.ParamType[float]):
    """Seconds, written as a Go duration (`90s`, `1m30s`) or as a bare number."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from sliceworks.base import duration

        try:
            seconds = float(value) if str(value).replace(".", "", 1).isdigit() else duration.parse(str(value))
        except ValueError:
            self.fail(f"{value!r} is no duration such as 30s or 1m30s", param, ctx)
        if seconds < 0:
            self.fail(f"{value!r} is less than nothing", param, ctx)
        return seconds


DURATION = _Duration()
