"""`env init`: write a first Environment document."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sliceworks.base import progress
from sliceworks.base.errors import UsageError
from sliceworks.cli import options
from sliceworks.cli.env_site import require_valid

TEMPLATES = ("training", "saxml", "triton", "self-service")


@click.command()
@click.option(
    "--from", "template", type=click.Choice(TEMPLATES), default=TEMPLATES[0], show_default=True, help="Example to start from."
)
@click.option("--project", metavar="ID", help="Google Cloud project.")
@click.option("--region", metavar="REGION", help="Region.  [default: the example's]")
@click.option("--zone", metavar="ZONE", help="Zone of the slices.  [default: a zone that has the example's accelerators]")
@click.option("--name", metavar="NAME", help="Name of the environment.  [default: the example's]")
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("environment.yaml"),
    show_default=True,
    help="File to write. An existing file is never overwritten.",
)
@options.quiet
def init(*, template: str, project: str | None, region: str | None, zone: str | None, name: str | None, file: Path) -> int:
    """Write a first Environment document. On a terminal, prompts for missing options."""
    from sliceworks.infra import environment_file

    _refuse_to_overwrite(file)
    project = project or _prompt("Google Cloud project", "", "--project")
    region = region or _prompt("Region", environment_file.template_region(template), "--region")
    fitting = environment_file.zones_for(template, region)
    zone = zone or (_prompt("Zone of the slices", fitting[0], "--zone") if fitting else "")
    files = environment_file.Draft(template, name or template, project, region, zone).files()
    text = files.pop(environment_file.FILE)
    environment = require_valid(file, text=text)
    for beside in files:
        _refuse_to_overwrite(file.parent / beside)
    for path, content in [(file, text), *((file.parent / beside, content) for beside, content in files.items())]:
        _write_new(path, content)
    progress.say(f"{environment.metadata.name} written to {file}; review it, then run `sliceworks env check -f {file}`")
    return 0


def _prompt(question: str, usual: str, option: str) -> str:
    """Prompt on a terminal; otherwise return the default, or raise if there is none."""
    if not sys.stdin.isatty():
        if not usual:
            raise UsageError(f"stdin is not a terminal; pass {option}")
        return usual
    return str(click.prompt(question, default=usual or None, err=True))


def _write_new(file: Path, text: str) -> None:
    """Write the file atomically: a partial document would block the next attempt."""
    stream = file.open("x", encoding="utf-8")
    try:
        with stream:
            stream.write(text)
    except OSError as error:
        file.unlink()
        raise OSError(error.errno, error.strerror, str(file)) from error


def _refuse_to_overwrite(file: Path) -> None:
    if file.exists():
        raise UsageError(f"{file} already exists", hint="choose another file with -o, or delete it")
