"""ObjectMeta of every object: labels, annotations, owners, finalizers, managed fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.schemas.field_errors import Rendered, forbidden, invalid, too_long
from sliceworks.twin.apiserver.validation import field_checks
from sliceworks.twin.apiserver.validation.field_checks import Errors, check_immutable, check_name, check_not_negative

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.apiserver.validation.defaults import Json

_ANNOTATIONS_LIMIT = 256 * 1024
_LONGEST_MANAGER = 128
_LONGEST_SUBRESOURCE = 256
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
_STANDARD_FINALIZERS = ("kubernetes", _ORPHAN, _FOREGROUND)
_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
_FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def metadata_errors(meta: Json, path: str = "metadata", *, builtin: bool = True, old: Json | None = None) -> Errors:
    """Errors of metadata on create and update. Finalizers of built-in kinds are validated more strictly.

    Parts that are unchanged since `old` are not validated again.
    """
    errors: Errors = []
    before = old or {}
    check_not_negative(errors, meta.get("generation"), f"{path}.generation")
    _common(errors, meta, before, path)
    if (finalizers := meta.get("finalizers")) and finalizers != before.get("finalizers"):
        for name in finalizers:
            check_name(errors, name, f"{path}.finalizers", field_checks.qualified_name_errors)
        if _ORPHAN in finalizers and _FOREGROUND in finalizers:
            errors.append(invalid(f"{path}.finalizers", finalizers, f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"))
        if builtin:
            _kubernetes_finalizers(errors, finalizers, f"{path}.finalizers")
    return errors


def metadata_update_errors(new: Json, old: Json, path: str = "metadata", *, builtin: bool = True) -> Errors:
    """Errors of metadata on update: immutable fields, and everything that `metadata_errors` checks."""
    errors: Errors = []
    finalizers = new.get("finalizers")
    if old.get("deletionTimestamp") and finalizers and (extra := sorted(set(finalizers) - set(old.get("finalizers") or ()))):
        listed = ", ".join(f'"{name}"' for name in extra)
        detail = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}"
        errors.append(forbidden(f"{path}.finalizers", detail))
    if not new.get("resourceVersion"):
        errors.append(invalid(f"{path}.resourceVersion", new.get("resourceVersion") or "", "must be specified for an update"))
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        errors.append(invalid(f"{path}.generation", new.get("generation") or 0, "must not be decremented"))
    for field in _FIXED:
        if new.get(field) != old.get(field):
            check_immutable(errors, new.get(field), old.get(field), f"{path}.{field}")
    _common(errors, new, old, path)
    if builtin and finalizers and finalizers != old.get("finalizers"):
        _kubernetes_finalizers(errors, finalizers, f"{path}.finalizers")
    return errors


def label_errors(errors: Errors, labels: dict[str, str] | None, path: str) -> None:
    for key, value in (labels or {}).items():
        if field_checks.qualified_name_errors(key):
            check_name(errors, key, path, field_checks.qualified_name_errors)
        if value and field_checks.label_value_errors(value):
            check_name(errors, value, path, field_checks.label_value_errors)


def annotation_errors(errors: Errors, annotations: dict[str, str] | None, path: str) -> None:
    if not annotations:
        return
    size = 0
    for key, value in annotations.items():
        for message in field_checks.qualified_name_errors(key.lower()):
            errors.append(invalid(path, key, message))
        size += len(key) + (len(value) if value.isascii() else len(value.encode()))
    if size > _ANNOTATIONS_LIMIT:
        errors.append(too_long(path, _ANNOTATIONS_LIMIT))


def finalizer_errors(errors: Errors, name: str, path: str) -> None:
    check_name(errors, name, path, field_checks.qualified_name_errors)
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        errors.append(invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified"))


def _common(errors: Errors, meta: Json, old: Json, path: str) -> None:
    for field, check in _CHECKS.items():
        value = meta.get(field)
        if value and value != old.get(field):
            check(errors, value, f"{path}.{field}")


def _kubernetes_finalizers(errors: Errors, finalizers: list[str], path: str) -> None:
    for index, name in enumerate(finalizers):
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            errors.append(invalid(f"{path}[{index}]", name, "name is neither a standard finalizer name nor is it fully qualified"))


def _owners(errors: Errors, owners: list[Json], path: str) -> None:
    controller = ""
    for owner in owners:
        version = owner.get("apiVersion") or ""
        if not version.rpartition("/")[2] or version.count("/") > 1:
            errors.append(invalid(f"{path}.apiVersion", version, "version must not be empty"))
        for field in ("kind", "name", "uid"):
            if not owner.get(field):
                errors.append(invalid(f"{path}.{field}", "", "must not be empty"))
        if version == "v1" and owner.get("kind") == "Event":
            errors.append(invalid(path, Rendered(_printed(owner)), "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            name = f"{owner.get('kind') or ''}/{owner.get('name') or ''}"
            if controller:
                detail = (
                    f'Only one reference can have Controller set to true. Found "true" in references for {controller} and {name}'
                )
                errors.append(invalid(path, Rendered(f"[{','.join(map(_printed, owners))}]"), detail))
            controller = controller or name


def _printed(owner: Json) -> str:
    """The fields in the order in which Go prints them."""
    return orjson.dumps({field: owner[field] for field in _OWNER_FIELDS if field in owner}).decode()


def _managed(errors: Errors, managed: list[dict[str, Any]], path: str) -> None:
    for index, entry in enumerate(managed):
        if entry.get("operation") not in ("Apply", "Update"):
            errors.append(invalid(f"{path}[{index}].operation", entry.get("operation") or "", "must be `Apply` or `Update`"))
        if entry.get("fieldsType") not in (None, "", "FieldsV1"):
            errors.append(invalid(f"{path}[{index}].fieldsType", entry["fieldsType"], "must be `FieldsV1`"))
        if len((entry.get("manager") or "").encode()) > _LONGEST_MANAGER:
            errors.append(too_long(f"{path}[{index}].manager", _LONGEST_MANAGER))
        if len((entry.get("subresource") or "").encode()) > _LONGEST_SUBRESOURCE:
            errors.append(too_long(f"{path}[{index}].subresource", _LONGEST_SUBRESOURCE))


_CHECKS: dict[str, Callable[[Errors, Any, str], None]] = {
    "labels": label_errors,
    "annotations": annotation_errors,
    "ownerReferences": _owners,
    "managedFields": _managed,
}
