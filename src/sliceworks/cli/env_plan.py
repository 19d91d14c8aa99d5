"""`env plan` and `env show`: planned changes with their price, and deployed resources with their drift."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import UsageError
from sliceworks.cli import options
from sliceworks.cli.env_apply import manifests_option
from sliceworks.cli.env_changes import plan_environment
from sliceworks.cli.env_site import (
    CLUSTER_STAGE,
    file_option,
    open_environment,
    read_environment,
    require_valid,
    skip_option,
    twin_option,
)
from sliceworks.cli.output import Report, print_report

if TYPE_CHECKING:
    from sliceworks.cli.env_site import EnvironmentCluster
    from sliceworks.specs.environment import Environment

_DRIFT = {"update": "changed", "replace": "changed", "delete": "deleted", "create": "deleted", "refused": "changed"}


@click.command()
@file_option
@skip_option
@twin_option
@manifests_option
@click.option("--full", is_flag=True, help="Also print Terraform's own plan of each stage.")
@click.option(
    "--plan-out", type=click.Path(dir_okay=False, path_type=Path), help="Save the plan to a file, for `env apply --plan FILE`."
)
@options.output("table", "json", "yaml", "name")
@options.quiet
def plan(
    *, file: Path, skipped: tuple[str, ...], twin: bool, manifests: Path | None, full: bool, plan_out: Path | None, output: str
) -> int:
    """Show planned changes of each stage and of the cluster, and their cost.

    If the cluster exists, changes to its objects come from a server-side dry run. With --full, Terraform's own plan of each stage
    follows. With --plan-out, the plan is saved for `env apply --plan`.
    """
    from sliceworks.infra.plan_file import write_plan

    if full and output != "table":
        raise UsageError("--full cannot be combined with -o json or -o yaml", hint="remove -o")
    inside = open_environment(require_valid(file, skipped), file, twin=twin, manifests=manifests, graphs="require_valid")
    environment = inside.site.environment
    try:
        planned = plan_environment(inside, described=full)
        if plan_out is not None:
            write_plan(plan_out, inside.site, planned.stages)
            progress.say(f"plan written to {plan_out}; apply it with `sliceworks env apply --plan {plan_out}`")
    finally:
        inside.site.discard_plans()
    report = planned.report()
    print_report(report, output)
    if not report.rows:
        progress.say(f"{environment.metadata.name}: no changes")
    if output == "table":
        _print_costs(environment)
    if full:
        click.echo("\n" + "\n".join(f"# {item.stage.name}\n{item.description}\n" for item in planned.stages), nl=False)
    print_unsupported(environment)
    return 0


@click.command(name="show")
@file_option
@click.option(
    "--drift", is_flag=True, help="Compare with the cloud and the cluster, and show what was changed or deleted outside Sliceworks."
)
@twin_option
@manifests_option
@options.output("table", "json", "yaml", "name")
def show_environment(*, file: Path, drift: bool, twin: bool, manifests: Path | None, output: str) -> int:
    """Show the resources of each stage and the objects in the cluster; with --drift, also their drift.

    Exit code 1 if there is drift.
    """
    inside = open_environment(read_environment(file), file, twin=twin, manifests=manifests)
    rows: list[tuple[object, ...]] = []
    data: list[dict[str, Any]] = []
    for stage, outputs, resources in inside.site.outputs(drift=drift):
        rows.extend((stage.name, address, _DRIFT.get(resources[address], "")) for address in resources)
        drifted = {address: _DRIFT.get(action, action) for address, action in resources.items() if action}
        data.append({"stage": stage.name, "outputs": outputs, "resources": list(resources), "drift": drifted})
        if stage.name == CLUSTER_STAGE:
            _add_cluster(inside, outputs, rows, data, drift=drift)
    columns = ("stage", "resource", "drift") if drift else ("stage", "resource")
    print_report(Report(columns, [row[: len(columns)] for row in rows], data, [str(row[1]) for row in rows]), output)
    return 1 if any(item["drift"] for item in data) else 0


def _add_cluster(
    inside: EnvironmentCluster, outputs: dict[str, Any], rows: list[tuple[object, ...]], data: list[dict[str, Any]], *, drift: bool
) -> None:
    """Rows of the objects in the cluster. Objects added to the document since the last apply do not count as drift."""
    listed = inside.listed(outputs)
    listed_resources = {what for _step, what in listed}
    compared = inside.compare(outputs) if drift and listed else []
    drifted = {str(item.reference): _DRIFT[item.action] for item in compared if item.action in _DRIFT and item.action != "delete"}
    drifted = {what: how for what, how in drifted.items() if what in listed_resources}
    rows.extend((f"cluster/{step}", what, drifted.get(what, "")) for step, what in listed)
    if listed:
        data.append({"stage": "cluster", "outputs": {}, "resources": [what for _step, what in listed], "drift": drifted})


def print_unsupported(environment: Environment) -> None:
    """Print the parts of the document that `apply` does not support."""
    from sliceworks.infra import images
    from sliceworks.infra.cluster import composition

    for step in composition.manual_steps(environment, builds=images.own_checkout() is not None):
        progress.say(f"note: {step}")


def _print_costs(environment: Environment) -> None:
    from sliceworks.base import tables
    from sliceworks.infra.pools import HOURS_PER_MONTH, estimate_costs

    costs = estimate_costs(environment.spec)
    if not costs:
        return
    rows: list[tuple[object, ...]] = [
        (item.name, item.what, item.count, _money(item.hourly), _money(item.hourly, HOURS_PER_MONTH)) for item in costs
    ]
    known = [cost.hourly for cost in costs if cost.hourly is not None]
    rows.append(("together", "where known", "", _money(sum(known)), _money(sum(known), HOURS_PER_MONTH)))
    click.echo()
    click.echo(tables.render(("pool", "of", "count", "USD/hour", "USD/month"), rows), nl=False)


def _money(hourly: float | None, times: int = 1) -> str:
    return "unknown" if hourly is None else f"{hourly * times:,.2f}"
