"""The scheduling queue: active pods by priority and age, and unschedulable pods until an event may help them.

Pods that every node treats alike are queued together: if the first is unschedulable, so are the others, and they are not tried.
"""

from __future__ import annotations

from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from sliceworks.twin.scheduler.pod_info import PodInfo, PodKey

Signature = tuple[object, ...]
"""What distinguishes pods for scheduling."""
Label = tuple[str, str]


class QueuedPods:
    """Pending pods with the same signature, in the order they were added; `last_message` is the last one reported for each."""

    __slots__ = ("active", "failed_plugins", "last_message", "pods", "required_label", "sequence", "signature")

    def __init__(self, signature: Signature, required_label: Label | None) -> None:
        self.signature = signature
        self.required_label = required_label
        self.pods: dict[PodKey, tuple[int, PodInfo]] = {}
        self.last_message: dict[PodKey, str] = {}
        self.failed_plugins: frozenset[str] = frozenset()
        self.active = False
        self.sequence = 0

    @property
    def first(self) -> PodInfo:
        return next(iter(self.pods.values()))[1]


class SchedulingQueue:
    """The pending pods; `label_keys` are the keys that anti-affinity of scheduled pods depends on, and may grow."""

    def __init__(self, label_keys: Collection[str]) -> None:
        self._label_keys = label_keys
        self._known_label_keys = 0
        self._groups: dict[Signature, QueuedPods] = {}
        self._by_pod: dict[PodKey, QueuedPods] = {}
        self._unschedulable: dict[frozenset[str], dict[Label | None, dict[Signature, QueuedPods]]] = {}
        self._heap: list[tuple[int, int, int, QueuedPods]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._by_pod)

    def __contains__(self, key: PodKey) -> bool:
        return key in self._by_pod

    def get(self, key: PodKey) -> PodInfo | None:
        group = self._by_pod.get(key)
        return group.pods[key][1] if group is not None else None

    def add(self, pod: PodInfo) -> None:
        """Add a pod to the active queue, or update it."""
        self._split_groups()
        message = None
        before = self._by_pod.get(pod.key)
        if before is not None:
            message = before.last_message.get(pod.key)
            self.remove(pod.key)
        self._sequence += 1
        group = self._get_group(pod)
        group.pods[pod.key] = (self._sequence, pod)
        if message is not None:
            group.last_message[pod.key] = message
        self._by_pod[pod.key] = group
        self._activate(group)

    def remove(self, key: PodKey) -> None:
        """Remove a pod that was scheduled, deleted or changed."""
        group = self._by_pod.pop(key, None)
        if group is None:
            return
        del group.pods[key]
        group.last_message.pop(key, None)
        if not group.pods:
            self._remove_unschedulable(group)
            self._groups.pop(group.signature, None)
            group.active = False

    def next(self) -> QueuedPods | None:
        """The group whose first pod to schedule next. It stays first until the pod is removed or marked unschedulable."""
        heap = self._heap
        while heap:
            _, sequence, _, group = heap[0]
            if group.active and group.pods and group.sequence == sequence:
                first = next(iter(group.pods.values()))[0]
                if first == sequence:
                    return group
                group.active = False
                heappop(heap)
                self._activate(group)
            else:
                heappop(heap)
        return None

    def mark_unschedulable(self, group: QueuedPods, plugins: frozenset[str]) -> None:
        """Set a group aside until an event may change the result of one of these plugins."""
        self._remove_unschedulable(group)
        group.active = False
        group.failed_plugins = plugins
        self._unschedulable.setdefault(plugins, {}).setdefault(group.required_label, {})[group.signature] = group

    def mark_pod_unschedulable(self, key: PodKey, plugins: frozenset[str]) -> None:
        """Set the group of one pod aside."""
        self.mark_unschedulable(self._by_pod[key], plugins)

    def requeue(self, may_help: Callable[[frozenset[str], QueuedPods], bool]) -> None:
        """Requeue the groups that an event may help, given the plugins that rejected them."""
        for plugins, by_label in list(self._unschedulable.items()):
            for groups in list(by_label.values()):
                self._activate_matching(groups, partial(may_help, plugins))

    def requeue_for_node(self, labels: dict[str, str], plugins: frozenset[str], may_help: Callable[[QueuedPods], bool]) -> None:
        """Requeue groups that one of these plugins rejected and that may accept a node with these labels."""
        for failed, by_label in list(self._unschedulable.items()):
            if not plugins.isdisjoint(failed):
                for label in (None, *labels.items()):
                    self._activate_matching(by_label.get(label, {}), may_help)

    def requeue_rejected(self, plugins: frozenset[str]) -> None:
        """Requeue groups that one of these plugins rejected."""
        for failed, by_label in list(self._unschedulable.items()):
            if not plugins.isdisjoint(failed):
                for groups in list(by_label.values()):
                    self._activate_matching(groups, lambda _: True)

    def _activate_matching(self, groups: dict[Signature, QueuedPods], may_help: Callable[[QueuedPods], bool]) -> None:
        for group in [group for group in groups.values() if may_help(group)]:
            self._activate(group)

    def pods(self) -> Iterator[PodInfo]:
        return (pod for group in self._groups.values() for _, pod in group.pods.values())

    def _get_group(self, pod: PodInfo) -> QueuedPods:
        signature = self._signature(pod)
        group = self._groups.get(signature)
        if group is None:
            group = self._groups[signature] = QueuedPods(signature, pod.shape.node.required_label)
        return group

    def _signature(self, pod: PodInfo) -> Signature:
        shape = pod.shape
        labels = pod.labels
        if shape.terms.affinity or shape.terms.anti_affinity or shape.spreads.hard:
            relevant: tuple[object, ...] = tuple(sorted(labels.items()))
        else:
            relevant = tuple((key, labels[key]) for key in self._label_keys if key in labels)
        return (shape.key, pod.key[0], pod.priority, pod.can_preempt, pod.nominated, pod.claims, relevant)

    def _split_groups(self) -> None:
        """Group all pods again after a label key was added that distinguishes them."""
        if len(self._label_keys) == self._known_label_keys:
            return
        self._known_label_keys = len(self._label_keys)
        groups, self._groups = self._groups, {}
        self._unschedulable = {}
        for before in groups.values():
            for key, entry in before.pods.items():
                group = self._get_group(entry[1])
                group.pods[key] = entry
                self._by_pod[key] = group
                if key in before.last_message:
                    group.last_message[key] = before.last_message[key]
                self._activate(group)
            before.active = False

    def _activate(self, group: QueuedPods) -> None:
        if not group.active:
            self._remove_unschedulable(group)
            group.active = True
            group.sequence, pod = next(iter(group.pods.values()))
            heappush(self._heap, (-pod.priority, group.sequence, id(group), group))

    def _remove_unschedulable(self, group: QueuedPods) -> None:
        by_label = self._unschedulable.get(group.failed_plugins)
        groups = by_label.get(group.required_label) if by_label is not None else None
        if by_label is not None and groups is not None and groups.get(group.signature) is group:
            del groups[group.signature]
            if not groups:
                del by_label[group.required_label]
            if not by_label:
                del self._unschedulable[group.failed_plugins]
