"""How large autoscaled pools should be: for pods that fit nowhere, and for nodes that nobody needs. Pure.

A pod is tried on machines that are on their way first, then on a new one of each pool in turn, with the scheduler's own rules for
one node. What pods ask of each other is not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.twin.scheduler.groups import lacking, unchanging
from sliceworks.twin.scheduler.nodes import Node
from sliceworks.twin.scheduler.pods import Shapes
from sliceworks.twin.scheduler.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.twin.scheduler.pods import Pod

Obj = dict[str, Any]


@dataclass(slots=True)
class Sized:
    """An autoscaled pool: how many machines it has in each zone, what a new one looks like, and between which sizes it may be."""

    name: str
    counts: dict[str, int]
    templates: dict[str, Obj]
    most: int = 0
    most_of_all: int = 0
    step: int = 1
    """How many machines come at once: all of a slice, or one."""
    coming: list[str] = field(default_factory=list)
    """The zones of machines that are on their way."""

    def room(self) -> list[str]:
        """The zones that may have more, the emptiest first."""
        if self.most_of_all and sum(self.counts.values()) + self.step > self.most_of_all:
            return []
        open_zones = [zone for zone, count in self.counts.items() if not self.most or count + self.step <= self.most]
        return sorted(open_zones, key=lambda zone: (self.counts[zone], zone))


class Growth(NamedTuple):
    """New sizes of the pools that pods need to be larger, by zone; and the pods that no pool has room for."""

    counts: dict[str, dict[str, int]]
    left: list[Obj]


def enlarged(pools: Iterable[Sized], pods: Iterable[Obj]) -> Growth:
    """How pools are to grow for pods."""
    known, shapes = list(pools), Shapes()
    bins = [_machine(pool, zone) for pool in known for zone in pool.coming]
    grown: dict[str, Sized] = {}
    left: list[Obj] = []
    for obj in pods:
        pod = shapes.read(obj)
        if any(_taken(pod, each) for each in bins):
            continue
        for pool in known:
            zone = next((zone for zone in pool.room() if _suits(pod, _machine(pool, zone))), None)
            if zone is not None:
                pool.counts[zone] += pool.step
                new = [_machine(pool, zone) for _ in range(pool.step)]
                _taken(pod, new[0])
                bins += new
                grown[pool.name] = pool
                break
        else:
            left.append(obj)
    return Growth({name: dict(pool.counts) for name, pool in grown.items()}, left)


def _machine(pool: Sized, zone: str) -> Node:
    node = Node("", 0)
    node.update(pool.templates[zone])
    return node


def _suits(pod: Pod, node: Node) -> bool:
    wants = pod.shape.wants
    return not isinstance(unchanging(wants, node), Verdict) and lacking(wants, node) is None


def _taken(pod: Pod, node: Node) -> bool:
    """Put a pod on a machine, if it has room."""
    if not _suits(pod, node):
        return False
    node.add(pod)
    return True
