"""JobSet's own types as its programs read and write them: what is optional, what is a pointer, what is always there.

The marks are those of the built-in kinds' data: `o` may be left out when empty, `p` a pointer, `s` a struct, `-` none of them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sliceworks.schemas.builtins import catalogue
from sliceworks.schemas.model import Schema, build

_OWN = "jobset.v1alpha2."
_JOB = "io.k8s.api.batch.v1.JobTemplateSpec"
_KINDS = {"string": "string", "bool": "boolean", "int": "integer", "int32": "integer"}

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
    """The type of a JobSet's specification, in an object that holds nothing else."""
    return _component(_OWN + "JobSet")


@cache
def _component(name: str) -> Schema:
    if not name.startswith(_OWN):
        return catalogue().component(name)
    fields = _TYPES[name.removeprefix(_OWN)]
    node = {"type": "object", "properties": {field: _field(text) for field, text in fields.items()}}
    return build(node, _component, name)


def _field(text: str) -> dict[str, Any]:
    marks, kind, *named = text.split(" ")
    element = kind.removeprefix("[]")
    shown = element if element in _KINDS or "." in element else f"v1alpha2.{element}"
    node = _node(element)
    if named:
        return {**node, "go": f"{marks} v1alpha2.{named[0]}"}
    if kind == element:
        return {**node, "go": f"{marks} {shown}"}
    return {"type": "array", "items": node, "go": f"{marks} []{shown}"}


def _node(kind: str) -> dict[str, Any]:
    if kind in _KINDS:
        return {"type": _KINDS[kind], **({"format": kind} if kind == "int32" else {})}
    if kind in _TYPES:
        return {"$ref": _OWN + kind}
    return {"$ref": _JOB} if "." in kind else {"type": "object"}
