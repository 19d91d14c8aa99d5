"""The services and sets that pods belong to: pods of one family are spread over hosts and zones even when they ask for nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import BadRequest
from sliceworks.kube.selectors import LabelSelector, Requirement, from_label_selector
from sliceworks.twin.scheduler.terms import NO_SPREADS, default_spreads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.scheduler.pods import Pod
    from sliceworks.twin.scheduler.terms import Spreads

SERVICES = "/services"
SETS = {
    "/replicationcontrollers": ("v1", "ReplicationController"),
    "apps/replicasets": ("apps/v1", "ReplicaSet"),
    "apps/statefulsets": ("apps/v1", "StatefulSet"),
}
Pair = tuple[str, str, str]


class Families:
    """Selectors of services and sets."""

    def __init__(self) -> None:
        self._services: dict[tuple[str, str], tuple[Pair, dict[str, str]]] = {}
        self._by_label: dict[Pair, dict[str, dict[str, str]]] = {}
        self._sets: dict[tuple[str, str, str, str], tuple[Requirement, ...]] = {}
        self._known: dict[tuple[Requirement, ...], Spreads] = {}

    def set_service(self, namespace: str, name: str, obj: Mapping[str, Any] | None) -> None:
        before = self._services.pop((namespace, name), None)
        if before is not None:
            del self._by_label[before[0]][name]
        selector: dict[str, str] = ((obj or {}).get("spec") or {}).get("selector") or {}
        if selector:
            pair = (namespace, *min(selector.items()))
            self._services[namespace, name] = pair, selector
            self._by_label.setdefault(pair, {})[name] = selector

    def set_set(self, resource: str, namespace: str, name: str, obj: Mapping[str, Any] | None) -> None:
        key = (*SETS[resource], namespace, name)
        if obj is None:
            self._sets.pop(key, None)
            return
        selector = (obj.get("spec") or {}).get("selector") or {}
        if resource == "/replicationcontrollers":
            selector = {"matchLabels": selector}
        try:
            self._sets[key] = from_label_selector(selector).requirements
        except BadRequest:
            self._sets.pop(key, None)

    def spreads(self, pod: Pod) -> Spreads:
        """The constraints that hold for a pod: its own, or those of its family."""
        own = pod.shape.spreads
        if own.hard or own.soft:
            return own
        if not self._by_label and not self._sets:
            return NO_SPREADS
        wanted = self._merged(pod)
        if not wanted:
            return NO_SPREADS
        found = self._known.get(wanted)
        if found is None:
            found = self._known[wanted] = default_spreads(LabelSelector(wanted))
            if len(self._known) > 1024:
                del self._known[next(iter(self._known))]
        return found

    def _merged(self, pod: Pod) -> tuple[Requirement, ...]:
        namespace, labels = pod.key[0], pod.labels
        merged: dict[str, str] = {}
        for key, value in labels.items():
            for selector in self._by_label.get((namespace, key, value), {}).values():
                if selector.items() <= labels.items():
                    merged.update(selector)
        wanted = [Requirement(key, "=", (value,)) for key, value in sorted(merged.items())]
        if pod.owner is not None:
            wanted += self._sets.get((pod.owner[0], pod.owner[1], namespace, pod.owner[2]), ())
        return tuple(dict.fromkeys(wanted))
