"""The scheduler's snapshot: nodes, their pods and all counts, kept up to date change by change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.scheduler.node_info import NodeInfo
from sliceworks.twin.scheduler.node_plugins import NodeGroup
from sliceworks.twin.scheduler.pod_info import PodInfoCache
from sliceworks.twin.scheduler.topology_constraints import DefaultSpreadSelectors
from sliceworks.twin.scheduler.topology_counts import ExistingPodTerms, TopologyCounts
from sliceworks.twin.scheduler.volume_binding import VolumeCache

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sliceworks.twin.scheduler.node_info import NodeClass
    from sliceworks.twin.scheduler.pod_info import NodeRequirements, PodInfo, PodKey
    from sliceworks.twin.scheduler.topology_constraints import Labels
    from sliceworks.twin.scheduler.topology_counts import Label

# The total size of all node groups; about a hundred megabytes.
_MAX_CACHED_NODES = 400_000
_SMALL_CLUSTER = 100


class Snapshot:
    """The cluster state that scheduling decisions use; the event handlers update it with every change."""

    def __init__(self) -> None:
        self.shapes = PodInfoCache()
        self.nodes: dict[str, NodeInfo] = {}
        self.pods: dict[PodKey, PodInfo] = {}
        self.namespaces: dict[str, Labels] = {}
        self.node_classes: dict[NodeClass, int] = {}
        self.volumes = VolumeCache()
        self.nominated: dict[str, dict[PodKey, PodInfo]] = {}
        self.default_spreads = DefaultSpreadSelectors()
        self.existing_terms = ExistingPodTerms()
        self.topology_counts = TopologyCounts(self.scheduled_pods)
        self._node_by_pod: dict[PodKey, NodeInfo] = {}
        self._missing_nodes: dict[str, NodeInfo] = {}
        self._count = 0
        self._groups: dict[bytes, NodeGroup] = {}
        self._changed: list[NodeInfo] = []
        self._start = 0
        self._node_labels: dict[str, dict[str, dict[NodeInfo, None]]] = {}
        self._pod_labels: dict[str, dict[str, dict[PodKey, PodInfo]]] = {}
        self._priorities: dict[int, int] = {}
        self._images: dict[str, tuple[int, int]] = {}

    def set_node(self, obj: Mapping[str, Any]) -> NodeInfo | None:
        """Add or update a node; returns it if something changed that scheduling depends on."""
        name = obj["metadata"]["name"]
        node = self.nodes.get(name)
        if node is None:
            node = self._missing_nodes.pop(name, None) or self._new_node(name)
            self.nodes[name] = node
        labels, images, node_class = node.labels, node.images, None if node.deleted else node.node_class
        if node.deleted or labels != (obj["metadata"].get("labels") or {}):
            self._index_pods(node, -1)
            changed = node.update(obj)
            self._index_pods(node, 1)
            self._index_labels(node, labels, node.labels)
        else:
            changed = node.update(obj)
        if not changed:
            return None
        self._count_images(images, node.images)
        self._count_class(node_class, node.node_class)
        self.topology_counts.clear()
        self._log_change(node)
        return node

    def drop_node(self, name: str) -> None:
        node = self.nodes.pop(name, None)
        if node is None:
            return
        self._index_pods(node, -1)
        self._index_labels(node, node.labels, {})
        self._count_images(node.images, {})
        self._count_class(node.node_class, None)
        node.labels, node.images, node.deleted = {}, {}, True
        node.version += 1
        if node.pods:
            self._missing_nodes[name] = node
        self.topology_counts.clear()
        self._log_change(node)

    def add_pod(self, pod: PodInfo, name: str) -> None:
        """Add a pod to a node, which may not exist yet."""
        self.remove_pod(pod.key)
        node = self.nodes.get(name) or self._missing_nodes.get(name)
        if node is None:
            node = self._missing_nodes[name] = self._new_node(name)
        node.add(pod)
        self.pods[pod.key], self._node_by_pod[pod.key] = pod, node
        if pod.claims:
            self.volumes.add_user(pod)
        self._priorities[pod.priority] = self._priorities.get(pod.priority, 0) + 1
        self._index_pod(pod, node, 1)
        self._log_change(node)

    def remove_pod(self, key: PodKey) -> PodInfo | None:
        """Remove a pod from its node; returns the pod."""
        pod = self.pods.pop(key, None)
        if pod is None:
            return None
        node = self._node_by_pod.pop(key)
        node.remove(pod)
        if pod.claims:
            self.volumes.remove_user(pod)
        if self._priorities[pod.priority] == 1:
            del self._priorities[pod.priority]
        else:
            self._priorities[pod.priority] -= 1
        self._index_pod(pod, node, -1)
        if node.deleted and not node.pods:
            self._missing_nodes.pop(node.name, None)
        self._log_change(node)
        return pod

    def nominate(self, pod: PodInfo, name: str) -> None:
        """Nominate a node for a pod that waits for preemption there."""
        self.nominated.setdefault(name, {})[pod.key] = pod

    def remove_nomination(self, pod: PodInfo, name: str) -> None:
        pods = self.nominated.get(name, {})
        pods.pop(pod.key, None)
        if not pods:
            self.nominated.pop(name, None)

    def set_namespace(self, name: str, labels: Labels | None) -> None:
        if self.namespaces.get(name) == labels:
            return
        if labels is None:
            self.namespaces.pop(name, None)
        else:
            self.namespaces[name] = labels
        self.topology_counts.clear()

    @property
    def lowest_priority(self) -> int | None:
        """The lowest priority of all scheduled pods."""
        return min(self._priorities, default=None)

    def node_of(self, pod: PodInfo) -> NodeInfo | None:
        return self._node_by_pod.get(pod.key)

    def nodes_with(self, key: str, value: str) -> Iterable[NodeInfo]:
        """The nodes with a label."""
        values = self._node_labels.get(key)
        if values is None:
            values = self._node_labels[key] = {}
            for node in self.nodes.values():
                if key in node.labels:
                    values.setdefault(node.labels[key], {})[node] = None
        return values.get(value, ())

    def scheduled_pods(self, label: Label | None) -> Iterator[tuple[PodInfo, NodeInfo]]:
        """The pods on existing nodes, all or those with a label."""
        pods: Iterable[PodInfo] = self.pods.values() if label is None else self._pods_with(*label)
        return ((pod, node) for pod in pods if not (node := self._node_by_pod[pod.key]).deleted)

    def group(self, requirements: NodeRequirements) -> NodeGroup:
        """The current node group of these requirements; nodes without a required label are left out."""
        group = self._groups.pop(requirements.key, None)
        if group is None or group.position < self._start:
            group = NodeGroup(requirements, self._image_bytes, clock.rng())
            label = group.required_label = requirements.required_label
            group.evaluate(self.nodes.values() if label is None else self.nodes_with(*label))
            self._evict_groups(group.size)
        else:
            behind = self._start + len(self._changed) - group.position
            if group.required_label is None or behind <= group.size:
                group.update(self._changed[group.position - self._start :])
            else:
                group.update_matching(self.nodes_with(*group.required_label))
        group.position = self._start + len(self._changed)
        self._groups[requirements.key] = group
        return group

    def _evict_groups(self, size: int) -> None:
        """Drop the least recently used groups."""
        size += sum(group.size for group in self._groups.values())
        while self._groups and size > _MAX_CACHED_NODES:
            size -= self._groups.pop(next(iter(self._groups))).size

    def _new_node(self, name: str) -> NodeInfo:
        self._count += 1
        return NodeInfo(name, self._count)

    def _log_change(self, node: NodeInfo) -> None:
        node.changed_at = self._start + len(self._changed)
        self._changed.append(node)
        if len(self._changed) > 1024 + 4 * len(self.nodes):
            self._start += len(self._changed)
            self._changed.clear()

    def _image_bytes(self, name: str) -> int:
        size, number = self._images[name]
        return int(size * (number / len(self.nodes)))

    def _count_images(self, old: Mapping[str, int], new: Mapping[str, int]) -> None:
        """Count the nodes that have each image; an image's size is the one that the first node reported."""
        for name in old:
            size, number = self._images.pop(name)
            if number > 1:
                self._images[name] = size, number - 1
        for name, reported in new.items():
            size, number = self._images.get(name, (reported, 0))
            self._images[name] = size, number + 1
        if self._images and len(self.nodes) <= _SMALL_CLUSTER:
            # The image scores of all nodes have changed; in larger clusters the change is negligible.
            self._groups.clear()

    def _count_class(self, old: NodeClass | None, new: NodeClass | None) -> None:
        if old is not None:
            self.node_classes[old] -= 1
            if not self.node_classes[old]:
                del self.node_classes[old]
        if new is not None:
            self.node_classes[new] = self.node_classes.get(new, 0) + 1

    def _pods_with(self, key: str, value: str) -> Iterable[PodInfo]:
        values = self._pod_labels.get(key)
        if values is None:
            values = self._pod_labels[key] = {}
            for pod in self.pods.values():
                if key in pod.labels:
                    values.setdefault(pod.labels[key], {})[pod.key] = pod
        return list(values.get(value, {}).values())

    def _index_pod(self, pod: PodInfo, node: NodeInfo, sign: int) -> None:
        for key, values in self._pod_labels.items():
            value = pod.labels.get(key)
            if value is None:
                continue
            if sign > 0:
                values.setdefault(value, {})[pod.key] = pod
            else:
                pods = values[value]
                del pods[pod.key]
                if not pods:
                    del values[value]
        if not node.deleted:
            self.existing_terms.add(pod, node, sign)
            self.topology_counts.add(pod, node, sign)

    def _index_pods(self, node: NodeInfo, sign: int) -> None:
        if not node.deleted:
            for pod in node.pods.values():
                self.existing_terms.add(pod, node, sign)

    def _index_labels(self, node: NodeInfo, old: Labels, new: Labels) -> None:
        for key, values in self._node_labels.items():
            if old.get(key) == new.get(key):
                continue
            if key in old:
                values[old[key]].pop(node, None)
            if key in new:
                values.setdefault(new[key], {})[node] = None
