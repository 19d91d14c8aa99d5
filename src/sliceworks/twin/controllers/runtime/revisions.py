"""Template hashes in Kubernetes' safe alphabet, and the ControllerRevisions of StatefulSets and DaemonSets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.kube.resources import owner_reference
from sliceworks.twin.controllers.runtime.controller_context import ControllerContext, ObjectKey
from sliceworks.twin.controllers.runtime.object_index import OwnerIndex
from sliceworks.twin.controllers.runtime.resource_keys import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.api_writer import ApiWriter

REVISION_LABEL = "controller-revision-hash"
_SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def compute_hash(value: Any, collisions: int | None = None) -> str:
    """The hash of a template. Kubernetes hashes Go's dump of the value, so its hashes differ."""
    data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    if collisions is not None:
        data += collisions.to_bytes(8, "little")
    return safe_encode(fnv32a(data))


def safe_encode(number: int) -> str:
    """A number in letters that cannot form words."""
    return "".join(_SAFE_ALPHABET[ord(digit) % len(_SAFE_ALPHABET)] for digit in str(number))


def fnv32(data: bytes) -> int:
    """The 32-bit FNV-1 hash."""
    value = 0x811C9DC5
    for byte in data:
        value = ((value * 0x01000193) & 0xFFFFFFFF) ^ byte
    return value


def fnv32a(data: bytes) -> int:
    """The 32-bit FNV-1a hash."""
    value = 0x811C9DC5
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def fnv128a(data: bytes) -> int:
    """The 128-bit FNV-1a hash."""
    value = 0x6C62272E07BB014262B821756295C58D
    for byte in data:
        value = ((value ^ byte) * 0x0000000001000000000000000000013B) & (1 << 128) - 1
    return value


def revision_data(owner: Mapping[str, Any]) -> Object:
    """The `data` of a ControllerRevision: a patch that restores the owner's template.

    Its fields are sorted, as Go sorts the keys of a map: clients compare it byte by byte.
    """
    data: Object = _sorted({"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}})
    return data


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(item) for key, item in sorted(value.items())}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def revision_template(revision: Mapping[str, Any]) -> Object:
    """The template in a revision's data."""
    return {key: value for key, value in revision["data"]["spec"]["template"].items() if key != "$patch"}


def new_revision(owner: Mapping[str, Any], name: str, hash_label: Mapping[str, str], number: int) -> Object:
    """The ControllerRevision of the owner's template."""
    labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
    metadata: Object = {
        "name": name,
        "namespace": owner["metadata"]["namespace"],
        "labels": {**labels, **hash_label},
        "ownerReferences": [owner_reference(owner)],
    }
    if annotations := owner["metadata"].get("annotations"):
        metadata["annotations"] = annotations
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata,
        "data": revision_data(owner),
        "revision": number,
    }


class RevisionHistory:
    """The ControllerRevisions of one controller's objects."""

    def __init__(self, context: ControllerContext, writer: ApiWriter) -> None:
        self._context, self._writer = context, writer
        self._owners = context.shared_index(OwnerIndex)

    def list_revisions(self, owner: Mapping[str, Any]) -> list[Object]:
        """The revisions that an object controls, oldest first."""
        keys = self._owners.owned_by(REVISIONS, owner["metadata"]["uid"])
        revisions = [revision for key in keys if (revision := self._context.get(REVISIONS, *key)) is not None]
        return sorted(revisions, key=lambda revision: int(revision["revision"]))

    async def find_equal(self, owner: Mapping[str, Any], revisions: list[Object]) -> Object | None:
        """The revision of the owner's current template, made the latest one; None if the template is new."""
        data = revision_data(owner)
        equal = next((revision for revision in reversed(revisions) if revision["data"] == data), None)
        if equal is None or equal is revisions[-1]:
            return equal
        return (await self._writer.update(REVISIONS, {**equal, "revision": next_number(revisions)})).object()

    async def delete_old(self, owner: Mapping[str, Any], unused: Iterable[Object]) -> None:
        """Delete the oldest unused revisions beyond spec.revisionHistoryLimit."""
        old = [revision["metadata"] for revision in unused]
        limit = int(owner["spec"].get("revisionHistoryLimit", 10))
        for metadata in old[: max(0, len(old) - limit)]:
            await self._writer.delete_if_exists(ObjectKey(REVISIONS, metadata["namespace"], metadata["name"]))


def next_number(revisions: list[Object]) -> int:
    return int(revisions[-1]["revision"]) + 1 if revisions else 1
