"""What a person reads about one accelerator: a headline, a drawing, and the facts."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from sliceworks.base.words import counted
from sliceworks.catalog import Slice, prices, zones
from sliceworks.catalog.drawings import draw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.catalog import Accelerator

_WIDTH = 100


def page(accelerator: Accelerator, data: dict[str, Any]) -> str:
    """The whole page; `data` is what the catalogue says of it."""
    facts = [(label, texts) for label, texts in _facts(accelerator, data) if any(texts)]
    width = max(len(label) for label, _ in facts) + 2
    lines = [_headline(accelerator), "", *(f"  {line}".rstrip() for line in draw(accelerator)), ""]
    for label, texts in facts:
        lines += [f"{label if not number else '':<{width}}{text}" for number, text in enumerate(texts)]
    return "\n".join(lines)


def _headline(accelerator: Accelerator) -> str:
    name, chips = accelerator.type_name, counted(accelerator.chips, "chip")
    if isinstance(accelerator, Slice):
        hosts = counted(accelerator.hosts, "host")
        return f"{name}: {accelerator.generation.title}, {chips} on {hosts}, topology {accelerator.topology}"
    return f"{name}: {accelerator.chips} × {accelerator.accelerator} on one {accelerator.machine.name}"


def _facts(accelerator: Accelerator, data: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    machine, placement = accelerator.machine, data["placementPolicy"] or {}
    unit = "chip" if accelerator.kind == "tpu" else "GPU"
    chips = counted(accelerator.chips_per_host, unit)
    yield "Machine type", [f"{machine.name}: {chips}, {machine.cpu} vCPU, {machine.memory:g} GiB"]
    yield "Accelerator memory", [f"{accelerator.memory:,} GiB in all"]
    yield "Topologies", [", ".join(data["topologies"])]
    yield "Node labels", [f"{key}={value}" for key, value in data["nodeLabels"].items()]
    yield "Taint", [f"{taint['key']}={taint['value']}:{taint['effect']}" for taint in data["taints"]]
    yield "A pod asks for", [f"{accelerator.resource}: {accelerator.chips_per_host}"]
    yield "Placement", [", ".join(f"{key} {value}" for key, value in placement.items()) or "none", *_policy(data)]
    yield "Boot disks", [", ".join(machine.disks)]
    yield "Zones", _zones(data["zones"])
    yield "USD per hour", [_priced(each) for each in data["prices"]]
    yield "Source", sorted({f"{each['source']}, {each['date']}" for each in data["prices"] if each["source"]})
    yield "Note", [prices.note(accelerator)]


def _policy(data: dict[str, Any]) -> list[str]:
    policy = (data["resourcePolicy"] or {}).get("workloadPolicy")
    return [f"a workload policy of type {policy['type']}, acceleratorTopology {policy['acceleratorTopology']}"] if policy else []


def _zones(known: dict[str, Any]) -> list[str]:
    """Zones by region in lines of a good length; where some are documented, those that only the API shows are marked."""
    documented = set(known["documented"] or known["visible"])
    texts = []
    for region, names in groupby(sorted(known["visible"]), key=zones.region_of):
        letters = [name.removeprefix(f"{region}-") + ("" if name in documented else "*") for name in names]
        texts.append(f"{region}-{'/'.join(letters)}")
    lines = _filled(texts) or ["unknown"]
    return [*lines, "* seen in the API alone; may need an allow-list"] if any("*" in text for text in texts) else lines


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
