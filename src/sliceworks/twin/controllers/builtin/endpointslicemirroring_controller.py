"""The EndpointSliceMirroring controller: EndpointSlices for Endpoints that a user wrote for a Service without selector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import ApiError
from sliceworks.kube.resources import owner_reference
from sliceworks.twin.controllers.builtin.endpoints_controller import LEADER
from sliceworks.twin.controllers.builtin.endpoints_reconciler import MAX_ADDRESSES, TRIGGER_TIME, repack_subsets
from sliceworks.twin.controllers.builtin.endpointslice_controller import SlicesByService
from sliceworks.twin.controllers.builtin.endpointslice_reconciler import (
    MANAGED_BY,
    SERVICE_NAME,
    SliceChanges,
    ordered_ports,
    port_key,
)
from sliceworks.twin.controllers.builtin.pod_control import generate_name, is_namespace_terminating
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Controller
from sliceworks.twin.controllers.runtime.controller_context import NamespacedName, ObjectKey, controller_user
from sliceworks.twin.controllers.runtime.recorder import Recorder
from sliceworks.twin.controllers.runtime.resource_keys import ENDPOINTS, SERVICES, SLICES

if TYPE_CHECKING:
    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.controller import Change
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

    _Group = tuple[str, bytes]
    """An address type and the key of its ports."""

_USER = controller_user("endpointslicemirroring-controller")
MANAGER = "endpointslicemirroring-controller.k8s.io"
_SKIP_MIRROR = "endpointslice.kubernetes.io/skip-mirror"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class EndpointSliceMirroringController(Controller[NamespacedName]):
    """Reconciles the mirrored EndpointSlices of an Endpoints object when it, its Service or one of its slices changes."""

    workers = 5
    watches = frozenset({SERVICES, ENDPOINTS, SLICES})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._writer = ApiWriter(context, _USER)
        self._recorder = Recorder(context, _USER, "endpoint-slice-mirroring-controller")
        self._slices = SlicesByService(MANAGER)

    def observe(self, change: Change) -> None:
        key: NamespacedName | None = (change.namespace, change.name)
        if change.resource == SLICES:
            key = self._slices.observe(change)
        if key is not None:
            self.queue.add(key)

    async def sync(self, key: NamespacedName) -> None:
        endpoints, service = self.context.get(ENDPOINTS, *key), self.context.get(SERVICES, *key)
        existing = self._slices.get(self.context, key)
        if endpoints is None or service is None or service["spec"].get("selector") is not None or not _is_mirrored(endpoints):
            await self._delete(existing)
            return
        skipped = sum(max(0, _size(subset) - MAX_ADDRESSES) for subset in repack_subsets(endpoints.get("subsets") or ()))
        if skipped:
            message = f"A max of {MAX_ADDRESSES} addresses can be mirrored to EndpointSlices per Endpoints subset."
            await self._recorder.warning(
                {**endpoints, "apiVersion": "v1", "kind": "Endpoints"},
                "TooManyAddressesToMirror",
                f"{message} {skipped} addresses were skipped",
            )
        changes = plan_mirrored_slices(endpoints, existing)
        if not endpoints["metadata"].get("deletionTimestamp"):
            for endpoint_slice in changes.create:
                try:
                    await self._writer.create(SLICES, key[0], endpoint_slice)
                except ApiError as error:
                    if is_namespace_terminating(error):
                        return
                    raise
        for endpoint_slice in changes.update:
            await self._writer.update(SLICES, endpoint_slice)
        await self._delete(changes.delete)

    async def _delete(self, slices: list[Object]) -> None:
        for endpoint_slice in slices:
            metadata = endpoint_slice["metadata"]
            await self._writer.delete_if_exists(ObjectKey(SLICES, metadata["namespace"], metadata["name"]))


def _is_mirrored(endpoints: Object) -> bool:
    metadata = endpoints["metadata"]
    is_skipped = (metadata.get("labels") or {}).get(_SKIP_MIRROR) == "true"
    return not is_skipped and LEADER not in (metadata.get("annotations") or {})


def _size(subset: Object) -> int:
    return len(subset.get("addresses") or ()) + len(subset.get("notReadyAddresses") or ())


def plan_mirrored_slices(endpoints: Object, existing: list[Object]) -> SliceChanges:
    """The changes after which there is one slice for each address type and list of ports of an Endpoints object."""
    changes = SliceChanges()
    ports_by_group, desired = _desired_endpoints(endpoints)
    existing_by_group: dict[_Group, list[Object]] = {}
    for endpoint_slice in existing:
        group = (endpoint_slice["addressType"], port_key(endpoint_slice.get("ports") or []))
        existing_by_group.setdefault(group, []).append(endpoint_slice)
    for group, endpoint_list in desired.items():
        slices = existing_by_group.pop(group, [])
        changes.delete += slices[1:]
        mirrored = _mirrored_slice(endpoints, group[0], ports_by_group[group], endpoint_list)
        if not slices:
            changes.create.append(mirrored)
        elif not _is_current(slices[0], mirrored):
            changes.update.append(_with_name(mirrored, slices[0]))
    changes.delete += [endpoint_slice for slices in existing_by_group.values() for endpoint_slice in slices]
    _reuse_deleted(changes)
    return changes


def _desired_endpoints(endpoints: Object) -> tuple[dict[_Group, list[Object]], dict[_Group, list[Object]]]:
    """The ports and the endpoints of each slice."""
    ports_by_group: dict[_Group, list[Object]] = {}
    desired: dict[_Group, list[Object]] = {}
    for subset in repack_subsets(endpoints.get("subsets") or ()):
        ports = [{"name": "", **port} for port in subset.get("ports") or ()]
        addresses = [(address, True) for address in subset.get("addresses") or ()]
        addresses += [(address, False) for address in subset.get("notReadyAddresses") or ()]
        for address, ready in addresses[:MAX_ADDRESSES]:
            group = ("IPv6" if ":" in address["ip"] else "IPv4", port_key(ports))
            ports_by_group[group] = ports
            endpoint: Object = {"addresses": [address["ip"]], "conditions": {"ready": ready}}
            endpoint |= {name: address[name] for name in ("hostname", "nodeName", "targetRef") if name in address}
            desired.setdefault(group, []).append(endpoint)
    return ports_by_group, desired


def _mirrored_slice(endpoints: Object, family: str, ports: list[Object], endpoint_list: list[Object]) -> Object:
    metadata = endpoints["metadata"]
    annotations = metadata.get("annotations") or {}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": generate_name(metadata["name"]),
            "namespace": metadata["namespace"],
            "labels": {**(metadata.get("labels") or {}), SERVICE_NAME: metadata["name"], MANAGED_BY: MANAGER},
            "annotations": {key: value for key, value in annotations.items() if key not in {TRIGGER_TIME, _LAST_APPLIED}},
            "ownerReferences": [owner_reference({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata})],
        },
        "addressType": family,
        "ports": ordered_ports(ports),
        "endpoints": endpoint_list,
    }


def _is_current(endpoint_slice: Object, mirrored: Object) -> bool:
    """Whether a slice needs no update."""
    live, desired = endpoint_slice["metadata"], mirrored["metadata"]
    return (
        _by_address(endpoint_slice) == _by_address(mirrored)
        and all((live.get(field) or {}) == desired[field] for field in ("labels", "annotations"))
        and all(owner["uid"] == desired["ownerReferences"][0]["uid"] for owner in live.get("ownerReferences") or ())
    )


def _by_address(endpoint_slice: Object) -> list[Object]:
    return sorted(endpoint_slice.get("endpoints") or (), key=lambda endpoint: str(endpoint["addresses"]))


def _with_name(mirrored: Object, live: Object) -> Object:
    """The slice as an update of a live one."""
    metadata = {key: value for key, value in mirrored["metadata"].items() if key != "generateName"}
    return {**mirrored, "metadata": {**metadata, "name": live["metadata"]["name"]}}


def _reuse_deleted(changes: SliceChanges) -> None:
    """Update slices that would be deleted instead of creating new ones of the same address type."""
    for endpoint_slice in list(changes.create):
        unused = next((old for old in changes.delete if old["addressType"] == endpoint_slice["addressType"]), None)
        if unused is not None:
            changes.delete.remove(unused)
            changes.create.remove(endpoint_slice)
            changes.update.append(_with_name(endpoint_slice, unused))
