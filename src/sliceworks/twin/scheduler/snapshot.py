"""The cluster as the scheduler knows it: nodes, the pods on them, and all that is counted, kept up to date change by change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.scheduler.families import Families
from sliceworks.twin.scheduler.groups import Group
from sliceworks.twin.scheduler.nodes import Node
from sliceworks.twin.scheduler.pods import Shapes
from sliceworks.twin.scheduler.tallies import Standing, Tallies

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sliceworks.twin.scheduler.nodes import Kind
    from sliceworks.twin.scheduler.pods import Key, Pod, Wants
    from sliceworks.twin.scheduler.terms import Labels

# What groups remember of nodes, all together: about a hundred megabytes.
_MOST_REMEMBERED = 400_000
_FEW_NODES = 100


class Snapshot:
    """What a decision is made from. Whoever keeps it tells it of every change."""

    def __init__(self) -> None:
        self.shapes = Shapes()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[Key, Pod] = {}
        self.namespaces: dict[str, Labels] = {}
        self.kinds: dict[Kind, int] = {}
        self.claims: set[Key] = set()
        self.nominated: dict[str, dict[Key, Pod]] = {}
        self.families = Families()
        self.standing = Standing()
        self.tallies = Tallies(self.placed)
        self._where: dict[Key, Node] = {}
        self._unborn: dict[str, Node] = {}
        self._count = 0
        self._groups: dict[bytes, Group] = {}
        self._changed: list[Node] = []
        self._start = 0
        self._node_labels: dict[str, dict[str, dict[Node, None]]] = {}
        self._pod_labels: dict[str, dict[str, dict[Key, Pod]]] = {}
        self._priorities: dict[int, int] = {}
        self._images: dict[str, tuple[int, int]] = {}

    def set_node(self, obj: Mapping[str, Any]) -> Node | None:
        """A node as it is now; returns it when something changed that counts."""
        name = obj["metadata"]["name"]
        node = self.nodes.get(name)
        if node is None:
            node = self._unborn.pop(name, None) or self._new(name)
            self.nodes[name] = node
        before, images, kind = node.labels, node.images, None if node.gone else node.kind
        if node.gone or before != (obj["metadata"].get("labels") or {}):
            self._index_pods(node, -1)
            changed = node.update(obj)
            self._index_pods(node, 1)
            self._index_labels(node, before, node.labels)
        else:
            changed = node.update(obj)
        if not changed:
            return None
        self._count_images(images, node.images)
        self._count_kind(kind, node.kind)
        self.tallies.clear()
        self._log(node)
        return node

    def drop_node(self, name: str) -> None:
        node = self.nodes.pop(name, None)
        if node is None:
            return
        self._index_pods(node, -1)
        self._index_labels(node, node.labels, {})
        self._count_images(node.images, {})
        self._count_kind(node.kind, None)
        node.labels, node.images, node.gone = {}, {}, True
        node.version += 1
        if node.pods:
            self._unborn[name] = node
        self.tallies.clear()
        self._log(node)

    def place(self, pod: Pod, name: str) -> None:
        """A pod lies on a node, or will in a moment."""
        self.unplace(pod.key)
        node = self.nodes.get(name) or self._unborn.get(name)
        if node is None:
            node = self._unborn[name] = self._new(name)
        node.add(pod)
        self.pods[pod.key], self._where[pod.key] = pod, node
        self._priorities[pod.priority] = self._priorities.get(pod.priority, 0) + 1
        self._index_pod(pod, node, 1)
        self._log(node)

    def unplace(self, key: Key) -> Pod | None:
        """A pod has left its node; returns it."""
        pod = self.pods.pop(key, None)
        if pod is None:
            return None
        node = self._where.pop(key)
        node.remove(pod)
        if self._priorities[pod.priority] == 1:
            del self._priorities[pod.priority]
        else:
            self._priorities[pod.priority] -= 1
        self._index_pod(pod, node, -1)
        if node.gone and not node.pods:
            self._unborn.pop(node.name, None)
        self._log(node)
        return pod

    def nominate(self, pod: Pod, name: str) -> None:
        """A pod waits for room on a node."""
        self.nominated.setdefault(name, {})[pod.key] = pod

    def withdraw(self, pod: Pod, name: str) -> None:
        """It waits there no longer."""
        waiting = self.nominated.get(name, {})
        waiting.pop(pod.key, None)
        if not waiting:
            self.nominated.pop(name, None)

    def set_namespace(self, name: str, labels: Labels | None) -> None:
        if self.namespaces.get(name) == labels:
            return
        if labels is None:
            self.namespaces.pop(name, None)
        else:
            self.namespaces[name] = labels
        self.tallies.clear()

    @property
    def lowest_priority(self) -> int | None:
        """The least of the priorities of placed pods."""
        return min(self._priorities, default=None)

    def node_of(self, pod: Pod) -> Node | None:
        return self._where.get(pod.key)

    def nodes_with(self, key: str, value: str) -> Iterable[Node]:
        """The nodes that have a label."""
        values = self._node_labels.get(key)
        if values is None:
            values = self._node_labels[key] = {}
            for node in self.nodes.values():
                if key in node.labels:
                    values.setdefault(node.labels[key], {})[node] = None
        return values.get(value, ())

    def placed(self, pair: tuple[str, str] | None) -> Iterator[tuple[Pod, Node]]:
        """The pods on nodes, all or those with a label."""
        if pair is None:
            pods: Iterable[Pod] = self.pods.values()
        else:
            pods = self._pods_with(*pair)
        return ((pod, node) for pod in pods if not (node := self._where[pod.key]).gone)

    def group(self, wants: Wants) -> Group:
        """The nodes as pods with these wants see them, now; those that are not chosen for want of a label are left out."""
        group = self._groups.pop(wants.key, None)
        if group is None or group.position < self._start:
            group = Group(wants, self._image_bytes, clock.randomness())
            pair = group.pair = wants.pair
            group.look(self.nodes.values() if pair is None else self.nodes_with(*pair))
            self._make_room(group.size)
        else:
            behind = self._start + len(self._changed) - group.position
            if group.pair is None or behind <= group.size:
                group.follow(self._changed[group.position - self._start :])
            else:
                group.follow_chosen(self.nodes_with(*group.pair))
        group.position = self._start + len(self._changed)
        self._groups[wants.key] = group
        return group

    def _make_room(self, size: int) -> None:
        """Forget the groups that were asked for longest ago."""
        size += sum(group.size for group in self._groups.values())
        while self._groups and size > _MOST_REMEMBERED:
            size -= self._groups.pop(next(iter(self._groups))).size

    def _new(self, name: str) -> Node:
        self._count += 1
        return Node(name, self._count)

    def _log(self, node: Node) -> None:
        node.touched = self._start + len(self._changed)
        self._changed.append(node)
        if len(self._changed) > 1024 + 4 * len(self.nodes):
            self._start += len(self._changed)
            self._changed.clear()

    def _image_bytes(self, name: str) -> int:
        size, number = self._images[name]
        return int(size * (number / len(self.nodes)))

    def _count_images(self, old: Mapping[str, int], new: Mapping[str, int]) -> None:
        """An image counts with the size that the first node gave it."""
        for name in old:
            size, number = self._images.pop(name)
            if number > 1:
                self._images[name] = size, number - 1
        for name, given in new.items():
            size, number = self._images.get(name, (given, 0))
            self._images[name] = size, number + 1
        if self._images and len(self.nodes) <= _FEW_NODES:
            # Every node's score has changed a little; where nodes are many that tips no balance.
            self._groups.clear()

    def _count_kind(self, old: Kind | None, new: Kind | None) -> None:
        if old is not None:
            self.kinds[old] -= 1
            if not self.kinds[old]:
                del self.kinds[old]
        if new is not None:
            self.kinds[new] = self.kinds.get(new, 0) + 1

    def _pods_with(self, key: str, value: str) -> Iterable[Pod]:
        values = self._pod_labels.get(key)
        if values is None:
            values = self._pod_labels[key] = {}
            for pod in self.pods.values():
                if key in pod.labels:
                    values.setdefault(pod.labels[key], {})[pod.key] = pod
        return list(values.get(value, {}).values())

    def _index_pod(self, pod: Pod, node: Node, sign: int) -> None:
        for key, values in self._pod_labels.items():
            value = pod.labels.get(key)
            if value is None:
                continue
            if sign > 0:
                values.setdefault(value, {})[pod.key] = pod
            else:
                left = values[value]
                del left[pod.key]
                if not left:
                    del values[value]
        if not node.gone:
            self.standing.add(pod, node, sign)
            self.tallies.add(pod, node, sign)

    def _index_pods(self, node: Node, sign: int) -> None:
        if not node.gone:
            for pod in node.pods.values():
                self.standing.add(pod, node, sign)

    def _index_labels(self, node: Node, old: Labels, new: Labels) -> None:
        for key, values in self._node_labels.items():
            if old.get(key) == new.get(key):
                continue
            if key in old:
                values[old[key]].pop(node, None)
            if key in new:
                values.setdefault(new[key], {})[node] = None
