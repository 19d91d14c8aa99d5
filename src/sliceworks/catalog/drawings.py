"""Slices drawn in characters: a grid of hosts in two dimensions, a solid of blocks in three."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.catalog.gpus import GpuShape
from sliceworks.catalog.topologies import CUBE

if TYPE_CHECKING:
    from sliceworks.catalog.finding import Accelerator
    from sliceworks.catalog.tpus import Slice

_CHIP = "■"
_MOST_COLUMNS = 16
_HOST_SIDE = 2  # a host's chips lie two by two, or two by four


def draw(accelerator: Accelerator) -> list[str]:
    """The lines of a drawing, and under it what one block stands for."""
    if isinstance(accelerator, GpuShape):
        count = "one GPU" if accelerator.chips == 1 else f"{accelerator.chips} GPUs"
        return [*_grid(1, 1, 1, accelerator.chips), f"The box is a host with {count}."]
    return _flat(accelerator) if len(accelerator.axes) == 2 else _solid(accelerator)


def _flat(slice_: Slice) -> list[str]:
    rows, columns = slice_.axes
    high = min(rows, _HOST_SIDE)
    wide = slice_.chips_per_host // high
    lines = _grid(rows // high, columns // wide, high, wide)
    count = f"{high}x{wide} chips" if slice_.chips_per_host > 1 else "one chip"
    return [*lines, f"{_each(slice_)} box is a host with {count}.{_torus(slice_)}"]


def _grid(rows: int, columns: int, high: int, wide: int) -> list[str]:
    """Boxes of chips, `rows` by `columns`."""
    edge = "─" * (2 * wide + 1)
    inside = "│" + f" {' '.join(_CHIP * wide)} │" * columns
    between = "├" + "┼".join([edge] * columns) + "┤"
    lines = ["┌" + "┬".join([edge] * columns) + "┐"]
    for row in range(rows):
        lines += ([between] if row else []) + [inside] * high
    return [*lines, "└" + "┴".join([edge] * columns) + "┘"]


def _solid(slice_: Slice) -> list[str]:
    """Hosts as blocks while they can be counted, else cubes."""
    a, b, c = slice_.axes
    if slice_.chips == 1:
        return [*_box(1, 1, 1), "The block is a host with one chip."]
    if c <= _MOST_COLUMNS:
        lines, block = _box(a // _HOST_SIDE, b // _HOST_SIDE, c), "host with 2x2x1 chips"
    else:
        lines, block = _box(a // CUBE, b // CUBE, c // CUBE), "cube of 4x4x4 chips on 16 hosts"
    axes = f"A {a} chips deep, B {b} high, C {c} wide."
    return [*lines, axes, f"{_each(slice_)} block is a {block}.{_torus(slice_)}"]


def _box(deep: int, high: int, wide: int) -> list[str]:
    """A solid of blocks seen from the front, above and the right; a long row is cut in its middle."""
    cells = ["___"] * wide if wide <= _MOST_COLUMNS else [*["___"] * 8, " … ", *["___"] * 7]
    lines = [" " * (deep + 1) + " ".join("___" if cell == "___" else "   " for cell in cells)]
    for row in range(deep):
        side = ("|/" * high)[: min(2 * row + 1, 2 * high)]
        lines.append(" " * (deep - row) + "/" + "/".join(cells) + "/" + side)
    for row in range(high):
        side = ("/|" * deep)[: min(2 * (high - 1 - row) + 1, 2 * deep)]
        lines.append(" |" + "|".join(cells) + "|" + side)
    return lines


def _each(slice_: Slice) -> str:
    return "Each" if slice_.multi_host else "The"


def _torus(slice_: Slice) -> str:
    return " The two ends of every axis are joined: a torus." if slice_.torus else ""
