"""How queues stand: use against quota, what is borrowed, and who waits in which order."""

from __future__ import annotations

from typing import Any

from sliceworks.training.standing import standings

QUEUE = {
    "metadata": {"name": "research"},
    "spec": {
        "cohortName": "slices",
        "stopPolicy": "Hold",
        "resourceGroups": [
            {
                "coveredResources": ["google.com/tpu"],
                "flavors": [{"name": "v4-16", "resources": [{"name": "google.com/tpu", "nominalQuota": "16"}]}],
            }
        ],
    },
    "status": {
        "admittedWorkloads": 2,
        "flavorsReservation": [
            {"name": "v4-16", "resources": [{"name": "google.com/tpu", "total": "24", "borrowed": "8"}]},
        ],
    },
}
LOCAL = {"metadata": {"namespace": "team", "name": "queue"}, "spec": {"clusterQueue": "research"}}


def workload(name: str, created: str, status: dict[str, Any], priority: int = 0) -> dict[str, Any]:
    metadata = {"namespace": "team", "name": f"job-{name}", "creationTimestamp": created, "ownerReferences": [{"name": name}]}
    return {"metadata": metadata, "spec": {"queueName": "queue", "priority": priority}, "status": status}


def test_use_is_told_with_what_is_borrowed() -> None:
    [found] = standings([QUEUE], [LOCAL], [])
    [holding] = found.holdings
    assert [float(each) for each in (holding.quota, holding.used, holding.borrowed)] == [16, 24, 8]
    assert (found.cohort, found.admitted, found.stopped, found.queues) == ("slices", 2, "Hold", ("team/queue",))


def test_who_waits_is_told_by_priority_and_then_by_age() -> None:
    waits = {"conditions": [{"type": "QuotaReserved", "status": "False", "message": "no room"}]}
    done = {"conditions": [{"type": "Finished", "status": "True"}]}
    [found] = standings(
        [QUEUE],
        [LOCAL],
        [
            workload("late", "2026-01-01T02:00:00Z", waits),
            workload("early", "2026-01-01T01:00:00Z", waits),
            workload("urgent", "2026-01-01T03:00:00Z", waits, 750),
            workload("running", "2026-01-01T00:00:00Z", {"admission": {"clusterQueue": "research"}}),
            workload("ended", "2026-01-01T00:00:00Z", done),
        ],
    )
    assert [each.name for each in found.waiting] == ["urgent", "early", "late"]
    assert found.waiting[0].reason == "no room"


def test_work_of_an_unknown_queue_is_nobodys() -> None:
    stray = workload("stray", "2026-01-01T00:00:00Z", {})
    stray["spec"]["queueName"] = "other"
    [found] = standings([QUEUE], [LOCAL], [stray])
    assert found.waiting == ()
