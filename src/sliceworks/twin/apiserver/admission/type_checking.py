"""Warnings about expressions of a ValidatingAdmissionPolicy that do not fit the types of the kinds it matches."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from sliceworks.cel.admission import TypedScope
from sliceworks.cel.environment import CompileError
from sliceworks.twin.apiserver.fieldmanager.typed_value import envelope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.schemas import Schema
    from sliceworks.twin.apiserver.registry.resources import Registry

Obj = dict[str, Any]
_MAX_KINDS = 10


def expression_warnings(registry: Registry, spec: Mapping[str, Any]) -> list[Obj]:
    """The warnings, as `status.typeChecking.expressionWarnings` lists them."""
    params = _params_schema(registry, spec.get("paramKind"))
    kinds = [(kind, TypedScope(schema, params, spec.get("variables") or ())) for kind, schema in _matched_kinds(registry, spec)]
    warnings: list[Obj] = []
    for index, validation in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            problems = list(_problems(kinds, validation.get(field) or ""))
            if problems:
                warnings.append({"fieldRef": f"spec.validations[{index}].{field}", "warning": "\n".join(problems)})
    return warnings


def _problems(kinds: list[tuple[str, TypedScope]], expression: str) -> Iterator[str]:
    for kind, scope in kinds if expression else ():
        try:
            scope.check(expression)
        except CompileError as error:
            yield f"{kind}: {str(error).removeprefix('compilation failed: ')}\n"


def _matched_kinds(registry: Registry, spec: Mapping[str, Any]) -> list[tuple[str, Schema]]:
    """The kinds that a policy matches without wildcards, sorted, with their schemas."""
    schemas: dict[tuple[str, str, str], Schema] = {}
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        groups, versions = rule.get("apiGroups") or [], rule.get("apiVersions") or []
        if any("*" in name for name in (*groups, *versions)):
            continue
        resources = [name for name in rule.get("resources") or () if "*" not in name and "/" not in name]
        names = [(group, version, name) for group in sorted(groups) for version in sorted(versions) for name in sorted(resources)]
        served = [served for name in names if (served := registry.find(*name)) is not None]
        for resource, version in served[:_MAX_KINDS]:
            schemas[resource.group, version.name, resource.kind] = _complete(version.schema())
    return [(f"{group}/{version}, Kind={kind}", schema) for (group, version, kind), schema in sorted(schemas.items(), key=_key)]


def _key(item: tuple[tuple[str, str, str], Schema]) -> tuple[str, str, str]:
    return item[0]


def _params_schema(registry: Registry, kind: Mapping[str, Any] | None) -> Schema | None:
    if kind is None:
        return None
    group, _, version = str(kind.get("apiVersion") or "").rpartition("/")
    for resource in registry:
        if (resource.group, resource.kind) == (group, kind.get("kind")) and version in resource.versions:
            return _complete(resource.versions[version].schema())
    return None


def _complete(schema: Schema) -> Schema:
    """The schema with the fields that custom resources do not declare."""
    if schema.name:
        return schema
    complete = copy(schema)
    complete.properties = {**schema.properties, **envelope()}
    return complete
