"""What has finished and need not be there any more: a Job that its time-to-live removed counts as done.

The instance keeps a note of each such object in an annotation: a digest of what was wanted, and the object as it was last, which
other resources may still refer to. When something else is wanted later, it is made anew.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import orjson

from sliceworks.controllers.graphs import names

if TYPE_CHECKING:
    from sliceworks.kube.resources import Object

_FINISHED = frozenset({"Complete", "Completed", "Succeeded"})
_LARGEST = 1 << 16


def finished(obj: Object) -> bool:
    """Whether an object has done what it is for, by its own account."""
    status = obj.get("status") or {}
    if status.get("phase") == "Succeeded":
        return True
    conditions = status.get("conditions") or ()
    return any(item.get("type") in _FINISHED and item.get("status") == "True" for item in conditions)


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
