"""Records completed objects on the instance, so that a Job removed by its TTL still counts as complete.

An annotation of the instance has a record of each such object: a hash of the desired object, and its last state, which expressions
of other resources can still read. If the desired object changes, it is created again.

Until the record is written, the object has a finalizer, so that an object which completes and is deleted while the controller is
down is still recorded.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import orjson

from sliceworks.base.conditions import is_condition_true
from sliceworks.controllers.graphs import well_known

if TYPE_CHECKING:
    from sliceworks.controllers.graphs.object_cache import CachedObject, ObjectCache
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object

_COMPLETE_CONDITIONS = frozenset({"Complete", "Completed", "Succeeded"})
_MAX_RECORD_SIZE = 1 << 16


def is_complete(obj: Object) -> bool:
    """Whether an object's status says that it succeeded."""
    return (obj.get("status") or {}).get("phase") == "Succeeded" or any(
        is_condition_true(obj, kind) for kind in _COMPLETE_CONDITIONS
    )


def without_completion_finalizer(desired: Object) -> Object:
    """The object without the completion finalizer."""
    metadata = dict(desired["metadata"])
    remaining = [name for name in metadata.pop("finalizers", None) or () if name != well_known.COMPLETION_FINALIZER]
    return {**desired, "metadata": {**metadata, "finalizers": remaining} if remaining else metadata}


async def remove_completion_finalizer(client: Client, cache: ObjectCache, record: CachedObject) -> None:
    """Remove the completion finalizer, if present. Raises Conflict if the object has changed."""
    response = await client.remove_finalizer(cache.resource, record.object["metadata"], well_known.COMPLETION_FINALIZER)
    if response is not None and (response["metadata"].get("finalizers") or not record.deleting):
        cache.record_write(response)  # otherwise it is deleted now, which the watch reports


class CompletedObjects:
    """The records of completed objects on one instance."""

    def __init__(self, instance: Object) -> None:
        records = well_known.read_record(instance["metadata"].get("annotations") or {}, well_known.COMPLETED)
        self._records = {
            key: record for key, record in records.items() if {"digest", "object"} <= well_known.as_object(record).keys()
        }
        self.changed = False

    def annotations(self) -> dict[str, str]:
        """The annotation of the instance with the records; empty without records."""
        return {well_known.COMPLETED: orjson.dumps(self._records, option=orjson.OPT_SORT_KEYS).decode()} if self._records else {}

    def find(self, desired: Object) -> Object | None:
        """The last state of the object, if it has completed with the same desired state."""
        record = self._records.get(_key(desired))
        return record["object"] if record is not None and record["digest"] == _digest(desired) else None

    def add(self, desired: Object, obj: Object) -> None:
        """Record that an object has completed."""
        record = {"digest": _digest(desired), "object": _shrink(obj)}
        if self._records.get(_key(desired)) != record:
            self._records[_key(desired)] = record
            self.changed = True


def _key(desired: Object) -> str:
    metadata = desired["metadata"]
    return "/".join((desired["kind"], metadata.get("namespace", ""), metadata["name"]))


def _digest(desired: Object) -> str:
    """A hash of the template's fields only: what this controller adds may change with its version."""
    desired = without_completion_finalizer(desired)
    metadata = desired["metadata"]
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name not in well_known.OWN_LABELS}
    annotations = {
        name: value for name, value in (metadata.get("annotations") or {}).items() if name not in well_known.OWN_ANNOTATIONS
    }
    plain = {**desired, "metadata": {**metadata, "labels": labels, "annotations": annotations}}
    return hashlib.blake2b(orjson.dumps(plain, option=orjson.OPT_SORT_KEYS), digest_size=8).hexdigest()


def _shrink(obj: Object) -> Object:
    metadata = {name: obj["metadata"][name] for name in ("name", "namespace", "uid") if name in obj["metadata"]}
    remaining = {**obj, "metadata": metadata}
    if len(orjson.dumps(remaining)) > _MAX_RECORD_SIZE:
        remaining.pop("spec", None)
    return remaining
