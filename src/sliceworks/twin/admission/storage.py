"""What changes or refuses claims, volumes and ingresses: protecting finalizers, default classes, growth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sliceworks.twin.admission.context import Admission, Obj

STORAGE_CLASSES = "storage.k8s.io/storageclasses"
INGRESS_CLASSES = "networking.k8s.io/ingressclasses"
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_STORAGE = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_DEFAULT_INGRESS = ("ingressclass.kubernetes.io/is-default-class",)
_OLD_INGRESS = "kubernetes.io/ingress.class"
_GROWTH = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"


def protect(finalizer: str) -> Callable[[Admission, Obj, Mapping[str, Any] | None], None]:
    """StorageObjectInUseProtection: nothing goes away while it is used; a controller takes the finalizer off again."""

    def protected(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
        finalizers = obj["metadata"].get("finalizers") or []
        if finalizer not in finalizers:
            obj["metadata"]["finalizers"] = [*finalizers, finalizer]

    return protected


def default_storage_class(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("storageClassName") is not None or _OLD_CLASS in (obj["metadata"].get("annotations") or {}):
        return
    found = _default(ctx, STORAGE_CLASSES, _DEFAULT_STORAGE)
    if found is not None:
        spec["storageClassName"] = found


def default_ingress_class(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("ingressClassName") is not None or _OLD_INGRESS in (obj["metadata"].get("annotations") or {}):
        return
    found = _default(ctx, INGRESS_CLASSES, _DEFAULT_INGRESS)
    if found is not None:
        spec["ingressClassName"] = found


def claim_growth(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """PersistentVolumeClaimResize: only a bound claim of a class that allows it may grow."""
    if old is None or quantity.compare(_size(obj), _size(old)) <= 0:
        return
    if (old.get("status") or {}).get("phase") != "Bound":
        raise ctx.forbidden(obj, "Only bound persistent volume claims can be expanded")
    name = storage_class(obj)
    found = ctx.get(STORAGE_CLASSES, "", name) if name and name == storage_class(old) else None
    if found is None or not found.get("allowVolumeExpansion"):
        raise ctx.forbidden(obj, _GROWTH)


def storage_class(claim: Mapping[str, Any]) -> str:
    """The storage class that a claim names, in the old way or the new."""
    old = (claim["metadata"].get("annotations") or {}).get(_OLD_CLASS)
    return str(old if old is not None else (claim.get("spec") or {}).get("storageClassName") or "")


def _size(claim: Mapping[str, Any]) -> str:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return str(requests.get("storage", "0"))


def _default(ctx: Admission, resource: str, marks: tuple[str, ...]) -> str | None:
    """The class marked as default; of several the newest, then the first by name."""
    marked = [each["metadata"] for each in ctx.find_all(resource, "") if _is_marked(each["metadata"], marks)]
    if not marked:
        return None
    newest = max(each.get("creationTimestamp", "") for each in marked)
    return min(str(each["name"]) for each in marked if each.get("creationTimestamp", "") == newest)


def _is_marked(metadata: Mapping[str, Any], marks: tuple[str, ...]) -> bool:
    annotations = metadata.get("annotations") or {}
    return any(annotations.get(mark) == "true" for mark in marks)
