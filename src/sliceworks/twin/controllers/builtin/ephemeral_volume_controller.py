"""The ephemeral volume controller: creates the claims of generic ephemeral volumes, which their pods own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import ApiError, Conflict
from sliceworks.kube.resources import controller_of, owner_reference
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import NamespacedName, controller_user
from sliceworks.twin.controllers.runtime.recorder import Recorder
from sliceworks.twin.controllers.runtime.resource_keys import CLAIMS, PODS

if TYPE_CHECKING:
    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_USER = controller_user("ephemeral-volume-controller")
_FIELD = b'"ephemeral":'


class EphemeralVolumeController(Controller[NamespacedName]):
    """Creates the claims of pods with ephemeral volumes; the garbage collector deletes them with the pod."""

    watches = frozenset({PODS, CLAIMS})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._writer = ApiWriter(context, _USER)
        self._recorder = Recorder(context, _USER, "ephemeral_volume")

    def observe(self, change: Change) -> None:
        if change.resource == PODS:
            # Volumes of a pod do not change.
            if change.type == "ADDED" and _FIELD in change.entry.data:
                self.queue.add((change.namespace, change.name))
        elif change.type == "DELETED" and (owner := controller_of(change.obj)) and owner["kind"] == "Pod":
            self.queue.add((change.namespace, owner["name"]))

    async def sync(self, key: NamespacedName) -> None:
        pod = self.context.get(PODS, *key)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return
        for volume in pod["spec"].get("volumes") or ():
            if "ephemeral" in volume:
                try:
                    await self._create_claim(pod, volume)
                except ApiError as error:
                    message = f"ephemeral volume {volume['name']}: {error.message}"
                    await self._recorder.warning(pod, "FailedBinding", message)
                    raise

    async def _create_claim(self, pod: Object, volume: Object) -> None:
        metadata, template = pod["metadata"], volume["ephemeral"]["volumeClaimTemplate"]
        name = f"{metadata['name']}-{volume['name']}"
        claim = self.context.get(CLAIMS, metadata["namespace"], name)
        if claim is not None:
            owner = controller_of(claim)
            if owner is None or owner["uid"] != metadata["uid"]:
                namespace = metadata["namespace"]
                raise Conflict(f"PVC {namespace}/{name} was not created for pod {namespace}/{metadata['name']} (pod is not owner)")
            return
        inherited = {key: value for key, value in (template.get("metadata") or {}).items() if key in {"annotations", "labels"}}
        body = {"metadata": {"name": name, "ownerReferences": [owner_reference(pod)], **inherited}, "spec": template["spec"]}
        try:
            await self._writer.create(CLAIMS, metadata["namespace"], body)
        except ApiError as error:
            raise ApiError(f"create PVC {name}: {error.message}", code=error.code, reason=error.reason) from error
