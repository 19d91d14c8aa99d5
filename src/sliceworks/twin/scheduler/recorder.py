"""The events the scheduler writes: one for each thing that happens to a pod, counted when it happens again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import ApiError
from sliceworks.twin.controllers.world import MERGE

if TYPE_CHECKING:
    from sliceworks.twin.auth.identity import User
    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.scheduler.pods import Pod

COMPONENT = "default-scheduler"
_MOST_TEXT = 1024
_SERIES_SECONDS = 360.0
_MOST_KNOWN = 20_000


class Recorder:
    """Writes events; one that cannot be written is lost, as the real ones are."""

    def __init__(self, world: World, user: User) -> None:
        self._world = world
        self._user = user
        self._known: dict[tuple[str, str, str], list[Any]] = {}

    async def normal(self, pod: Pod, reason: str, action: str, note: str, related: Pod | None = None) -> None:
        await self._write(pod, ("Normal", reason, action), note, related)

    async def warning(self, pod: Pod, reason: str, action: str, note: str) -> None:
        """A warning about a pod that may come again."""
        # An event is about a pod at a revision: only while that stands, what happens again is counted.
        about = pod.uid, pod.revision, reason
        known = self._known.get(about)
        now = clock.loop_time()
        if known is not None and now - known[1] < _SERIES_SECONDS:
            known[1], known[2] = now, known[2] + 1
            if known[2] == 2:
                await self._count(pod, known[0])
            return
        while len(self._known) >= _MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[about] = [await self._write(pod, ("Warning", reason, action), note), now, 1]

    def forget(self, pod: Pod) -> None:
        """The pod has a node or is gone."""
        self._known.pop((pod.uid, pod.revision, "FailedScheduling"), None)

    async def _write(self, pod: Pod, what: tuple[str, str, str], note: str, related: Pod | None = None) -> str:
        kind, reason, action = what
        namespace = pod.key[0]
        name = f"{pod.key[1]}.{clock.randomness().getrandbits(64):016x}"
        event: dict[str, Any] = {
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": clock.micro_timestamp(),
            "reportingController": COMPONENT,
            "reportingInstance": COMPONENT,
            "action": action,
            "reason": reason,
            "regarding": _reference(pod),
            "note": note if len(note) <= _MOST_TEXT else note[: _MOST_TEXT - 4] + " ...",
            "type": kind,
        }
        if related is not None:
            event["related"] = _reference(related)
        try:
            await self._world.tell(
                self._user, "POST", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", event, user_agent="kube-scheduler"
            )
        except ApiError:
            return ""
        return name

    async def _count(self, pod: Pod, name: str) -> None:
        path = f"/apis/events.k8s.io/v1/namespaces/{pod.key[0]}/events/{name}"
        body = {"series": {"count": 2, "lastObservedTime": clock.micro_timestamp()}}
        try:
            await self._world.tell(self._user, "PATCH", path, body, content_type=MERGE, user_agent="kube-scheduler")
        except ApiError:
            return


def _reference(pod: Pod) -> dict[str, str]:
    return {
        "kind": "Pod",
        "namespace": pod.key[0],
        "name": pod.key[1],
        "uid": pod.uid,
        "apiVersion": "v1",
        "resourceVersion": pod.revision,
    }
