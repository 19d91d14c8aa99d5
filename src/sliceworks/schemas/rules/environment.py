"""Environment variables of a container and where their values come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import names
from sliceworks.schemas.field_errors import invalid, required
from sliceworks.schemas.rules import name_rules
from sliceworks.schemas.rules.downward import VARIABLE_FIELDS, field_errors, resource_errors
from sliceworks.schemas.rules.texts import Errors, label, named, no_parent, subdomain

if TYPE_CHECKING:
    from sliceworks.schemas.rules.shape import Json

_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ONE_NEEDED = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
_ONLY_ONE = "may not have more than one field specified at a time"


def env_errors(out: Errors, variables: list[Json], path: str) -> None:
    for index, variable in enumerate(variables):
        name = variable.get("name")
        if not name:
            out.append(required(f"{path}[{index}].name"))
        elif not name.isidentifier() or not name.isascii():
            named(out, name, f"{path}[{index}].name", names.environment_name_errors)
        if (source := variable.get("valueFrom")) is not None:
            _value_from(out, source, variable.get("value") or "", f"{path}[{index}].valueFrom")


def env_from_errors(out: Errors, sources: list[Json], path: str) -> None:
    for index, source in enumerate(sources):
        if prefix := source.get("prefix"):
            named(out, prefix, f"{path}[{index}].prefix", names.environment_name_errors)
        count = 0
        for field in ("configMapRef", "secretRef"):
            if (reference := source.get(field)) is not None:
                count += 1
                _source_name(out, reference.get("name") or "", f"{path}[{index}].{field}.name")
        if count == 0:
            out.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif count > 1:
            out.append(invalid(path, "", _ONLY_ONE))


def _source_name(out: Errors, name: str, path: str) -> None:
    if not name:
        out.append(required(path))
        return
    for message in name_rules.dns1123_subdomain_errors(names.masked_prefix(name)):
        out.append(invalid(path, name, message))


def _value_from(out: Errors, source: Json, value: str, path: str) -> None:
    found = [field for field in _SOURCES if source.get(field) is not None]
    for field in found:
        _reference(out, field, source[field], f"{path}.{field}")
    if not found:
        out.append(invalid(path, "", _ONE_NEEDED))
    elif value:
        out.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(found) > 1:
        out.append(invalid(path, "", _ONLY_ONE))


def _reference(out: Errors, field: str, reference: Json, path: str) -> None:
    if field == "fieldRef":
        field_errors(out, reference, VARIABLE_FIELDS, path)
    elif field == "resourceFieldRef":
        resource_errors(out, reference, path, in_volume=False)
    elif field == "fileKeyRef":
        _file_key(out, reference, path)
    else:
        subdomain(out, reference.get("name") or "", f"{path}.name")
        if not reference.get("key"):
            out.append(required(f"{path}.key"))
        else:
            named(out, reference["key"], f"{path}.key", names.config_key_errors)


def _file_key(out: Errors, reference: Json, path: str) -> None:
    for field in ("key", "volumeName", "path"):
        if not reference.get(field):
            out.append(required(f"{path}.{field}"))
    if reference.get("key"):
        named(out, reference["key"], f"{path}.key", names.environment_name_errors)
    if reference.get("volumeName"):
        label(out, reference["volumeName"], f"{path}.volumeName")
    no_parent(out, reference.get("path") or "", f"{path}.path")
