"""`sliceworks env unlock` and `env adopt`: put right what a run that was stopped left behind."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003

import click

from sliceworks.base import progress
from sliceworks.base.errors import SliceworksError
from sliceworks.cli import options
from sliceworks.cli.env_sites import file_option, read_environment, site_of, twin_option


@click.command()
@click.argument("stage")
@click.argument("lock", metavar="ID")
@file_option
@twin_option
@options.yes
@options.quiet
def unlock(file: Path, stage: str, lock: str, twin: bool, yes: bool) -> int:
    """Free the state of a stage that somebody who is gone has locked. The error names both the stage and the ID."""
    site = site_of(read_environment(file), twin=twin)
    options.confirm(f"Free {stage} of {site.environment.metadata.name}? Nobody may be at work on it.", yes or twin)
    site.unlock(stage, lock)
    progress.say(f"{stage} is free: `sliceworks env apply` goes on")
    return 0


@click.command()
@click.argument("stage")
@click.argument("address")
@file_option
@twin_option
@options.quiet
def adopt(file: Path, stage: str, address: str, twin: bool) -> int:
    """Take over a thing that is there already, as if it had been made from here: from then on it is changed and removed, too.

    ADDRESS is what the plan calls it. Use it when you know that an earlier run of yours made the thing.
    """
    site = site_of(read_environment(file), twin=twin)
    if not site.adopt(stage, address):
        raise SliceworksError(f"{address} is not there, or is known already", hint="`sliceworks env plan` tells what would be made")
    progress.say(f"{address} is taken over: `sliceworks env plan` tells what of it would change")
    return 0
