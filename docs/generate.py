"""Writes the pages that are made from the program itself: the references of commands, accelerators and documents.

python docs/generate.py            write
python docs/generate.py --check    fail when a page is out of date
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from contracts import contract
from environment_fields import environment
from failures import failures
from gateway_fields import gateway
from load_fields import load_test
from numbers_page import metrics
from scenario_fields import scenarios
from serving_fields import serving
from sliceworks import catalog
from sliceworks.catalog import data, gpus, prices, rates, topologies, tpus, zones
from sliceworks.cli.main import PROGRAM, cli
from training_fields import training
from why_causes import causes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

REFERENCE = Path(__file__).parent / "reference"
_COMMANDS = """\
# Commands

Noun, then verb. This page is made from the program by `make fix`.
"""
_ACCELERATORS = """\
# Accelerators

What the catalogue knows. This page is made from it by `make fix`; `sliceworks accelerators list` and `show` print the same, with
every size, topology and zone. Prices are list prices in USD an hour, on demand, where they are known best: they are data with a
source and a date, never promises. *Unknown* means that no source tells.

What an environment, a slice or a day costs is reckoned by its region. TPUs have a price per chip in each region. CPU and GPU
machines are priced in every region that the list of {region_list} names, by their vCPUs, memory and GPUs: on demand, and
GPU machines as spot too. Spot prices change from month to month. What the list has not, such as CPU machines in `us-central2`,
stays unknown and is left out of sums, which say so. The currency is USD; taxes, discounts, disks and traffic are not in it.
"""
_RULES = """\
## Topologies

- A type name counts chips (v5e, v6e) or TensorCores, two to a chip (v4, v5p, 7x): `v5p-256` has 128 chips.
- Hosts = chips ÷ chips per host. A slice of several hosts is made of four-chip machines. `2x4` is one machine with eight chips
  or two with four.
- Two dimensions: 1x1, then a square whose side is a power of two, or two such squares side by side, up to 16x16.
- Three dimensions: 2x2x1, 2x2x2, 2x2x4, 2x4x4 (7x: 1x1x1 too), then boxes AxBxC of 4x4x4 cubes with A ≤ B ≤ C ≤ 256. v4 takes the
  axes in any order.
- Where one size has several boxes, a bare type name means the most compact: the one whose sides have the least sum.
- A pool of several hosts has a compact placement with its topology; one of generation 7x has a workload policy instead; a single
  host has none.
"""


def commands() -> str:
    """The reference of commands."""
    return "\n".join([_COMMANDS, *(_section(context) for context in _walk(cli, None, PROGRAM))])


def _walk(command: click.Command, parent: click.Context | None, name: str) -> Iterator[click.Context]:
    context = click.Context(
        command, parent=parent, info_name=name, terminal_width=100, max_content_width=100, help_option_names=["-h", "--help"]
    )
    yield context
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            if found is not None and not found.hidden:
                yield from _walk(found, context, child)


def _section(context: click.Context) -> str:
    return f"## {context.command_path}\n\n```text\n{context.get_help()}\n```\n"


def accelerators() -> str:
    """The reference of accelerators."""
    parts = [_ACCELERATORS.format(region_list=rates.source().date), "## TPU generations\n", _generations(), _RULES]
    for generation in tpus.GENERATIONS:
        parts += [f"### {generation.name}: {generation.title}\n", _slices(generation)]
    parts += ["## GPU machines\n", _gpus(), "## Sources\n", _sources()]
    return "\n".join(parts)


def _generations() -> str:
    rows = (
        (each.name, f"`{each.label}`", f"`{each.prefix}-N`", each.dimensions, f"{each.memory} GiB", _sizes(each), _machines(each))
        for each in tpus.GENERATIONS
    )
    columns = ("generation", "`gke-tpu-accelerator`", "names", "dimensions", "memory per chip", "chips in a slice", "machine types")
    return _table(columns, rows)


def _sizes(generation: tpus.Generation) -> str:
    sizes = list(generation.sizes())
    whole = f", {generation.pod}" if generation.pod > generation.largest else ""
    return f"{sizes[0]}–{generation.largest}{whole}"


def _machines(generation: tpus.Generation) -> str:
    return ", ".join(f"`{each.name}` ({each.cpu} vCPU, {each.memory:g} GiB)" for each in generation.machines)


def _slices(generation: tpus.Generation) -> str:
    """The sizes up to a thousand chips; the rest follows the rule."""
    shown = [each for each in catalog.slices(generation.name, defaults=True) if each.chips <= 1024]
    rows = ((f"`{each.type_name}`", each.chips, each.hosts, each.topology, _others(each), _price(each)) for each in shown)
    return _table(("type", "chips", "hosts", "topology", "other topologies", "USD per hour"), rows)


def _others(slice_: catalog.Slice) -> str:
    return ", ".join(topologies.render(axes) for axes in slice_.generation.topologies(slice_.chips)[1:]) or "–"


def _price(accelerator: catalog.Accelerator) -> str:
    region = prices.region_for(accelerator)
    found = prices.price(accelerator, region)
    return f"{found} ({region})" if found else f"unknown{': ' + prices.note(accelerator) if prices.note(accelerator) else ''}"


def _gpus() -> str:
    rows = (
        (
            f"`{each.type_name}`",
            f"`{each.machine.name}`",
            f"`{each.accelerator}`",
            f"{each.machine.cpu} vCPU, {each.machine.memory:g} GiB",
            f"{each.machine.local_ssds} × 375 GiB" if each.machine.local_ssds else "–",
            f"{each.network.nics} NICs, GPUDirect {each.network.direct}" if each.network else "–",
            len(zones.of(each)) or "unknown",
            _price(each),
        )
        for each in gpus.shapes()
    )
    columns = ("type", "machine type", "`gke-accelerator`", "shape", "local SSD", "extra network", "zones", "USD per hour")
    return _table(columns, rows)


def _sources() -> str:
    return _table(("source", "read on"), (data.source(key) for key in data.load("sources")))


def _table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    columns = list(columns)
    lines = [columns, ["---"] * len(columns), *([str(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


PAGES: dict[Path, Callable[[], str]] = {
    REFERENCE / "commands.md": commands,
    REFERENCE / "accelerators.md": accelerators,
    REFERENCE / "contract.md": contract,
    REFERENCE / "environment.md": environment,
    REFERENCE / "errors.md": failures,
    REFERENCE / "why.md": causes,
    REFERENCE / "gateway.md": gateway,
    REFERENCE / "load-test.md": load_test,
    REFERENCE / "metrics.md": metrics,
    REFERENCE / "model-service.md": serving,
    REFERENCE / "scenario.md": scenarios,
    REFERENCE / "training-job.md": training,
}


def main() -> int:
    check = "--check" in sys.argv[1:]
    failed = 0
    for path, page in PAGES.items():
        wanted = page()
        if not check:
            path.write_text(wanted)
        elif not path.exists() or path.read_text() != wanted:
            print(f"{path} is out of date: make fix", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
