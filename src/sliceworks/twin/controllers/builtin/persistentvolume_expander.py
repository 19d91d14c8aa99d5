"""The volume expansion controller: reports that the driver of a volume has to expand it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import quantity
from sliceworks.kube.persistent_volumes import requested_size
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import NamespacedName, controller_user
from sliceworks.twin.controllers.runtime.recorder import Recorder
from sliceworks.twin.controllers.runtime.resource_keys import CLAIMS, VOLUMES

if TYPE_CHECKING:
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_MESSAGE = "waiting for an external controller to expand this PVC"


class PersistentVolumeExpander(Controller[NamespacedName]):
    """Records an event for each claim that grows: kube-controller-manager itself expands no volume of a CSI driver."""

    watches = frozenset({CLAIMS})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._recorder = Recorder(context, controller_user("expand-controller"), "volume_expand")

    def observe(self, change: Change) -> None:
        old = change.old if change.type == "MODIFIED" else None
        if old is not None and quantity.compare(requested_size(change.obj), requested_size(old)) > 0:
            self.queue.add((change.namespace, change.name))

    async def sync(self, key: NamespacedName) -> None:
        claim = self.context.get(CLAIMS, *key)
        volume = self.context.get(VOLUMES, "", claim["spec"].get("volumeName") or "") if claim is not None else None
        if claim is None or volume is None or (volume["spec"].get("claimRef") or {}).get("uid") != claim["metadata"]["uid"]:
            return
        size = ((claim.get("status") or {}).get("capacity") or {}).get("storage", "0")
        if quantity.compare(requested_size(claim), size) > 0:
            await self._recorder.normal(claim, "ExternalExpanding", _MESSAGE)
