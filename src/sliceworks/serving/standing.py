"""How a model service stands, from the objects of its namespace. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import is_true
from sliceworks.serving import naming
from sliceworks.serving.naming import GATEWAY
from sliceworks.serving.record import reference

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.serving.record import Record

Object = dict[str, Any]
WORKLOADS = ("Deployment", "StatefulSet", "Job")


@dataclass(frozen=True, slots=True)
class Part:
    """One workload: how many pods of it are ready, of how many; a Job is ready when it is done.

    `current` is whether as many as are wanted are ready in their present form: while it is changed, pods of before answer too.
    """

    kind: str
    name: str
    component: str
    ready: int
    wanted: int
    failed: bool = False
    current: bool = True

    @property
    def done(self) -> bool:
        return self.current and not self.failed and self.ready >= self.wanted

    @property
    def word(self) -> str:
        """How it stands, in one word."""
        if self.failed:
            return "failed"
        if self.kind == "Job":
            return "done" if self.done else "running"
        if self.done:
            return "ready"
        return "updating" if self.ready >= self.wanted else "starting"

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name}"


@dataclass(frozen=True, slots=True)
class Standing:
    """All of a service's workloads, with those of its gateway."""

    parts: tuple[Part, ...]
    missing: tuple[str, ...] = ()
    left: bool = False
    """Whether the last deployment has left something to do."""

    @property
    def servers(self) -> list[Part]:
        return [each for each in self.parts if each.component == naming.SERVER]

    @property
    def settled(self) -> bool:
        """Whether all that is there is as it was asked for, so that nothing of it is waited for."""
        return self.state in ("ready", "stopped", "unfinished")

    @property
    def state(self) -> str:
        """One word: ready, failed, updating (all answer, some as before), degraded (some servers answer), stopped, starting, or
        unfinished: all answer that is there, and the document says more than was done."""
        if any(each.failed for each in self.parts):
            return "failed"
        if not self.missing and all(each.done for each in self.parts):
            if self.left:
                return "unfinished"
            return "ready" if any(each.wanted for each in self.servers) else "stopped"
        if not self.missing and all(each.ready >= each.wanted for each in self.parts):
            return "updating"
        return "degraded" if any(each.ready for each in self.servers) else "starting"


def standing(record: Record, objects: Iterable[Object]) -> Standing:
    """From the workloads of the namespace, whoever they belong to."""
    named = {each for each in record.objects if each.kind in WORKLOADS}
    found = {reference(each): each for each in objects if reference(each) in named}
    parts = tuple(_part(found[each]) for each in sorted(named) if each in found)
    return Standing(parts, tuple(str(each) for each in sorted(named - set(found))), bool(record.left))


def belongs(record: Record, obj: Object) -> bool:
    """Whether an object is the service's own, or its gateway's."""
    labels = obj["metadata"].get("labels") or {}
    front = record.service.spec.gateway
    own = labels.get(naming.SERVICE) == record.service.metadata.name
    return own or (front is not None and labels.get(GATEWAY) == front.name)


def _part(obj: Object) -> Part:
    kind, spec, status = obj["kind"], obj.get("spec") or {}, obj.get("status") or {}
    name, labels = obj["metadata"]["name"], obj["metadata"].get("labels") or {}
    component = labels.get(naming.COMPONENT, "")
    if kind == "Job":
        return Part(kind, name, component, int(is_true(obj, "Complete")), 1, failed=is_true(obj, "Failed"))
    wanted, ready = spec.get("replicas", 1), status.get("readyReplicas") or 0
    # Right after a change the numbers still tell of what was before; then pods of before, all ready perhaps, are beside new ones.
    told = status.get("observedGeneration", 0) >= obj["metadata"].get("generation", 1)
    old = (status.get("replicas") or 0) - (status.get("updatedReplicas") or 0)
    return Part(kind, name, component, min(ready, wanted), wanted, current=told and ready - old >= wanted)
