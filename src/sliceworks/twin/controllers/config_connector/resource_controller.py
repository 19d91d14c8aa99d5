"""Config Connector's controller: moves each object through the stages of its kind."""

from __future__ import annotations

from functools import cache
from importlib import resources
from random import Random
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import find_condition
from sliceworks.schemas.config_connector import CORE, INSTALLED, kind_infos
from sliceworks.twin.controllers.config_connector import operator, resource_permission, resource_state
from sliceworks.twin.controllers.config_connector.resource_state import MANAGER, NORMAL_REASONS, USER
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import ObjectKey
from sliceworks.twin.controllers.runtime.recorder import Recorder
from sliceworks.twin.controllers.runtime.resource_keys import NAMESPACES, SECRETS, STATEFUL_SETS
from sliceworks.twin.nodes.stage_lifecycle import apply_stage, next_stage

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.twin.controllers.config_connector.resource_state import Obj
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext
    from sliceworks.twin.nodes.stage import Stage, Stages
    from sliceworks.twin.nodes.stage_lifecycle import ScheduledStage

_FILES = ("installation.yaml", "deletion.yaml", "policies.yaml", "resources.yaml")
_INSTALLED = tuple(f"{CORE}/{kind.lower()}s" for kind in INSTALLED)
_POLICIES = frozenset({"cloud.cloudresourcemanager/policies", "cloud.iam/policies"})
"""The IAM policies of projects and of service accounts in the twin's cloud."""

_RETRY_SECONDS = 10.0
_CONNECTOR = ObjectKey(f"{CORE}/configconnectors", "", INSTALLED["ConfigConnector"])


@cache
def stages_of(kind: str) -> Stages:
    """The stages of a kind, in order."""
    from sliceworks.twin.nodes.stage import load_stages

    folder = resources.files(__package__) / "stages"
    stages = (stage for name in _FILES for stage in load_stages((folder / name).read_text(), name))
    return tuple(stage for stage in stages if stage.kind == kind)


class ConfigConnector(Controller[ObjectKey]):
    """Reconciles the objects of all kinds. An object is requeued when one that it depends on changes."""

    workers = 4
    watches = _POLICIES | {NAMESPACES, SECRETS, STATEFUL_SETS, *_INSTALLED, *(info.resource for info in kind_infos().values())}

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._writer = ApiWriter(context, USER, user_agent=MANAGER, fieldManager=MANAGER)
        self._recorder = Recorder(context, USER, MANAGER)
        self._scheduled: dict[ObjectKey, tuple[Stage, datetime]] = {}
        """The next stage of each object that is not settled, and its time."""
        self._dependents: dict[ObjectKey, set[ObjectKey]] = {}
        """The objects that depend on an object, whether it exists or not."""

        self._denied: set[ObjectKey] = set()
        """The objects that Config Connector lacks permissions for; retried after IAM policies change."""

    def observe(self, change: Change) -> None:
        if change.resource in _POLICIES:
            for denied in self._denied:
                self.queue.add_after(denied, _RETRY_SECONDS)
            return
        if change.resource == NAMESPACES:
            for key in [key for key in self._scheduled if key.namespace == change.name]:
                self.queue.add(key)
            return
        if change.resource == STATEFUL_SETS:
            if operator.is_operator(change.namespace, change.name):
                self.queue.add(_CONNECTOR)
            return
        key = ObjectKey(change.resource, change.namespace, change.name)
        for dependent in self._dependents.pop(key, ()):
            self.queue.add(dependent)
        if change.resource != SECRETS:
            self.queue.add(key)

    async def sync(self, key: ObjectKey) -> None:
        obj = self.context.get(*key)
        if key == _CONNECTOR:
            await operator.reconcile(self.context, obj)
        if obj is None:
            self._scheduled.pop(key, None)
            self._denied.discard(key)
            return
        cloud = self._cloud_state(key, obj)
        scheduled = next_stage(obj, stages_of(obj["kind"]), clock.now(), lambda: Random(f"{key}"), cloud)
        if scheduled is None:
            self._scheduled.pop(key, None)
            return
        remaining = (self._stage_time(key, scheduled) - clock.now()).total_seconds()
        if remaining > 0:
            self.queue.add_after(key, remaining)
            return
        await self._apply(key, obj, scheduled.stage, cloud)

    def _cloud_state(self, key: ObjectKey, obj: Obj) -> Obj:
        """What the cloud would report of an object; records the objects that it depends on."""

        def get(resource: str, namespace: str, name: str) -> Obj | None:
            if resource != NAMESPACES:
                self._dependents.setdefault(ObjectKey(resource, namespace, name), set()).add(key)
            return self.context.get(resource, namespace, name)

        cloud = resource_state.cloud_state(obj, get)
        self._denied.discard(key)
        if obj["kind"] in kind_infos() and (error := self._find_denial(obj, cloud, get)):
            self._denied.add(key)
            return {"failure": f"error applying desired state: summary: googleapi: Error 403: {error}, forbidden", **cloud}
        return cloud

    def _find_denial(self, obj: Obj, cloud: Obj, get: resource_state.Get) -> str:
        """Why Config Connector may not apply an object that is not up to date; empty if it may."""
        is_settled = resource_state.is_ready(obj) and not cloud["changed"]
        identity = None if is_settled else resource_permission.find_identity(obj["metadata"]["namespace"], get)
        if identity is None or self.context.cloud_access is None:
            return ""
        project = resource_permission.project_for(obj, cloud["project"], get)
        return self.context.cloud_access.find_error(*identity, resource_permission.permission_for(obj), project)

    def _stage_time(self, key: ObjectKey, scheduled: ScheduledStage) -> datetime:
        """The time of a stage: its delay starts when the stage first matches."""
        stage, at = self._scheduled.get(key, (None, scheduled.at))
        if stage is not scheduled.stage:
            at = scheduled.at
            self._scheduled[key] = (scheduled.stage, at)
        return at

    async def _apply(self, key: ObjectKey, obj: Obj, stage: Stage, cloud: Obj) -> None:
        """Write the changes of a stage, if any. The spec is written first: the status reports its generation."""
        result = apply_stage(stage, obj, clock.now(), node=cloud)
        preconditions = {"uid": obj["metadata"]["uid"], "resourceVersion": obj["metadata"]["resourceVersion"]}
        if _differs(obj, result.patch):
            body = {**result.patch, "metadata": {**preconditions, **result.patch.get("metadata", {})}}
            obj = (await self._writer.patch(key, body)).object()
            preconditions["resourceVersion"] = obj["metadata"]["resourceVersion"]
        status = {**result.status, "observedGeneration": obj["metadata"]["generation"]} if result.status else {}
        if _differs(obj.get("status") or {}, status):
            before = find_condition(obj, "Ready")
            obj = (await self._writer.patch(key, {"metadata": preconditions, "status": status}, "status")).object()
            await self._record_event(obj, before)

    async def _record_event(self, obj: Obj, before: Obj) -> None:
        """Record an event if the reason or message of the Ready condition changed."""
        ready = find_condition(obj, "Ready")
        if (ready.get("reason"), ready.get("message")) == (before.get("reason"), before.get("message")):
            return
        record = self._recorder.normal if ready["reason"] in NORMAL_REASONS else self._recorder.warning
        await record(obj, ready["reason"], ready["message"])


def _differs(obj: Any, patch: Any) -> bool:
    """Whether a merge patch changes anything."""
    if not isinstance(patch, dict):
        return bool(obj != patch)
    if not isinstance(obj, dict):
        return bool(patch)
    return any(_differs(obj.get(key), value) for key, value in patch.items())
