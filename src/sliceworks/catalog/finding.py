"""Finds an accelerator by what people and manifests call it, and says what is wrong when there is none."""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from sliceworks.base.errors import UnknownAccelerator, WrongShape
from sliceworks.catalog import cpus, gpus, topologies
from sliceworks.catalog.gpus import GpuShape
from sliceworks.catalog.tpus import GENERATIONS, Generation, Slice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.catalog.machines import Machine
    from sliceworks.catalog.topologies import Axes

Accelerator = Slice | GpuShape

_MOST_NAMED = 4
_numbered = re.compile(r"(.+)-([1-9][0-9]{0,17})").fullmatch


def find(name: str, topology: str | None = None, chips_per_host: int | None = None) -> Accelerator:
    """The slice or GPU machine of a type name (`v5p-256`, `l4-1`) or a GPU machine type (`a3-highgpu-8g`)."""
    shape = gpus.by_type_name(name) or gpus.machines().get(name)
    if shape is not None:
        if topology is not None or chips_per_host not in (None, shape.chips):
            raise WrongShape(f"{name} is one machine with {shape.chips} GPUs", hint="leave its topology and chips per host out")
        return shape
    generation, chips = _parse_name(name)
    known = generation.topologies(chips)
    axes = known[0] if topology is None else _axes(generation, topology)
    if prod(axes) != chips:
        shown = _list(topologies.render(each) for each in known)
        raise WrongShape(f"{name} has {chips} chips, topology {topology} has {prod(axes)}", hint=f"topologies of {name}: {shown}")
    return generation.slice(axes, _machine(generation, axes, chips_per_host))


def slice_for(accelerator: str, topology: str, chips_per_host: int | None = None) -> Slice:
    """The slice that a pod's node selectors and its request for chips name."""
    generation = next((each for each in GENERATIONS if each.label == accelerator), None)
    if generation is None:
        raise _unknown(f"no TPU is called {accelerator!r}", accelerator, [each.label for each in GENERATIONS])
    axes = _axes(generation, topology)
    return generation.slice(axes, _machine(generation, axes, chips_per_host))


def gpu_for(machine_name: str, accelerator: str = "", count: int = 0) -> GpuShape:
    """The GPU machine of a machine type, with the GPUs attached to it where it comes without."""
    shape = gpus.machines().get(machine_name)
    if shape is None:
        gpu = gpus.by_label(accelerator)
        if gpu is None:
            names = [each.label for each in gpus.GPUS] if accelerator else list(gpus.machines())
            raise _unknown(f"no GPU is called {accelerator or machine_name!r}", accelerator or machine_name, names)
        return gpus.attached(gpu, count or 1, machine_name)
    if accelerator not in ("", shape.gpu.label) or count not in (0, shape.chips):
        said = f"{machine_name} comes with {shape.chips} × {shape.gpu.label}, not {count or ''} {accelerator}".rstrip()
        raise WrongShape(said, hint="leave the accelerator and its count out, or take another machine type")
    return shape


def machine(name: str) -> Machine:
    """The machine type of this name: TPU, GPU or CPU."""
    found = _machines().get(name)
    if found is None:
        raise _unknown(f"no machine type is called {name!r}", name, list(_machines()))
    return found


def slices(generation: str | None = None, *, chips: int | None = None, defaults: bool = False) -> Iterator[Slice]:
    """Every slice, of one generation or size where asked; with `defaults` only what the bare type names mean."""
    for each in GENERATIONS:
        if generation not in (None, each.name):
            continue
        for candidate in each.slices():
            if chips in (None, candidate.chips) and (candidate.is_default or not defaults):
                yield candidate


def type_names() -> Iterator[str]:
    """Every name that `find` knows, in the order of the catalogue."""
    for generation in GENERATIONS:
        yield from (f"{generation.prefix}-{chips * generation.cores}" for chips in generation.sizes())
    yield from dict.fromkeys(shape.type_name for shape in gpus.shapes())
    yield from gpus.machines()


def _parse_name(name: str) -> tuple[Generation, int]:
    """The generation and number of chips that a slice's type name means."""
    found = _numbered(name)
    generation = _generation(found[1]) if found else None
    if found is None or generation is None:
        raise _unknown(f"no accelerator is called {name!r}", name, list(type_names()))
    chips, rest = divmod(int(found[2]), generation.cores)
    if rest or not generation.topologies(chips):
        raise UnknownAccelerator(f"no accelerator is called {name!r}", hint=_nearest(generation, int(found[2])))
    return generation, chips


def _generation(prefix: str) -> Generation | None:
    return next((each for each in GENERATIONS if prefix == each.prefix or prefix in each.spellings), None)


def _axes(generation: Generation, topology: str) -> Axes:
    axes = topologies.parse(topology)
    if len(axes) == generation.dimensions and generation.has(axes):
        return axes
    name = generation.label
    known = generation.topologies(prod(axes))
    if known:
        raise WrongShape(
            f"{topology} is no topology of {name}",
            hint=f"with {prod(axes)} chips there is {_list(topologies.render(each) for each in known)}",
        )
    sizes = sorted(generation.sizes(), key=lambda chips: abs(chips - prod(axes)))[:2]
    near = _list(topologies.render(generation.topologies(chips)[0]) for chips in sorted(sizes))
    raise WrongShape(f"{topology} is no topology of {name}", hint=f"the nearest are {near}")


def _machine(generation: Generation, axes: Axes, chips_per_host: int | None) -> Machine:
    fitting = generation.machines_for(axes)
    if chips_per_host is None:
        return fitting[0]
    found = next((each for each in fitting if each.chips == chips_per_host), None)
    if found is None:
        offered = _list((f"{each.chips} ({each.name})" for each in fitting), "or")
        raise WrongShape(
            f"{chips_per_host} chips per host do not fit {generation.label} {topologies.render(axes)}", hint=f"ask for {offered}"
        )
    return found


def _nearest(generation: Generation, number: int) -> str:
    """The closest sizes, and a word about what the number counts where a person may have meant chips."""
    sizes = sorted(generation.sizes(), key=lambda chips: abs(chips * generation.cores - number))[:2]
    hint = f"the nearest are {_list(f'{generation.prefix}-{chips * generation.cores}' for chips in sorted(sizes))}"
    if generation.cores > 1 and generation.topologies(number):
        hint += f"; the number counts cores, so {number} chips are {generation.prefix}-{number * generation.cores}"
    return hint


def _unknown(message: str, name: str, names: list[str]) -> UnknownAccelerator:
    from difflib import get_close_matches

    wanted = name.lower()
    begun = [each for each in names if wanted and each.startswith(wanted)]
    close = (begun or get_close_matches(wanted, names, n=_MOST_NAMED, cutoff=0.5))[:_MOST_NAMED]
    return UnknownAccelerator(message, hint=f"the closest are {_list(close)}" if close else f"such as {_list(names[:_MOST_NAMED])}")


@lru_cache(maxsize=1)
def _machines() -> dict[str, Machine]:
    of_tpus = {each.name: each for generation in GENERATIONS for each in generation.machines}
    return {**of_tpus, **{name: shape.machine for name, shape in gpus.machines().items()}, **cpus.machines()}


def _list(names: Iterable[str], word: str = "and") -> str:
    *others, last = names
    return f"{', '.join(others)} {word} {last}" if others else last
