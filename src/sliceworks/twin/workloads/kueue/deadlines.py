"""How long a Workload may take: to get ready, to run, and until a check wants to be asked again."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.workloads.kueue import conditions
from sliceworks.twin.workloads.kueue.keys import ADMITTED, EVICTED, READY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.workloads.kueue.configuration import PodsReady


def seconds_to(moment: str) -> float:
    """The seconds until then; negative when it is over."""
    return (datetime.fromisoformat(moment) - clock.now()).total_seconds()


def to_be_ready(obj: Mapping[str, Any], config: PodsReady) -> tuple[str, float] | None:
    """What an admitted Workload waits for and how long it still may; None when nobody waits for its pods."""
    admitted, ready = conditions.find(obj, ADMITTED), conditions.find(obj, READY)
    if conditions.true(obj, EVICTED) or admitted is None or admitted["status"] != "True":
        return None
    if ready is not None and ready["status"] == "True":
        return None
    if ready is None or ready["reason"] != "WaitForRecovery":
        return "WaitForStart", config.timeout + seconds_to(admitted["lastTransitionTime"])
    if config.recovery is None:
        return None
    return "WaitForRecovery", config.recovery + seconds_to(ready["lastTransitionTime"])


def to_run(obj: Mapping[str, Any]) -> float | None:
    """How long an admitted Workload still may run; None when there is no limit."""
    most, admitted = obj["spec"].get("maximumExecutionTimeSeconds"), conditions.find(obj, ADMITTED)
    if most is None or admitted is None or admitted["status"] != "True":
        return None
    past = obj["status"].get("accumulatedPastExecutionTimeSeconds", 0)
    return float(most - past + seconds_to(admitted["lastTransitionTime"]))


def asked_again_at(obj: Mapping[str, Any]) -> str:
    """When the last of the checks that want to be asked again is; empty when that is not in the future."""
    times = [
        datetime.fromisoformat(one["lastTransitionTime"]) + timedelta(seconds=one["requeueAfterSeconds"])
        for one in (obj.get("status") or {}).get("admissionChecks") or ()
        if one["state"] == "Retry" and one.get("requeueAfterSeconds") is not None
    ]
    return clock.rfc3339(max(times)) if times and max(times) > clock.now() else ""
