"""ObjectMeta of every object: labels, annotations, owners, finalizers, managed fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.schemas.field_errors import Rendered
from sliceworks.twin.apiserver.validation import error_list

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.apiserver.validation.defaults import Json
    from sliceworks.twin.apiserver.validation.error_list import ErrorList

_MAX_ANNOTATION_BYTES = 256 * 1024
_MAX_LENGTHS = {"manager": 128, "subresource": 256}
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
_STANDARD_FINALIZERS = ("kubernetes", _ORPHAN, _FOREGROUND)
_FINALIZERS = "metadata.finalizers"
_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
_IMMUTABLE = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def validate_object_meta(errors: ErrorList, meta: Json, *, builtin: bool = True, old: Json | None = None) -> None:
    """Validate the parts of metadata that changed since `old`. Finalizers of built-in kinds are validated more strictly."""
    before = old or {}
    errors.check_not_negative(meta, "metadata", "generation")
    _validate_changed_fields(errors, meta, before)
    if (finalizers := meta.get("finalizers")) and finalizers != before.get("finalizers"):
        for name in finalizers:
            errors.check_qualified_name(name, _FINALIZERS)
        if _ORPHAN in finalizers and _FOREGROUND in finalizers:
            errors.invalid(_FINALIZERS, finalizers, f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set")
        if builtin:
            _validate_builtin_finalizers(errors, finalizers)


def validate_object_meta_update(errors: ErrorList, new: Json, old: Json, *, builtin: bool = True, is_valid: bool = False) -> None:
    """Validate changes of metadata: immutable fields, and again all that `validate_object_meta` does, as upstream.

    `is_valid` says that `validate_object_meta` found no errors.
    """
    finalizers = new.get("finalizers")
    if old.get("deletionTimestamp") and finalizers and (extra := sorted(set(finalizers) - set(old.get("finalizers") or ()))):
        listed = ", ".join(f'"{name}"' for name in extra)
        detail = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}"
        errors.forbidden(_FINALIZERS, detail)
    if not new.get("resourceVersion"):
        errors.invalid("metadata.resourceVersion", new.get("resourceVersion") or "", "must be specified for an update")
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        errors.invalid("metadata.generation", new.get("generation") or 0, "must not be decremented")
    for field in _IMMUTABLE:
        if new.get(field) != old.get(field):
            errors.check_unchanged(new, old, "metadata", field)
    if is_valid:
        return
    _validate_changed_fields(errors, new, old)
    if builtin and finalizers and finalizers != old.get("finalizers"):
        _validate_builtin_finalizers(errors, finalizers)


def validate_labels(errors: ErrorList, labels: dict[str, str] | None, path: str) -> None:
    for key, value in (labels or {}).items():
        errors.check_name(key, path, error_list.qualified_name_errors)
        if value:
            errors.check_name(value, path, error_list.label_value_errors)


def validate_annotations(errors: ErrorList, annotations: dict[str, str] | None, path: str) -> None:
    if not annotations:
        return
    size = 0
    for key, value in annotations.items():
        for message in error_list.qualified_name_errors(key.lower()):
            errors.invalid(path, key, message)
        size += len(key) + (len(value) if value.isascii() else len(value.encode()))
    if size > _MAX_ANNOTATION_BYTES:
        errors.too_long(path, _MAX_ANNOTATION_BYTES)


def validate_finalizer(errors: ErrorList, name: str, path: str) -> None:
    errors.check_qualified_name(name, path)
    _validate_qualified_finalizer(errors, name, path)


def _validate_qualified_finalizer(errors: ErrorList, name: str, path: str) -> None:
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        errors.invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified")


def _validate_changed_fields(errors: ErrorList, meta: Json, old: Json) -> None:
    for field, validate in _VALIDATIONS.items():
        value = meta.get(field)
        if value and value != old.get(field):
            validate(errors, value, f"metadata.{field}")


def _validate_builtin_finalizers(errors: ErrorList, finalizers: list[str]) -> None:
    for index, name in enumerate(finalizers):
        _validate_qualified_finalizer(errors, name, f"{_FINALIZERS}[{index}]")


def _validate_owner_references(errors: ErrorList, owners: list[Json], path: str) -> None:
    controller = ""
    for owner in owners:
        version = owner.get("apiVersion") or ""
        if not version.rpartition("/")[2] or version.count("/") > 1:
            errors.invalid(f"{path}.apiVersion", version, "version must not be empty")
        for field in ("kind", "name", "uid"):
            if not owner.get(field):
                errors.invalid(f"{path}.{field}", "", "must not be empty")
        if version == "v1" and owner.get("kind") == "Event":
            errors.invalid(path, Rendered(_format_owner(owner)), "/v1, Kind=Event is disallowed from being an owner")
        if owner.get("controller"):
            name = f"{owner.get('kind') or ''}/{owner.get('name') or ''}"
            if controller:
                detail = (
                    f'Only one reference can have Controller set to true. Found "true" in references for {controller} and {name}'
                )
                errors.invalid(path, Rendered(f"[{','.join(map(_format_owner, owners))}]"), detail)
            controller = controller or name


def _format_owner(owner: Json) -> str:
    """The fields in the order in which Go prints them."""
    return orjson.dumps({field: owner[field] for field in _OWNER_FIELDS if field in owner}).decode()


def _validate_managed_fields(errors: ErrorList, entries: list[dict[str, Any]], path: str) -> None:
    for index, entry in enumerate(entries):
        if entry.get("operation") not in ("Apply", "Update"):
            errors.invalid(f"{path}[{index}].operation", entry.get("operation") or "", "must be `Apply` or `Update`")
        if entry.get("fieldsType") not in (None, "", "FieldsV1"):
            errors.invalid(f"{path}[{index}].fieldsType", entry["fieldsType"], "must be `FieldsV1`")
        for field, limit in _MAX_LENGTHS.items():
            if len((entry.get(field) or "").encode()) > limit:
                errors.too_long(f"{path}[{index}].{field}", limit)


_VALIDATIONS: dict[str, Callable[[ErrorList, Any, str], None]] = {
    "labels": validate_labels,
    "annotations": validate_annotations,
    "ownerReferences": _validate_owner_references,
    "managedFields": _validate_managed_fields,
}
