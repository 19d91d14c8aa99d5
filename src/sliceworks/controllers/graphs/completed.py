"""What has finished and need not be there any more: a Job that its time-to-live removed counts as done.

The instance keeps a note of each such object in an annotation: a digest of what was wanted, and the object as it was last, which
other resources may still refer to. When something else is wanted later, it is made anew.

Until the note is written, a finalizer of ours pins the object: one that finishes and is removed while no controller runs is still
there for the next, which sees how it ended.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING

import orjson

from sliceworks.base.conditions import is_true
from sliceworks.base.errors import NotFound
from sliceworks.controllers.graphs import names

if TYPE_CHECKING:
    from sliceworks.controllers.graphs.records import Record
    from sliceworks.controllers.graphs.views import View
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object

_FINISHED = frozenset({"Complete", "Completed", "Succeeded"})
_LARGEST = 1 << 16


def finished(obj: Object) -> bool:
    """Whether an object has done what it is for, by its own account."""
    return (obj.get("status") or {}).get("phase") == "Succeeded" or any(is_true(obj, kind) for kind in _FINISHED)


def unpinned(wanted: Object) -> Object:
    """The same without our finalizer."""
    metadata = dict(wanted["metadata"])
    kept = [name for name in metadata.pop("finalizers", None) or () if name != names.PINNED]
    return {**wanted, "metadata": {**metadata, "finalizers": kept} if kept else metadata}


async def unpin(client: Client, view: View, record: Record) -> None:
    """Take our finalizer off, where it is on; Conflict where somebody else has changed the object since."""
    finalizers = record.object["metadata"].get("finalizers") or ()
    if names.PINNED not in finalizers:
        return
    kept = [name for name in finalizers if name != names.PINNED]
    change: Object = {"metadata": {"resourceVersion": record.version, "finalizers": kept}}
    with suppress(NotFound):
        answer = await client.patch(view.resource, record.name, change, record.namespace, field_manager=names.WRITER)
        if kept or not record.deleting:
            view.wrote(answer)  # one that nothing holds any more is gone: of that the watch tells


class Completed:
    """The notes on one instance."""

    def __init__(self, instance: Object) -> None:
        noted = (instance["metadata"].get("annotations") or {}).get(names.COMPLETED)
        self._notes: dict[str, Object] = orjson.loads(noted) if noted else {}
        self.changed = False

    def annotations(self) -> dict[str, str]:
        """How the instance keeps them; nothing where there are none."""
        return {names.COMPLETED: orjson.dumps(self._notes, option=orjson.OPT_SORT_KEYS).decode()} if self._notes else {}

    def recall(self, wanted: Object) -> Object | None:
        """The object as it was last, if this very one has finished."""
        note = self._notes.get(_key(wanted))
        return note["object"] if note is not None and note["digest"] == _digest(wanted) else None

    def note(self, wanted: Object, found: Object) -> None:
        """This one has finished."""
        made = {"digest": _digest(wanted), "object": _small(found)}
        if self._notes.get(_key(wanted)) != made:
            self._notes[_key(wanted)] = made
            self.changed = True


def _key(wanted: Object) -> str:
    metadata = wanted["metadata"]
    return "/".join((wanted["kind"], metadata.get("namespace", ""), metadata["name"]))


def _digest(wanted: Object) -> str:
    """Of what the template says: what this controller adds changes with its version."""
    wanted = unpinned(wanted)
    metadata = wanted["metadata"]
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name not in names.OWN_LABELS}
    annotations = {name: value for name, value in (metadata.get("annotations") or {}).items() if name not in names.OWN_ANNOTATIONS}
    plain = {**wanted, "metadata": {**metadata, "labels": labels, "annotations": annotations}}
    return hashlib.blake2b(orjson.dumps(plain, option=orjson.OPT_SORT_KEYS), digest_size=8).hexdigest()


def _small(found: Object) -> Object:
    metadata = {name: found["metadata"][name] for name in ("name", "namespace", "uid") if name in found["metadata"]}
    kept = {**found, "metadata": metadata}
    if len(orjson.dumps(kept)) > _LARGEST:
        kept.pop("spec", None)
    return kept
