"""`sliceworks train list`: training jobs of a namespace, a team or all, once or as they change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.words import closest
from sliceworks.cli import options, train_cluster
from sliceworks.cli.output import show
from sliceworks.training.words import STATES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.kube import Client

Object = dict[str, Any]


@click.command("list")
@click.option("--queue", metavar="NAME", help="Only jobs of this queue.")
@click.option("--team", metavar="NAME", help="Only jobs of this team, in whichever namespaces it has.")
@click.option("--type", "kind", metavar="TYPE", help="Only jobs on this type of slice.")
@click.option("--state", "states", type=click.Choice(STATES), multiple=True, help="Only jobs in this state; may be said again.")
@options.namespace
@options.all_namespaces
@options.cluster
@options.output("table", "wide", "json", "yaml", "name")
@options.watch
@options.quiet
def list_(*, team: str | None, namespace: str, everywhere: bool, output: str, watch: bool, **rest: Any) -> int:
    """List the training jobs of a namespace, a team or all: their queue, what they run on, and how they stand.

    What runs comes first, oldest on top; then what waits, in the order of arrival; then what has ended, the latest on top.
    """
    where = {key: rest.pop(key) for key in ("kubeconfig", "context", "twin")}
    everywhere = everywhere or bool(team)

    async def work(client: Client) -> None:
        from sliceworks.cli.train_rows import Filter, Table

        places = await _namespaces(client, team) if team else None
        table = Table(Filter(rest["queue"], rest["kind"], rest["states"], places), output, everywhere=everywhere)
        place = next(iter(places)) if places and len(places) == 1 else None if everywhere else client.namespace
        if watch:
            from sliceworks.cli.train_watch import watch_jobs

            await watch_jobs(client, place, table)
            return
        found = table.wanted(await train_cluster.all_jobsets(client, place, labels=table.filter.labels()))
        if not found and output in ("table", "wide"):
            progress.say(f"There are no such training jobs in {place or 'the cluster'}.")
            return
        show(table.report(found), output)

    train_cluster.run(work, namespace, where)
    return 0


async def _namespaces(client: Client, team: str) -> frozenset[str]:
    """The namespaces of a team: those that have its label, else the one of its name."""
    from sliceworks.base.errors import Forbidden, SliceworksError
    from sliceworks.kube.well_known import NAMESPACE
    from sliceworks.training.queues import TEAM

    try:
        found = (await client.list_all(NAMESPACE)).items
    except Forbidden:
        return frozenset({team})
    teams = _by_team(found, TEAM)
    if team in teams:
        return teams[team]
    if any(each["metadata"]["name"] == team for each in found):
        return frozenset({team})
    remedy = closest(team, teams) or f"there is {', '.join(sorted(teams)) or 'none'}"
    raise SliceworksError(f"there is no team {team!r} in this cluster", hint=remedy)


def _by_team(namespaces: Iterable[Object], label: str) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for each in namespaces:
        team = (each["metadata"].get("labels") or {}).get(label)
        if team:
            found[team] = found.get(team, frozenset()) | {each["metadata"]["name"]}
    return found
