"""`sliceworks env plan` and `env show`: what would be made, and what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import UsageError
from sliceworks.cli import options
from sliceworks.cli.env_apply import manifests_option
from sliceworks.cli.env_cluster import STAGE
from sliceworks.cli.env_images import REGISTRY_STAGE, Images, builder, to_build
from sliceworks.cli.env_sites import file_option, inside_of, read_environment, skip_option, sound, table_of, twin_option
from sliceworks.cli.output import Report, show

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.cli.env_cluster import Inside
    from sliceworks.cli.env_sites import Named
    from sliceworks.infra.terraform import Change
    from sliceworks.specs.environment import Environment

_DRIFT = {"update": "changed", "replace": "changed", "delete": "gone", "create": "gone", "refused": "changed"}


@click.command()
@file_option
@skip_option
@twin_option
@manifests_option
@click.option("--full", is_flag=True, help="Terraform's own plan of each stage as well, with every value.")
@options.output("table", "json", "yaml", "name")
@options.quiet
def plan(*, file: Path, skipped: tuple[str, ...], twin: bool, manifests: Path | None, full: bool, output: str) -> int:
    """Show what would be made, changed and removed, stage by stage and in the cluster, and what it costs.

    Where the cluster is there already, it is asked itself what applying would change. With --full, what Terraform itself says
    about each stage comes after that.
    """
    if full and output != "table":
        raise UsageError("--full is for people", hint="leave -o out")
    inside = inside_of(sound(file, skipped), file, twin=twin, manifests=manifests, graphs="sound")
    environment = inside.site.environment
    found: list[tuple[Named, list[Change]]] = []
    made, words = dict[str, Any](), list[str]()
    with progress.working(f"Planning {environment.metadata.name}") as step:
        for stage, changes, outputs, said in inside.site.plan(in_words=full):
            step(stage.name)
            made[stage.name] = outputs
            words.append(f"# {stage.name}\n{said}\n")
            told = [change for change in changes if change.action not in ("noop", "read")]
            found.append((stage, sorted(told, key=lambda change: change.address)))
        step("images")
        found.append((Images(), to_build(builder(inside.site, None), registry=bool(made[REGISTRY_STAGE]))))
        step("what is in the cluster")
        outcomes = inside.compare(made[STAGE])
    report = table_of(found, outcomes)
    show(report, output)
    if not report.rows:
        progress.say(f"{environment.metadata.name}: nothing would change")
    if output == "table":
        _tell_costs(environment)
    if full:
        click.echo("\n" + "\n".join(words), nl=False)
    tell_undone(environment)
    return 0


@click.command(name="show")
@file_option
@click.option("--drift", is_flag=True, help="Ask the cloud and the cluster too, and tell what somebody else changed or removed.")
@twin_option
@manifests_option
@options.output("table", "json", "yaml", "name")
def show_environment(*, file: Path, drift: bool, twin: bool, manifests: Path | None, output: str) -> int:
    """Show what each stage has made and what is in the cluster, and with --drift what is no longer as it was made.

    Exit code 1 when something is not.
    """
    inside = inside_of(read_environment(file), file, twin=twin, manifests=manifests)
    rows: list[tuple[object, ...]] = []
    data: list[dict[str, Any]] = []
    for stage, outputs, resources in inside.site.outputs(drift=drift):
        rows.extend((stage.name, address, _DRIFT.get(resources[address], "")) for address in resources)
        drifted = {address: _DRIFT.get(action, action) for address, action in resources.items() if action}
        data.append({"stage": stage.name, "outputs": outputs, "resources": list(resources), "drift": drifted})
        if stage.name == STAGE:
            _add_cluster(inside, outputs, rows, data, drift=drift)
    columns = ("stage", "resource", "drift") if drift else ("stage", "resource")
    show(Report(columns, [row[: len(columns)] for row in rows], data, [str(row[1]) for row in rows]), output)
    return 1 if any(each["drift"] for each in data) else 0


def _add_cluster(
    inside: Inside, outputs: dict[str, Any], rows: list[tuple[object, ...]], data: list[dict[str, Any]], *, drift: bool
) -> None:
    """What is in the cluster. What the document has come to ask for since is no drift: it was never made."""
    listed = inside.listed(outputs)
    made = {what for _step, what in listed}
    compared = inside.compare(outputs) if drift and listed else []
    drifted = {str(each.who): _DRIFT[each.action] for each in compared if each.action in _DRIFT and each.action != "delete"}
    drifted = {what: how for what, how in drifted.items() if what in made}
    rows.extend((f"cluster/{step}", what, drifted.get(what, "")) for step, what in listed)
    if listed:
        data.append({"stage": "cluster", "outputs": {}, "resources": [what for _step, what in listed], "drift": drifted})


def tell_undone(environment: Environment) -> None:
    """Say what the document asks for and applying does not do."""
    from sliceworks.infra import sources
    from sliceworks.infra.cluster import notes

    for each in notes.undone(environment, builds=sources.own() is not None):
        progress.say(f"note: {each}")


def _tell_costs(environment: Environment) -> None:
    from sliceworks.base import tables
    from sliceworks.infra.costs import HOURS_OF_A_MONTH, costs

    found = costs(environment.spec)
    if not found:
        return
    rows: list[tuple[object, ...]] = [
        (each.name, each.what, each.count, _money(each.hourly), _money(each.hourly, HOURS_OF_A_MONTH)) for each in found
    ]
    known = [each.hourly for each in found if each.hourly is not None]
    rows.append(("together", "where known", "", _money(sum(known)), _money(sum(known), HOURS_OF_A_MONTH)))
    click.echo()
    click.echo(tables.render(("pool", "of", "count", "USD/hour", "USD/month"), rows), nl=False)


def _money(hourly: float | None, times: int = 1) -> str:
    return "unknown" if hourly is None else f"{hourly * times:,.2f}"
