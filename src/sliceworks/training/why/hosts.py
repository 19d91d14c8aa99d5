"""Hosts that have the right labels, and still no place for a pod: too few, too small, or in use. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.catalog.labels import NODE_POOL
from sliceworks.training.why import kinds, matching
from sliceworks.training.why.answer import seen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from sliceworks.training.why.answer import Cause, Seen
    from sliceworks.training.why.evidence import Evidence

Object = dict[str, Any]
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
MOST = 2000  # so many nodes are read; where there are as many, there may be more


def short(evidence: Evidence, pods: list[Object], usable: list[Object], said: str) -> Cause:
    """Why none of these nodes has room."""
    pod = pods[0]
    wanted = matching.requests(pod["spec"])
    large = [node for node in usable if not _lacking(node, wanted)]
    where = seen(pod, "status.conditions[PodScheduled]", "Pod")
    if not large:
        words = f"{finds(pods)} no place: {several(len(usable))} would fit, but none has {_lacking(usable[0], wanted)}."
        return kinds.TOO_FEW_HOSTS.cause(words, seen(usable[0], "status.allocatable", "Node"), where, said=said)
    if (words := _too_few(evidence, pod, large, wanted)) and len(usable) < MOST:
        return kinds.TOO_FEW_HOSTS.cause(words, seen(large[0], "metadata.labels", "Node"), where, said=said)
    return _in_use(evidence, pods, large, where, said)


def _too_few(evidence: Evidence, pod: Object, large: list[Object], wanted: Mapping[str, Fraction]) -> str:
    """How many there should be; empty where there are enough."""
    needed, in_slice = _needed(evidence, pod)
    if EXCLUSIVE in (pod["metadata"].get("annotations") or {}):
        pools = Counter((node["metadata"].get("labels") or {}).get(NODE_POOL, "") for node in large)
        slices = sum(count >= in_slice for count in pools.values())
        return f"It needs {needed // in_slice} node pools of {in_slice} hosts, each alone; there are {slices}." * (
            slices * in_slice < needed
        )
    seats = sum(_seats(node, wanted) for node in large)
    room = f"{len(large)} fit" if seats == len(large) else f"the {several(len(large))} that fit have room for {seats}"
    what = several(needed) if seats == len(large) else f"room for {needed} pods"
    return f"It needs {what}, and {room}." if seats < needed else ""


def _in_use(evidence: Evidence, pods: list[Object], large: list[Object], where: Seen, said: str) -> Cause:
    guests = list(dict.fromkeys(name for node in large for name in evidence.guests.get(node["metadata"]["name"], ())))
    if not guests:
        words = f"{finds(pods)} no place, although {several(len(large))} would fit by what they are."
        return kinds.UNSCHEDULABLE.cause(words, where, said=said)
    words = f"{finds(pods)} no place: the {several(len(large))} that fit are in use by {', '.join(guests[:5])}."
    return kinds.HOSTS_IN_USE.cause(words, where, seen(large[0], "status.allocatable", "Node"), said=said)


def _lacking(node: Object, wanted: Mapping[str, Fraction]) -> str:
    """What a pod asks for and a whole node has not."""
    has = (node.get("status") or {}).get("allocatable") or {}
    return next((matching.amount(much, name) for name, much in wanted.items() if quantity.parse(has.get(name, "0")) < much), "")


def _seats(node: Object, wanted: Mapping[str, Fraction]) -> int:
    """How many such pods an empty node takes."""
    has = (node.get("status") or {}).get("allocatable") or {}
    return min((int(quantity.parse(has.get(name, "0")) / much) for name, much in wanted.items() if much), default=1)


def _needed(evidence: Evidence, pod: Object) -> tuple[int, int]:
    """How many hosts the part of the job that a pod belongs to needs, and how many each of its slices."""
    name = (pod["metadata"].get("labels") or {}).get("jobset.sigs.k8s.io/replicatedjob-name")
    part: Object = next((each for each in evidence.jobset["spec"]["replicatedJobs"] if each["name"] == name), {})
    hosts = int((part.get("template") or {}).get("spec", {}).get("parallelism") or 1)
    return hosts * int(part.get("replicas", 1)), hosts


def finds(pods: list[Object]) -> str:
    """The beginning of a sentence about pods without a place."""
    return "1 pod finds" if len(pods) == 1 else f"{len(pods)} pods find"


def several(count: int) -> str:
    """So many hosts."""
    return "1 host" if count == 1 else f"{count} hosts"
