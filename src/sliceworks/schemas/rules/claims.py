"""Claims on storage: the spec that PersistentVolumeClaims, their templates and ephemeral volumes share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.schemas.field_errors import forbidden, invalid, not_supported, required
from sliceworks.schemas.rules import name_rules
from sliceworks.schemas.rules.resources import amount, positive
from sliceworks.schemas.rules.selectors import selector_errors
from sliceworks.schemas.rules.texts import Errors, named, subdomain

if TYPE_CHECKING:
    from sliceworks.schemas.rules.shape import Json

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")


def access_mode_errors(out: Errors, modes: list[str], path: str) -> None:
    for mode in modes:
        if mode not in _MODES:
            out.append(not_supported(path, mode, _MODES))
    if "ReadWriteOncePod" in modes and any(mode in _MODES and mode != "ReadWriteOncePod" for mode in modes):
        out.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))


def claim_spec_errors(out: Errors, spec: Json, path: str) -> None:
    modes = spec.get("accessModes") or []
    if not modes:
        out.append(required(f"{path}.accessModes", "at least 1 access mode is required"))
    selector_errors(out, spec.get("selector"), f"{path}.selector")
    access_mode_errors(out, modes, f"{path}.accessModes")
    _size(out, (spec.get("resources") or {}).get("requests") or {}, f"{path}.resources[storage]")
    for field in ("storageClassName", "volumeAttributesClassName"):
        if spec.get(field):
            subdomain(out, spec[field], f"{path}.{field}")
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        out.append(not_supported(f"{path}.volumeMode", mode, VOLUME_MODES))
    _data_sources(out, spec, path)


def _size(out: Errors, requests: Json, path: str) -> None:
    if "storage" not in requests:
        out.append(required(path))
        return
    before = len(out)
    positive(out, requests["storage"], path)
    if len(out) == before:
        amount(out, "storage", requests["storage"], path)


def _data_sources(out: Errors, spec: Json, path: str) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    for field, found in (("dataSource", source), ("dataSourceRef", reference)):
        if found is not None:
            _data_source(out, found, f"{path}.{field}")
    namespace = (reference or {}).get("namespace")
    if namespace:
        named(out, namespace, f"{path}.dataSourceRef.namespace", name_rules.dns1123_label_errors)
    if source is None or reference is None:
        return
    if namespace:
        out.append(invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified"))
    elif any(source.get(field) != reference.get(field) for field in ("apiGroup", "kind", "name")):
        out.append(invalid(path, {}, "must match dataSourceRef"))


def _data_source(out: Errors, source: Json, path: str) -> None:
    for field in ("name", "kind"):
        if not source.get(field):
            out.append(required(f"{path}.{field}"))
    group = source.get("apiGroup") or ""
    if not group and source.get("kind") != "PersistentVolumeClaim":
        out.append(invalid(path, source.get("kind") or "", "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
    if group:
        subdomain(out, group, f"{path}.apiGroup")
