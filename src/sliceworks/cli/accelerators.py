"""`sliceworks accelerators`: list and describe TPU slices and GPU machines."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base.names import pluralize
from sliceworks.catalog import Slice, availability, prices
from sliceworks.catalog.description import draw
from sliceworks.cli import options
from sliceworks.cli.groups import Group
from sliceworks.cli.output import Report, print_object, print_report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.catalog import Accelerator

_WIDTH = 100


def describe(accelerator: Accelerator, data: dict[str, Any]) -> str:
    """Render the description of one type; `data` is its catalog entry."""
    facts = [(label, texts) for label, texts in _facts(accelerator, data) if any(texts)]
    width = max(len(label) for label, _ in facts) + 2
    lines = [_headline(accelerator), "", *(f"  {line}".rstrip() for line in draw(accelerator)), ""]
    for label, texts in facts:
        lines += [f"{label if not number else '':<{width}}{text}" for number, text in enumerate(texts)]
    return "\n".join(lines)


def _headline(accelerator: Accelerator) -> str:
    name, chips = accelerator.type_name, pluralize(accelerator.chips, "chip")
    if isinstance(accelerator, Slice):
        hosts = pluralize(accelerator.hosts, "host")
        return f"{name}: {accelerator.generation.title}, {chips} on {hosts}, topology {accelerator.topology}"
    return f"{name}: {accelerator.chips} × {accelerator.accelerator} on one {accelerator.machine.name}"


def _facts(accelerator: Accelerator, data: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    machine, placement = accelerator.machine, data["placementPolicy"] or {}
    unit = "chip" if accelerator.kind == "tpu" else "GPU"
    chips = pluralize(accelerator.chips_per_host, unit)
    yield "Machine type", [f"{machine.name}: {chips}, {machine.cpu} vCPU, {machine.memory:g} GiB"]
    yield "Accelerator memory", [f"{accelerator.memory:,} GiB in total"]
    yield "Topologies", [", ".join(data["topologies"])]
    yield "Node labels", [f"{key}={value}" for key, value in data["nodeLabels"].items()]
    yield "Taint", [f"{taint['key']}={taint['value']}:{taint['effect']}" for taint in data["taints"]]
    yield "Pod requests", [f"{accelerator.resource}: {accelerator.chips_per_host}"]
    yield "Placement", [", ".join(f"{key} {value}" for key, value in placement.items()) or "none", *_policy(data)]
    yield "Boot disks", [", ".join(machine.disks)]
    yield "Zones", _zones(data["zones"])
    yield "USD per hour", [_priced(price) for price in data["prices"]]
    yield "Source", sorted({f"{item['source']}, {item['date']}" for item in data["prices"] if item["source"]})
    yield "Note", [prices.note(accelerator)]


def _policy(data: dict[str, Any]) -> list[str]:
    policy = (data["resourcePolicy"] or {}).get("workloadPolicy")
    return [f"a workload policy of type {policy['type']}, acceleratorTopology {policy['acceleratorTopology']}"] if policy else []


def _zones(known: dict[str, Any]) -> list[str]:
    """Zones by region, wrapped; zones that only the API lists are marked."""
    documented = set(known["documented"] or known["visible"])
    texts = []
    for region, names in groupby(sorted(known["visible"]), key=availability.region_of):
        letters = [name.removeprefix(f"{region}-") + ("" if name in documented else "*") for name in names]
        texts.append(f"{region}-{'/'.join(letters)}")
    lines = _filled(texts) or ["unknown"]
    return [*lines, "* listed by the API only; may need an allowlist"] if any("*" in text for text in texts) else lines


def _filled(texts: list[str]) -> list[str]:
    lines: list[str] = []
    for text in texts:
        if lines and len(lines[-1]) + len(text) < _WIDTH:
            lines[-1] += f", {text}"
        else:
            lines.append(text)
    return lines


def _priced(price: dict[str, Any]) -> str:
    between = price.get("usdPerHourBetween")
    if between:
        amount = f"{between[0]:,.2f} to {between[1]:,.2f}"
    else:
        amount = "unknown" if price["usdPerHour"] is None else f"{price['usdPerHour']:,.2f}"
    return f"{price['capacity']:<12}{amount} in {price['region']}"


_COLUMNS = ("type", "chips", "hosts", "topology", "machine", "usd/hour")
_WIDE = (*_COLUMNS, "region", "accelerator", "chips/host", "cpu", "memory", "zones")
_CAPACITIES = ("on-demand", "spot", "flex-start")


def _complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from sliceworks import catalog

    return [name for name in catalog.list_type_names() if name.startswith(incomplete)]


@click.group(cls=Group)
def accelerators() -> None:
    """List and describe TPU slices and GPU machines."""


@accelerators.command("list")
@click.option("--kind", type=click.Choice(["tpu", "gpu"]), help="Only TPU slices, or only GPU machines.")
@click.option("--generation", metavar="NAME", help="Only this TPU generation or GPU model: v5p, l4.")
@click.option("--chips", type=click.IntRange(1), help="Only types with this total number of chips or GPUs.")
@click.option("--zone", metavar="ZONE", help="Only types available in this zone or region, at its prices.")
@click.option(
    "--capacity", type=click.Choice(_CAPACITIES), default="on-demand", show_default=True, help="Capacity type whose price is shown."
)
@click.option("--all", "everything", is_flag=True, help="Show every topology and machine type, not only the default of each name.")
@options.output("table", "wide", "json", "yaml", "name")
@options.quiet
def list_(
    *, kind: str | None, generation: str | None, chips: int | None, zone: str | None, capacity: str, everything: bool, output: str
) -> None:
    """List accelerator types by size, with their on-demand price per hour where known."""
    from sliceworks.catalog import description

    accelerators = [
        item
        for item in _all(generation)
        if kind in (None, item.kind) and chips in (None, item.chips) and (everything or item.is_default) and _in_zone(item, zone)
    ]
    columns = _WIDE if output == "wide" else _COLUMNS
    rows = [_row(accelerator, zone, capacity)[: len(columns)] for accelerator in accelerators]
    data = [description.describe(accelerator, zone) for accelerator in accelerators] if output in ("json", "yaml") else []
    print_report(Report(columns, rows, data, [accelerator.type_name for accelerator in accelerators]), output)


@accelerators.command("show")
@click.argument("name", shell_complete=_complete)
@click.option("--topology", default="", metavar="AxBxC", help="Topology, if not the default.")
@click.option("--chips-per-host", type=click.IntRange(1), help="Chips per machine, where several machine types exist.")
@click.option("--zone", metavar="ZONE", help="Prices of this zone or region.  [default: the region with the most known prices]")
@options.output("table", "json", "yaml", "name")
@options.quiet
def show_(name: str, topology: str, chips_per_host: int | None, zone: str | None, output: str) -> None:
    """Show one type (v5p-256, l4-1, a3-highgpu-8g): hosts, a diagram, node labels, and on-demand prices with their source."""
    from sliceworks import catalog
    from sliceworks.catalog import description

    accelerator = catalog.find(name, topology, chips_per_host)
    if output == "name":
        click.echo(accelerator.type_name)
    elif output == "table":
        click.echo(describe(accelerator, description.describe(accelerator, zone)))
    else:
        print_object(description.describe(accelerator, zone), output)


def _all(generation: str | None) -> Iterator[Accelerator]:
    """Return all types, or those of one generation or model; an unknown name is an error."""
    from sliceworks import catalog
    from sliceworks.base.errors import UnknownAccelerator
    from sliceworks.catalog import gpus, tpus

    names = {item.name for item in tpus.GENERATIONS} | {gpu.name for gpu in gpus.GPUS}
    if generation is not None and generation not in names:
        raise UnknownAccelerator(f"generation {generation!r} not found", hint=f"known generations: {', '.join(sorted(names))}")
    yield from catalog.list_slices(generation)
    yield from (shape for shape in gpus.shapes() if generation in (None, shape.gpu.name))


def _in_zone(accelerator: Accelerator, zone: str | None) -> bool:
    from sliceworks.catalog import availability

    return zone is None or any(zone in (item, availability.region_of(item)) for item in availability.zones_of(accelerator))


def _row(accelerator: Accelerator, zone: str | None, capacity: str) -> tuple[object, ...]:
    from sliceworks.catalog import availability, prices

    region = availability.region_of(zone) if zone else prices.region_for(accelerator)
    machine = accelerator.machine
    return (
        accelerator.type_name,
        accelerator.chips,
        accelerator.hosts,
        accelerator.topology or "-",
        machine.name,
        prices.get_price(accelerator, region, capacity) or "unknown",
        region,
        accelerator.accelerator,
        accelerator.chips_per_host,
        machine.cpu,
        f"{machine.memory:g}Gi",
        len(availability.zones_of(accelerator)) or "unknown",
    )
