"""How PersistentVolumes and claims match, as kube-controller-manager and kube-scheduler decide it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.base.errors import BadRequest
from sliceworks.kube.node_affinity import parse_node_selector
from sliceworks.kube.selectors import from_label_selector

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from sliceworks.kube.resources import Object

    Obj = Mapping[str, Any]

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
MIGRATED_TO = "pv.kubernetes.io/migrated-to"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
DELAYED = "WaitForFirstConsumer"


def annotations_of(obj: Obj) -> dict[str, str]:
    """The annotations of an object."""
    return obj["metadata"].get("annotations") or {}


def storage_class_of(obj: Obj) -> str:
    """The storage class of a claim or volume: its annotation, or its field."""
    annotation = annotations_of(obj).get(CLASS_ANNOTATION)
    return str(annotation if annotation is not None else (obj.get("spec") or {}).get("storageClassName") or "")


def has_storage_class(claim: Obj) -> bool:
    """Whether a claim says which class it has, which may be none."""
    return CLASS_ANNOTATION in annotations_of(claim) or claim["spec"].get("storageClassName") is not None


def is_default_class(obj: Obj, annotations: Iterable[str] = DEFAULT_CLASS) -> bool:
    """Whether objects without a class get this one."""
    return any(annotations_of(obj).get(key) == "true" for key in annotations)


def default_class(classes: Iterable[Obj], annotations: Iterable[str] = DEFAULT_CLASS) -> str:
    """The name of the default class; of several the newest, then the first by name. Empty if there is none."""
    defaults = [item["metadata"] for item in classes if is_default_class(item, annotations)]
    newest = max((item.get("creationTimestamp", "") for item in defaults), default="")
    return min((str(item["name"]) for item in defaults if item.get("creationTimestamp", "") == newest), default="")


def requested_size(claim: Obj) -> str:
    """The storage that a claim requests."""
    return str((((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}).get("storage", "0"))


def capacity(volume: Obj) -> str:
    """The storage of a volume."""
    return str((volume["spec"].get("capacity") or {}).get("storage", "0"))


def is_fully_bound(claim: Obj) -> bool:
    """Whether a claim has a volume, and the PV controller has completed the binding."""
    return bool(claim["spec"].get("volumeName")) and BIND_COMPLETED in annotations_of(claim)


def is_bound_to(volume: Obj, claim: Obj) -> bool:
    """Whether a volume is bound to a claim, or reserved for its name."""
    reference = volume["spec"].get("claimRef")
    if reference is None:
        return False
    metadata = claim["metadata"]
    if (reference.get("namespace", ""), reference.get("name")) != (metadata["namespace"], metadata["name"]):
        return False
    return not reference.get("uid") or reference["uid"] == metadata["uid"]


def has_mode_mismatch(claim: Obj, volume: Obj) -> bool:
    """Whether one is a block device and the other a file system."""
    return bool(claim["spec"].get("volumeMode", "Filesystem") != volume["spec"].get("volumeMode", "Filesystem"))


def has_access_modes(claim: Obj, volume: Obj) -> bool:
    """Whether a volume has all access modes that a claim requests."""
    return set(claim["spec"].get("accessModes") or ()) <= set(volume["spec"].get("accessModes") or ())


def mismatch(claim: Obj, volume: Obj) -> str:
    """Why a claim cannot have the volume that it names; empty if it can."""
    if volume["metadata"].get("deletionTimestamp"):
        return f'the volume is marked for deletion "{volume["metadata"]["name"]}"'
    if quantity.compare(capacity(volume), requested_size(claim)) < 0:
        return "requested PV is too small"
    if storage_class_of(volume) != storage_class_of(claim):
        return "storageClassName does not match"
    if _attributes_class(volume) != _attributes_class(claim):
        return "volumeAttributesClassName does not match"
    if has_mode_mismatch(claim, volume):
        return "incompatible volumeMode"
    return "" if has_access_modes(claim, volume) else "incompatible accessMode"


def find_matching_volume(
    claim: Obj, volumes: Iterable[Object], node_labels: Mapping[str, str] | None = None, excluded: Collection[str] = ()
) -> Object | None:
    """The volume that is bound to a claim, or the smallest available one that satisfies it.

    `node_labels` are those of the node that must reach the volume.
    """
    try:
        selector = from_label_selector(claim["spec"].get("selector")) if claim["spec"].get("selector") is not None else None
    except BadRequest:
        return None
    smallest: Object | None = None
    for volume in volumes:
        if volume["metadata"]["name"] in excluded or not _can_hold(claim, volume):
            continue
        is_reachable = node_labels is None or is_reachable_from(volume, node_labels)
        if is_bound_to(volume, claim):
            return volume if is_reachable else None
        is_match = (
            is_reachable
            and (volume.get("status") or {}).get("phase") == "Available"
            and (selector is None or selector.matches(volume["metadata"].get("labels") or {}))
            and storage_class_of(volume) == storage_class_of(claim)
            and has_access_modes(claim, volume)
        )
        if is_match and (smallest is None or quantity.compare(capacity(volume), capacity(smallest)) < 0):
            smallest = volume
    return smallest


def _can_hold(claim: Obj, volume: Obj) -> bool:
    return (
        (volume["spec"].get("claimRef") is None or is_bound_to(volume, claim))
        and quantity.compare(capacity(volume), requested_size(claim)) >= 0
        and not has_mode_mismatch(claim, volume)
        and _attributes_class(volume) == _attributes_class(claim)
        and not volume["metadata"].get("deletionTimestamp")
    )


def _attributes_class(obj: Obj) -> str:
    return str(obj["spec"].get("volumeAttributesClassName") or "")


def is_reachable_from(volume: Obj, node_labels: Mapping[str, str]) -> bool:
    """Whether the node affinity of a volume accepts a node with these labels."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    return required is None or any(term.matches("", node_labels) for term in parse_node_selector(required))


def is_allowed_topology(storage_class: Obj, node_labels: Mapping[str, str]) -> bool:
    """Whether a class may have volumes where nodes have these labels."""
    terms = storage_class.get("allowedTopologies") or ()
    return not terms or any(
        all(node_labels.get(item["key"]) in item["values"] for item in term.get("matchLabelExpressions") or ()) for term in terms
    )


def claim_name(pod: Obj, volume: Obj) -> str:
    """The name of the claim behind a volume of a pod; empty if it has none."""
    if "ephemeral" in volume:
        return f"{pod['metadata']['name']}-{volume.get('name', '')}"
    return str((volume.get("persistentVolumeClaim") or {}).get("claimName") or "")


def pod_claims(pod: Obj) -> Iterator[tuple[str, bool]]:
    """The names of the claims that a pod uses, and whether each is that of an ephemeral volume."""
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if "persistentVolumeClaim" in volume or "ephemeral" in volume:
            yield claim_name(pod, volume), "ephemeral" in volume
