"""`sliceworks twin`: manage embedded Kubernetes clusters on this machine."""

from __future__ import annotations

import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.cli import options
from sliceworks.cli.groups import Group
from sliceworks.cli.output import Report, print_report
from sliceworks.schemas.builtins import FEATURES
from sliceworks.twin.controllers import controller_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.platform.twin_home import Home, SavedClock, State
    from sliceworks.rehearsal.events import EventResult

_NOT_IN_GCLOUD = ("iam_roles", "iamcredentials", "openidconnect")
"""Modules of the twin's cloud that gcloud has no endpoint override for."""
_GCLOUD_PATHS = {"bigquery": "bigquery/v2/", "compute": "compute/v1/", "storage": "storage/v1/"}
"""Paths of services whose base URL in gcloud has the version."""
_COLUMNS = ("name", "state", "url", "cloud", "storage", "speed", "pid", "age", "without")
"""The last column is shown if a twin runs without some controllers."""


def _complete_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from sliceworks.platform import twin_home

    return [home.name for home in twin_home.list_homes() if home.name.startswith(incomplete)]


def _name(default: str | None = "default") -> Callable[[Any], Any]:
    help_text = "Name of the twin." if default else "Show only this twin."
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


_WITHOUT = f"""Names for --without: {", ".join(controller_names.PROGRAMS)}; and single controllers of kube-controller-manager:
{", ".join(controller_names.OF_CONTROLLER_MANAGER)}."""


@twin.command(epilog=_WITHOUT)
@_name()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on loopback.  [default: the previous port, or any free port]"
)
@click.option("--memory", is_flag=True, help="Store objects in memory only; they are lost when the twin stops.")
@click.option(
    "--speed",
    type=click.FloatRange(0, 1e6, min_open=True),
    help="Speed of the twin's clock; also enables `twin advance`.  [default: real time]",
)
@click.option(
    "--workloads/--no-workloads", default=True, help="Run workloads: schedule pods, run Jobs, Deployments, JobSets.  [default: yes]"
)
@click.option(
    "--job-duration",
    type=options.DURATION,
    default="1m",
    show_default=True,
    help="How long pods of Jobs run on simulated nodes, unless annotated with sliceworks.dev/run-seconds; 0: until deleted.",
)
@click.option("--processes", is_flag=True, help="Run containers as processes of this machine, under your user.")
@click.option(
    "--isolate",
    is_flag=True,
    help="With --processes: hide your home directory and all twins from containers, and run each in its own PID namespace (Linux).",
)
@click.option(
    "--image-map",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    help="With --processes: an ImageMap document. Pods whose images are all in it run as processes, other pods are simulated.",
)
@click.option(
    "--without",
    metavar="NAME[,NAME…]",
    help="Controllers that do not run, so that you can run your own, by the names below; '' for none.  [default: as last time]",
)
@click.option(
    "--feature",
    "features",
    multiple=True,
    type=click.Choice(FEATURES),
    help="A feature that kube-apiserver 1.35 has off by default: its feature gate and its APIs. May be repeated.",
)
@click.option("--config-connector", is_flag=True, help="Install Config Connector's CRDs and run its controllers.")
@click.option("--cloud-port", type=click.IntRange(0, 65535), default=0, help="Port on loopback for Google's APIs.")
@options.watchdog_timeout("Restart the twin")
@click.option("--foreground", is_flag=True, help="Run in the foreground until Ctrl-C.")
@options.timeout(30)
@options.quiet
def start(
    *,
    name: str,
    port: int,
    memory: bool,
    speed: float | None,
    workloads: bool,
    job_duration: float,
    processes: bool,
    isolate: bool,
    image_map: str | None,
    without: str | None,
    features: tuple[str, ...],
    config_connector: bool,
    cloud_port: int,
    watchdog_timeout: float,
    foreground: bool,
    timeout: float,
) -> None:
    """Start a twin and print how to use it. A running twin is left unchanged."""
    from sliceworks.platform import twin_home, twin_process

    if isolate and not processes:
        raise UsageError("--isolate: requires --processes")
    if image_map and not processes:
        raise UsageError("--image-map: requires --processes")
    if image_map and not foreground:
        twin_process.load_images(image_map)  # reports errors here rather than in the twin's log
    home = twin_home.find(name)
    without_names = home.settings().without if without is None else controller_names.parse(without)
    given = (port, memory, speed or 1.0, workloads, processes, config_connector, cloud_port)
    settings = twin_home.Settings(
        *given,
        steered=speed is not None,
        job_seconds=job_duration,
        isolate=isolate,
        watchdog_timeout=watchdog_timeout,
        without=without_names,
        features=features,
        image_map=image_map or "",
    )
    if foreground:
        twin_process.run_foreground(home, settings)
        return
    if home.state().state == "running":
        progress.say(f"Twin {name!r} is already running.")
        state = twin_process.start(home, settings, timeout)
    else:
        with progress.task(f"Starting twin {name!r}"):
            state = twin_process.start(home, settings, timeout)
    progress.say("Use it with:")
    click.echo(f"export KUBECONFIG={_quoted(state.kubeconfig)}")


