"""Finds an accelerator or machine type by name, label or node selector; errors name the closest match."""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from sliceworks.base.errors import InvalidShape, UnknownAccelerator
from sliceworks.base.names import join_words
from sliceworks.catalog import gpus, machine_types, tpus
from sliceworks.catalog.gpus import GpuShape
from sliceworks.catalog.tpus import GENERATIONS, Generation, Slice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.catalog.machine_types import Machine
    from sliceworks.catalog.tpus import Axes

Accelerator = Slice | GpuShape

_MAX_SUGGESTIONS = 4
_numbered = re.compile(r"(.+)-([1-9][0-9]{0,17})").fullmatch


def find(name: str, topology: str = "", chips_per_host: int | None = None) -> Accelerator:
    """The slice or GPU machine of a type name (`v5p-256`, `l4-1`) or a GPU machine type (`a3-highgpu-8g`)."""
    shape = gpus.find_by_type_name(name) or gpus.gpu_machines().get(name)
    if shape is not None:
        if topology or chips_per_host not in (None, shape.chips):
            raise InvalidShape(f"{name} is one machine with {shape.chips} GPUs", hint="omit topology and chips per host")
        return shape
    generation, chips = _parse_name(name)
    known = generation.topologies(chips)
    axes = _axes(generation, topology) if topology else known[0]
    if prod(axes) != chips:
        shown = join_words(tpus.format_topology(axes) for axes in known)
        raise InvalidShape(f"{name} has {chips} chips, topology {topology} has {prod(axes)}", hint=f"topologies of {name}: {shown}")
    return generation.slice(axes, _machine(generation, axes, chips_per_host))


def find_slice(accelerator: str, topology: str, chips_per_host: int | None = None) -> Slice:
    """The slice that a pod's node selectors and chip request select."""
    generation = next((generation for generation in GENERATIONS if generation.label == accelerator), None)
    if generation is None:
        raise _unknown(f"unknown TPU {accelerator!r}", accelerator, [generation.label for generation in GENERATIONS])
    axes = _axes(generation, topology)
    return generation.slice(axes, _machine(generation, axes, chips_per_host))


def find_gpu(machine_name: str, accelerator: str = "", count: int | None = None) -> GpuShape:
    """The GPU machine of a machine type, with `count` GPUs attached if it has no built-in ones."""
    shape = gpus.gpu_machines().get(machine_name)
    if shape is None:
        gpu = gpus.find_by_label(accelerator)
        if gpu is None:
            names = [gpu.label for gpu in gpus.GPUS] if accelerator else list(gpus.gpu_machines())
            raise _unknown(f"unknown GPU {accelerator or machine_name!r}", accelerator or machine_name, names)
        return gpus.attach_gpus(gpu, count or 1, machine_name)
    if accelerator not in ("", shape.gpu.label) or (count or shape.chips) != shape.chips:
        message = f"{machine_name} has {shape.chips} × {shape.gpu.label}, not {count or ''} {accelerator}".rstrip()
        raise InvalidShape(message, hint="omit accelerator and count, or choose another machine type")
    return shape


def find_machine(name: str) -> Machine:
    """The TPU, GPU or CPU machine type with this name."""
    machine = _machines().get(name)
    if machine is None:
        raise _unknown(f"unknown machine type {name!r}", name, list(_machines()))
    return machine


def list_slices(generation: str | None = None, *, chips: int | None = None, defaults: bool = False) -> Iterator[Slice]:
    """Slices in catalog order, of one generation or size if given; with `defaults` only the default topology of each size."""
    for candidate in GENERATIONS:
        if generation not in (None, candidate.name):
            continue
        for slice_ in candidate.slices():
            if chips in (None, slice_.chips) and (slice_.is_default or not defaults):
                yield slice_


def find_by_machine(machine_name: str) -> Accelerator | None:
    """The accelerator of a machine type with built-in chips; None for other machine types. Raises UnknownAccelerator."""
    for generation in GENERATIONS:
        for machine in generation.machines:
            if machine.name == machine_name:
                return generation.slice(generation.topologies(machine.chips)[0], machine)
    return find_gpu(machine_name) if find_machine(machine_name).chips else None


