"""Events as kube-controller-manager's and kube-scheduler's recorders write them: equal ones counted, floods held back."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import ApiError, NotFound
from sliceworks.kube.event_folding import Folder, Report, Told, reference
from sliceworks.twin.controllers.world import MERGE, World

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.auth.identity import User

log = logging.getLogger("sliceworks.twin.controllers")


class Recorder:
    """Writes core/v1 events of one component. An event that cannot be written is lost, and nothing else is."""

    def __init__(self, world: World, user: User, component: str) -> None:
        self._world = world
        self._user = user
        self._component = component
        self._folder = Folder()

    async def normal(self, obj: Mapping[str, Any], reason: str, message: str) -> None:
        """Say what was done to an object, which has its apiVersion and kind."""
        await self._tell(Report(reference(obj), reason, message[:1024], "Normal", ""))

    async def warning(self, obj: Mapping[str, Any], reason: str, message: str) -> None:
        """Say what went wrong with an object."""
        await self._tell(Report(reference(obj), reason, message[:1024], "Warning", ""))

    async def _tell(self, report: Report) -> None:
        told = self._folder.fold(report)
        if told is None:
            return
        try:
            await self._write(told)
        except ApiError as error:
            log.debug("an event %s about %s is lost: %s", report.reason, report.regarding["name"], error.message)

    async def _write(self, told: Told) -> None:
        path = f"/api/v1/namespaces/{told.report.namespace}/events"
        if told.count > 1 and told.name:
            again = {"count": told.count, "lastTimestamp": clock.timestamp(), "message": told.note}
            try:
                await self._world.tell(self._user, "PATCH", f"{path}/{told.name}", again, content_type=MERGE)
            except NotFound:
                told.name = ""
            else:
                return
        told.begin(clock.timestamp())
        event = self._event(told)
        await self._world.tell(self._user, "POST", path, event)
        told.name = event["metadata"]["name"]

    def _event(self, told: Told) -> dict[str, Any]:
        report, moment = told.report, clock.timestamp()
        name = f"{report.regarding['name']}.{clock.randomness().getrandbits(64):016x}"
        return {
            "metadata": {"name": name, "namespace": report.namespace},
            "involvedObject": report.regarding,
            "reason": report.reason,
            "message": told.note,
            "source": {"component": self._component},
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
            "type": report.type,
            "reportingComponent": self._component,
            "reportingInstance": "",
        }