@twin.command()
@_name()
@options.timeout(15)
@options.quiet
def stop(name: str, timeout: float) -> None:
    """Stop a twin. Its objects are kept, unless it was started with --memory."""
    from sliceworks.platform import twin_process

    home = _existing(name)
    if twin_process.stop(home, timeout):
        progress.say(f"Stopped twin {name!r}.")
    else:
        progress.say(f"Twin {name!r} is not running.")


@twin.command()
@_name(None)
@options.output("table", "json", "yaml", "name")
def status(name: str | None, output: str) -> None:
    """Show the twins of this machine."""
    from sliceworks.platform import twin_home

    homes = [_existing(name)] if name else twin_home.list_homes()
    if not homes and output == "table":
        progress.say("No twins found. Create one: sliceworks twin start")
        return
    states = [(home.state(), home.clock()) for home in homes]
    rows, data = [_row(*item) for item in states], [_data(*item) for item in states]
    columns = _COLUMNS if any(row[-1] for row in rows) else _COLUMNS[:-1]
    print_report(Report(columns, [row[: len(columns)] for row in rows], data, [home.name for home in homes]), output)


@twin.command()
@_name()
@options.output("path", "yaml", "json")
def kubeconfig(name: str, output: str) -> None:
    """Print the path or the content of a twin's kubeconfig."""
    home = _existing(name)
    if not home.kubeconfig.is_file():
        raise SliceworksError(f"twin {name!r} has no kubeconfig yet", hint=f"sliceworks twin start --name {name}")
    if output == "path":
        click.echo(str(home.kubeconfig))
        return
    text = home.kubeconfig.read_text()
    if output == "json":
        import orjson

        from sliceworks.base import yaml_documents

        text = orjson.dumps(yaml_documents.load_all(text, str(home.kubeconfig))[0].data, option=orjson.OPT_INDENT_2).decode() + "\n"
    click.echo(text, nl=False)


@twin.command()
@_name()
@click.option("--gcloud", is_flag=True, help="Also print gcloud's endpoint overrides and its access token file.")
def env(name: str, gcloud: bool) -> None:
    """Print shell commands that select a running twin: eval "$(sliceworks twin env)"."""
    state = _running(name).state()
    click.echo(f"export KUBECONFIG={_quoted(state.kubeconfig)}")
    if not gcloud:
        return
    if not state.cloud:
        raise SliceworksError(f"twin {name!r} serves no cloud API", hint=f"sliceworks twin start --name {name}")
    for service in _gcloud_services():
        path = _GCLOUD_PATHS.get(service, f"{service}/")
        click.echo(f"export CLOUDSDK_API_ENDPOINT_OVERRIDES_{service.upper()}={state.cloud}/{path}")
    click.echo(f"export CLOUDSDK_AUTH_ACCESS_TOKEN_FILE={_quoted(str(Path(state.directory) / 'token'))}")


def _gcloud_services() -> list[str]:
    from sliceworks.twin.cloud import google

    return [module.name for module in pkgutil.iter_modules(google.__path__) if module.name not in _NOT_IN_GCLOUD]