def list_type_names() -> Iterator[str]:
    """Every name that `find` accepts, in catalog order."""
    for generation in GENERATIONS:
        yield from (f"{generation.prefix}-{chips * generation.cores}" for chips in generation.sizes())
    yield from dict.fromkeys(shape.type_name for shape in gpus.shapes())
    yield from gpus.gpu_machines()


def _parse_name(name: str) -> tuple[Generation, int]:
    """The generation and number of chips of a slice's type name."""
    match = _numbered(name)
    generation = _generation(match[1]) if match else None
    if match is None or generation is None:
        raise _unknown(f"unknown accelerator {name!r}", name, list(list_type_names()))
    chips, rest = divmod(int(match[2]), generation.cores)
    if rest or not generation.topologies(chips):
        raise UnknownAccelerator(f"unknown accelerator {name!r}", hint=_nearest(generation, int(match[2])))
    return generation, chips


def _generation(prefix: str) -> Generation | None:
    return next((item for item in GENERATIONS if prefix == item.prefix or prefix in item.spellings), None)


def _axes(generation: Generation, topology: str) -> Axes:
    axes = tpus.parse_topology(topology)
    if len(axes) == generation.dimensions and generation.has(axes):
        return axes
    name = generation.label
    known = generation.topologies(prod(axes))
    if known:
        sizes = join_words(tpus.format_topology(axes) for axes in known)
        raise InvalidShape(f"{topology} is not a {name} topology", hint=f"topologies with {prod(axes)} chips: {sizes}")
    nearest = sorted(generation.sizes(), key=lambda chips: abs(chips - prod(axes)))[:2]
    sizes = join_words(tpus.format_topology(generation.topologies(chips)[0]) for chips in sorted(nearest))
    raise InvalidShape(f"{topology} is not a {name} topology", hint=f"nearest: {sizes}")


def _machine(generation: Generation, axes: Axes, chips_per_host: int | None) -> Machine:
    fitting = generation.machines_for(axes)
    if chips_per_host is None:
        return fitting[0]
    machine = next((machine for machine in fitting if machine.chips == chips_per_host), None)
    if machine is None:
        offered = join_words((f"{machine.chips} ({machine.name})" for machine in fitting), "or")
        topology = tpus.format_topology(axes)
        raise InvalidShape(f"{generation.label} {topology} has no hosts with {chips_per_host} chips", hint=f"use {offered}")
    return machine


def _nearest(generation: Generation, number: int) -> str:
    """A hint with the nearest sizes; explains the unit if the number would be valid as chips."""
    sizes = sorted(generation.sizes(), key=lambda chips: abs(chips * generation.cores - number))[:2]
    hint = f"nearest: {join_words(f'{generation.prefix}-{chips * generation.cores}' for chips in sorted(sizes))}"
    if generation.cores > 1 and generation.topologies(number):
        hint += f"; the number counts TensorCores: {number} chips are {generation.prefix}-{number * generation.cores}"
    return hint


def _unknown(message: str, name: str, names: list[str]) -> UnknownAccelerator:
    from difflib import get_close_matches

    lowered = name.lower()
    completions = [known for known in names if lowered and known.startswith(lowered)]
    close = (completions or get_close_matches(lowered, names, n=_MAX_SUGGESTIONS, cutoff=0.5))[:_MAX_SUGGESTIONS]
    return UnknownAccelerator(
        message, hint=f"closest: {join_words(close)}" if close else f"known: {join_words(names[:_MAX_SUGGESTIONS])}, …"
    )


@lru_cache(maxsize=1)
def _machines() -> dict[str, Machine]:
    tpu_machines = {machine.name: machine for generation in GENERATIONS for machine in generation.machines}
    return {**tpu_machines, **{name: shape.machine for name, shape in gpus.gpu_machines().items()}, **machine_types.cpu_machines()}
