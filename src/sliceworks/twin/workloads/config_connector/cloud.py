"""What the cloud knows of an object, for its stages to look at: pure, but for reading other objects of the cluster.

    cloud.project, .number          the project it lies in
    cloud.name, .id                 its own name there, and a number that goes with it
    cloud.reference.{reason,message}   why it has to wait: something it refers to is missing or not ready
    cloud.parent                    Gone or NotReady, where it lies in something of the cluster; `message` beside it
    cloud.changed                   whether its specification is newer than what was applied last
    cloud.namespace                 its namespace

Nothing is remembered: numbers follow from names, so that what is deleted and made again is the same.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sliceworks.schemas.config_connector import marks
from sliceworks.twin.workloads.config_connector.keys import NAMESPACES, PROJECT, SECRETS, Obj, annotation, is_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.schemas.config_connector import Marks, Steps

    Get = Callable[[str, str, str], Obj | None]

_NUMBER, _ACCOUNT = 12, 21
_WEEK = 7 * 24 * 3600
_KINDS_OF_MEMBERS = {"serviceAccountRef": "IAMServiceAccount"}
"""The kinds of members that stand for objects that there are here."""


def project_of(obj: Obj, namespace: Obj | None) -> str:
    """The project that an object lies in: its own annotation says so, else its namespace's, else its namespace's name."""
    return annotation(obj, PROJECT) or annotation(namespace, PROJECT) or str(obj["metadata"].get("namespace", ""))


def number(text: str, digits: int) -> str:
    """A number with so many digits that goes with a name."""
    return str(int.from_bytes(sha256(text.encode()).digest()[:16], "big") % (9 * 10 ** (digits - 1)) + 10 ** (digits - 1))


def known(obj: Obj, get: Get) -> Obj:
    """All of it; nothing of what only sets Config Connector up."""
    if obj["kind"] not in marks():
        return {"metadata": {}}
    metadata, spec, mark = obj["metadata"], obj.get("spec") or {}, marks()[obj["kind"]]
    namespace = get(NAMESPACES, "", metadata["namespace"])
    name = str(spec.get("resourceID") or metadata["name"])
    project = name if mark.kind == "Project" else project_of(obj, namespace)
    found: Obj = {
        "project": project,
        "number": number(project, _NUMBER),
        "name": name,
        "id": number(f"{mark.kind}/{project}/{name}", _ACCOUNT),
        "changed": (obj.get("status") or {}).get("observedGeneration") != metadata.get("generation"),
        "namespace": namespace or {},
        "metadata": {},
    }
    if missing := _missing(obj, mark, get):
        found["reference"] = missing
    parts = _PARTS.get(mark.kind)
    return found if parts is None else found | parts(obj, get)


def references(obj: Obj, mark: Marks) -> Iterator[tuple[str, str, str]]:
    """The kind, namespace and name of everything that an object waits for. What lies outside the cluster is never waited for."""
    here = obj["metadata"]["namespace"]
    for reference in mark.references:
        for named in _values(obj, reference.path):
            if named.get("name"):
                yield reference.kind or str(named["kind"]), str(named.get("namespace") or here), str(named["name"])
    for member in _members(obj):
        for field, kind in _KINDS_OF_MEMBERS.items():
            if value := member.get(field):
                yield kind, str(value.get("namespace") or here), str(value["name"])


def _missing(obj: Obj, mark: Marks, get: Get) -> Obj | None:
    for kind, namespace, name in references(obj, mark):
        target = find(kind, namespace, name, get)
        if target is None:
            return {"reason": "DependencyNotFound", "message": f"reference {kind} {namespace}/{name} is not found"}
        if not is_ready(target):
            return {"reason": "DependencyNotReady", "message": f"reference {kind} {namespace}/{name} is not ready"}
    return _missing_secret(obj, get) if mark.kind == "ContainerCluster" else None


def _missing_secret(obj: Obj, get: Get) -> Obj | None:
    namespace = obj["metadata"]["namespace"]
    for chosen in _values(obj, ("spec", "masterAuth", "password", "valueFrom", "secretKeyRef")):
        secret = get(SECRETS, namespace, chosen["name"])
        if secret is None:
            return {"reason": "DependencyNotFound", "message": f"Secret {namespace}/{chosen['name']} was not found"}
        if chosen["key"] not in (secret.get("data") or {}):
            text = f"key '{chosen['key']}' was not found in Secret {namespace}/{chosen['name']}"
            return {"reason": "DependencyInvalid", "message": text}
    return None


def find(kind: str, namespace: str, name: str, get: Get) -> Obj | None:
    """An object that is referred to; kinds that are not here have none."""
    mark = marks().get(kind)
    return None if mark is None else get(mark.resource, namespace, name)


def _parent(kind: str, reference: Obj | None, here: str, get: Get) -> Obj:
    """Whether what an object lies in, or is about, still stands."""
    if not reference or not reference.get("name"):
        return {}
    namespace, name = str(reference.get("namespace") or here), str(reference["name"])
    target = find(kind, namespace, name, get)
    if target is None:
        return {"parent": "Gone"}
    if not is_ready(target):
        return {"parent": "NotReady", "message": f"reference {kind} {namespace}/{name} is not ready"}
    return {}


def _of_pool(obj: Obj, get: Get) -> Obj:
    reference, here = obj["spec"]["clusterRef"], obj["metadata"]["namespace"]
    cluster = str(reference.get("external") or "").rpartition("/")[2]
    if name := reference.get("name"):
        target = find("ContainerCluster", str(reference.get("namespace") or here), str(name), get)
        cluster = str(((target or {}).get("spec") or {}).get("resourceID") or name)
    return {"cluster": cluster, **_parent("ContainerCluster", reference, here, get)}


def _of_policy(obj: Obj, get: Get) -> Obj:
    reference, here = obj["spec"]["resourceRef"], obj["metadata"]["namespace"]
    return {"bindings": list(_bindings(obj, get)), **_parent(str(reference["kind"]), reference, here, get)}


def _of_bucket(obj: Obj, get: Get) -> Obj:
    spec = obj.get("spec") or {}
    kept = (spec.get("softDeletePolicy") or {}).get("retentionDurationSeconds")
    return {"storageClass": spec.get("storageClass") or "STANDARD", "retention": _WEEK if kept is None else kept}


def _of_cluster(obj: Obj, get: Get) -> Obj:
    name = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
    digest = sha256(name.encode()).digest()
    return {"address": f"34.{digest[0]}.{digest[1]}.{digest[2] or 1}", "fingerprint": digest[:4].hex()}


_PARTS: dict[str, Callable[[Obj, Get], Obj]] = {
    "StorageBucket": _of_bucket,
    "ContainerCluster": _of_cluster,
    "ContainerNodePool": _of_pool,
    "IAMPolicyMember": _of_policy,
    "IAMPartialPolicy": _of_policy,
}
"""What only some kinds have."""


def _bindings(obj: Obj, get: Get) -> Iterator[Obj]:
    """The bindings of a policy, their members as the cloud names them."""
    here = obj["metadata"]["namespace"]
    for binding in obj["spec"].get("bindings") or ():
        members = [_member(member, here, get) for member in binding.get("members") or ()]
        yield {"role": binding["role"], "members": sorted(member for member in members if member)}


def _member(member: Obj, here: str, get: Get) -> str:
    if member.get("member"):
        return str(member["member"])
    account = (member.get("memberFrom") or {}).get("serviceAccountRef") or {}
    target = find("IAMServiceAccount", str(account.get("namespace") or here), str(account.get("name")), get)
    email = ((target or {}).get("status") or {}).get("email")
    return f"serviceAccount:{email}" if email else ""


def _members(obj: Obj) -> Iterator[Obj]:
    yield from _values(obj, ("spec", "memberFrom"))
    yield from _values(obj, ("spec", "bindings", "*", "members", "*", "memberFrom"))


def _values(value: Any, path: Steps) -> list[Obj]:
    """The objects at a path; `*` stands for each item of a list."""
    found = [value]
    for step in path:
        if step == "*":
            found = [item for each in found if isinstance(each, list) for item in each]
        else:
            found = [each[step] for each in found if isinstance(each, dict) and each.get(step) is not None]
    return [each for each in found if isinstance(each, dict)]
