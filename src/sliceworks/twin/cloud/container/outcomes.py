"""How pools and clusters stand after an operation, and what keeps machines from coming."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.twin.cloud.container.machines import formation
from sliceworks.twin.cloud.container.places import project_of
from sliceworks.twin.cloud.container.stock import taken
from sliceworks.twin.cloud.container.yard import places, set_places
from sliceworks.twin.cloud.faults import Fault, kinds

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.cloud.container.nodes import Place
    from sliceworks.twin.cloud.container.yard import Yard
    from sliceworks.twin.cloud.state import Document

Obj = dict[str, Any]


class Failure(NamedTuple):
    """How an operation failed: a canonical code, words, GKE's own code where there is one, and what is said in short."""

    status: str
    message: str
    condition: str = ""
    summary: str = ""

    def conditions(self) -> list[Obj]:
        """What pools and operations say of it."""
        found: Obj = {"canonicalCode": self.status, "message": self.message}
        if self.condition:
            found["code"] = self.condition
        return [found]


@dataclass(frozen=True, slots=True)
class Trouble:
    """Machines that are late, or that do not come: how many, and what is said then."""

    seconds: float = 0.0
    failure: Failure | None = None
    missing: int = 0


def trouble(yard: Yard, pool: Document) -> Trouble | None:
    """What keeps the machines of a pool from coming, if anything does: a fault that was ordered, or a lack of them."""
    found, path = places(pool), f"{pool.parent}/nodePools/{pool.name}"
    facts = {**yard.facts(pool.parent, pool.body), "instance": found[0].name if found else pool.name}
    fault = yard.faults.strike("machines", facts)
    missing = len(found)
    if fault is None:
        short = yard.stock.shortage(
            path, taken(project_of(pool.parent), pool.body, formation(pool.body), (each.zone for each in found))
        )
        if short is None or not found:
            return None
        fault, missing = Fault("", kinds()[short.fault], {}), short.missing
        facts |= {"zone": short.zone, **short.facts}
    if not fault.kind.status:
        return Trouble(fault.seconds or 0.0)
    seconds = fault.seconds if fault.seconds is not None else yard.settings.seconds("giveUp")
    running = 0 if formation(pool.body).gang else len(found) - missing
    said = fault.said(facts)
    summary = (
        f"Google Compute Engine: Not all instances running in IGM after {seconds:g}s. Expected {len(found)}, running {running}, "
        f"transitioning {len(found) - running}. Current errors: [{fault.kind.condition}]: {said}"
    )
    return Trouble(seconds, Failure(fault.kind.status, said, fault.kind.condition, summary), missing)


def unregistered(there: int, wanted: int) -> Failure:
    """Machines run, but their kubelets do not come up."""
    words = (
        f"All cluster resources were brought up, but: only {there} nodes out of {wanted} have registered; cluster may be unhealthy."
    )
    return Failure("DEADLINE_EXCEEDED", words)


def settled(pool: Document) -> None:
    """A pool is as it was asked for."""
    pool.body["status"] = "RUNNING"
    for key in ("statusMessage", "conditions"):
        pool.body.pop(key, None)


def failed(pool: Document, kind: str, failure: Failure, is_there: Callable[[str], bool]) -> list[Place]:
    """A pool after an operation that failed; returns the machines that it never got, unless it is new."""
    new = kind in ("CREATE_NODE_POOL", "CREATE_CLUSTER")
    there = [place for place in places(pool) if is_there(place.name)]
    broken = new and failure.status != "DEADLINE_EXCEEDED"
    pool.body["status"] = "ERROR" if broken or (kind == "DELETE_NODE_POOL" and not there) else "RUNNING_WITH_ERROR"
    pool.body["statusMessage"] = failure.summary or failure.message
    pool.body["conditions"] = failure.conditions()
    if new:
        return []
    lost = [place for place in places(pool) if place not in there]
    set_places(pool, there)
    return lost


def cluster_failed(kind: str, failure: Failure) -> Obj:
    """What a cluster reads after an operation that failed."""
    if kind in ("CREATE_CLUSTER", "DELETE_CLUSTER"):
        return {"status": "ERROR", "statusMessage": failure.summary or failure.message, "conditions": failure.conditions()}
    return {"status": "RUNNING"}
