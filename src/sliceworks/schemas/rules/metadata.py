"""What must hold for the metadata of every object, apart from its name, which each kind has its own rule for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.schemas.field_errors import Shown, forbidden, invalid, too_long
from sliceworks.schemas.rules import name_rules
from sliceworks.schemas.rules.texts import Errors, immutable, named, not_negative

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.schemas.rules.shape import Json

_ANNOTATIONS_LIMIT = 256 * 1024
_LONGEST_MANAGER = 128
_LONGEST_SUBRESOURCE = 256
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
_STANDARD_FINALIZERS = ("kubernetes", _ORPHAN, _FOREGROUND)
_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
_FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def metadata_errors(meta: Json, path: str = "metadata", *, builtin: bool = True, old: Json | None = None) -> Errors:
    """Errors of metadata on create, and again on update. Built-in kinds ask more of finalizers than custom resources do.

    Parts that are as they were in `old` have been found right before.
    """
    out: Errors = []
    before = old or {}
    not_negative(out, meta.get("generation"), f"{path}.generation")
    _common(out, meta, before, path)
    if (finalizers := meta.get("finalizers")) and finalizers != before.get("finalizers"):
        for name in finalizers:
            named(out, name, f"{path}.finalizers", name_rules.qualified_name_errors)
        if _ORPHAN in finalizers and _FOREGROUND in finalizers:
            out.append(invalid(f"{path}.finalizers", finalizers, f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"))
        if builtin:
            _kubernetes_finalizers(out, finalizers, f"{path}.finalizers")
    return out


def metadata_update_errors(new: Json, old: Json, path: str = "metadata", *, builtin: bool = True) -> Errors:
    """Errors of metadata on update: what never changes, and what must be right again."""
    out: Errors = []
    finalizers = new.get("finalizers")
    if old.get("deletionTimestamp") and finalizers and (extra := sorted(set(finalizers) - set(old.get("finalizers") or ()))):
        listed = ", ".join(f'"{name}"' for name in extra)
        detail = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}"
        out.append(forbidden(f"{path}.finalizers", detail))
    if not new.get("resourceVersion"):
        out.append(invalid(f"{path}.resourceVersion", new.get("resourceVersion") or "", "must be specified for an update"))
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        out.append(invalid(f"{path}.generation", new.get("generation") or 0, "must not be decremented"))
    for field in _FIXED:
        if new.get(field) != old.get(field):
            immutable(out, new.get(field), old.get(field), f"{path}.{field}")
    _common(out, new, old, path)
    if builtin and finalizers and finalizers != old.get("finalizers"):
        _kubernetes_finalizers(out, finalizers, f"{path}.finalizers")
    return out


def label_errors(out: Errors, labels: dict[str, str] | None, path: str) -> None:
    for key, value in (labels or {}).items():
        if name_rules.qualified_name_errors(key):
            named(out, key, path, name_rules.qualified_name_errors)
        if value and name_rules.label_value_errors(value):
            named(out, value, path, name_rules.label_value_errors)


def annotation_errors(out: Errors, annotations: dict[str, str] | None, path: str) -> None:
    if not annotations:
        return
    size = 0
    for key, value in annotations.items():
        for message in name_rules.qualified_name_errors(key.lower()):
            out.append(invalid(path, key, message))
        size += len(key) + (len(value) if value.isascii() else len(value.encode()))
    if size > _ANNOTATIONS_LIMIT:
        out.append(too_long(path, _ANNOTATIONS_LIMIT))


def finalizer_errors(out: Errors, name: str, path: str) -> None:
    named(out, name, path, name_rules.qualified_name_errors)
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        out.append(invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified"))


def _common(out: Errors, meta: Json, old: Json, path: str) -> None:
    for field, check in _CHECKS.items():
        value = meta.get(field)
        if value and value != old.get(field):
            check(out, value, f"{path}.{field}")


def _kubernetes_finalizers(out: Errors, finalizers: list[str], path: str) -> None:
    for index, name in enumerate(finalizers):
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            out.append(invalid(f"{path}[{index}]", name, "name is neither a standard finalizer name nor is it fully qualified"))


def _owners(out: Errors, owners: list[Json], path: str) -> None:
    controller = ""
    for owner in owners:
        version = owner.get("apiVersion") or ""
        if not version.rpartition("/")[2] or version.count("/") > 1:
            out.append(invalid(f"{path}.apiVersion", version, "version must not be empty"))
        for field in ("kind", "name", "uid"):
            if not owner.get(field):
                out.append(invalid(f"{path}.{field}", "", "must not be empty"))
        if version == "v1" and owner.get("kind") == "Event":
            out.append(invalid(path, Shown(_printed(owner)), "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            name = f"{owner.get('kind') or ''}/{owner.get('name') or ''}"
            if controller:
                detail = (
                    f'Only one reference can have Controller set to true. Found "true" in references for {controller} and {name}'
                )
                out.append(invalid(path, Shown(f"[{','.join(map(_printed, owners))}]"), detail))
            controller = controller or name


def _printed(owner: Json) -> str:
    """The fields in the order in which Go prints them."""
    return orjson.dumps({field: owner[field] for field in _OWNER_FIELDS if field in owner}).decode()


def _managed(out: Errors, managed: list[dict[str, Any]], path: str) -> None:
    for index, entry in enumerate(managed):
        if entry.get("operation") not in ("Apply", "Update"):
            out.append(invalid(f"{path}[{index}].operation", entry.get("operation") or "", "must be `Apply` or `Update`"))
        if entry.get("fieldsType") not in (None, "", "FieldsV1"):
            out.append(invalid(f"{path}[{index}].fieldsType", entry["fieldsType"], "must be `FieldsV1`"))
        if len((entry.get("manager") or "").encode()) > _LONGEST_MANAGER:
            out.append(too_long(f"{path}[{index}].manager", _LONGEST_MANAGER))
        if len((entry.get("subresource") or "").encode()) > _LONGEST_SUBRESOURCE:
            out.append(too_long(f"{path}[{index}].subresource", _LONGEST_SUBRESOURCE))


_CHECKS: dict[str, Callable[[Errors, Any, str], None]] = {
    "labels": label_errors,
    "annotations": annotation_errors,
    "ownerReferences": _owners,
    "managedFields": _managed,
}
