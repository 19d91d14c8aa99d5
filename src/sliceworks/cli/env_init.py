"""`sliceworks env init`: a first document, from a few answers."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sliceworks.base import progress
from sliceworks.base.errors import UsageError
from sliceworks.cli import options
from sliceworks.cli.env_sites import sound

TEMPLATES = ("training", "saxml", "triton", "self-service")


@click.command()
@click.option("--from", "template", type=click.Choice(TEMPLATES), default=TEMPLATES[0], show_default=True, help="The example.")
@click.option("--project", metavar="ID", help="The Google Cloud project.")
@click.option("--region", metavar="REGION", help="The region.  [default: the example's]")
@click.option("--zone", metavar="ZONE", help="The zone of slices.  [default: one that has the example's accelerators]")
@click.option("--name", metavar="NAME", help="The environment's name.  [default: the example's]")
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("environment.yaml"),
    show_default=True,
    help="The file to write. One that is there is never overwritten.",
)
@options.quiet
def init(*, template: str, project: str | None, region: str | None, zone: str | None, name: str | None, file: Path) -> int:
    """Write a first Environment document. On a terminal it asks for what was not given."""
    from sliceworks.infra import drafts

    _refuse_to_overwrite(file)
    project = project or _asked("Google Cloud project", "", "--project")
    region = region or _asked("Region", drafts.region_of(template), "--region")
    fitting = drafts.zones_for(template, region)
    zone = zone or (_asked("Zone of the slices", fitting[0], "--zone") if fitting else "")
    files = drafts.Draft(template, name or template, project, region, zone).files()
    text = files.pop(drafts.FILE)
    environment = sound(file, (), text=text)
    for beside in files:
        _refuse_to_overwrite(file.parent / beside)
    for path, content in [(file, text), *((file.parent / beside, content) for beside, content in files.items())]:
        _write_new(path, content)
    progress.say(f"{environment.metadata.name} is in {file}: read it, change it, then `sliceworks env check -f {file}`")
    return 0


def _asked(question: str, usual: str, option: str) -> str:
    """What a person types; with nobody there, the usual answer."""
    if not sys.stdin.isatty():
        if not usual:
            raise UsageError("there is nobody to ask", hint=f"give {option}")
        return usual
    return str(click.prompt(question, default=usual or None, err=True))


def _write_new(file: Path, text: str) -> None:
    """All of it or nothing: half a document would be in the way of the next try."""
    stream = file.open("x", encoding="utf-8")
    try:
        with stream:
            stream.write(text)
    except OSError as error:
        file.unlink()
        raise OSError(error.errno, error.strerror, str(file)) from error


def _refuse_to_overwrite(file: Path) -> None:
    if file.exists():
        raise UsageError(f"{file} is there already", hint="give another file with -o, or remove it")
