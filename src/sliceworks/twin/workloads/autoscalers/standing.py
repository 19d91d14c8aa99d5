"""The status of an autoscaler while it is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Obj = dict[str, Any]
ABLE, ACTIVE, LIMITED = "AbleToScale", "ScalingActive", "ScalingLimited"


class Standing:
    """Begins with what the autoscaler says of itself, and gathers what is to be said now."""

    def __init__(self, autoscaler: Mapping[str, Any]) -> None:
        self._before: Obj = autoscaler.get("status") or {}
        self.status: Obj = {**self._before, "conditions": [dict(each) for each in self._before.get("conditions") or ()]}

    def say(self, kind: str, reason: str, message: str, *, holds: bool = True) -> None:
        """Set a condition; its time changes with its status alone."""
        state = "True" if holds else "False"
        conditions: list[Obj] = self.status["conditions"]
        found = next((each for each in conditions if each["type"] == kind), None)
        if found is None:
            found = {"type": kind}
            conditions.append(found)
        if found.get("status") != state:
            found["lastTransitionTime"] = clock.timestamp()
        found.update(status=state, reason=reason, message=message)

    def count(self, current: int, desired: int | None = None, metrics: Sequence[Obj] = (), *, scaled: bool = False) -> None:
        """Say how many there are and should be; without a new number the last one stands.

        The generation that was seen is not said: the real controller leaves it out as well.
        """
        self.status = {
            "currentReplicas": current,
            "desiredReplicas": (self._before.get("desiredReplicas") or 0) if desired is None else desired,
            "currentMetrics": list(metrics) or None,
            "conditions": self.status["conditions"],
        }
        last = clock.timestamp() if scaled else self._before.get("lastScaleTime")
        if last:
            self.status["lastScaleTime"] = last

    @property
    def changed(self) -> bool:
        """Whether it says anything new. What is empty is as good as not said."""
        return _said(self.status) != _said(self._before)


def _said(status: Obj) -> Obj:
    return {name: value for name, value in status.items() if value}
