"""Why a node does not take a pod, and the sentence that sums it up over all nodes, in kube-scheduler's words."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Verdict(NamedTuple):
    """The reasons of one node. `resolvable` tells whether it could change if pods went away. `rule` is the check that failed."""

    rule: str
    reasons: tuple[str, ...]
    resolvable: bool


UNSCHEDULABLE = Verdict("NodeUnschedulable", ("node(s) were unschedulable",), resolvable=False)
TAINTED = Verdict("TaintToleration", ("node(s) had untolerated taint(s)",), resolvable=False)
NOT_CHOSEN = Verdict("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",), resolvable=False)
NOT_NAMED = Verdict("NodeAffinity", ("node(s) didn't satisfy plugin(s) [NodeAffinity]",), resolvable=False)
PORTS_TAKEN = Verdict("NodePorts", ("node(s) didn't have free ports for the requested pod ports",), resolvable=True)
UNEVEN = Verdict("PodTopologySpread", ("node(s) didn't match pod topology spread constraints",), resolvable=True)
NOWHERE = Verdict(
    "PodTopologySpread", ("node(s) didn't match pod topology spread constraints (missing required label)",), resolvable=False
)
APART = Verdict("PodAffinity", ("node(s) didn't match pod affinity rules",), resolvable=False)
TOGETHER = Verdict("PodAntiAffinity", ("node(s) didn't match pod anti-affinity rules",), resolvable=True)
UNWELCOME = Verdict("PodAntiAffinity", ("node(s) didn't satisfy existing pods anti-affinity rules",), resolvable=True)

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
NO_NODES = "no nodes available to schedule pods"
_NO_CLAIMS = "no new claims to deallocate"


@lru_cache(maxsize=1024)
def short_of(names: tuple[str, ...], resolvable: bool) -> Verdict:
    """A node has too little of some resources; `pods` are the pods it may hold."""
    reasons = tuple("Too many pods" if name == "pods" else f"Insufficient {name}" for name in names)
    return Verdict("NodeResourcesFit", reasons, resolvable)


def summary(total: int, counts: Iterable[tuple[tuple[str, ...], int]]) -> str:
    """How many of all nodes gave which reasons."""
    reasons: dict[str, int] = {}
    for several, number in counts:
        for reason in several:
            reasons[reason] = reasons.get(reason, 0) + number
    listed = ", ".join(sorted(f"{number} {reason}" for reason, number in reasons.items() if number))
    return f"0/{total} nodes are available: {listed}."


def sentence(start: str, preemption: str) -> str:
    """The whole message; nothing is added where preemption found a way."""
    return f"{start} {_NO_CLAIMS}, preemption: {preemption}" if preemption else start
