"""Queue status: usage against quota, borrowing, and the order of pending workloads."""

from __future__ import annotations

from typing import Any

from sliceworks.cli.terminal import bar
from sliceworks.training.queue_status import list_queue_statuses

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


def test_usage_includes_borrowing() -> None:
    [result] = list_queue_statuses([QUEUE], [LOCAL], [])
    [holding] = result.flavor_usage
    assert [float(item) for item in (holding.quota, holding.used, holding.borrowed)] == [16, 24, 8]
    assert (result.cohort, result.admitted, result.stopped, result.queues) == ("slices", 2, "Hold", ("team/queue",))


def test_pending_workloads_are_sorted_by_priority_and_age() -> None:
    waits = {"conditions": [{"type": "QuotaReserved", "status": "False", "message": "no room"}]}
    done = {"conditions": [{"type": "Finished", "status": "True"}]}
    [result] = list_queue_statuses(
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
    assert [item.name for item in result.waiting] == ["urgent", "early", "late"]
    assert result.waiting[0].reason == "no room"


def test_deactivated_workload_is_not_pending() -> None:
    deactivated = workload("deactivated", "2026-01-01T00:00:00Z", {})
    deactivated["spec"]["active"] = False
    [result] = list_queue_statuses([QUEUE], [LOCAL], [deactivated])
    assert result.waiting == ()


def test_workload_of_unknown_queue_is_ignored() -> None:
    stray = workload("stray", "2026-01-01T00:00:00Z", {})
    stray["spec"]["queueName"] = "other"
    [result] = list_queue_statuses([QUEUE], [LOCAL], [stray])
    assert result.waiting == ()


def in_cohort(name: str, nominal: str, used: str, borrowed: str = "0", lend: str | None = None) -> dict[str, Any]:
    resource = {"name": "google.com/tpu", "nominalQuota": nominal, **({"lendingLimit": lend} if lend else {})}
    flavors = [{"name": "v4-16", "resources": [resource]}]
    result = [{"name": "v4-16", "resources": [{"name": "google.com/tpu", "total": used, "borrowed": borrowed}]}]
    spec = {"cohortName": "team", "resourceGroups": [{"coveredResources": ["google.com/tpu"], "flavors": flavors}]}
    return {"metadata": {"name": name}, "spec": spec, "status": {"flavorsReservation": result}}


def test_borrowed_quota_is_lent_by_idle_queues() -> None:
    queues = [
        in_cohort("a", "8", "16", "8"),
        in_cohort("b", "16", "4"),
        in_cohort("c", "16", "12"),
        in_cohort("d", "16", "0", lend="0"),
    ]
    assert [float(item.flavor_usage[0].lent) for item in list_queue_statuses(queues, [], [])] == [0, 6, 2, 0]


def test_queue_without_cohort_lends_nothing() -> None:
    alone = in_cohort("a", "16", "4")
    del alone["spec"]["cohortName"]
    assert list_queue_statuses([alone], [], [])[0].flavor_usage[0].lent == 0


def test_bar_distinguishes_used_borrowed_and_idle() -> None:
    assert bar(0, 32) == "." * 20
    assert bar(16, 32) == "#" * 10 + "." * 10
    assert bar(32, 32) == "#" * 20
    assert bar(24, 16, 8) == "#" * 13 + "+" * 7
    assert bar(4, 0, 4) == "+" * 20
    assert bar(0, 0) == "." * 20
