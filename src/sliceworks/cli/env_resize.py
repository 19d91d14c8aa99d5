"""`sliceworks env resize`: slices away for the night, and back, with nothing else touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sliceworks.base import files, progress
from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.base.words import closest
from sliceworks.cli import options
from sliceworks.cli.env_sites import file_option, inside_of, read_environment, skip_option, sound, table_of, twin_option
from sliceworks.cli.output import show

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sliceworks.infra.terraform import Change
    from sliceworks.specs.environment import Environment

_STAGE = "2-cluster"


@click.command()
@click.argument("pool")
@click.argument("count", type=click.IntRange(min=0))
@file_option
@skip_option
@twin_option
@options.yes
@options.output("table", "json", "yaml", "name")
@options.quiet
def resize(*, pool: str, count: int, file: Path, skipped: tuple[str, ...], twin: bool, yes: bool, output: str) -> int:
    """Have COUNT slices in a TPU pool from now on: none for the night, all of them again in the morning.

    The document is changed in place, and its comments stay. Only the stage of the cluster is applied, and the queues learn how much
    there is to share; when more than this pool would change, nothing is done.
    """
    from sliceworks.infra import edits

    _refuse_unknown(pool, read_environment(file))
    before = file.read_text(encoding="utf-8")
    text = edits.set_number(before, str(file), ("spec", "pools", "tpu", pool, "count"), count)
    inside = inside_of(sound(file, skipped, text=text), file, twin=twin)
    site = inside.site
    with progress.working(f"Planning {pool}"):
        stage, changes = site.plan_alone(_STAGE)
    changes = sorted((each for each in changes if each.action not in ("noop", "read")), key=lambda change: change.address)
    show(table_of([(stage, changes)]), output)
    _refuse_others(pool, changes)
    if changes:
        options.confirm(f"Have {count} slices in {pool}?", yes or twin)
    if text != before:
        files.put(file.resolve(), text.encode(), mode=file.stat().st_mode & 0o777)
    if changes:
        with progress.working(f"Applying {stage.name}") as step:
            site.apply_alone(_STAGE, step)
            step("the queues")
            inside.requeue(site.made(_STAGE))
    return 0


def _refuse_unknown(pool: str, environment: Environment) -> None:
    known = environment.spec.pools.tpu
    if pool in known:
        return
    hint = closest(pool, known) or f"TPU pools: {', '.join(known) or 'none'}"
    raise UsageError(f"{environment.metadata.name} has no TPU pool {pool}", hint=hint)


def _refuse_others(pool: str, changes: Iterable[Change]) -> None:
    """The document may have been changed elsewhere, too: that is for `apply`, which shows it whole."""
    others = [each.address for each in changes if not _is_of(pool, each.address)]
    if others:
        raise SliceworksError(f"more than {pool} would change: {', '.join(others)}", hint="`sliceworks env apply` first")


def _is_of(pool: str, address: str) -> bool:
    """Whether a resource is a slice of a pool: its key is the pool's name and a number."""
    name, _, number = address.rpartition('["')[2].removesuffix('"]').rpartition("-")
    return name == pool and number.isdigit()