@twin.command()
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.argument("url")
@_name()
@options.quiet
def upload(source: Path, url: str, name: str) -> None:
    """Upload a file, or all files of a folder, to a bucket of a twin's cloud.

    URL is the object, such as gs://models/weights.pth, or the folder for the files. A URL that ends with a slash is a folder.
    """
    from sliceworks.base import clock
    from sliceworks.cloud import Session, storage
    from sliceworks.cloud.credentials import Token

    state, is_file = _running(name).state(), source.is_file()
    target = storage.ObjectUrl.parse(f"{url}{source.name}" if is_file and url.endswith("/") else url.rstrip("/"))
    files = [source] if is_file else sorted(path for path in source.rglob("*") if path.is_file())
    if not files:
        raise SliceworksError(f"{source}: the folder has no files")

    async def work() -> None:
        async with Session(state.cloud, Token(state.token)) as session:
            for file in files:
                place = target if file == source else target._replace(name=f"{target.name}/{file.relative_to(source).as_posix()}")
                await storage.upload(session, file, place)
                click.echo(place)

    clock.run(work())


@twin.command()
@_name()
@options.yes
@options.timeout(30)
@options.quiet
def reset(name: str, yes: bool, timeout: float) -> None:
    """Delete all objects of a twin. A running twin restarts empty."""
    from sliceworks.platform import twin_process

    home = _existing(name)
    options.confirm(f"Delete everything in {home.directory}?", yes)
    state = twin_process.reset(home, timeout)
    progress.say(f"Twin {name!r} is empty{' and running' if state else ''}.")


@twin.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_name()
@options.quiet
def backup(file: Path, name: str) -> None:
    """Write all objects of a twin, its keys and its token to FILE. The twin may run."""
    from sliceworks.twin.backup import create_backup

    home = _existing(name)
    try:
        create_backup(home.directory, file)
    except OSError as error:
        raise SliceworksError(f"{file}: {(error.strerror or str(error)).lower()}") from error
    progress.say(f"Wrote {file} ({file.stat().st_size:,} bytes). Keep it secret: it contains the administrator's token.")


@twin.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_name()
@options.yes
@options.quiet
def restore(file: Path, name: str, yes: bool) -> None:
    """Replace the data of a stopped twin with the backup in FILE."""
    from sliceworks.base import names
    from sliceworks.platform import twin_home
    from sliceworks.twin.backup import restore_backup

    home = twin_home.find(name)
    _require_stopped(home)
    if home.exists:
        options.confirm(f"Replace everything in {home.directory}?", yes)
    count = restore_backup(file, home.directory)
    progress.say(f"Restored {names.pluralize(count, 'object')} of twin {name!r}.")


@twin.command()
@_name()
@options.quiet
def recover(name: str) -> None:
    """Repair the store of a stopped twin: restore damaged objects to their last good revision."""
    from sliceworks.base import names
    from sliceworks.twin.store import recovery

    home = _existing(name)
    _require_stopped(home)
    report = recovery.recover(home.directory / "store.db")
    if report.damaged is None:
        progress.say(f"The store of twin {name!r} is intact.")
        return
    for line in report.lost:
        click.echo(line)
    progress.say(f"Kept {names.pluralize(report.kept, 'object')}. The damaged store is now {report.damaged}.")


def _require_stopped(home: Home) -> None:
    if home.state().state != "stopped":
        raise SliceworksError(f"twin {home.name!r} is running", hint=f"sliceworks twin stop --name {home.name}")


@twin.command()
@click.argument("duration", type=options.DURATION)
@_name()
@options.quiet
def advance(duration: float, name: str) -> None:
    """Advance a twin's clock by DURATION, such as 2h, and run everything that is due. The twin must run with --speed."""
    from sliceworks.platform import twin_clock

    home = _running(name)
    with progress.task(f"Advancing twin {name!r}"):
        now = twin_clock.advance_by_kubeconfig(home.kubeconfig, duration)
    click.echo(now)


