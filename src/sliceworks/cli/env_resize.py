"""`env resize`: change the number of slices of one TPU pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sliceworks.base import files, progress
from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.base.names import suggest_name
from sliceworks.cli import options
from sliceworks.cli.env_changes import describe_work, ended_pools, print_cost
from sliceworks.cli.env_site import (
    change_report,
    file_option,
    open_environment,
    read_environment,
    require_valid,
    skip_option,
    twin_option,
)
from sliceworks.cli.output import print_report
from sliceworks.specs.environment.cluster import MAX_SLICES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from sliceworks.cli.env_site import EnvironmentCluster
    from sliceworks.infra.terraform import Change
    from sliceworks.specs.environment import Environment

_STAGE = "2-cluster"


@click.command()
@click.argument("pool")
@click.argument("count", type=click.IntRange(min=0, max=MAX_SLICES))
@file_option
@skip_option
@twin_option
@options.yes
@options.output("table", "json", "yaml", "name")
@options.quiet
def resize(*, pool: str, count: int, file: Path, skipped: tuple[str, ...], twin: bool, yes: bool, output: str) -> int:
    """Set the number of slices of a TPU pool to COUNT; 0 is allowed.

    The document is edited in place and keeps its comments. Only the cluster stage is applied, and queue quotas are updated. If
    anything besides this pool would change, nothing is applied. Jobs and models on slices that would be deleted are named, and you
    confirm.
    """
    from sliceworks.infra import environment_file

    _refuse_unknown(pool, read_environment(file))
    before = file.read_text(encoding="utf-8")
    text = environment_file.set_number(before, str(file), ("spec", "pools", "tpu", pool, "count"), count)
    inside = open_environment(require_valid(file, skipped, text=text), file, twin=twin)
    try:
        _resize(inside, pool, count, yes=yes, output=output, write=lambda: _write(file, before, text))
    finally:
        inside.site.discard_plans()
    return 0


def _write(file: Path, before: str, text: str) -> None:
    if text != before:
        files.write_atomic(file.resolve(), text.encode(), mode=file.stat().st_mode & 0o777)


def _resize(inside: EnvironmentCluster, pool: str, count: int, *, yes: bool, output: str, write: Callable[[], None]) -> None:
    """Plan, print, confirm and apply; `write` writes the document after the confirmation."""
    site = inside.site
    with progress.task(f"Planning {pool}"):
        plan = site.plan_stage(_STAGE)
    changes = plan.effective
    print_report(change_report([(plan.stage, changes)]), output)
    _refuse_others(pool, changes)
    if changes:
        if not progress.is_quiet():
            print_cost(inside)
        pools = ended_pools(changes)
        ends = describe_work(inside.running_work(plan.outputs, pools)) if pools else ""
        question = f"Set {pool} to {count} slices?{f' ({ends})' if ends else ''}"
        if ends and yes:
            progress.say(ends)
        options.confirm(question, yes or (inside.twin and not ends))
    write()
    if changes:
        with progress.task(f"Applying {plan.stage.name}") as step:
            site.apply_stage(plan, step)
            step("queue quotas")
            inside.requeue(site.outputs_of(_STAGE))


def _refuse_unknown(pool: str, environment: Environment) -> None:
    known = environment.spec.pools.tpu
    if pool in known:
        return
    hint = suggest_name(pool, known) or f"TPU pools: {', '.join(known) or 'none'}"
    raise UsageError(f"TPU pool {pool!r} not found in {environment.metadata.name}", hint=hint)


def _refuse_others(pool: str, changes: Iterable[Change]) -> None:
    """Raise if the document has other pending changes: those need `env apply`, which shows the whole plan."""
    others = [change.address for change in changes if not _is_of(pool, change.address)]
    if others:
        raise SliceworksError(
            f"resources besides {pool} would change: {', '.join(others)}", hint="run `sliceworks env apply` first"
        )


def _is_of(pool: str, address: str) -> bool:
    """Whether a resource is a slice of the pool: its key is the pool's name and an index."""
    name, _, number = address.rpartition('["')[2].removesuffix('"]').rpartition("-")
    return name == pool and number.isdigit()
