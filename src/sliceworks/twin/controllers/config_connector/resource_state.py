"""What the cloud would report of a Config Connector object, for the stages to match: project, references, parents."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import is_condition_true
from sliceworks.base.names import derive_number, project_number
from sliceworks.schemas.config_connector import PREFIX, kind_infos
from sliceworks.twin.apiserver.auth.authentication import MASTERS, User
from sliceworks.twin.controllers.runtime.resource_keys import NAMESPACES, SECRETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.schemas.config_connector import FieldPath, KindInfo

    Get = Callable[[str, str, str], "Obj | None"]

Obj = dict[str, Any]

MANAGER = "cnrm-controller-manager"
USER = User(f"system:serviceaccount:cnrm-system:{MANAGER}", groups=(MASTERS,))
PROJECT = f"{PREFIX}project-id"
FOLDER = f"{PREFIX}folder-id"
ORGANIZATION = f"{PREFIX}organization-id"
CONFLICT_POLICY = f"{PREFIX}management-conflict-prevention-policy"
FAILS = "sliceworks.dev/cloud-fails"
"""The annotation of an object that cannot be applied: why."""

STATE_INTO_SPEC = f"{PREFIX}state-into-spec"
NORMAL_REASONS = frozenset({"UpToDate", "Updating", "Deleting", "Deleted"})
"""The reasons whose events have the type Normal; all others are warnings."""
_ID_DIGITS = 21
_WEEK_SECONDS = 7 * 24 * 3600


def annotation(obj: Obj | None, name: str) -> str:
    """The value of an annotation; empty when it is missing."""
    return str((((obj or {}).get("metadata") or {}).get("annotations") or {}).get(name) or "")


def is_ready(obj: Obj) -> bool:
    """Whether an object's Ready condition is True."""
    return is_condition_true(obj, "Ready")


def project_of(obj: Obj, namespace: Obj | None) -> str:
    """The project of an object: its own annotation, else that of its namespace, else the namespace's name."""
    return annotation(obj, PROJECT) or annotation(namespace, PROJECT) or str(obj["metadata"].get("namespace", ""))


def cloud_state(obj: Obj, get: Get) -> Obj:
    """The values that stages refer to as `cloud`; empty for the kinds that install Config Connector."""
    if obj["kind"] not in kind_infos():
        return {"metadata": {}}
    metadata, spec, info = obj["metadata"], obj.get("spec") or {}, kind_infos()[obj["kind"]]
    namespace = get(NAMESPACES, "", metadata["namespace"])
    name = str(spec.get("resourceID") or metadata["name"])
    project = name if info.kind == "Project" else project_of(obj, namespace)
    state: Obj = {
        "project": project,
        "number": project_number(project),
        "name": name,
        "id": derive_number(f"{info.kind}/{project}/{name}", _ID_DIGITS),
        "changed": (obj.get("status") or {}).get("observedGeneration") != metadata.get("generation"),
        "namespace": namespace or {},
        "metadata": {},
    }
    if failure := annotation(obj, FAILS):
        state["failure"] = failure
    if missing := _missing_reference(obj, info, get):
        state["reference"] = missing
    kind_state = _KIND_STATES.get(info.kind)
    return state if kind_state is None else state | kind_state(obj, get)


def references(obj: Obj, info: KindInfo) -> Iterator[tuple[str, str, str]]:
    """The kind, namespace and name of each object that an object depends on. External references are left out."""
    namespace = obj["metadata"]["namespace"]
    for reference in info.references:
        for value in _values(obj, reference.path):
            if value.get("name"):
                yield reference.kind or str(value["kind"]), str(value.get("namespace") or namespace), str(value["name"])
    for path in (("spec",), ("spec", "bindings", "*", "members", "*")):
        for account in _values(obj, (*path, "memberFrom", "serviceAccountRef")):
            if account:
                yield "IAMServiceAccount", str(account.get("namespace") or namespace), str(account["name"])


def _missing_reference(obj: Obj, info: KindInfo, get: Get) -> Obj | None:
    for kind, namespace, name in references(obj, info):
        target = find_reference(kind, namespace, name, get)
        if target is None:
            return {"reason": "DependencyNotFound", "message": f"reference {kind} {namespace}/{name} is not found"}
        if not is_ready(target):
            return {"reason": "DependencyNotReady", "message": f"reference {kind} {namespace}/{name} is not ready"}
    return _missing_secret(obj, get) if info.kind == "ContainerCluster" else None


