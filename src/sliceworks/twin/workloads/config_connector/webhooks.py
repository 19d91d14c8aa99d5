"""What Config Connector's webhooks do: fill in where an object lies, and refuse what may not change or cannot work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import Forbidden
from sliceworks.schemas.config_connector import GROUPS, INSTALLED, VERSION, marks
from sliceworks.twin.workloads.config_connector.cloud import project_of
from sliceworks.twin.workloads.config_connector.keys import (
    CONFLICT_POLICY,
    FOLDER,
    NAMESPACES,
    ORGANIZATION,
    PROJECT,
    STATE_INTO_SPEC,
    Obj,
    annotation,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.schemas.config_connector import Steps
    from sliceworks.twin.admission.context import Admission

_PARENTS = {"folderRef": FOLDER, "organizationRef": ORGANIZATION}


def place(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Say which project an object lies in, and who minds conflicts; a Project lies in a folder or an organization."""
    mark = marks()[obj["kind"]]
    namespace = ctx.get(NAMESPACES, "", ctx.namespace)
    annotations = obj["metadata"].setdefault("annotations", {})
    if "project" in mark.container:
        annotations.setdefault(PROJECT, project_of({"metadata": {**obj["metadata"], "namespace": ctx.namespace}}, _dict(namespace)))
    elif mark.container:
        _place_project(obj, _dict(namespace))
    if mark.container:
        annotations.setdefault(CONFLICT_POLICY, "none")
    if not annotations:
        del obj["metadata"]["annotations"]


def _place_project(obj: Obj, namespace: Obj) -> None:
    spec = obj.setdefault("spec", {})
    if any(spec.get(field) for field in _PARENTS):
        return
    for field, name in _PARENTS.items():
        if container := annotation(obj, name) or annotation(namespace, name):
            spec[field] = {"external": container}
            return
    raise _denied("container-annotation-handler", "a Project needs spec.folderRef or spec.organizationRef")


def name_target(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Fill in the apiVersion of what a policy is about."""
    reference = (obj.get("spec") or {}).get("resourceRef") or {}
    mark = marks().get(str(reference.get("kind")))
    if mark is not None and not reference.get("apiVersion"):
        reference["apiVersion"] = f"{mark.group}/{VERSION}"


def check_policy(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """A policy is about something that has policies, and has conditions only where that takes them."""
    spec = obj.get("spec") or {}
    kind = str((spec.get("resourceRef") or {}).get("kind"))
    mark = marks().get(kind)
    if mark is not None and not mark.iam_target:
        raise _denied("iam-validation", f"resource reference kind '{kind}' cannot be the target of an IAM policy")
    conditions = [spec.get("condition"), *(binding.get("condition") for binding in spec.get("bindings") or ())]
    if mark is not None and any(conditions) and not mark.iam_conditions:
        raise _denied("iam-validation", f"resource reference kind '{kind}' does not support IAM conditions")


def check_installation(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """There is one for the cluster, and one for a namespace: their names are given."""
    wanted = INSTALLED[obj["kind"]]
    if obj["metadata"].get("name") != wanted:
        raise _denied("configconnector-validation", f"a {obj['kind']} must be named {wanted}")
    spec = obj.get("spec") or {}
    if obj["kind"] == "ConfigConnector" and spec.get("mode") == "cluster":
        given = [name for name in ("googleServiceAccount", "credentialSecretName") if spec.get(name)]
        if len(given) != 1:
            text = "exactly one of googleServiceAccount and credentialSecretName is needed in cluster mode"
            raise _denied("configconnector-validation", text)


def check_new(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Annotations that steer must say something that is known."""
    said = (obj["metadata"].get("annotations") or {}).get(STATE_INTO_SPEC, "absent")
    if said not in ("absent", "merge"):
        text = f"invalid value '{said}' for annotation '{STATE_INTO_SPEC}': must be one of {{absent, merge}}"
        raise _denied("state-into-spec-validation", text)


def check_change(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """What may not change, does not."""
    check_new(ctx, obj, old)
    before = _dict(old)
    mark = marks()[obj["kind"]]
    changed = [".".join(path) for path in mark.immutable if _changed(before, obj, path)]
    if _moved(before, obj, STATE_INTO_SPEC):
        changed.append(f"metadata.annotations[{STATE_INTO_SPEC}]")
    if changed:
        listed = " ".join(path.removeprefix("spec.") for path in changed)
        raise _denied("deny-immutable-field-updates", f"cannot make changes to immutable field(s): [{listed}]")
    if _moved(before, obj, PROJECT):
        raise _denied("deny-immutable-field-updates", f"cannot make changes to container annotation {PROJECT}")


def _moved(old: Obj, new: Obj, name: str) -> bool:
    """Whether an annotation that was there says something else now. One that is left out is not a change of mind."""
    before, after = annotation(old, name), annotation(new, name)
    return bool(before and after) and before != after


def _changed(old: Obj, new: Obj, path: Steps) -> bool:
    """Whether something that was there is something else now: what was never set may still be."""
    before, after = list(_at(old, path)), list(_at(new, path))
    return bool(before) and before != after


def _at(value: Any, path: Steps) -> Iterator[Any]:
    if not path:
        yield value
        return
    step, *rest = path
    if step == "*":
        for item in value if isinstance(value, list) else ():
            yield from _at(item, tuple(rest))
    elif isinstance(value, dict) and value.get(step) is not None:
        yield from _at(value[step], tuple(rest))


def _dict(obj: Mapping[str, Any] | None) -> Obj:
    return dict(obj or {})


def _denied(hook: str, text: str) -> Forbidden:
    return Forbidden(f'admission webhook "{hook}{GROUPS}" denied the request: {text}')
