"""`sliceworks env`: one document to a running environment, in Google Cloud or on the twin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import InvalidDocument, UsageError
from sliceworks.cli import options
from sliceworks.cli.output import Report, show, show_one

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.infra.environments import Site
    from sliceworks.infra.stages import Stage
    from sliceworks.infra.terraform import Change
    from sliceworks.specs.environment import Environment

_SIGNS = {"create": "+", "update": "~", "delete": "-", "replace": "±", "read": "?", "noop": " "}
_file = click.option(
    "-f",
    "--file",
    type=click.Path(exists=True, path_type=Path),
    default=Path("environment.yaml"),
    show_default=True,
    help="The Environment document.",
)
_twin = click.option("--twin", is_flag=True, help="In the twin's cloud: nothing is billed, and no network is needed.")
_skip = click.option("--skip", "skipped", multiple=True, metavar="CHECK", help="Leave a check out, by its name.")


@click.group()
def env() -> None:
    """Plan, make, look at and remove an environment."""


@env.command()
@_file
@_skip
@options.output("table", "json", "yaml")
@options.quiet
def check(file: Path, skipped: tuple[str, ...], output: str) -> int:
    """Check the whole document: types, zones, ranges, names and shares, before anything is made.

    Exit code 1 when something is wrong.
    """
    environment, findings = _checked(file, skipped)
    if output != "table" or findings:
        rows = [(each.check, place, each.problem, each.remedy) for each, place in findings]
        data = [{"check": one.check, "place": place, "problem": one.problem, "remedy": one.remedy} for one, place in findings]
        show(Report(("check", "place", "problem", "remedy"), rows, data), output)
    if not findings:
        progress.say(f"{environment.metadata.name}: nothing is wrong")
    return 1 if findings else 0


@env.command()
@_file
@_skip
@_twin
@options.output("table", "json", "yaml", "name")
@options.quiet
def plan(file: Path, skipped: tuple[str, ...], twin: bool, output: str) -> int:
    """Show what would be made, changed and removed, stage by stage, and what it costs."""
    site = _site(_sound(file, skipped), twin=twin)
    found: list[tuple[Stage, list[Change]]] = []
    with progress.working(f"Planning {site.environment.metadata.name}") as step:
        for stage, changes in site.plan():
            step(stage.name)
            told = [change for change in changes if change.action not in ("noop", "read")]
            found.append((stage, sorted(told, key=lambda change: change.address)))
    rows = [(stage.name, _SIGNS.get(change.action, "?"), change.address) for stage, changes in found for change in changes]
    data = [
        {"stage": stage.name, "action": change.action, "address": change.address} for stage, changes in found for change in changes
    ]
    show(Report(("stage", " ", "resource"), rows, data, [row[2] for row in rows]), output)
    if output == "table":
        _tell_costs(site.environment)
    return 0


@env.command()
@_file
@_skip
@_twin
@options.yes
@options.output("table", "json", "yaml")
@options.quiet
def apply(file: Path, skipped: tuple[str, ...], twin: bool, yes: bool, output: str) -> int:
    """Make the environment as the document says, stage by stage. Started again, it goes on where it stopped."""
    site = _site(_sound(file, skipped), twin=twin)
    name = site.environment.metadata.name
    options.confirm(f"Apply {name} to {'the twin' if twin else f'project {site.environment.spec.project}'}?", yes or twin)
    made: dict[str, dict[str, Any]] = {}
    rows: list[tuple[object, ...]] = []
    with _Stages("Applying") as begun:
        for stage, changes, outputs in site.apply(begun):
            made[stage.name] = outputs
            rows.append((stage.name, _count(changes, "create"), _count(changes, "update", "replace"), _count(changes, "delete")))
    if output == "table":
        show(Report(("stage", "made", "changed", "removed"), rows, []), "table")
    else:
        show_one(made, output)
    return 0


@env.command(name="show")
@_file
@_twin
@options.output("table", "json", "yaml", "name")
def show_environment(file: Path, twin: bool, output: str) -> int:
    """Show what each stage has made."""
    site = _site(read_environment(file), twin=twin)
    rows: list[tuple[object, ...]] = []
    data: list[dict[str, Any]] = []
    names: list[str] = []
    for stage, outputs, resources in site.outputs():
        rows.extend((stage.name, address) for address in resources)
        names.extend(resources)
        data.append({"stage": stage.name, "outputs": outputs, "resources": resources})
    show(Report(("stage", "resource"), rows, data, names), output)
    return 0


@env.command()
@_file
@_twin
@options.yes
@options.quiet
def destroy(file: Path, twin: bool, yes: bool) -> int:
    """Remove the environment, last stage first. A person confirms by its name."""
    site = _site(read_environment(file), twin=twin)
    name = site.environment.metadata.name
    if not yes:
        _confirm_by_name(name)
    rows: list[tuple[object, ...]] = []
    with _Stages("Removing") as begun:
        for stage, changes in site.destroy(begun):
            rows.append((stage.name, _count(changes, "delete")))
    show(Report(("stage", "removed"), rows, []), "table")
    return 0


@env.command()
@_file
@click.option("--to", "folder", type=click.Path(file_okay=False, path_type=Path), required=True, help="The folder to write.")
@options.quiet
def cloudbuild(file: Path, folder: Path) -> int:
    """Write what Cloud Build needs to make and remove the environment: modules, variables, and two builds."""
    from sliceworks.infra.cloudbuild import builds, commands
    from sliceworks.infra.stages import stages
    from sliceworks.infra.workspaces import Workspace

    environment = _sound(file, ())
    workspace = Workspace(folder)
    workspace.lay_out()
    for stage in stages(environment):
        workspace.write_for_builds(stage)
    for name, text in builds(environment).items():
        (folder / name).write_text(text)
    click.echo(commands(environment), nl=False)
    return 0


class _Stages:
    """Progress over stages: one line for each, with what it is at."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._open: Any = None

    def __enter__(self) -> Callable[[Stage], Callable[[str], None]]:
        return self._begin

    def _begin(self, stage: Stage) -> Callable[[str], None]:
        self._end()
        self._open = progress.working(f"{self._verb} {stage.name}")
        step: Callable[[str], None] = self._open.__enter__()
        return step

    def _end(self, *error: Any) -> None:
        if self._open is not None:
            self._open.__exit__(*(error or (None, None, None)))
            self._open = None

    def __exit__(self, *error: Any) -> None:
        self._end(*error)