def _missing_secret(obj: Obj, get: Get) -> Obj | None:
    namespace = obj["metadata"]["namespace"]
    for ref in _values(obj, ("spec", "masterAuth", "password", "valueFrom", "secretKeyRef")):
        secret = get(SECRETS, namespace, ref["name"])
        if secret is None:
            return {"reason": "DependencyNotFound", "message": f"Secret {namespace}/{ref['name']} was not found"}
        if ref["key"] not in (secret.get("data") or {}):
            message = f"key '{ref['key']}' was not found in Secret {namespace}/{ref['name']}"
            return {"reason": "DependencyInvalid", "message": message}
    return None


def find_reference(kind: str, namespace: str, name: str, get: Get) -> Obj | None:
    """A referenced object; None when it or its kind does not exist."""
    info = kind_infos().get(kind)
    return None if info is None else get(info.resource, namespace, name)


def _parent_state(kind: str, reference: Obj | None, default_namespace: str, get: Get) -> Obj:
    """Whether the parent of an object is deleted or not ready; empty when it is ready or external."""
    if not reference or not reference.get("name"):
        return {}
    namespace, name = str(reference.get("namespace") or default_namespace), str(reference["name"])
    target = find_reference(kind, namespace, name, get)
    if target is None:
        return {"parent": "Gone"}
    if not is_ready(target):
        return {"parent": "NotReady", "message": f"reference {kind} {namespace}/{name} is not ready"}
    return {}


def _node_pool_state(obj: Obj, get: Get) -> Obj:
    reference, namespace = obj["spec"]["clusterRef"], obj["metadata"]["namespace"]
    cluster = str(reference.get("external") or "").rpartition("/")[2]
    if name := reference.get("name"):
        target = find_reference("ContainerCluster", str(reference.get("namespace") or namespace), str(name), get)
        cluster = str(((target or {}).get("spec") or {}).get("resourceID") or name)
    return {"cluster": cluster, **_parent_state("ContainerCluster", reference, namespace, get)}


def _policy_state(obj: Obj, get: Get) -> Obj:
    reference, namespace = obj["spec"]["resourceRef"], obj["metadata"]["namespace"]
    return {"bindings": list(_bindings(obj, get)), **_parent_state(str(reference["kind"]), reference, namespace, get)}


def _bucket_state(obj: Obj, get: Get) -> Obj:
    spec = obj.get("spec") or {}
    retention = (spec.get("softDeletePolicy") or {}).get("retentionDurationSeconds")
    return {"storageClass": spec.get("storageClass") or "STANDARD", "retention": _WEEK_SECONDS if retention is None else retention}


def _cluster_state(obj: Obj, get: Get) -> Obj:
    name = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
    digest = sha256(name.encode()).digest()
    return {"address": f"34.{digest[0]}.{digest[1]}.{digest[2] or 1}", "fingerprint": digest[:4].hex()}


_KIND_STATES: dict[str, Callable[[Obj, Get], Obj]] = {
    "StorageBucket": _bucket_state,
    "ContainerCluster": _cluster_state,
    "ContainerNodePool": _node_pool_state,
    "IAMPolicyMember": _policy_state,
    "IAMPartialPolicy": _policy_state,
}
"""Further values of single kinds."""


def _bindings(obj: Obj, get: Get) -> Iterator[Obj]:
    """The bindings of a policy, with the members as IAM names them."""
    namespace = obj["metadata"]["namespace"]
    for binding in obj["spec"].get("bindings") or ():
        members = [_member(member, namespace, get) for member in binding.get("members") or ()]
        yield {"role": binding["role"], "members": sorted(member for member in members if member)}


def _member(member: Obj, namespace: str, get: Get) -> str:
    if member.get("member"):
        return str(member["member"])
    account = (member.get("memberFrom") or {}).get("serviceAccountRef") or {}
    target = find_reference("IAMServiceAccount", str(account.get("namespace") or namespace), str(account.get("name")), get)
    email = ((target or {}).get("status") or {}).get("email")
    return f"serviceAccount:{email}" if email else ""


def _values(value: Any, path: FieldPath) -> list[Obj]:
    """The objects at a path; `*` stands for each item of a list."""
    values = [value]
    for step in path:
        if step == "*":
            values = [item for value in values if isinstance(value, list) for item in value]
        else:
            values = [value[step] for value in values if isinstance(value, dict) and value.get(step) is not None]
    return [value for value in values if isinstance(value, dict)]
