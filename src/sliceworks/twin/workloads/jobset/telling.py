"""Events about JobSets, as client-go's newer recorder writes them: repeated ones become a series."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import ApiError
from sliceworks.twin.auth.identity import MASTERS, User
from sliceworks.twin.workloads.jobset.keys import API_VERSION, KIND

if TYPE_CHECKING:
    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.workloads.jobset.keys import Obj
    from sliceworks.twin.workloads.jobset.report import Event

USER = User("system:serviceaccount:jobset-system:jobset-controller-manager", groups=(MASTERS,))
MANAGER = "jobset"
_PATIENCE = 360.0
_REMEMBERED = 4096


class Teller:
    """Writes events. One told before of the same state of a JobSet counts into the first, which is written once more at most."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._recent: dict[tuple[str, ...], tuple[float, str, int]] = {}

    async def tell(self, jobset: Obj, event: Event) -> None:
        metadata = jobset["metadata"]
        key = (metadata["uid"], metadata["resourceVersion"], event.type, event.reason)
        last, name, count = self._recent.pop(key, (0.0, "", 0))
        now = clock.loop_time()
        path = f"/apis/events.k8s.io/v1/namespaces/{metadata['namespace']}/events"
        try:
            if not name or now - last > _PATIENCE:
                name, count = f"{metadata['name']}.{clock.randomness().getrandbits(64):016x}", 0
                await self._world.tell(USER, "POST", path, _event(jobset, event, name), fieldManager=MANAGER)
            elif count == 1:
                series = {"series": {"count": 2, "lastObservedTime": clock.micro_timestamp()}}
                kind = "application/merge-patch+json"
                await self._world.tell(USER, "PATCH", f"{path}/{name}", series, content_type=kind, fieldManager=MANAGER)
        except ApiError:
            return  # as with a real recorder, an event that cannot be written is lost
        self._recent[key] = (now, name, count + 1)
        if len(self._recent) > _REMEMBERED:
            del self._recent[next(iter(self._recent))]


def _event(jobset: Obj, event: Event, name: str) -> Obj:
    metadata = jobset["metadata"]
    about = {field: metadata[field] for field in ("name", "namespace", "uid", "resourceVersion")}
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": metadata["namespace"]},
        "eventTime": clock.micro_timestamp(),
        "reportingController": MANAGER,
        "reportingInstance": f"{MANAGER}-twin",
        "action": "Reconciling",
        "reason": event.reason,
        "regarding": {"kind": KIND, "apiVersion": API_VERSION, **about},
        "note": event.message,
        "type": event.type,
    }
