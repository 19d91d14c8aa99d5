"""`sliceworks train top`: chips in use by team, queue and type, as bars against what there is."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base.errors import Forbidden, NotFound
from sliceworks.cli import options, train_cluster
from sliceworks.cli.output import show_one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.kube import Client
    from sliceworks.training.usage import Usage, Use


@click.command()
@options.cluster
@options.output("table", "json", "yaml")
@options.quiet
def top(*, output: str, **where: Any) -> int:
    """Show the chips in use: by team, by queue and by type, against the quota that there is."""
    found = train_cluster.run(_read, "", where)
    if output != "table":
        show_one({key: [asdict(each) for each in getattr(found, key)] for key in ("teams", "queues", "types")}, output)
        return 0
    whole = sum(each.quota or 0 for each in found.types)
    parts = [_table("team", found.teams, whole), _table("queue", found.queues), _table("type", found.types)]
    click.echo("\n".join(parts), nl=False)
    return 0


async def _read(client: Client) -> Usage:
    from sliceworks.kube.well_known import NAMESPACE
    from sliceworks.training.usage import usage

    try:
        queues, locals_, workloads = await asyncio.gather(
            *(client.list_all(each) for each in (train_cluster.CLUSTER_QUEUES, train_cluster.LOCAL_QUEUES, train_cluster.WORKLOADS))
        )
    except NotFound as error:
        raise train_cluster.not_installed("Kueue") from error
    try:
        namespaces = (await client.list_all(NAMESPACE)).items
    except Forbidden:
        namespaces = []
    return usage(queues.items, locals_.items, workloads.items, namespaces)


def _table(what: str, found: Sequence[Use], whole: int | None = None) -> str:
    """A team has no quota of its own here: its bar is its part of everything."""
    from sliceworks.base import tables
    from sliceworks.cli.bars import bar

    rows = []
    for each in found:
        most = each.quota if each.quota is not None else whole
        rows.append((each.name, bar(each.used, most or 0), each.used, "-" if most is None else most, each.jobs, each.waiting))
    if what == "type":
        return tables.render((what, "use", "chips", "of"), [row[:4] for row in rows])
    return tables.render((what, "use", "chips", "of", "jobs", "waiting"), rows)
