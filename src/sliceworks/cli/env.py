"""`sliceworks env`: one document to a running environment, in Google Cloud or on the twin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import UsageError
from sliceworks.cli import options
from sliceworks.cli.env_init import init
from sliceworks.cli.env_resize import resize
from sliceworks.cli.env_sites import (
    Stages,
    checked,
    file_option,
    read_environment,
    site_of,
    skip_option,
    sound,
    table_of,
    twin_option,
)
from sliceworks.cli.output import Report, show, show_one

if TYPE_CHECKING:
    from sliceworks.infra.stages import Stage
    from sliceworks.infra.terraform import Change
    from sliceworks.specs.environment import Environment

_DRIFT = {"update": "changed", "replace": "changed", "delete": "gone"}


@click.group()
def env() -> None:
    """Plan, make, look at and remove an environment."""


env.add_command(init)
env.add_command(resize)


@env.command()
@file_option
@skip_option
@options.output("table", "json", "yaml")
@options.quiet
def check(file: Path, skipped: tuple[str, ...], output: str) -> int:
    """Check the whole document: types, zones, ranges, names and shares, before anything is made.

    Exit code 1 when something is wrong.
    """
    environment, findings = checked(file, skipped)
    if output != "table" or findings:
        rows = [(each.check, place, each.problem, each.remedy) for each, place in findings]
        data = [{"check": one.check, "place": place, "problem": one.problem, "remedy": one.remedy} for one, place in findings]
        show(Report(("check", "place", "problem", "remedy"), rows, data), output)
    if not findings:
        progress.say(f"{environment.metadata.name}: nothing is wrong")
    return 1 if findings else 0


@env.command()
@file_option
@skip_option
@twin_option
@options.output("table", "json", "yaml", "name")
@options.quiet
def plan(file: Path, skipped: tuple[str, ...], twin: bool, output: str) -> int:
    """Show what would be made, changed and removed, stage by stage, and what it costs."""
    site = site_of(sound(file, skipped), twin=twin)
    found: list[tuple[Stage, list[Change]]] = []
    with progress.working(f"Planning {site.environment.metadata.name}") as step:
        for stage, changes in site.plan():
            step(stage.name)
            told = [change for change in changes if change.action not in ("noop", "read")]
            found.append((stage, sorted(told, key=lambda change: change.address)))
    show(table_of(found), output)
    if output == "table":
        _tell_costs(site.environment)
    return 0


@env.command()
@file_option
@skip_option
@twin_option
@options.yes
@options.output("table", "json", "yaml")
@options.quiet
def apply(file: Path, skipped: tuple[str, ...], twin: bool, yes: bool, output: str) -> int:
    """Make the environment as the document says, stage by stage. Started again, it goes on where it stopped."""
    site = site_of(sound(file, skipped), twin=twin)
    name = site.environment.metadata.name
    options.confirm(f"Apply {name} to {'the twin' if twin else f'project {site.environment.spec.project}'}?", yes or twin)
    made: dict[str, dict[str, Any]] = {}
    rows: list[tuple[object, ...]] = []
    with Stages("Applying") as begun:
        for stage, changes, outputs in site.apply(begun):
            made[stage.name] = outputs
            rows.append((stage.name, _count(changes, "create"), _count(changes, "update", "replace"), _count(changes, "delete")))
    if output == "table":
        show(Report(("stage", "made", "changed", "removed"), rows, []), "table")
    else:
        show_one(made, output)
    return 0


@env.command(name="show")
@file_option
@click.option("--drift", is_flag=True, help="Ask the cloud too, and tell what somebody else changed or removed.")
@twin_option
@options.output("table", "json", "yaml", "name")
def show_environment(file: Path, drift: bool, twin: bool, output: str) -> int:
    """Show what each stage has made, and with --drift what is no longer as it was made. Exit code 1 when something is not."""
    site = site_of(read_environment(file), twin=twin)
    rows: list[tuple[object, ...]] = []
    data: list[dict[str, Any]] = []
    for stage, outputs, resources in site.outputs(drift=drift):
        rows.extend((stage.name, address, _DRIFT.get(resources[address], "")) for address in resources)
        drifted = {address: _DRIFT.get(action, action) for address, action in resources.items() if action}
        data.append({"stage": stage.name, "outputs": outputs, "resources": list(resources), "drift": drifted})
    columns = ("stage", "resource", "drift") if drift else ("stage", "resource")
    show(Report(columns, [row[: len(columns)] for row in rows], data, [str(row[1]) for row in rows]), output)
    return 1 if any(each["drift"] for each in data) else 0


@env.command()
@file_option
@twin_option
@options.yes
@options.quiet
def destroy(file: Path, twin: bool, yes: bool) -> int:
    """Remove the environment, last stage first. A person confirms by its name."""
    site = site_of(read_environment(file), twin=twin)
    name = site.environment.metadata.name
    if not yes:
        _confirm_by_name(name)
    rows: list[tuple[object, ...]] = []
    with Stages("Removing") as begun:
        for stage, changes in site.destroy(begun):
            rows.append((stage.name, _count(changes, "delete")))
    show(Report(("stage", "removed"), rows, []), "table")
    return 0


@env.command()
@file_option
@click.option("--to", "folder", type=click.Path(file_okay=False, path_type=Path), required=True, help="The folder to write.")
@options.quiet
def cloudbuild(file: Path, folder: Path) -> int:
    """Write what Cloud Build needs to make and remove the environment: modules, variables, and two builds."""
    from sliceworks.infra.cloudbuild import builds, commands
    from sliceworks.infra.stages import stages
    from sliceworks.infra.workspaces import Workspace

    environment = sound(file, ())
    workspace = Workspace(folder)
    workspace.lay_out()
    for stage in stages(environment):
        workspace.write_for_builds(stage)
    for name, text in builds(environment).items():
        (folder / name).write_text(text)
    click.echo(commands(environment), nl=False)
    return 0


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
