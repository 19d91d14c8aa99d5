"""A condition set with a root: `Ready` is True when every other condition is, and otherwise repeats the worst of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Condition = dict[str, Any]

ROOT = "Ready"


class ConditionSet:
    """The conditions of one object during a reconcile, in the order of their transition times, with the root last."""

    def __init__(
        self, obj: Mapping[str, Any], dependents: Sequence[str], *, only: bool = False, prunes: Sequence[str] = ()
    ) -> None:
        metadata = obj["metadata"]
        self._dependents = tuple(dependents)
        self._generation: int = metadata.get("generation") or 0
        self._created: str = metadata.get("creationTimestamp") or ""
        self._deleting = bool(metadata.get("deletionTimestamp"))
        known = (*self._dependents, ROOT)
        listed = (obj.get("status") or {}).get("conditions") or ()
        self.items: list[Condition] = [
            dict(item) for item in listed if item["type"] not in prunes and (not only or item["type"] in known)
        ]
        for kind in (ROOT, *self._dependents):
            if self.get(kind) is None:
                self.unknown(kind, "AwaitingReconciliation", f'condition "{kind}" is awaiting reconciliation')

    def get(self, kind: str) -> Condition | None:
        """The condition of a type."""
        return next((item for item in self.items if item["type"] == kind), None)

    def are_true(self, *kinds: str) -> bool:
        """Whether all these conditions are True."""
        return all((item := self.get(kind)) is not None and item["status"] == "True" for kind in kinds)

    @property
    def ready(self) -> bool:
        """Whether the root is True for the current generation."""
        root = self.get(ROOT)
        return root is not None and root["status"] == "True" and root.get("observedGeneration", 0) == self._generation

    def true(self, kind: str, reason: str, message: str) -> None:
        """Set a condition to True."""
        self._set(kind, "True", reason, message)

    def false(self, kind: str, reason: str, message: str) -> None:
        """Set a condition to False."""
        self._set(kind, "False", reason, message)

    def unknown(self, kind: str, reason: str, message: str) -> None:
        """Set a condition to Unknown."""
        self._set(kind, "Unknown", reason, message)

    def _set(self, kind: str, status: str, reason: str, message: str) -> None:
        old = self.get(kind)
        condition: Condition = {"type": kind, "status": status, "reason": reason, "message": message}
        if self._generation:
            condition["observedGeneration"] = self._generation
        if old is None:
            is_builtin = kind in self._dependents or kind == ROOT
            condition["lastTransitionTime"] = self._created if is_builtin and self._created else clock.timestamp()
        elif old["status"] != status:
            condition["lastTransitionTime"] = clock.timestamp()
        elif "lastTransitionTime" in old:
            condition["lastTransitionTime"] = old["lastTransitionTime"]
        if condition == old:
            return
        others = [item for item in self.items if item["type"] != kind]
        if self._deleting and self._generation:
            others = [{**item, "observedGeneration": self._generation} for item in others]
        self.items = sorted([*others, condition], key=lambda item: (item["type"] == ROOT, item.get("lastTransitionTime", "")))
        if kind != ROOT:
            self._update_root()

    def _update_root(self) -> None:
        """Update the root from the dependents."""
        unhealthy = [
            item
            for item in self.items
            if item["type"] in self._dependents
            and (item["status"] != "True" or item.get("observedGeneration", 0) != self._generation)
        ]
        if not unhealthy:
            self._set(ROOT, "True", ROOT, "")
            return
        latest = sorted(unhealthy, key=lambda item: str(item.get("lastTransitionTime", "")), reverse=True)
        for status in ("False", "Unknown"):
            worst = next((item for item in latest if item["status"] == status), None)
            if worst is not None:
                self._set(ROOT, status, worst.get("reason", ""), worst.get("message", ""))
                return
