"""PrepareForCreate and PrepareForUpdate of dynamic resource allocation: drops fields of features that are off by default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.apiserver.registry.resources import ClusterView

Obj = dict[str, Any]

_SLICE_FIELDS = ("perDeviceNodeSelection", "sharedCounters")
_DEVICE_FIELDS = (
    "allNodes",
    "allowMultipleAllocations",
    "bindingConditions",
    "bindingFailureConditions",
    "bindsToNode",
    "consumesCounters",
    "nodeName",
    "nodeSelector",
    "taints",
)
_METADATA = ("annotations", "finalizers", "labels", "ownerReferences")
_RESULT_FIELDS = ("bindingConditions", "bindingFailureConditions", "consumedCapacity", "shareID")


def prepare_device_class(obj: Obj, cluster: ClusterView) -> None:
    _drop(obj.get("spec"), "extendedResourceName")


def update_device_class(new: Obj, old: Obj, cluster: ClusterView) -> None:
    prepare_device_class(new, cluster)


def prepare_resource_claim(obj: Obj, cluster: ClusterView) -> None:
    _drop_from_requests((obj.get("spec") or {}).get("devices") or {})
    obj["status"] = {}


def prepare_resource_claim_template(obj: Obj, cluster: ClusterView) -> None:
    _drop_from_requests(((obj.get("spec") or {}).get("spec") or {}).get("devices") or {})


def update_resource_claim_template(new: Obj, old: Obj, cluster: ClusterView) -> None:
    prepare_resource_claim_template(new, cluster)


def update_resource_claim(new: Obj, old: Obj, cluster: ClusterView) -> None:
    _drop_from_requests((new.get("spec") or {}).get("devices") or {})


def prepare_claim_status(new: Obj, old: Obj) -> None:
    """Keep the spec and the metadata, and drop the status of devices that are not allocated any more."""
    new["spec"] = old["spec"]
    _drop(new["metadata"], *_METADATA)
    new["metadata"].update({field: old["metadata"][field] for field in _METADATA if field in old["metadata"]})
    status, before = new.get("status") or {}, old.get("status") or {}
    for result in _results(status):
        _drop(result, *_RESULT_FIELDS)
    deallocated = {_device_id(result) for result in _results(before)} - {_device_id(result) for result in _results(status)}
    if deallocated and status.get("devices"):
        status["devices"] = [device for device in status["devices"] if _device_id(device) not in deallocated]
        if not status["devices"]:
            del status["devices"]


def prepare_resource_slice(obj: Obj, cluster: ClusterView) -> None:
    spec = obj.get("spec") or {}
    _drop(spec, *_SLICE_FIELDS)
    for device in spec.get("devices") or ():
        _drop(device, *_DEVICE_FIELDS)
        for capacity in (device.get("capacity") or {}).values():
            _drop(capacity, "requestPolicy")


def update_resource_slice(new: Obj, old: Obj, cluster: ClusterView) -> None:
    prepare_resource_slice(new, cluster)


def _drop_from_requests(devices: Obj) -> None:
    for request in devices.get("requests") or ():
        for part in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            _drop(part, "capacity", "tolerations")
    for constraint in devices.get("constraints") or ():
        _drop(constraint, "distinctAttribute")


def _results(status: Obj) -> Iterator[Obj]:
    yield from ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()


def _device_id(device: Obj) -> tuple[Any, ...]:
    return tuple(device.get(field) for field in ("driver", "pool", "device"))


def _drop(holder: Obj | None, *fields: str) -> None:
    if holder:
        for field in fields:
            holder.pop(field, None)