def read_environment(file: Path) -> Environment:
    """The one Environment of a file."""
    from sliceworks.base import yamls
    from sliceworks.specs import documents
    from sliceworks.specs.environment import Environment

    found = [documents.read(each) for each in yamls.load_path(file) if each.data.get("kind") == "Environment"]
    if len(found) != 1:
        raise InvalidDocument(f"has {len(found)} Environments, one is wanted", place=str(file))
    assert isinstance(found[0], Environment)
    return found[0]


def _checked(file: Path, skipped: tuple[str, ...]) -> tuple[Environment, list[tuple[Any, str]]]:
    from sliceworks.base import yamls
    from sliceworks.infra import checks

    environment = read_environment(file)
    [document] = [each for each in yamls.load_path(file) if each.data.get("kind") == "Environment"]
    return environment, [(each, document.place(*each.path)) for each in checks.check(environment, skipped)]


def _sound(file: Path, skipped: tuple[str, ...]) -> Environment:
    """A document with which nothing is wrong; the first finding is raised."""
    environment, findings = _checked(file, skipped)
    for finding, place in findings:
        raise InvalidDocument(finding.problem, place=place, hint=f"{finding.remedy}; or --skip {finding.check}")
    return environment


def _site(environment: Environment, *, twin: bool) -> Site:
    from sliceworks.infra import programs
    from sliceworks.infra.environments import Site
    from sliceworks.infra.targets import Target, TwinTarget
    from sliceworks.infra.workspaces import Workspace
    from sliceworks.rehearsal import homes

    name = environment.metadata.name
    if not twin:
        return Site(environment, Target(), Workspace(homes.root() / "environments" / name), programs.find())
    from sliceworks.cli.connections import running_twin

    state = running_twin()
    token = (Path(state.directory) / "token").read_text().strip()
    folder = Path(state.directory) / "environments" / name
    return Site(environment, TwinTarget(address=state.cloud, token=token), Workspace(folder), programs.find())


def _count(changes: list[Change], *actions: str) -> int:
    return sum(change.action in actions for change in changes)


def _tell_costs(environment: Environment) -> None:
    from sliceworks.base import tables
    from sliceworks.infra.costs import HOURS_OF_A_MONTH, costs

    found = costs(environment.spec)
    if not found:
        return
    rows: list[tuple[object, ...]] = [
        (each.name, each.what, each.count, _money(each.hourly), _money(each.hourly, HOURS_OF_A_MONTH)) for each in found
    ]
    known = [each.hourly for each in found if each.hourly is not None]
    rows.append(("together", "where known", "", _money(sum(known)), _money(sum(known), HOURS_OF_A_MONTH)))
    click.echo()
    click.echo(tables.render(("pool", "of", "count", "USD/hour", "USD/month"), rows), nl=False)


def _money(hourly: float | None, times: int = 1) -> str:
    return "unknown" if hourly is None else f"{hourly * times:,.2f}"


def _confirm_by_name(name: str) -> None:
    import sys

    if not sys.stdin.isatty():
        raise UsageError("there is nobody to ask", hint="say yes with -y")
    given = click.prompt(f"This removes everything of {name}. Type its name to go on", err=True, default="", show_default=False)
    if given != name:
        raise UsageError(f"{given!r} is not {name!r}: nothing was removed")
