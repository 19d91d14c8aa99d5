"""`train list` and `train top`: jobs, and chips in use."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import Forbidden, NotFound
from sliceworks.base.names import suggest_name
from sliceworks.cli import options, train_client
from sliceworks.cli.output import print_object, print_report
from sliceworks.kube.resources import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from sliceworks.training.status import STATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sliceworks.kube import Client
    from sliceworks.training.queue_status import ChipUsage, Usage

Object = dict[str, Any]


@click.command("list")
@click.option("--queue", metavar="NAME", help="Only jobs of this queue.")
@click.option("--team", metavar="NAME", help="Only jobs in the namespaces of this team.")
@click.option("--type", "kind", metavar="TYPE", help="Only jobs on this type of slice.")
@click.option("--state", "states", type=click.Choice(STATES), multiple=True, help="Only jobs in this state; repeatable.")
@options.namespace
@options.all_namespaces
@options.cluster
@options.output("table", "wide", "json", "yaml", "name")
@options.watch
@options.quiet
def list_(*, team: str | None, namespace: str, all_namespaces: bool, output: str, watch: bool, **rest: Any) -> int:
    """List the training jobs of a namespace, a team or all: queue, slices and state.

    Running jobs come first, oldest first; then pending jobs in order of submission; then finished jobs, latest first.
    """
    where = {key: rest.pop(key) for key in ("kubeconfig", "context", "twin")}
    all_namespaces = all_namespaces or bool(team)

    async def work(client: Client) -> None:
        from sliceworks.cli.train_table import JobFilter, JobTable

        places = await _namespaces(client, team) if team else None
        table = JobTable(JobFilter(rest["queue"], rest["kind"], rest["states"], places), output, all_namespaces=all_namespaces)
        place = next(iter(places)) if places and len(places) == 1 else None if all_namespaces else client.namespace
        if watch:
            from sliceworks.cli.train_table import watch_jobs

            await watch_jobs(client, place, table)
            return
        jobsets = table.select(await train_client.list_jobsets(client, place, labels=table.filter.labels()))
        if not jobsets and output in ("table", "wide"):
            progress.say(f"No training jobs found in {place or 'the cluster'}.")
            return
        print_report(table.report(jobsets), output)

    train_client.run(work, namespace, where)
    return 0


async def _namespaces(client: Client, team: str) -> frozenset[str]:
    """Return the namespaces of a team: those with its label, else the one with its name."""
    from sliceworks.base.errors import Forbidden, SliceworksError
    from sliceworks.kube.resources import NAMESPACE
    from sliceworks.training.queues import TEAM_LABEL

    try:
        namespaces = (await client.list_all(NAMESPACE)).items
    except Forbidden:
        return frozenset({team})
    teams = _by_team(namespaces, TEAM_LABEL)
    if team in teams:
        return teams[team]
    if any(item["metadata"]["name"] == team for item in namespaces):
        return frozenset({team})
    remedy = suggest_name(team, teams) or f"teams: {', '.join(sorted(teams)) or 'none'}"
    raise SliceworksError(f"team {team!r} not found", hint=remedy)


def _by_team(namespaces: Iterable[Object], label: str) -> dict[str, frozenset[str]]:
    frozensets: dict[str, frozenset[str]] = {}
    for namespace in namespaces:
        team = (namespace["metadata"].get("labels") or {}).get(label)
        if team:
            frozensets[team] = frozensets.get(team, frozenset()) | {namespace["metadata"]["name"]}
    return frozensets


@click.command()
@options.cluster
@options.output("table", "json", "yaml")
@options.quiet
def top(*, output: str, **where: Any) -> int:
    """Show chips in use and quota by team, queue and type."""
    usage = train_client.run(_read, "", where)
    if output != "table":
        print_object({key: [asdict(entry) for entry in getattr(usage, key)] for key in ("teams", "queues", "types")}, output)
        return 0
    total = sum(item.quota or 0 for item in usage.types)
    parts = [_table("team", usage.teams, total), _table("queue", usage.queues), _table("type", usage.types)]
    click.echo("\n".join(parts), nl=False)
    return 0


async def _read(client: Client) -> Usage:
    from sliceworks.kube.resources import NAMESPACE
    from sliceworks.training.queue_status import compute_usage

    try:
        queues, locals_, workloads = await asyncio.gather(
            *(client.list_all(queue) for queue in (CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD))
        )
    except NotFound as error:
        raise train_client.not_installed("Kueue") from error
    try:
        namespaces = (await client.list_all(NAMESPACE)).items
    except Forbidden:
        namespaces = []
    return compute_usage(queues.items, locals_.items, workloads.items, namespaces)


def _table(what: str, usages: Sequence[ChipUsage], total: int | None = None) -> str:
    """Rows of teams; a team has no quota of its own, so its bar is its share of the total."""
    from sliceworks.base import tables
    from sliceworks.cli.terminal import bar

    rows = []
    for item in usages:
        quota = item.quota if item.quota is not None else total
        rows.append((item.name, bar(item.used, quota or 0), item.used, "-" if quota is None else quota, item.jobs, item.waiting))
    if what == "type":
        return tables.render((what, "use", "chips", "of"), [row[:4] for row in rows])
    return tables.render((what, "use", "chips", "of", "jobs", "waiting"), rows)
