"""Config Connector's webhooks: default the project, deny changes to immutable fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import Forbidden
from sliceworks.schemas.config_connector import GROUPS, INSTALLED, VERSION, kind_infos
from sliceworks.twin.controllers.config_connector.resource_state import (
    CONFLICT_POLICY,
    FOLDER,
    ORGANIZATION,
    PROJECT,
    STATE_INTO_SPEC,
    Obj,
    annotation,
    project_of,
)
from sliceworks.twin.controllers.runtime.resource_keys import NAMESPACES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.schemas.config_connector import FieldPath
    from sliceworks.twin.apiserver.admission.chain import Admission

_PARENTS = {"folderRef": FOLDER, "organizationRef": ORGANIZATION}


def default_project(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Set the annotations for the project and the conflict policy; a Project gets its folder or organization instead."""
    info = kind_infos()[obj["kind"]]
    namespace = ctx.get(NAMESPACES, "", ctx.namespace)
    annotations = obj["metadata"].setdefault("annotations", {})
    if "project" in info.container:
        annotations.setdefault(PROJECT, project_of({"metadata": {**obj["metadata"], "namespace": ctx.namespace}}, _dict(namespace)))
    elif info.container:
        _default_project_parent(obj, _dict(namespace))
    if info.container:
        annotations.setdefault(CONFLICT_POLICY, "none")
    if not annotations:
        del obj["metadata"]["annotations"]


def _default_project_parent(obj: Obj, namespace: Obj) -> None:
    spec = obj.setdefault("spec", {})
    if any(spec.get(field) for field in _PARENTS):
        return
    for field, name in _PARENTS.items():
        if container := annotation(obj, name) or annotation(namespace, name):
            spec[field] = {"external": container}
            return
    raise _denied("container-annotation-handler", "a Project needs spec.folderRef or spec.organizationRef")


def default_target_version(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Set the apiVersion of the resource that a policy targets."""
    reference = (obj.get("spec") or {}).get("resourceRef") or {}
    info = kind_infos().get(str(reference.get("kind")))
    if info is not None and not reference.get("apiVersion"):
        reference["apiVersion"] = f"{info.group}/{VERSION}"


def validate_policy(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Reject policies for kinds without IAM policies, and conditions for kinds without IAM conditions."""
    spec = obj.get("spec") or {}
    kind = str((spec.get("resourceRef") or {}).get("kind"))
    info = kind_infos().get(kind)
    if info is not None and not info.iam_target:
        raise _denied("iam-validation", f"resource reference kind '{kind}' cannot be the target of an IAM policy")
    conditions = [spec.get("condition"), *(binding.get("condition") for binding in spec.get("bindings") or ())]
    if info is not None and any(conditions) and not info.iam_conditions:
        raise _denied("iam-validation", f"resource reference kind '{kind}' does not support IAM conditions")


def validate_installation(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Reject installation objects with another name than the fixed one, or without credentials."""
    name = INSTALLED[obj["kind"]]
    if obj["metadata"].get("name") != name:
        raise _denied("configconnector-validation", f"a {obj['kind']} must be named {name}")
    spec = obj.get("spec") or {}
    if obj["kind"] == "ConfigConnector" and spec.get("mode") == "cluster":
        credentials = [field for field in ("googleServiceAccount", "credentialSecretName") if spec.get(field)]
        if len(credentials) != 1:
            message = "exactly one of googleServiceAccount and credentialSecretName is needed in cluster mode"
            raise _denied("configconnector-validation", message)


def validate_create(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Reject unknown values of the state-into-spec annotation."""
    value = (obj["metadata"].get("annotations") or {}).get(STATE_INTO_SPEC, "absent")
    if value not in ("absent", "merge"):
        message = f"invalid value '{value}' for annotation '{STATE_INTO_SPEC}': must be one of {{absent, merge}}"
        raise _denied("state-into-spec-validation", message)


def validate_update(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Reject changes of immutable fields and annotations."""
    validate_create(ctx, obj, old)
    before = _dict(old)
    info = kind_infos()[obj["kind"]]
    changed = [".".join(path) for path in info.immutable if _is_field_changed(before, obj, path)]
    if _is_annotation_changed(before, obj, STATE_INTO_SPEC):
        changed.append(f"metadata.annotations[{STATE_INTO_SPEC}]")
    if changed:
        listed = " ".join(path.removeprefix("spec.") for path in changed)
        raise _denied("deny-immutable-field-updates", f"cannot make changes to immutable field(s): [{listed}]")
    if _is_annotation_changed(before, obj, PROJECT):
        raise _denied("deny-immutable-field-updates", f"cannot make changes to container annotation {PROJECT}")


def _is_annotation_changed(old: Obj, new: Obj, name: str) -> bool:
    """Whether an annotation has another value; adding or removing it does not count."""
    before, after = annotation(old, name), annotation(new, name)
    return bool(before and after) and before != after


def _is_field_changed(old: Obj, new: Obj, path: FieldPath) -> bool:
    """Whether a field that was set has another value; setting it for the first time does not count."""
    before, after = list(_values_at(old, path)), list(_values_at(new, path))
    return bool(before) and before != after


def _values_at(value: Any, path: FieldPath) -> Iterator[Any]:
    if not path:
        yield value
        return
    step, *rest = path
    if step == "*":
        for item in value if isinstance(value, list) else ():
            yield from _values_at(item, tuple(rest))
    elif isinstance(value, dict) and value.get(step) is not None:
        yield from _values_at(value[step], tuple(rest))


def _dict(obj: Mapping[str, Any] | None) -> Obj:
    return dict(obj or {})


def _denied(webhook: str, message: str) -> Forbidden:
    return Forbidden(f'admission webhook "{webhook}{GROUPS}" denied the request: {message}')
