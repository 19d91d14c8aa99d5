"""A shared index of all pods by controller, node and namespace."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from sliceworks.kube.resources import controller_of
from sliceworks.twin.controllers.runtime.resource_keys import PODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.kube.selectors import LabelSelector
    from sliceworks.twin.controllers.runtime.controller import Change

P = TypeVar("P", str, tuple[str, str])
FINISHED_PHASES = frozenset({"Succeeded", "Failed"})
TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
_NONE: dict[str, Pod] = {}


@dataclass(slots=True, eq=False)
class Pod:
    """The fields of a pod that controllers need; the whole pod is in the store."""

    namespace: str
    name: str
    uid: str
    owner: str
    """The UID of its controller, or empty."""
    owner_kind: str
    owner_name: str
    node: str
    phase: str
    ready_at: str
    """When it became ready; empty while it is not, `-` if unknown."""
    created: str
    deleting: str
    labels: Mapping[str, str]
    tracked: bool
    """Whether it has the finalizer of Job tracking."""
    index: int
    """Its completion index, or -1."""
    restarts: int
    """The highest restart count of its containers."""
    cost: int
    """Its pod-deletion-cost annotation."""
    ips: tuple[str, ...]
    host: tuple[str, str] | None
    """Its spec.hostname and spec.subdomain, if it has a hostname."""
    revision: str

    @property
    def ready(self) -> bool:
        return bool(self.ready_at)

    @property
    def finished(self) -> bool:
        return self.phase in FINISHED_PHASES

    @property
    def active(self) -> bool:
        """Whether it is neither finished nor being deleted."""
        return not self.deleting and self.phase not in FINISHED_PHASES

    @property
    def terminating(self) -> bool:
        """Whether it is being deleted and has not finished yet."""
        return bool(self.deleting) and self.phase not in FINISHED_PHASES


class PodIndex:
    """Pods by controller, node, namespace and label, each in the order they were created."""

    watches = frozenset({PODS})

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, Pod]] = {}
        self._owned: dict[str, dict[str, Pod]] = {}
        self._orphans: dict[str, dict[str, Pod]] = {}
        self._by_node: dict[str, dict[str, Pod]] = {}
        self._labelled: dict[str, dict[tuple[str, str], dict[str, Pod]]] = {}
        """By label key, for keys that a selector has required: the pods by namespace and value."""
        self.before: Pod | None = None
        """The pod before the current change; None if it is new."""
        self.after: Pod | None = None
        """The pod after the current change; None if it was deleted."""

    def get(self, namespace: str, name: str) -> Pod | None:
        return self._by_namespace.get(namespace, _NONE).get(name)

    def owned_by(self, uid: str) -> Iterable[Pod]:
        """The pods that an object controls, by its UID."""
        return self._owned.get(uid, _NONE).values()

    def orphans(self, namespace: str) -> Iterable[Pod]:
        """The pods of a namespace that have no controller."""
        return self._orphans.get(namespace, _NONE).values()

    def on_node(self, node: str) -> Iterable[Pod]:
        return self._by_node.get(node, _NONE).values()

    def in_namespace(self, namespace: str) -> Iterable[Pod]:
        return self._by_namespace.get(namespace, _NONE).values()

    def matching(self, namespace: str, selector: LabelSelector) -> list[Pod]:
        """The pods of a namespace that a selector matches."""
        exact = next((req for req in selector.requirements if req.operator in ("=", "==", "in") and len(req.values) == 1), None)
        pods = self.in_namespace(namespace) if exact is None else self._with_label(exact.key, namespace, exact.values[0])
        return [pod for pod in pods if selector.matches(pod.labels)]

    def _with_label(self, label: str, namespace: str, value: str) -> Iterable[Pod]:
        if label not in self._labelled:
            self._labelled[label] = {}
            for pod in self.all():
                self._index_label(label, pod)
        return self._labelled[label].get((namespace, value), _NONE).values()

    def _index_label(self, label: str, pod: Pod) -> None:
        value = pod.labels.get(label)
        if value is not None:
            self._labelled[label].setdefault((pod.namespace, value), {})[pod.name] = pod

    def all(self) -> Iterable[Pod]:
        return (pod for pods in self._by_namespace.values() for pod in pods.values())

    def observe(self, change: Change) -> None:
        before = self.before = self.get(change.namespace, change.name)
        after = self.after = None if change.type == "DELETED" else parse_pod(change.obj)
        if after is not None:
            is_same = before is not None and before.labels == after.labels
            # Labels are most of the index: pods of one Job share their values, and a pod keeps its labels.
            after.labels = before.labels if before is not None and is_same else _intern(after.labels)
        if before is not None and (after is None or not _has_same_keys(before, after)):
            self._remove(before)
        if after is not None:
            self._put(after)

    def _put(self, pod: Pod) -> None:
        _put(self._by_namespace, pod.namespace, pod.name, pod)
        if pod.owner:
            _put(self._owned, pod.owner, pod.name, pod)
        else:
            _put(self._orphans, pod.namespace, pod.name, pod)
        if pod.node:
            _put(self._by_node, pod.node, f"{pod.namespace}/{pod.name}", pod)
        for label in self._labelled:
            self._index_label(label, pod)

    def _remove(self, pod: Pod) -> None:
        _remove(self._by_namespace, pod.namespace, pod.name)
        if pod.owner:
            _remove(self._owned, pod.owner, pod.name)
        else:
            _remove(self._orphans, pod.namespace, pod.name)
        if pod.node:
            _remove(self._by_node, pod.node, f"{pod.namespace}/{pod.name}")
        for label, pods in self._labelled.items():
            if label in pod.labels:
                _remove(pods, (pod.namespace, pod.labels[label]), pod.name)


def _has_same_keys(before: Pod, after: Pod) -> bool:
    return before.owner == after.owner and before.node == after.node and before.labels is after.labels


def _intern(labels: Mapping[str, str]) -> Mapping[str, str]:
    return {key: sys.intern(value) for key, value in labels.items()}


def _put(index: dict[str, dict[str, Pod]], bucket: str, key: str, pod: Pod) -> None:
    pods = index.get(bucket)
    if pods is None:
        pods = index[bucket] = {}
    pods[key] = pod


def _remove(index: dict[P, dict[str, Pod]], bucket: P, key: str) -> None:
    pods = index.get(bucket)
    if pods is not None and pods.pop(key, None) is not None and not pods:
        del index[bucket]


def parse_pod(obj: Mapping[str, Any]) -> Pod:
    """The indexed fields of a pod."""
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    owner = controller_of(obj) or {}
    annotations = metadata.get("annotations") or {}
    statuses, ips = status.get("containerStatuses"), status.get("podIPs")
    return Pod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        owner=sys.intern(owner.get("uid", "")),
        owner_kind=sys.intern(owner.get("kind", "")),
        owner_name=sys.intern(owner.get("name", "")),
        node=sys.intern(spec.get("nodeName", "")),
        phase=sys.intern(status.get("phase", "")),
        ready_at=ready_since(status),
        created=metadata.get("creationTimestamp", ""),
        deleting=metadata.get("deletionTimestamp", ""),
        labels=metadata.get("labels") or {},
        tracked=TRACKING_FINALIZER in (metadata.get("finalizers") or ()),
        index=parse_completion_index(annotations.get(COMPLETION_INDEX)),
        restarts=max([container.get("restartCount", 0) for container in statuses]) if statuses else 0,
        cost=_parse_deletion_cost(annotations.get(_DELETION_COST, "")) if annotations else 0,
        ips=tuple([address["ip"] for address in ips if address.get("ip")]) if ips else (),
        host=(spec["hostname"], spec.get("subdomain", "")) if spec.get("hostname") else None,
        revision=metadata.get("resourceVersion", ""),
    )


def is_finished(pod: Mapping[str, Any]) -> bool:
    """Whether a pod succeeded or failed: it no longer uses resources of its node."""
    return (pod.get("status") or {}).get("phase") in FINISHED_PHASES


def ready_since(status: Mapping[str, Any]) -> str:
    """When a pod of this status became ready; empty if it is not ready, `-` if the time is unknown."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready":
            return (condition.get("lastTransitionTime") or "-") if condition.get("status") == "True" else ""
    return ""


def parse_completion_index(value: str | None) -> int:
    """The completion index in an annotation; -1 if it is missing or invalid."""
    return int(value) if value is not None and value.isascii() and value.isdigit() else -1


def _parse_deletion_cost(value: str) -> int:
    return int(value) if value.removeprefix("-").isdigit() and value.isascii() else 0
