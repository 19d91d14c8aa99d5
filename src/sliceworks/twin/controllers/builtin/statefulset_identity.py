"""The pods and volume claims of a StatefulSet by ordinal, and its revisions. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sliceworks.kube.resources import owner_reference
from sliceworks.schemas.golang import encode_json
from sliceworks.twin.controllers.runtime import revisions
from sliceworks.twin.controllers.runtime.revisions import REVISION_LABEL, fnv32, safe_encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.pod_index import Pod

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
_ORDINAL_NAME = re.compile(r"(.*)-([0-9]+)", re.DOTALL)


def parent_name(name: str) -> str:
    """The name of the StatefulSet that a pod of this name belongs to; empty if it has no ordinal."""
    match = _ORDINAL_NAME.fullmatch(name)
    return match[1] if match else ""


def ordinal(name: str) -> int:
    """The ordinal in a pod's name; -1 if it has none."""
    match = _ORDINAL_NAME.fullmatch(name)
    return int(match[2]) if match and int(match[2]) < 1 << 31 else -1


def ordinals(stateful_set: Object) -> range:
    """The ordinals of a StatefulSet's pods."""
    start = int((stateful_set["spec"].get("ordinals") or {}).get("start") or 0)
    replicas = stateful_set["spec"].get("replicas")
    return range(start, start + (1 if replicas is None else int(replicas)))


def volume_claims(stateful_set: Object, ordinal: int) -> dict[str, Object]:
    """The volume claims of a pod, by volume name."""
    claims = {}
    for template in stateful_set["spec"].get("volumeClaimTemplates") or ():
        metadata = template.get("metadata") or {}
        labels = {**(metadata.get("labels") or {}), **((stateful_set["spec"].get("selector") or {}).get("matchLabels") or {})}
        inherited = {key: metadata[key] for key in ("annotations", "finalizers") if metadata.get(key)}
        name = f"{metadata['name']}-{stateful_set['metadata']['name']}-{ordinal}"
        claim_metadata = {"name": name, "namespace": stateful_set["metadata"]["namespace"], "labels": labels, **inherited}
        claims[metadata["name"]] = {"metadata": claim_metadata, "spec": template["spec"]}
    return claims


def new_pod(stateful_set: Object, template: Mapping[str, Any], ordinal: int, revision: str) -> Object:
    """The pod of an ordinal, from a revision's template."""
    name, metadata, spec = stateful_set["metadata"]["name"], template.get("metadata") or {}, dict(template["spec"])
    volumes = [
        {"name": volume, "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
        for volume, claim in volume_claims(stateful_set, ordinal).items()
    ]
    names = {volume["name"] for volume in volumes}
    spec["volumes"] = [*volumes, *(volume for volume in spec.get("volumes") or () if volume["name"] not in names)]
    spec["hostname"], spec["subdomain"] = f"{name}-{ordinal}", stateful_set["spec"].get("serviceName", "")
    labels = {
        **(metadata.get("labels") or {}),
        POD_NAME_LABEL: f"{name}-{ordinal}",
        POD_INDEX_LABEL: str(ordinal),
        REVISION_LABEL: revision,
    }
    inherited = {key: metadata[key] for key in ("annotations", "finalizers") if metadata.get(key)}
    return {
        "metadata": {
            "name": f"{name}-{ordinal}",
            "generateName": f"{name}-",
            "labels": labels,
            "ownerReferences": [owner_reference(stateful_set)],
            **inherited,
        },
        "spec": {key: value for key, value in spec.items() if value not in ("", [])},
    }


def new_revision(stateful_set: Object, number: int, collisions: int) -> Object:
    """The ControllerRevision of a StatefulSet's template, named by its hash."""
    revision_hash = safe_encode(fnv32(f"{encode_json(revisions.revision_data(stateful_set))}{collisions}".encode()))
    name = f"{stateful_set['metadata']['name'][:223]}-{revision_hash}"
    return revisions.new_revision(stateful_set, name, {"controller.kubernetes.io/hash": revision_hash}, number)


def claim_owners(stateful_set: Object, pod: Pod | None, ordinal: int, refs: list[Object]) -> list[Object]:
    """The owners of a claim by the retention policy: the StatefulSet, or the pod being scaled down, or neither."""
    policy = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    uids = {stateful_set["metadata"]["uid"], pod.uid if pod else ""}
    others = [ref for ref in refs if ref.get("uid") not in uids]
    is_scaled_down = ordinal not in ordinals(stateful_set)
    if policy.get("whenScaled") == "Delete" and is_scaled_down and pod is not None:
        owner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod.name, "uid": pod.uid}}
        return [*others, owner_reference(owner)]
    if policy.get("whenDeleted") == "Delete" and not (policy.get("whenScaled") == "Delete" and is_scaled_down):
        return [*others, owner_reference(stateful_set)]
    return others
