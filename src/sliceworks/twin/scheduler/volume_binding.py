"""Plugins for volumes: which nodes reach those of a pod, and what must be bound before the pod is. Pure.

VolumeRestrictions rejects claims that only one pod may use, VolumeBinding follows claims and the node affinity of volumes, and
VolumeZone their zone labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sliceworks.base import quantity
from sliceworks.kube.events import object_reference
from sliceworks.kube.persistent_volumes import (
    BOUND_BY_CONTROLLER,
    DELAYED,
    NO_PROVISIONER,
    SELECTED_NODE,
    annotations_of,
    find_matching_volume,
    is_allowed_topology,
    is_bound_to,
    is_fully_bound,
    is_reachable_from,
    requested_size,
    storage_class_of,
)
from sliceworks.kube.resources import controller_of
from sliceworks.twin.scheduler.node_plugins import FilterStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sliceworks.kube.resources import Object
    from sliceworks.twin.scheduler.node_info import NodeInfo
    from sliceworks.twin.scheduler.pod_info import PodInfo, PodKey
    from sliceworks.twin.scheduler.topology_plugins import PodDelta

PLUGIN = "VolumeBinding"
RESTRICTIONS = "VolumeRestrictions"
_ONE_POD = "ReadWriteOncePod"
_TOPOLOGY_LABELS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
_IN_USE = FilterStatus(
    RESTRICTIONS,
    ("node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",),
    resolvable=True,
)
_ZONE_CONFLICT = FilterStatus("VolumeZone", ("node(s) had no available volume zone",), resolvable=False)
_NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
_BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
_MISSING_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


class VolumeCache:
    """The claims, volumes and storage classes of the cluster."""

    def __init__(self) -> None:
        self.claims: dict[PodKey, Object] = {}
        self.volumes: dict[str, Object] = {}
        self.classes: dict[str, Object] = {}
        self._by_class: dict[str, dict[str, Object]] = {}
        self._users: dict[PodKey, set[PodKey]] = {}

    def add_user(self, pod: PodInfo) -> None:
        """Add a pod with claims that has a node."""
        for name, _ in pod.claims:
            self._users.setdefault((pod.key[0], name), set()).add(pod.key)

    def remove_user(self, pod: PodInfo) -> None:
        """Remove a pod that no longer has a node."""
        for name, _ in pod.claims:
            users = self._users.get((pod.key[0], name), set())
            users.discard(pod.key)
            if not users:
                self._users.pop((pod.key[0], name), None)

    def users_of(self, claim: Object) -> set[PodKey]:
        """The pods with a node that use a claim."""
        return self._users.get((claim["metadata"]["namespace"], claim["metadata"]["name"]), set())

    def set_volume(self, name: str, obj: Object | None) -> None:
        """Add or update a volume; None removes it."""
        if (old := self.volumes.pop(name, None)) is not None:
            self._by_class[storage_class_of(old)].pop(name)
        if obj is not None:
            self.volumes[name] = obj
            self._by_class.setdefault(storage_class_of(obj), {})[name] = obj

    def of_class(self, name: str) -> Iterator[Object]:
        """The volumes of a storage class."""
        return iter(self._by_class.get(name, {}).values())

    def is_delayed(self, claim: Object) -> bool:
        """Whether a claim without a volume waits for the node of a pod."""
        storage_class = self.classes.get(storage_class_of(claim)) or {}
        return storage_class.get("volumeBindingMode") == DELAYED and not claim["spec"].get("volumeName")

    def assume(self, bindings: VolumeBindings) -> None:
        """Treat volumes and claims as bound before it is written."""
        for volume in bindings.volumes:
            self.set_volume(volume["metadata"]["name"], volume)
        for claim in bindings.claims:
            metadata = claim["metadata"]
            self.claims[metadata["namespace"], metadata["name"]] = claim


class VolumeBindings(NamedTuple):
    """The volumes to reserve for claims of a pod, and the claims to provision volumes for, as they must be written."""

    volumes: list[Object]
    claims: list[Object]


class VolumeFilter:
    """Filters nodes by the claims of a pod; if `problem` is not empty, it is why no node can run the pod."""

    def __init__(self, pod: PodInfo, cache: VolumeCache) -> None:
        self._cache = cache
        self._bound: list[Object] = []
        self._delayed: list[Object] = []
        self._users: set[PodKey] = set()
        """The pods that use a claim of this pod that only one pod may use."""
        self.problem = next(filter(None, (self._add_claim(pod, *claim) for claim in pod.claims)), "")
        self._delayed.sort(key=lambda claim: quantity.nanos(requested_size(claim)))

    def _add_claim(self, pod: PodInfo, name: str, is_ephemeral: bool) -> str:
        claim = self._cache.claims.get((pod.key[0], name))
        if claim is None:
            missing = f'persistentvolumeclaim "{name}"'
            return f"waiting for ephemeral volume controller to create the {missing}" if is_ephemeral else f"{missing} not found"
        if (claim.get("status") or {}).get("phase") == "Lost":
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim["spec"].get("volumeName", "")}"'
        if claim["metadata"].get("deletionTimestamp"):
            return f'persistentvolumeclaim "{name}" is being deleted'
        if is_ephemeral and ((owner := controller_of(claim)) is None or owner["uid"] != pod.uid):
            namespace, pod_name = pod.key
            return f"PVC {namespace}/{name} was not created for pod {namespace}/{pod_name} (pod is not owner)"
        if _ONE_POD in (claim["spec"].get("accessModes") or ()):
            self._users |= self._cache.users_of(claim) - {pod.key}
        if is_fully_bound(claim):
            self._bound.append(claim)
        elif self._cache.is_delayed(claim):
            self._delayed.append(claim)
        else:
            return "pod has unbound immediate PersistentVolumeClaims"
        return ""

    def filter(self, node: NodeInfo, deltas: Iterable[PodDelta] = ()) -> FilterStatus | None:
        """Why the pod cannot have its volumes on a node; None if it can. `deltas` are pods to count in or out."""
        if self._users and self._users - {other.key for other, sign in deltas if sign < 0}:
            return _IN_USE
        volumes = [self._cache.volumes.get(claim["spec"]["volumeName"]) for claim in self._bound]
        problems = {
            _NODE_CONFLICT: any(volume is not None and not is_reachable_from(volume, node.labels) for volume in volumes),
            _BIND_CONFLICT: self._match(node) is None,
            _MISSING_VOLUME: None in volumes,
        }
        reasons = tuple(reason for reason, is_true in problems.items() if is_true)
        if reasons:
            return FilterStatus(PLUGIN, reasons, resolvable=False)
        is_in_zone = all(volume is None or _is_in_zone(volume, node.labels) for volume in volumes)
        return None if is_in_zone else _ZONE_CONFLICT

    def bindings(self, node: NodeInfo) -> VolumeBindings | None:
        """What must be written so that the pod has its volumes on a node; None if all claims are bound."""
        matches = self._match(node)
        if not matches:
            return None
        volumes = [_with_claim(volume, claim) for claim, volume in matches if volume is not None]
        claims = [_with_annotation(claim, SELECTED_NODE, node.name) for claim, volume in matches if volume is None]
        return VolumeBindings(volumes, claims)

    def _match(self, node: NodeInfo) -> list[tuple[Object, Object | None]] | None:
        """Each unbound claim with its volume, or with None if one must be provisioned; None if the node cannot have them."""
        matches: list[tuple[Object, Object | None]] = []
        chosen: set[str] = set()
        for claim in self._delayed:
            class_name, selected = storage_class_of(claim), annotations_of(claim).get(SELECTED_NODE)
            if selected is not None and selected != node.name:
                return None
            volume = None
            if selected is None:
                volume = find_matching_volume(claim, self._cache.of_class(class_name), node.labels, chosen)
            if volume is not None:
                chosen.add(volume["metadata"]["name"])
            elif not self._can_provision(class_name, node):
                return None
            matches.append((claim, volume))
        return matches

    def _can_provision(self, class_name: str, node: NodeInfo) -> bool:
        storage_class = self._cache.classes[class_name]
        provisioner = storage_class.get("provisioner") or NO_PROVISIONER
        return provisioner != NO_PROVISIONER and is_allowed_topology(storage_class, node.labels)


def _is_in_zone(volume: Object, node_labels: Mapping[str, str]) -> bool:
    """Whether a node has the zone and region in the labels of a volume; one without such labels has all."""
    if not any(key in node_labels for key in _TOPOLOGY_LABELS):
        return True
    labels = volume["metadata"].get("labels") or {}
    return all(node_labels.get(key) in labels[key].split("__") for key in _TOPOLOGY_LABELS if key in labels)


def _with_claim(volume: Object, claim: Object) -> Object:
    volume = volume if is_bound_to(volume, claim) else _with_annotation(volume, BOUND_BY_CONTROLLER, "yes")
    return {**volume, "spec": {**volume["spec"], "claimRef": object_reference(claim)}}


def _with_annotation(obj: Object, key: str, value: str) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "annotations": {**annotations_of(obj), key: value}}}
