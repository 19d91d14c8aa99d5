"""`sliceworks twin`: an embedded Kubernetes cluster on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import SliceworksError
from sliceworks.cli import options
from sliceworks.cli.groups import Group
from sliceworks.cli.output import Report, show

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.rehearsal.homes import Home, State
    from sliceworks.rehearsal.scenarios import Happening

_COLUMNS = ("name", "state", "url", "cloud", "storage", "speed", "pid", "age")


def _complete_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from sliceworks.rehearsal import homes

    return [home.name for home in homes.all_homes() if home.name.startswith(incomplete)]


def _name(default: str | None = "default") -> Callable[[Any], Any]:
    help_text = "Name of the twin." if default else "Only the twin of this name."
    variable = "SLICEWORKS_TWIN" if default else None
    return click.option(
        "--name",
        default=default,
        envvar=variable,
        show_default=bool(default),
        show_envvar=bool(variable),
        help=help_text,
        shell_complete=_complete_names,
    )


@click.group(cls=Group)
def twin() -> None:
    """Run an embedded Kubernetes cluster on this machine."""


@twin.command()
@_name()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on loopback.  [default: the last one, or any free one]"
)
@click.option("--memory", is_flag=True, help="Keep nothing: what it holds ends with it.")
@click.option(
    "--speed",
    type=click.FloatRange(0, 1e6, min_open=True),
    help="How fast its time runs; it can then be stopped and moved on.  [default: with the machine's]",
)
@click.option(
    "--workloads/--no-workloads", default=True, help="Run workloads: schedule pods, run Jobs, Deployments, JobSets.  [default: yes]"
)
@click.option("--processes", is_flag=True, help="Run containers' commands as processes of this machine, as yourself.")
@click.option("--config-connector", is_flag=True, help="Have the kinds of Config Connector, and what keeps them.")
@click.option("--cloud-port", type=click.IntRange(0, 65535), default=0, help="Port on loopback for Google's APIs.")
@click.option("--foreground", is_flag=True, help="Run here until Ctrl-C.")
@options.timeout(30)
@options.quiet
def start(
    *,
    name: str,
    port: int,
    memory: bool,
    speed: float | None,
    workloads: bool,
    processes: bool,
    config_connector: bool,
    cloud_port: int,
    foreground: bool,
    timeout: float,
) -> None:
    """Start a twin and say how to use it. One that runs already is left alone."""
    from sliceworks.rehearsal import homes, twins

    home = homes.find(name)
    given = (port, memory, speed or 1.0, workloads, processes, config_connector, cloud_port)
    settings = homes.Settings(*given, steered=speed is not None)
    if foreground:
        twins.run_here(home, settings)
        return
    if home.state().state == "running":
        progress.say(f"The twin {name!r} is running already.")
        state = twins.start(home, settings, timeout)
    else:
        with progress.working(f"Starting the twin {name!r}"):
            state = twins.start(home, settings, timeout)
    progress.say("Use it with:")
    click.echo(f"export KUBECONFIG={_quoted(state.kubeconfig)}")


@twin.command()
@_name()
@options.timeout(15)
@options.quiet
def stop(name: str, timeout: float) -> None:
    """Stop a twin. What it holds stays, unless it was started with --memory."""
    from sliceworks.rehearsal import twins

    home = _existing(name)
    if twins.stop(home, timeout):
        progress.say(f"Stopped the twin {name!r}.")
    else:
        progress.say(f"The twin {name!r} was not running.")


@twin.command()
@_name(None)
@options.output("table", "json", "yaml", "name")
def status(name: str | None, output: str) -> None:
    """Show the twins of this machine."""
    from sliceworks.rehearsal import homes

    states = [home.state() for home in ([_existing(name)] if name else homes.all_homes())]
    if not states and output == "table":
        progress.say("There are no twins here: sliceworks twin start")
        return
    show(
        Report(_COLUMNS, [_row(state) for state in states], [_data(state) for state in states], [state.name for state in states]),
        output,
    )


@twin.command()
@_name()
@options.output("path", "yaml", "json")
def kubeconfig(name: str, output: str) -> None:
    """Print where a twin's kubeconfig is, or what is in it."""
    home = _existing(name)
    if not home.kubeconfig.is_file():
        raise SliceworksError(f"the twin {name!r} has no kubeconfig yet", hint=f"sliceworks twin start --name {name}")
    if output == "path":
        click.echo(str(home.kubeconfig))
        return
    text = home.kubeconfig.read_text()
    if output == "json":
        import orjson

        from sliceworks.base import yamls

        text = orjson.dumps(yamls.load_all(text, str(home.kubeconfig))[0].data, option=orjson.OPT_INDENT_2).decode() + "\n"
    click.echo(text, nl=False)


