"""JobSet's defaulting webhook: Go's types of a JobSet, and the defaults it fills in."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import BadRequest
from sliceworks.schemas import decode
from sliceworks.schemas.builtins import builtin_scheme
from sliceworks.schemas.golang import TypeMismatch
from sliceworks.schemas.model import Schema, build
from sliceworks.twin.controllers.jobset.jobset_validation import denied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.apiserver.admission.chain import Admission
    from sliceworks.twin.controllers.jobset.jobset_api import Obj


_COMPONENT_PREFIX = "jobset.v1alpha2."
_JOB_TEMPLATE = "io.k8s.api.batch.v1.JobTemplateSpec"
_SCALARS = {"string": "string", "bool": "boolean", "int": "integer", "int32": "integer"}
# Go's types by name: for each field its marks (o: omitempty, p: pointer, s: struct), its type and its named type.
_TYPES: dict[str, dict[str, str]] = {
    "JobSet": {"spec": "os JobSetSpec"},
    "JobSetSpec": {
        "replicatedJobs": "o []ReplicatedJob",
        "network": "po Network",
        "successPolicy": "po SuccessPolicy",
        "failurePolicy": "po FailurePolicy",
        "startupPolicy": "po StartupPolicy",
        "suspend": "po bool",
        "coordinator": "po Coordinator",
        "managedBy": "po string",
        "ttlSecondsAfterFinished": "po int32",
        "volumeClaimPolicies": "o []VolumeClaimPolicy",
    },
    "ReplicatedJob": {
        "name": "- string",
        "groupName": "o string",
        "template": "s v1.JobTemplateSpec",
        "replicas": "o int32",
        "dependsOn": "o []DependsOn",
    },
    "DependsOn": {"name": "- string", "status": "- string DependsOnStatus"},
    "Network": {"enableDNSHostnames": "po bool", "subdomain": "o string", "publishNotReadyAddresses": "po bool"},
    "SuccessPolicy": {"operator": "- string Operator", "targetReplicatedJobs": "o []string"},
    "StartupPolicy": {"startupPolicyOrder": "- string StartupPolicyOptions"},
    "Coordinator": {"replicatedJob": "- string", "jobIndex": "o int", "podIndex": "o int"},
    "FailurePolicy": {
        "maxRestarts": "o int32",
        "restartStrategy": "o string JobSetRestartStrategy",
        "rules": "o []FailurePolicyRule",
    },
    "FailurePolicyRule": {
        "name": "- string",
        "action": "- string FailurePolicyAction",
        "onJobFailureReasons": "o []string",
        "onJobFailureMessagePatterns": "o []string",
        "targetReplicatedJobs": "o []string",
    },
}


def jobset_type() -> Schema:
    """The Go type of a JobSet, with its spec only."""
    return _component(_COMPONENT_PREFIX + "JobSet")


@cache
def _component(name: str) -> Schema:
    if not name.startswith(_COMPONENT_PREFIX):
        return builtin_scheme().component(name)
    fields = _TYPES[name.removeprefix(_COMPONENT_PREFIX)]
    node = {"type": "object", "properties": {name: _field(declaration) for name, declaration in fields.items()}}
    return build(node, _component, name)


def _field(declaration: str) -> dict[str, Any]:
    marks, go_type, *named_type = declaration.split(" ")
    element = go_type.removeprefix("[]")
    qualified = element if element in _SCALARS or "." in element else f"v1alpha2.{element}"
    node = _node(element)
    if named_type:
        return {**node, "go": f"{marks} v1alpha2.{named_type[0]}"}
    if go_type == element:
        return {**node, "go": f"{marks} {qualified}"}
    return {"type": "array", "items": node, "go": f"{marks} []{qualified}"}


def _node(go_type: str) -> dict[str, Any]:
    if go_type in _SCALARS:
        return {"type": _SCALARS[go_type], **({"format": go_type} if go_type == "int32" else {})}
    if go_type in _TYPES:
        return {"$ref": _COMPONENT_PREFIX + go_type}
    return {"$ref": _JOB_TEMPLATE} if "." in go_type else {"type": "object"}


def apply_defaults(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Set JobSet's defaults. Like the real webhook it decodes into Go's types and encodes again, which adds zero values."""
    given = obj.get("spec")
    try:
        typed = decode(jobset_type(), {"spec": orjson.loads(orjson.dumps(given))}, [])["spec"]
    except TypeMismatch as error:
        raise denied("mjobset.kb.io", BadRequest(str(error), reason="")) from error
    _set_defaults(typed)
    obj["spec"] = _overlay(given, typed)


def _set_defaults(spec: Obj) -> None:
    spec.setdefault("successPolicy", {"operator": "All"})
    spec.setdefault("startupPolicy", {"startupPolicyOrder": "AnyOrder"})
    network = spec.setdefault("network", {})
    network.setdefault("enableDNSHostnames", True)
    network.setdefault("publishNotReadyAddresses", True)
    for number, rule in enumerate((spec.get("failurePolicy") or {}).get("rules") or ()):
        rule["name"] = rule["name"] or f"failurePolicyRule{number}"
    for replicated_job in spec.get("replicatedJobs") or ():
        job = replicated_job["template"]["spec"]
        job.setdefault("completionMode", "Indexed")
        job["template"]["spec"].setdefault("restartPolicy", "OnFailure")


def _overlay(given: Any, typed: Any) -> Any:
    """The given value with the typed one merged over it; keeps fields that the types do not have."""
    if isinstance(given, dict) and isinstance(typed, dict):
        return {
            key: _overlay(given[key], typed[key]) if key in typed and key in given else given.get(key, typed.get(key))
            for key in given | typed
        }
    if isinstance(given, list) and isinstance(typed, list) and len(given) == len(typed):
        return [_overlay(*pair) for pair in zip(given, typed, strict=True)]
    return typed
