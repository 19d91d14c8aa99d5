"""Config Connector's controllers: each object goes through the stages of its kind, as fast as the cloud would answer."""

from __future__ import annotations

from functools import cache
from importlib import resources
from random import Random
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import condition
from sliceworks.schemas.config_connector import CORE, INSTALLED, marks
from sliceworks.twin.controllers.events import Recorder
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.controllers.world import MERGE, Key
from sliceworks.twin.nodes.engine import next_step, outcome
from sliceworks.twin.workloads.config_connector import cloud
from sliceworks.twin.workloads.config_connector.keys import GOOD, MANAGER, NAMESPACES, SECRETS, USER

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.nodes.engine import Step
    from sliceworks.twin.nodes.stages import Stage, Stages
    from sliceworks.twin.workloads.config_connector.keys import Obj

_FILES = ("installation.yaml", "deletion.yaml", "policies.yaml", "resources.yaml")
_INSTALLED = tuple(f"{CORE}/{kind.lower()}s" for kind in INSTALLED)


@cache
def stages_of(kind: str) -> Stages:
    """The stages of a kind, in their order."""
    from sliceworks.twin.nodes.stages import load

    folder = resources.files(__package__) / "stages"
    found = [stage for name in _FILES for stage in load((folder / name).read_text(), name)]
    return tuple(stage for stage in found if stage.kind == kind)


class ConfigConnector(Controller[Key]):
    """Follows the objects of all kinds. One that waits for another is looked at again when that one changes."""

    workers = 4
    watches = frozenset({NAMESPACES, SECRETS, *_INSTALLED, *(mark.resource for mark in marks().values())})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._recorder = Recorder(world, USER, MANAGER)
        self._due: dict[Key, tuple[Stage, datetime]] = {}
        """What comes next for each object that is not settled, and when."""
        self._waiting: dict[Key, set[Key]] = {}
        """Who waits for an object, whether it exists or not."""

    def observe(self, change: Change) -> None:
        if change.resource == NAMESPACES:
            for each in [key for key in self._due if key.namespace == change.name]:
                self.queue.add(each)
            return
        key = Key(change.resource, change.namespace, change.name)
        for each in self._waiting.pop(key, ()):
            self.queue.add(each)
        if change.resource != SECRETS:
            self.queue.add(key)

    async def sync(self, key: Key) -> None:
        obj = self.world.get(*key)
        if obj is None:
            self._due.pop(key, None)
            return
        context = self._context(key, obj)
        step = next_step(obj, stages_of(obj["kind"]), clock.now(), lambda: Random(f"{key}"), context)
        if step is None:
            self._due.pop(key, None)
            return
        left = (self._time(key, step) - clock.now()).total_seconds()
        if left > 0:
            self.queue.add_after(key, left)
            return
        await self._carry_out(key, obj, step.stage, context)

    def _context(self, key: Key, obj: Obj) -> Obj:
        """What the cloud knows; whoever is asked for on the way is remembered as being waited for."""

        def get(resource: str, namespace: str, name: str) -> Obj | None:
            if resource != NAMESPACES:
                self._waiting.setdefault(Key(resource, namespace, name), set()).add(key)
            return self.world.get(resource, namespace, name)

        return cloud.known(obj, get)

    def _time(self, key: Key, step: Step) -> datetime:
        """When a step is due: it began to wait when its state was first seen."""
        stage, at = self._due.get(key, (None, step.at))
        if stage is not step.stage:
            at = step.at
            self._due[key] = (step.stage, at)
        return at

    async def _carry_out(self, key: Key, obj: Obj, stage: Stage, context: Obj) -> None:
        """Write what a stage does, unless it is so already. The specification goes first: its generation counts."""
        served = self.world.of_kind(obj["apiVersion"], obj["kind"])
        if served is None:
            return
        result = outcome(stage, obj, clock.now(), node=context)
        lock = {"uid": obj["metadata"]["uid"], "resourceVersion": obj["metadata"]["resourceVersion"]}
        if _differs(obj, result.patch):
            body = {**result.patch, "metadata": {**lock, **result.patch.get("metadata", {})}}
            obj = await self._send(served.path(key.namespace, key.name), body)
            lock = {"uid": lock["uid"], "resourceVersion": obj["metadata"]["resourceVersion"]}
        status = {**result.status, "observedGeneration": obj["metadata"]["generation"]} if result.status else {}
        if _differs(obj.get("status") or {}, status):
            before = condition(obj, "Ready")
            obj = await self._send(served.path(key.namespace, key.name, "status"), {"metadata": lock, "status": status})
            await self._tell(obj, before)

    async def _send(self, path: str, body: Obj) -> Obj:
        return await self.world.send(USER, "PATCH", path, body, content_type=MERGE, user_agent=MANAGER, fieldManager=MANAGER)

    async def _tell(self, obj: Obj, before: Obj) -> None:
        """An event for every new reason or message."""
        now = condition(obj, "Ready")
        if (now.get("reason"), now.get("message")) == (before.get("reason"), before.get("message")):
            return
        tell = self._recorder.normal if now["reason"] in GOOD else self._recorder.warning
        await tell(obj, now["reason"], now["message"])


def _differs(obj: Any, patch: Any) -> bool:
    """Whether a merge patch changes anything."""
    if not isinstance(patch, dict):
        return bool(obj != patch)
    if not isinstance(obj, dict):
        return bool(patch)
    return any(_differs(obj.get(key), value) for key, value in patch.items())
