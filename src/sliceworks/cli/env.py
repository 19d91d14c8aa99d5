"""`sliceworks env`: one document to a running environment, in Google Cloud or on the twin."""

from __future__ import annotations

from pathlib import Path

import click

from sliceworks.base import progress
from sliceworks.cli import options
from sliceworks.cli.env_apply import apply, destroy
from sliceworks.cli.env_init import init
from sliceworks.cli.env_plan import plan, show_environment, tell_undone
from sliceworks.cli.env_quotas import quota_findings
from sliceworks.cli.env_resize import resize
from sliceworks.cli.env_sites import checked, file_option, graphs_of, skip_option, sound, twin_option
from sliceworks.cli.env_states import adopt, unlock
from sliceworks.cli.groups import Group
from sliceworks.cli.output import Report, show


@click.group(cls=Group)
def env() -> None:
    """Plan, make, look at and remove an environment."""


for _command in (init, plan, apply, show_environment, resize, unlock, adopt, destroy):
    env.add_command(_command)


@env.command()
@file_option
@skip_option
@twin_option
@options.output("table", "json", "yaml")
@options.quiet
def check(file: Path, skipped: tuple[str, ...], twin: bool, output: str) -> int:
    """Check the whole document: types, zones, ranges, names, shares and graphs, before anything is made.

    Where there are credentials, or with --twin, quotas are asked for, too. What the document asks for and applying does not do
    is told. Exit code 1 when something is wrong.
    """
    from sliceworks.rehearsal.contents import with_roles

    environment, findings = checked(file, skipped)
    findings = findings or quota_findings(environment, skipped, file, twin=twin)
    with_roles(environment, graphs_of(environment, file))
    if output != "table" or findings:
        rows = [(each.check, place, each.problem, each.remedy) for each, place in findings]
        data = [{"check": one.check, "place": place, "problem": one.problem, "remedy": one.remedy} for one, place in findings]
        show(Report(("check", "place", "problem", "remedy"), rows, data), output)
    if not findings:
        progress.say(f"{environment.metadata.name}: nothing is wrong")
    tell_undone(environment)
    return 1 if findings else 0


@env.command()
@file_option
@click.option("--to", "folder", type=click.Path(file_okay=False, path_type=Path), required=True, help="The folder to write.")
@options.quiet
def cloudbuild(file: Path, folder: Path) -> int:
    """Write what Cloud Build needs to make and remove the environment: modules, variables, and two builds.

    Infrastructure Manager's files come along, in a folder of their own: a deployment for each stage, and the commands.
    """
    from sliceworks.infra import manager
    from sliceworks.infra.cloudbuild import builds, commands
    from sliceworks.infra.stages import stages
    from sliceworks.infra.workspaces import Workspace, write_deployments
    from sliceworks.rehearsal.contents import with_roles

    environment = sound(file, ())
    environment = with_roles(environment, graphs_of(environment, file))
    workspace = Workspace(folder)
    workspace.lay_out()
    for stage in stages(environment):
        workspace.write_for_builds(stage)
    for name, text in builds(environment).items():
        (folder / name).write_text(text)
    write_deployments(folder / manager.FOLDER, environment)
    click.echo(commands(environment), nl=False)
    return 0