@twin.command()
@click.argument("service", required=False, metavar="[NAMESPACE/SERVICE=HOST:PORT]")
@_name()
@click.option("--remove", is_flag=True, help="Remove the address of NAMESPACE/SERVICE.")
@options.output("table", "json", "yaml", "name")
@options.quiet
def expose(service: str | None, name: str, remove: bool, output: str) -> None:
    """Give a Service the address of a process outside of the twin, where its webhooks are called.

    Without arguments, list the exposed Services. The Service need not exist.
    """
    from sliceworks.platform import twin_exposure

    if service is None:
        if remove:
            raise UsageError("--remove: requires NAMESPACE/SERVICE")
        exposed = twin_exposure.send(_running(name).kubeconfig)
        if not exposed and output == "table":
            progress.say(f"Twin {name!r} exposes no Services.")
            return
        rows = [(item["namespace"], item["service"], item["address"]) for item in exposed]
        names = [f"{item['namespace']}/{item['service']}" for item in exposed]
        print_report(Report(("namespace", "service", "address"), rows, exposed, names), output)
        return
    body = twin_exposure.parse(service, remove=remove)
    twin_exposure.send(_running(name).kubeconfig, body, remove=remove)
    reference = f"{body['namespace']}/{body['service']}"
    progress.say(f"Service {reference} is no longer exposed." if remove else f"Service {reference} is at {body['address']}.")


@twin.command()
@click.option(
    "-f",
    "--filename",
    "file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The Scenario document.",
)
@_name()
@options.quiet
def inject(file: Path, name: str) -> int:
    """Inject a Scenario into a running twin.

    Its events run on the twin's clock. Exit code 1 if an event is rejected.
    """
    from sliceworks.platform import loader
    from sliceworks.rehearsal import events

    home = _running(name)
    scenario = loader.load_scenario(file)
    if scenario is None:
        raise SliceworksError(f"{file}: no Scenario document found")
    rejected: list[bool] = []

    def report(event: EventResult) -> None:
        rejected.append(bool(event.refused))
        click.echo(f"+{event.at:g}s  {event.description}" + (f"  rejected: {event.refused}" if event.refused else ""))

    events.inject_by_kubeconfig(home.kubeconfig, scenario, file.parent, report)
    return int(any(rejected))


def _running(name: str) -> Home:
    home = _existing(name)
    if home.state().state != "running":
        raise SliceworksError(f"twin {name!r} is not running", hint=f"sliceworks twin start --name {name}")
    return home


def _existing(name: str) -> Home:
    from sliceworks.platform import twin_home

    home = twin_home.find(name)
    if not home.exists:
        raise SliceworksError(f"twin {name!r} not found", hint=f"sliceworks twin start --name {name}")
    return home


def _speed(state: State, saved: SavedClock | None) -> float:
    """The current speed of a twin, which may have changed since its start; the configured one if it is not running."""
    is_current = saved is not None and state.state == "running" and state.settings.has_own_clock and not state.settings.memory
    return saved.speed if saved is not None and is_current else state.settings.speed


def _row(state: State, saved: SavedClock | None) -> tuple[object, ...]:
    storage = "memory" if state.settings.memory else "disk"
    speed = f"{_speed(state, saved):g}x"
    return (
        state.name,
        state.state,
        state.url,
        state.cloud,
        storage,
        speed,
        state.pid or None,
        _age(state.started),
        ",".join(state.settings.without),
    )


def _age(started: str) -> str | None:
    if not started:
        return None
    from datetime import datetime

    from sliceworks.base import clock, duration

    return duration.human(clock.since(datetime.fromisoformat(started)).total_seconds())


def _data(state: State, saved: SavedClock | None) -> dict[str, Any]:
    return {
        "name": state.name,
        "state": state.state,
        "pid": state.pid or None,
        "port": state.port or None,
        "url": state.url or None,
        "cloud": state.cloud or None,
        "started": state.started or None,
        "memory": state.settings.memory,
        "speed": _speed(state, saved),
        "kubeconfig": state.kubeconfig,
        "directory": state.directory,
        "without": list(state.settings.without),
    }


def _quoted(path: str) -> str:
    import shlex

    return shlex.quote(path)
