"""How well a pod would lie on a node: what is left of it, how evenly, and whether the images are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.scheduler.nodes import Node
    from sliceworks.twin.scheduler.pods import Wants

    Images = Callable[[str], int]

_MEGA = 1024 * 1024
_LEAST_BYTES, _MOST_BYTES = 23 * _MEGA, 1000 * _MEGA


def local_score(wants: Wants, node: Node, images: Images) -> int:
    """The sum of what depends on this node alone; `images` tells the bytes of an image, times the share of nodes that have it."""
    cpu, memory = node.cpu, node.memory
    score = parts = 0
    if cpu:
        taken = node.counted_cpu + wants.counted[0]
        score += (cpu - taken) * 100 // cpu if taken <= cpu else 0
        parts += 1
    if memory:
        taken = node.counted_memory + wants.counted[1]
        score += (memory - taken) * 100 // memory if taken <= memory else 0
        parts += 1
    if parts == 2:
        score //= 2
    if wants.used != (0, 0):
        score += _evenness(wants, node)
    return score + _at_hand(wants, node, images) if node.images else score


def _evenness(wants: Wants, node: Node) -> int:
    cpu, memory = node.cpu, node.memory
    if not cpu or not memory:
        return 100
    free = node.free
    share = min((cpu - free["cpu"] + wants.used[0]) / cpu, 1.0)
    other = min((memory - free["memory"] + wants.used[1]) / memory, 1.0)
    return int((1 - abs((share - other) / 2)) * 100)


def _at_hand(wants: Wants, node: Node, images: Images) -> int:
    total = sum(images(name) for name in wants.images if name in node.images)
    most = _MOST_BYTES * len(wants.images)
    total = min(max(total, _LEAST_BYTES), most)
    return 100 * (total - _LEAST_BYTES) // (most - _LEAST_BYTES)
