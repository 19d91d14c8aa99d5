"""Every pod of the cluster in a few words, found by who controls it, by node and by namespace: what controllers look at all day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from sliceworks.kube.resources import controller_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.kube.selectors import LabelSelector
    from sliceworks.twin.controllers.loop import Change

P = TypeVar("P", str, tuple[str, str])
PODS = "/pods"
ENDED = frozenset({"Succeeded", "Failed"})
TRACKING = "batch.kubernetes.io/job-tracking"
_COST = "controller.kubernetes.io/pod-deletion-cost"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(slots=True, eq=False)
class Pod:
    """What controllers need to know of a pod; its whole state is in the store."""

    namespace: str
    name: str
    uid: str
    owner: str
    """The UID of its controller, or nothing."""
    owner_kind: str
    owner_name: str
    node: str
    phase: str
    ready_at: str
    """Since when it has been ready; nothing while it is not."""
    created: str
    deleting: str
    labels: Mapping[str, str]
    tracked: bool
    """Whether a Job has yet to count it."""
    index: int
    """Its completion index, or -1."""
    restarts: int
    """How often the container that was started most often was started again."""
    cost: int
    """What deleting it costs, by its annotation."""
    ips: tuple[str, ...]
    host: tuple[str, str] | None
    """Its own name and domain, when it has them."""
    revision: str

    @property
    def ready(self) -> bool:
        return bool(self.ready_at)

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    @property
    def active(self) -> bool:
        """Whether it counts as one that runs or will."""
        return not self.deleting and self.phase not in ENDED

    @property
    def terminating(self) -> bool:
        """Whether it is being deleted and has not ended yet."""
        return bool(self.deleting) and self.phase not in ENDED


class Pods:
    """The pods by controller, node and namespace, each in the order they came."""

    watches = frozenset({PODS})

    def __init__(self) -> None:
        self._all: dict[str, dict[str, Pod]] = {}
        self._owned: dict[str, dict[str, Pod]] = {}
        self._orphans: dict[str, dict[str, Pod]] = {}
        self._placed: dict[str, dict[str, Pod]] = {}
        self._labelled: dict[str, dict[tuple[str, str], dict[str, Pod]]] = {}
        """By each label that somebody has asked for: the pods of a namespace by its value."""
        self.before: Pod | None = None
        """The pod of the change that is being told of, as it was; None when it is new."""
        self.after: Pod | None = None
        """The same pod as it is now; None when it is gone."""

    def get(self, namespace: str, name: str) -> Pod | None:
        return self._all.get(namespace, _NONE).get(name)

    def owned_by(self, uid: str) -> Iterable[Pod]:
        """The pods that this object controls."""
        return self._owned.get(uid, _NONE).values()

    def orphans(self, namespace: str) -> Iterable[Pod]:
        """The pods of a namespace that nobody controls."""
        return self._orphans.get(namespace, _NONE).values()

    def on(self, node: str) -> Iterable[Pod]:
        """The pods that are placed on a node."""
        return self._placed.get(node, _NONE).values()

    def of(self, namespace: str) -> Iterable[Pod]:
        """The pods of a namespace."""
        return self._all.get(namespace, _NONE).values()

    def nodes(self) -> list[str]:
        """The names of nodes that have a pod, whether they exist or not."""
        return list(self._placed)

    def matching(self, namespace: str, selector: LabelSelector) -> Iterable[Pod]:
        """The pods of a namespace that a selector selects."""
        exact = next((each for each in selector.requirements if each.operator in ("=", "==", "in") and len(each.values) == 1), None)
        found = self.of(namespace) if exact is None else self._with(exact.key, namespace, exact.values[0])
        return [pod for pod in found if selector.matches(pod.labels)]

    def _with(self, label: str, namespace: str, value: str) -> Iterable[Pod]:
        if label not in self._labelled:
            self._labelled[label] = {}
            for pod in self.everywhere():
                self._note(label, pod)
        return self._labelled[label].get((namespace, value), _NONE).values()

    def _note(self, label: str, pod: Pod) -> None:
        value = pod.labels.get(label)
        if value is not None:
            self._labelled[label].setdefault((pod.namespace, value), {})[pod.name] = pod

    def everywhere(self) -> Iterable[Pod]:
        """All of them."""
        return (pod for pods in self._all.values() for pod in pods.values())

    def observe(self, change: Change) -> None:
        self.before = self.get(change.namespace, change.name)
        self.after = None if change.type == "DELETED" else read(change.obj)
        if self.before is not None and (self.after is None or not _same_place(self.before, self.after)):
            self._take(self.before)
        if self.after is not None:
            self._put(self.after)

    def _put(self, pod: Pod) -> None:
        _put(self._all, pod.namespace, pod.name, pod)
        if pod.owner:
            _put(self._owned, pod.owner, pod.name, pod)
        else:
            _put(self._orphans, pod.namespace, pod.name, pod)
        if pod.node:
            _put(self._placed, pod.node, f"{pod.namespace}/{pod.name}", pod)
        for label in self._labelled:
            self._note(label, pod)

    def _take(self, pod: Pod) -> None:
        _take(self._all, pod.namespace, pod.name)
        if pod.owner:
            _take(self._owned, pod.owner, pod.name)
        else:
            _take(self._orphans, pod.namespace, pod.name)
        if pod.node:
            _take(self._placed, pod.node, f"{pod.namespace}/{pod.name}")
        for label, found in self._labelled.items():
            if label in pod.labels:
                _take(found, (pod.namespace, pod.labels[label]), pod.name)


_NONE: dict[str, Pod] = {}


def _same_place(before: Pod, after: Pod) -> bool:
    return before.owner == after.owner and before.node == after.node and before.labels == after.labels


def _put(places: dict[str, dict[str, Pod]], place: str, key: str, pod: Pod) -> None:
    found = places.get(place)
    if found is None:
        found = places[place] = {}
    found[key] = pod


def _take(places: dict[P, dict[str, Pod]], place: P, key: str) -> None:
    found = places.get(place)
    if found is not None and found.pop(key, None) is not None and not found:
        del places[place]


def read(obj: Mapping[str, Any]) -> Pod:
    """A pod in a few words."""
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    owner = controller_of(obj) or {}
    annotations = metadata.get("annotations") or {}
    return Pod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        owner=owner.get("uid", ""),
        owner_kind=owner.get("kind", ""),
        owner_name=owner.get("name", ""),
        node=spec.get("nodeName", ""),
        phase=status.get("phase", ""),
        ready_at=ready_at(status),
        created=metadata.get("creationTimestamp", ""),
        deleting=metadata.get("deletionTimestamp", ""),
        labels=metadata.get("labels") or {},
        tracked=TRACKING in (metadata.get("finalizers") or ()),
        index=completion_index(annotations.get(COMPLETION_INDEX)),
        restarts=max((each.get("restartCount", 0) for each in status.get("containerStatuses") or ()), default=0),
        cost=_cost(annotations.get(_COST, "")) if annotations else 0,
        ips=tuple(each["ip"] for each in status.get("podIPs") or () if each.get("ip")),
        host=(spec["hostname"], spec.get("subdomain", "")) if spec.get("hostname") else None,
        revision=metadata.get("resourceVersion", ""),
    )


def ready_at(status: Mapping[str, Any]) -> str:
    """Since when a pod of this status has been ready; nothing when it is not."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready":
            return (condition.get("lastTransitionTime") or "-") if condition.get("status") == "True" else ""
    return ""


def completion_index(text: str | None) -> int:
    """The index that an annotation names; -1 when it names none."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else -1


def _cost(text: str) -> int:
    return int(text) if text.removeprefix("-").isdigit() and text.isascii() else 0
