"""The pods and claims of a StatefulSet by their number. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sliceworks.kube.resources import owner_reference
from sliceworks.twin.workloads.hashes import fnv32, go_json, safe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.workloads.pods import Pod

NAME = "statefulset.kubernetes.io/pod-name"
NUMBER = "apps.kubernetes.io/pod-index"
REVISION = "controller-revision-hash"
_NUMBERED = re.compile(r"(.*)-([0-9]+)", re.DOTALL)

Obj = dict[str, Any]


def parent(name: str) -> str:
    """The set that a pod of this name belongs to."""
    found = _NUMBERED.fullmatch(name)
    return found[1] if found else ""


def ordinal(name: str) -> int:
    """The number in a pod's name; -1 when it has none."""
    found = _NUMBERED.fullmatch(name)
    return int(found[2]) if found and int(found[2]) < 1 << 31 else -1


def numbers(found: Obj) -> range:
    """The numbers of a set's pods."""
    start = int((found["spec"].get("ordinals") or {}).get("start") or 0)
    replicas = found["spec"].get("replicas")
    return range(start, start + (1 if replicas is None else int(replicas)))


def claims(found: Obj, number: int) -> dict[str, Obj]:
    """The claims for the volumes of a pod, by volume."""
    made = {}
    for template in found["spec"].get("volumeClaimTemplates") or ():
        metadata = template.get("metadata") or {}
        labels = {**(metadata.get("labels") or {}), **((found["spec"].get("selector") or {}).get("matchLabels") or {})}
        own = {key: metadata[key] for key in ("annotations", "finalizers") if metadata.get(key)}
        name = f"{metadata['name']}-{found['metadata']['name']}-{number}"
        place = {"name": name, "namespace": found["metadata"]["namespace"], "labels": labels, **own}
        made[metadata["name"]] = {"metadata": place, "spec": template["spec"]}
    return made


def pod(found: Obj, template: Mapping[str, Any], number: int, revision: str) -> Obj:
    """The pod of a number, made of a revision's template."""
    name, metadata, spec = found["metadata"]["name"], template.get("metadata") or {}, dict(template["spec"])
    volumes = [
        {"name": volume, "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
        for volume, claim in claims(found, number).items()
    ]
    names = {volume["name"] for volume in volumes}
    spec["volumes"] = [*volumes, *(volume for volume in spec.get("volumes") or () if volume["name"] not in names)]
    spec["hostname"], spec["subdomain"] = f"{name}-{number}", found["spec"].get("serviceName", "")
    labels = {**(metadata.get("labels") or {}), NAME: f"{name}-{number}", NUMBER: str(number), REVISION: revision}
    made = {key: metadata[key] for key in ("annotations", "finalizers") if metadata.get(key)}
    return {
        "metadata": {
            "name": f"{name}-{number}",
            "generateName": f"{name}-",
            "labels": labels,
            "ownerReferences": [owner_reference(found)],
            **made,
        },
        "spec": {key: value for key, value in spec.items() if value not in ("", [])},
    }


def revision(found: Obj, number: int, collisions: int) -> Obj:
    """The revision that remembers a set's template."""
    template = found["spec"]["template"]
    data = {"spec": {"template": {**template, "$patch": "replace"}}}
    short = safe(fnv32(go_json(data) + str(collisions).encode()))
    labels = {**((template.get("metadata") or {}).get("labels") or {}), "controller.kubernetes.io/hash": short}
    name, annotations = found["metadata"]["name"], found["metadata"].get("annotations")
    metadata = {"name": f"{name[:223]}-{short}", "namespace": found["metadata"]["namespace"], "labels": labels}
    metadata["ownerReferences"] = [owner_reference(found)]
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, "data": data, "revision": number}


def template_of(revision: Mapping[str, Any]) -> Obj:
    """The template that a revision remembers."""
    return {key: value for key, value in revision["data"]["spec"]["template"].items() if key != "$patch"}


def claim_owners(found: Obj, pod: Pod | None, number: int, refs: list[Obj]) -> list[Obj]:
    """The owners that a claim should have by the set's policy: the set, or the pod that is scaled away, or neither."""
    policy = found["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    uids = {found["metadata"]["uid"], pod.uid if pod else ""}
    left = [ref for ref in refs if ref.get("uid") not in uids]
    gone = number not in numbers(found)
    if policy.get("whenScaled") == "Delete" and gone and pod is not None:
        owner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod.name, "uid": pod.uid}}
        return [*left, owner_reference(owner)]
    if policy.get("whenDeleted") == "Delete" and not (policy.get("whenScaled") == "Delete" and gone):
        return [*left, owner_reference(found)]
    return left
