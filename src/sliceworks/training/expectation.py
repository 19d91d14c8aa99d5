"""What a job can expect of its queue when it is sent: how many are ahead of it, and how long it may wait. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.training.demands import demands

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from sliceworks.training.admissible import Park

Object = dict[str, Any]
UNKNOWN = "unknown"
AT_ONCE = "none"


@dataclass(frozen=True, slots=True)
class Expectation:
    """`ahead` is None where one may not look; `wait` is a length of time in words, `none`, or `unknown`."""

    ahead: int | None = None
    wait: str = UNKNOWN


def expect(jobset: Object, queue: str, priority: int, park: Park | None, pending: Iterable[Object] | None) -> Expectation:
    """By the queue as it is: who is ahead, and whether there is room now. How long others run is not known here."""
    found = park.queue(queue) if park else None
    if park is None or found is None:
        return Expectation()
    if pending is not None:
        ahead = sum(int(each.get("priority") or 0) >= priority for each in pending)
    elif not (found.get("status") or {}).get("pendingWorkloads"):
        ahead = 0
    else:
        return Expectation()
    return Expectation(ahead, AT_ONCE if ahead == 0 and _open(found) and _room(jobset, found, park) else UNKNOWN)


def _open(queue: Object) -> bool:
    return (queue["spec"].get("stopPolicy") or "None") == "None"


def _room(jobset: Object, queue: Object, park: Park) -> bool:
    """Whether what is the queue's own and unused holds all that is asked for."""
    free = _free(queue)
    for demand in demands(jobset):
        for group in queue["spec"].get("resourceGroups") or ():
            wanted = {name: demand.requests[name] for name in group["coveredResources"] if demand.requests.get(name)}
            flavors = (each for each in park.fitting(demand, group) if all(free[each, name] >= wanted[name] for name in wanted))
            flavor = next(flavors, None)
            if flavor is None:
                return False
            for name, amount in wanted.items():
                free[flavor, name] -= amount
    return True


def _free(queue: Object) -> dict[tuple[str, str], Fraction]:
    found = {
        (flavor["name"], resource["name"]): quantity.parse(resource["nominalQuota"])
        for group in queue["spec"].get("resourceGroups") or ()
        for flavor in group["flavors"]
        for resource in flavor["resources"]
    }
    for flavor in (queue.get("status") or {}).get("flavorsReservation") or ():
        for resource in flavor.get("resources") or ():
            found[flavor["name"], resource["name"]] -= quantity.parse(resource.get("total") or "0")
    return found
