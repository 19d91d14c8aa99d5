"""DefaultStorageClass, DefaultIngressClass, StorageObjectInUseProtection and PersistentVolumeClaimResize."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.kube.persistent_volumes import CLASS_ANNOTATION, default_class, requested_size, storage_class_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sliceworks.twin.apiserver.admission.chain import Admission, Obj

STORAGE_CLASSES = "storage.k8s.io/storageclasses"
INGRESS_CLASSES = "networking.k8s.io/ingressclasses"
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
    if name := default_class(ctx.find_all(STORAGE_CLASSES, "")):
        spec["storageClassName"] = name


def default_ingress_class(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("ingressClassName") is not None or _INGRESS_CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {}):
        return
    if name := default_class(ctx.find_all(INGRESS_CLASSES, ""), _DEFAULT_INGRESS):
        spec["ingressClassName"] = name


def check_claim_resize(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """PersistentVolumeClaimResize: only a bound claim whose class allows expansion may grow."""
    if old is None or quantity.compare(requested_size(obj), requested_size(old)) <= 0:
        return
    if (old.get("status") or {}).get("phase") != "Bound":
        raise ctx.forbidden(obj, "Only bound persistent volume claims can be expanded")
    name = storage_class_of(obj)
    storage_class = ctx.get(STORAGE_CLASSES, "", name) if name and name == storage_class_of(old) else None
    if storage_class is None or not storage_class.get("allowVolumeExpansion"):
        raise ctx.forbidden(obj, _NOT_RESIZABLE)
