"""Statuses, dependencies, success and failure policies, and conditions of a JobSet."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.jobset_objects import child, jobset, replicated

from sliceworks.base.errors import BadRequest
from sliceworks.twin.controllers.jobset import jobset_policy
from sliceworks.twin.controllers.jobset.child_jobs import ChildJobs
from sliceworks.twin.controllers.jobset.jobset_status import StatusUpdate


def test_statuses_are_sorted_by_name_in_reverse() -> None:
    children = ChildJobs(
        active=[child("1", ready=1, succeeded=1, pods=2), child("2", active=0, suspended=True), child("3", replicated_job="gone")],
        successful=[child("4", replicated_job="b")],
        failed=[child("5", replicated_job="b")],
    )
    statuses = jobset_policy.calculate_statuses(jobset(replicated("a", 2), replicated("b", 2)), children, restart_job=False)
    assert jobset_policy.sorted_statuses(statuses) == [
        {"name": "b", "ready": 0, "succeeded": 1, "failed": 1, "active": 0, "suspended": 0},
        {"name": "a", "ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 1},
    ]


@pytest.mark.parametrize(
    ("required", "entry", "expected"),
    [
        ("Ready", {"ready": 2}, True),
        ("Ready", {"ready": 1, "failed": 1}, True),
        ("Ready", {"ready": 1}, False),
        ("Complete", {"ready": 2}, False),
        ("Complete", {"succeeded": 2}, True),
    ],
)
def test_are_dependencies_met(required: str, entry: dict[str, int], expected: bool) -> None:
    later = replicated("b", dependsOn=[{"name": "a", "status": required}])
    js = jobset(replicated("a", 2), later)
    statuses = {"a": {"ready": 0, "failed": 0, "succeeded": 0, **entry}}
    assert jobset_policy.are_dependencies_met(js, later, statuses) is expected
    assert not jobset_policy.are_dependencies_met(js, replicated("c", dependsOn=[{"name": "z", "status": "Ready"}]), statuses)


@pytest.mark.parametrize(
    ("policy", "succeeded", "expected"),
    [
        ({"operator": "All"}, ["a", "a"], False),
        ({"operator": "All"}, ["a", "a", "b"], True),
        ({"operator": "Any"}, ["a"], True),
        ({"operator": "All", "targetReplicatedJobs": ["b"]}, ["a", "a"], False),
        ({"operator": "All", "targetReplicatedJobs": ["b"]}, ["b"], True),
        ({"operator": "Any", "targetReplicatedJobs": ["b"]}, ["a", "a"], False),
    ],
)
def test_is_success_policy_met(policy: dict[str, Any], succeeded: list[str], expected: bool) -> None:
    js = jobset(replicated("a", 2), replicated("b"), successPolicy=policy)
    assert jobset_policy.is_success_policy_met(js, [child("x", replicated_job=name) for name in succeeded]) is expected


def _failed(name: str, at: str = "1", **more: Any) -> Any:
    return child(name, finished="Failed", failed_at=at, reason=more.pop("reason", "BackoffLimitExceeded"), **more)


def _execute(js: dict[str, Any], *failed: Any, restart_job: bool = False) -> StatusUpdate:
    update = StatusUpdate(js)
    jobset_policy.execute_failure_policy(js, list(failed), update, restart_job=restart_job)
    return update


def test_message_names_the_first_failed_job() -> None:
    update = _execute(jobset(replicated("a")), _failed("late", "2"), _failed("early", "1"))
    assert update.conditions[0]["message"] == "jobset failed due to one or more job failures (first failed job: early)"
    assert update.status["terminalState"] == "Failed"


def test_restarts_are_limited_by_max_restarts() -> None:
    js = jobset(replicated("a"), failurePolicy={"maxRestarts": 1})
    update = _execute(js, _failed("x"))
    assert (update.status["restarts"], update.status["restartsCountTowardsMax"]) == (1, 1)
    assert [event.reason for event in update.events] == ["DefaultFailurePolicy", "RestartJobSetFailurePolicyAction"]
    update = _execute(js, _failed("x"))
    assert update.conditions[-1]["reason"] == "ReachedMaxRestarts"


def test_rule_matches_only_if_all_its_conditions_match() -> None:
    rule = {
        "name": "r",
        "action": "FailJobSet",
        "onJobFailureReasons": ["DeadlineExceeded"],
        "onJobFailureMessagePatterns": ["^exit \\d+$"],
        "targetReplicatedJobs": ["a"],
    }
    matching = {"reason": "DeadlineExceeded", "message": "exit 3"}
    for mismatch in ({}, {"reason": "Other"}, {"message": "exit"}, {"replicated_job": "b"}, {"replicated_job": ""}):
        js = jobset(replicated("a"), failurePolicy={"maxRestarts": 5, "rules": [rule]})
        update = _execute(js, _failed("x", **{**matching, **mismatch}))
        assert bool(update.finished_at) is (not mismatch), mismatch


def test_restart_job_counts_individual_restarts() -> None:
    status = {"restarts": 0, "replicatedJobsStatus": [{"name": "a"}]}
    rules = [{"name": "r", "action": "RestartJob"}]
    js = jobset(replicated("a", 3), status=status, failurePolicy={"maxRestarts": 1, "rules": rules})
    _execute(js, _failed("x", index=1), restart_job=True)
    assert status["replicatedJobsStatus"] == [{"name": "a", "jobRestarts": [0, 1, 0], "jobRestartsCountTowardsMax": [0, 1, 0]}]
    assert status["restarts"] == 0
    assert _execute(js, _failed("x", index=1), restart_job=True).finished_at


def test_restart_job_requires_its_feature_gate() -> None:
    js = jobset(replicated("a"), failurePolicy={"rules": [{"name": "r", "action": "RestartJobAndIgnoreMaxRestarts"}]})
    with pytest.raises(BadRequest, match="feature gate RestartJob is disabled"):
        _execute(js, _failed("x"))


def test_missing_condition_is_not_added_as_false() -> None:
    update = StatusUpdate(jobset())
    update.resume()
    assert not update.changed
    update.suspend()
    update.resume()
    assert [(condition["type"], condition["status"]) for condition in update.conditions] == [("Suspended", "False")]
    assert [event.reason for event in update.events] == ["SuspendedJobs", "ResumeJobs"]


def test_startup_conditions_exclude_each_other() -> None:
    update = StatusUpdate(jobset())
    update.set_startup_policy(completed=False)
    update.set_startup_policy(completed=True)
    kinds = [(condition["type"], condition["status"]) for condition in update.conditions]
    assert kinds == [("StartupPolicyInProgress", "False"), ("StartupPolicyCompleted", "True")]


def test_status_omits_zero_fields_except_restarts() -> None:
    update = StatusUpdate({"status": {"restarts": 0, "restartsCountTowardsMax": 0, "conditions": []}})
    assert update.to_dict() == {"restarts": 0}
