"""`sliceworks accelerators`: what TPU slices and GPU machines there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sliceworks.cli import options
from sliceworks.cli.groups import Group
from sliceworks.cli.output import Report, show, show_one

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.catalog import Accelerator

_COLUMNS = ("type", "chips", "hosts", "topology", "machine", "usd/hour")
_WIDE = (*_COLUMNS, "region", "accelerator", "chips/host", "cpu", "memory", "zones")
_CAPACITIES = ("on-demand", "spot", "flex-start")


def _complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from sliceworks import catalog

    return [name for name in catalog.type_names() if name.startswith(incomplete)]


@click.group(cls=Group)
def accelerators() -> None:
    """Look up TPU slices and GPU machines."""


@accelerators.command("list")
@click.option("--kind", type=click.Choice(["tpu", "gpu"]), help="Only TPU slices, or only GPU machines.")
@click.option("--generation", metavar="NAME", help="Only this generation of TPU or model of GPU: v5p, l4.")
@click.option("--chips", type=click.IntRange(1), help="Only with so many chips or GPUs in all.")
@click.option("--zone", metavar="ZONE", help="Only what can be had in this zone or region, at its prices.")
@click.option("--capacity", type=click.Choice(_CAPACITIES), default="on-demand", show_default=True, help="Whose price to show.")
@click.option("--all", "everything", is_flag=True, help="Every topology and machine type, not only what the bare name means.")
@options.output("table", "wide", "json", "yaml", "name")
@options.quiet
def list_(
    *, kind: str | None, generation: str | None, chips: int | None, zone: str | None, capacity: str, everything: bool, output: str
) -> None:
    """List every type, small ones first, with its list price per hour where that is known."""
    from sliceworks.catalog import descriptions

    found = [
        each
        for each in _all(generation)
        if kind in (None, each.kind) and chips in (None, each.chips) and (everything or each.is_default) and _in_zone(each, zone)
    ]
    columns = _WIDE if output == "wide" else _COLUMNS
    rows = [_row(each, zone, capacity)[: len(columns)] for each in found]
    data = [descriptions.describe(each, zone) for each in found] if output in ("json", "yaml") else []
    show(Report(columns, rows, data, [each.type_name for each in found]), output)


@accelerators.command("show")
@click.argument("name", shell_complete=_complete)
@click.option("--topology", metavar="AxBxC", help="One of its other topologies.")
@click.option("--chips-per-host", type=click.IntRange(1), help="Machines with so many chips, where there is a choice.")
@click.option("--zone", metavar="ZONE", help="Prices of this zone or region.  [default: where they are best known]")
@options.output("table", "json", "yaml", "name")
@options.quiet
def show_(name: str, topology: str | None, chips_per_host: int | None, zone: str | None, output: str) -> None:
    """Show one type (v5p-256, l4-1, a3-highgpu-8g): its hosts, a drawing, its labels, and its list price with the source."""
    from sliceworks import catalog
    from sliceworks.catalog import descriptions

    found = catalog.find(name, topology, chips_per_host)
    if output == "name":
        click.echo(found.type_name)
    elif output == "table":
        from sliceworks.cli.accelerator_page import page

        click.echo(page(found, descriptions.describe(found, zone)))
    else:
        show_one(descriptions.describe(found, zone), output)


def _all(generation: str | None) -> Iterator[Accelerator]:
    """Everything, or one generation or model; a name that is neither is refused."""
    from sliceworks import catalog
    from sliceworks.base.errors import UnknownAccelerator
    from sliceworks.catalog import gpus, tpus

    names = {each.name for each in tpus.GENERATIONS} | {each.name for each in gpus.GPUS}
    if generation is not None and generation not in names:
        raise UnknownAccelerator(f"no generation is called {generation!r}", hint=f"there are {', '.join(sorted(names))}")
    yield from catalog.slices(generation)
    yield from (shape for shape in gpus.shapes() if generation in (None, shape.gpu.name))


def _in_zone(accelerator: Accelerator, zone: str | None) -> bool:
    from sliceworks.catalog import zones

    return zone is None or any(zone in (each, zones.region_of(each)) for each in zones.of(accelerator))


def _row(accelerator: Accelerator, zone: str | None, capacity: str) -> tuple[object, ...]:
    from sliceworks.catalog import prices, zones

    region = zones.region_of(zone) if zone else prices.region_for(accelerator)
    machine = accelerator.machine
    return (
        accelerator.type_name,
        accelerator.chips,
        accelerator.hosts,
        accelerator.topology or "-",
        machine.name,
        prices.price(accelerator, region, capacity) or "unknown",
        region,
        accelerator.accelerator,
        accelerator.chips_per_host,
        machine.cpu,
        f"{machine.memory:g}Gi",
        len(zones.of(accelerator)) or "unknown",
    )
