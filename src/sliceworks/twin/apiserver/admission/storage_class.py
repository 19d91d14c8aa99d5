"""DefaultStorageClass, DefaultIngressClass, StorageObjectInUseProtection and PersistentVolumeClaimResize."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sliceworks.twin.apiserver.admission.chain import Admission, Obj

STORAGE_CLASSES = "storage.k8s.io/storageclasses"
INGRESS_CLASSES = "networking.k8s.io/ingressclasses"
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_STORAGE = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_DEFAULT_INGRESS = ("ingressclass.kubernetes.io/is-default-class",)
_INGRESS_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_NOT_RESIZABLE = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"


def add_protection_finalizer(finalizer: str) -> Callable[[Admission, Obj, Mapping[str, Any] | None], None]:
    """StorageObjectInUseProtection: a controller removes the finalizer once the object is unused."""

    def plugin(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
        finalizers = obj["metadata"].get("finalizers") or []
        if finalizer not in finalizers:
            obj["metadata"]["finalizers"] = [*finalizers, finalizer]

    return plugin


def default_storage_class(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("storageClassName") is not None or CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {}):
        return
    name = _default_class(ctx, STORAGE_CLASSES, _DEFAULT_STORAGE)
    if name is not None:
        spec["storageClassName"] = name


def default_ingress_class(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("ingressClassName") is not None or _INGRESS_CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {}):
        return
    name = _default_class(ctx, INGRESS_CLASSES, _DEFAULT_INGRESS)
    if name is not None:
        spec["ingressClassName"] = name


def check_claim_resize(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """PersistentVolumeClaimResize: only a bound claim whose class allows expansion may grow."""
    if old is None or quantity.compare(_size(obj), _size(old)) <= 0:
        return
    if (old.get("status") or {}).get("phase") != "Bound":
        raise ctx.forbidden(obj, "Only bound persistent volume claims can be expanded")
    name = storage_class_of(obj)
    storage_class = ctx.get(STORAGE_CLASSES, "", name) if name and name == storage_class_of(old) else None
    if storage_class is None or not storage_class.get("allowVolumeExpansion"):
        raise ctx.forbidden(obj, _NOT_RESIZABLE)


def storage_class_of(obj: Mapping[str, Any]) -> str:
    """The storage class of a claim or volume: its annotation, or its field."""
    annotation = (obj["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION)
    return str(annotation if annotation is not None else (obj.get("spec") or {}).get("storageClassName") or "")


def is_default_storage_class(obj: Mapping[str, Any]) -> bool:
    return _is_default(obj["metadata"], _DEFAULT_STORAGE)


def _is_default(metadata: Mapping[str, Any], annotations: tuple[str, ...]) -> bool:
    return any((metadata.get("annotations") or {}).get(key) == "true" for key in annotations)


def _size(claim: Mapping[str, Any]) -> str:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return str(requests.get("storage", "0"))


def _default_class(ctx: Admission, resource: str, annotations: tuple[str, ...]) -> str | None:
    """The name of the default class; of several the newest, then the first by name."""
    classes = [item["metadata"] for item in ctx.find_all(resource, "")]
    defaults = [metadata for metadata in classes if _is_default(metadata, annotations)]
    if not defaults:
        return None
    newest = max(item.get("creationTimestamp", "") for item in defaults)
    return min(str(item["name"]) for item in defaults if item.get("creationTimestamp", "") == newest)
