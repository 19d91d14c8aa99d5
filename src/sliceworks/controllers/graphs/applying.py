"""Applies one object: only when that changes something, and never over somebody else's fields.

Force is used on objects that are ours: what others changed there is put right. An object that was there before is joined, if
nobody else owns a field that we want to be different; otherwise that is a conflict for people to settle. Annotating the instance
with `kro.run/adopt=true` settles it in our favour. So does `onDelete: restore`, which gives everything back in the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import Conflict, SliceworksError
from sliceworks.controllers.graphs import names, ownership
from sliceworks.controllers.graphs.records import record_of

if TYPE_CHECKING:
    from sliceworks.controllers.graphs.records import Record
    from sliceworks.controllers.graphs.views import View
    from sliceworks.graph.model import Node
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object

_SORTED = orjson.OPT_SORT_KEYS
_VOLATILE = ("resourceVersion", "generation")
_SOON, _PAUSE, _COINCIDENCES = 30.0, 10.0, 5


class Terminating(SliceworksError):
    """The object is on its way out: it can be made anew when it is gone."""


class Taken(SliceworksError):
    """The object, or a field of it, belongs to somebody else."""


@dataclass(frozen=True, slots=True)
class Quarrel:
    """How often in a row an object had to be put right soon after it was. Looking slower is all that can be done about it."""

    times: int = 0
    last: float = 0.0

    def again(self) -> Quarrel:
        """It had to be put right once more."""
        now = clock.loop_time()
        return Quarrel(self.times + 1 if now - self.last < _SOON else 1, now)

    def pauses(self, before: Quarrel) -> bool:
        """Whether this is no coincidence any more, and too soon after the last time."""
        return self.times > _COINCIDENCES and self.last - before.last < _PAUSE


@dataclass(slots=True)
class Memory:
    """What was applied to an object last, and what the object was like then."""

    uid: str
    wanted: int
    version: str
    content: int
    quarrel: Quarrel = Quarrel()

    def still_holds(self, wanted: int, live: Record) -> bool:
        """Whether neither side has changed since."""
        if self.uid != live.uid or self.wanted != wanted:
            return False
        if self.version != live.version:
            if self.content != content_of(live):
                return False
            self.version = live.version
        return True


Memories = dict[tuple[str, str, str], Memory]
"""By kind, namespace and name."""


@dataclass(frozen=True, slots=True)
class Applier:
    """Applies the objects of one instance."""

    client: Client
    set_id: str
    adopt: bool
    memories: Memories

    async def put(self, view: View, node: Node, wanted: Object) -> Record:
        """Make an object so, if it is not; returns it as it is in the cluster."""
        metadata = wanted["metadata"]
        live = view.get(metadata["name"], metadata.get("namespace", ""))
        if live is not None:
            self._check(live, node)
        if node.lifecycle.on_delete == "restore":
            live = live or await self._look(view, wanted)
            wanted = _remembering(live, wanted)
        key = (view.resource.qualified, metadata.get("namespace", ""), metadata["name"])
        digest = hash(orjson.dumps(wanted, option=_SORTED))
        if live is not None:
            memory = self.memories.get(key)
            if memory is not None and memory.still_holds(digest, live):
                return live
            if ownership.is_as_wanted(live, wanted):
                self.memories[key] = Memory(live.uid, digest, live.version, content_of(live))
                return live
        memory = self.memories.get(key)
        quarrel = memory.quarrel.again() if memory is not None and memory.wanted == digest else Quarrel()
        if memory is not None and quarrel.pauses(memory.quarrel):
            raise Taken(f"{view.resource.kind} {metadata['name']} is changed by somebody else each time it is put right")
        force = self.adopt or node.lifecycle.on_delete == "restore"
        record = view.wrote(await self._apply(view, wanted, live, force=force))
        self.memories[key] = Memory(record.uid, digest, record.version, content_of(record), quarrel)
        if record.deleting:
            raise _terminating(record, node)
        return record

    def _check(self, live: Record, node: Node) -> None:
        if live.set_id and live.set_id != self.set_id:
            raise Taken(
                f"resource belongs to a different ApplySet: {live.place} ({node.kind.api_version}, Kind={node.kind.kind}) "
                f'belongs to ApplySet "{live.set_id}", cannot reassign to "{self.set_id}"'
            )
        if live.deleting:
            raise _terminating(live, node)

    async def _look(self, view: View, wanted: Object) -> Record | None:
        metadata = wanted["metadata"]
        found = await self.client.find(view.resource, metadata["name"], metadata.get("namespace"))
        return record_of(found) if found is not None else None

    async def _apply(self, view: View, wanted: Object, live: Record | None, *, force: bool) -> Object:
        force = force or (live is not None and ownership.is_ours(live, self.set_id))
        try:
            return await self._send(view, wanted, force=force)
        except Conflict as conflict:
            if force:
                raise
            found = await self.client.get(view.resource, wanted["metadata"]["name"], wanted["metadata"].get("namespace"))
            labels = found["metadata"].get("labels") or {}
            if labels.get(names.PART_OF) == self.set_id and ownership.owns_membership(record_of(found)):
                return await self._send(view, wanted, force=True)  # it is ours: the cache had not heard of it yet
            raise _taken(view, wanted, conflict) from conflict

    async def _send(self, view: View, wanted: Object, *, force: bool) -> Object:
        return await self.client.apply(
            wanted, wanted["metadata"].get("namespace"), resource=view.resource, field_manager=names.APPLYSET, force=force
        )


def content_of(record: Record) -> int:
    """A digest of what people and controllers want of an object: not its status, and not its versions."""
    obj = record.object
    obj.pop("status", None)
    for name in _VOLATILE:
        obj["metadata"].pop(name, None)
    return hash(orjson.dumps(obj, option=_SORTED))


def _terminating(record: Record, node: Node) -> Terminating:
    return Terminating(
        f'resource "{record.place}" for node "{node.id}" is currently being deleted; '
        "waiting for deletion to complete before continuing reconciliation"
    )


def _remembering(live: Record | None, wanted: Object) -> Object:
    """The object with a note of what its fields were before, where there was something."""
    if live is None:
        return wanted
    obj = live.object
    noted = (obj["metadata"].get("annotations") or {}).get(names.BEFORE)
    if noted is None and live.fields:
        return wanted  # we made it: there is nothing to give back
    before = _merged(orjson.loads(noted) if noted else {}, ownership.taken_over(live, wanted))
    annotations = {**wanted["metadata"]["annotations"], names.BEFORE: orjson.dumps(before, option=_SORTED).decode()}
    return {**wanted, "metadata": {**wanted["metadata"], "annotations": annotations}}


def _merged(old: Object, new: Object) -> Object:
    """Both; what was noted first counts."""
    merged = {**new, **old}
    for key in old.keys() & new.keys():
        if isinstance(old[key], dict) and isinstance(new[key], dict):
            merged[key] = _merged(old[key], new[key])
    return merged


def _taken(view: View, wanted: Object, conflict: Conflict) -> Taken:
    causes = (conflict.details or {}).get("causes") or ()
    fields = "; ".join(f"{cause.get('field', '')} ({cause.get('message', '')})" for cause in causes) or conflict.message
    metadata = wanted["metadata"]
    place = "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
    return Taken(
        f"{view.resource.kind} {place} was there before, and others own what should be different: {fields}",
        hint=f"leave these fields out of the template, or annotate the instance with {names.ADOPT}=true to take them over",
    )