@twin.command()
@_name()
@options.yes
@options.timeout(30)
@options.quiet
def reset(name: str, yes: bool, timeout: float) -> None:
    """Forget everything a twin holds. One that runs starts again, empty."""
    from sliceworks.rehearsal import twins

    home = _existing(name)
    options.confirm(f"Remove everything in {home.directory}?", yes)
    state = twins.reset(home, timeout)
    progress.say(f"The twin {name!r} is empty{' and running' if state else ''}.")


@twin.command()
@click.argument("duration", type=options.DURATION)
@_name()
@options.quiet
def advance(duration: float, name: str) -> None:
    """Move a twin's time on by DURATION, such as 2h: everything that is due meanwhile happens. It must run with --speed."""
    from sliceworks.rehearsal import injection

    home = _running(name)
    with progress.working(f"Moving the twin {name!r} on"):
        now = injection.advance(home.kubeconfig, duration)
    click.echo(now)


@twin.command()
@click.option(
    "-f", "--filename", "file", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A Scenario."
)
@_name()
@options.quiet
def inject(file: Path, name: str) -> int:
    """Have a Scenario happen to a running twin, in the twin's time. Exit code 1 when a step of it was refused."""
    from sliceworks.rehearsal import documents, injection

    home = _running(name)
    scenario = documents.scenario(file)
    if scenario is None:
        raise SliceworksError(f"{file} has no Scenario")
    refused: list[bool] = []

    def told(happening: Happening) -> None:
        refused.append(bool(happening.refused))
        click.echo(f"+{happening.at:g}s  {happening.what}" + (f"  refused: {happening.refused}" if happening.refused else ""))

    injection.inject(home.kubeconfig, scenario, file.parent, told)
    return int(any(refused))


def _running(name: str) -> Home:
    home = _existing(name)
    if home.state().state != "running":
        raise SliceworksError(f"the twin {name!r} does not run", hint=f"sliceworks twin start --name {name}")
    return home


def _existing(name: str) -> Home:
    from sliceworks.rehearsal import homes

    home = homes.find(name)
    if not home.exists:
        raise SliceworksError(f"there is no twin {name!r}", hint=f"sliceworks twin start --name {name}")
    return home


def _row(state: State) -> tuple[object, ...]:
    storage = "memory" if state.settings.memory else "disk"
    speed = f"{state.settings.speed:g}x"
    return (state.name, state.state, state.url, state.cloud, storage, speed, state.pid or None, _age(state.started))


def _age(started: str) -> str | None:
    if not started:
        return None
    from datetime import datetime

    from sliceworks.base import clock, duration

    return duration.human(clock.since(datetime.fromisoformat(started)).total_seconds())


def _data(state: State) -> dict[str, Any]:
    return {
        "name": state.name,
        "state": state.state,
        "pid": state.pid or None,
        "port": state.port or None,
        "url": state.url or None,
        "cloud": state.cloud or None,
        "started": state.started or None,
        "memory": state.settings.memory,
        "speed": state.settings.speed,
        "kubeconfig": state.kubeconfig,
        "directory": state.directory,
    }


def _quoted(path: str) -> str:
    import shlex

    return shlex.quote(path)
